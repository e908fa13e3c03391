"""Where ticks come from, and how one reaches the application's own thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.fault import SourceError
    from gpumon.model.records.tick import Tick
    from gpumon.sources.source import Wish


class Feed(Protocol):
    """Where ticks come from."""

    @property
    def failure(self) -> SourceError | None:
        """Why there will be no tick any more; None: there will."""
        ...

    def start(self, on_tick: Callable[[Tick], None]) -> None:
        """Begin without blocking; `on_tick` may be called from any thread."""
        ...

    def wish(self, wish: Wish) -> None:
        """Pass a wish on to the sources."""
        ...

    def acknowledge(self, identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        """Note that the user knows of a finding; False: it is not open."""
        ...

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        """Hide a class, a subject, or a class about a subject until a Unix time."""
        ...

    def close(self) -> None:
        """Stop and free everything; bounded, at most half a second."""
        ...


class TickReady(Message, bubble=False):
    """A feed has made a tick. An older one that was not shown yet is dropped."""

    def __init__(self, tick: Tick) -> None:
        self.tick = tick
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        """Only the newest tick counts."""
        return isinstance(message, TickReady)
