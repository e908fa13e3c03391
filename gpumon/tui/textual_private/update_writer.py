"""Writes an update of the screen with as few bytes as it takes.

Textual sends a changed stretch from the left edge of its widget on, and every piece of text with
its whole style and a reset. Here a stretch begins where it begins, and of a style goes out what
differs from the piece before: over a slow line that decides how long a key takes.

The updates are no part of what textual promises: one of another form is left to textual.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

from gpumon.tui.textual_private.cropping import pieces_between
from gpumon.tui.textual_private.line_compositor import LineUpdate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.color import Color
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.segment import Segment
    from rich.style import Style

_RESET: Final = "\x1b[0m"
_OFF: Final = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "9": "29"}
"""What ends an attribute."""


class _Pen(NamedTuple):
    """Parameters of SGR that are in force; empty: the terminal's own."""

    attributes: str = ""
    ink: str = ""
    ground: str = ""


_BARE: Final = _Pen()


@lru_cache(4096)
def _pen(style: Style, system: ColorSystem) -> _Pen:
    attributes = Strip.render_ansi(style.without_color, system)
    return _Pen(attributes, _codes(style.color, system, True), _codes(style.bgcolor, system, False))


def _codes(color: Color | None, system: ColorSystem, is_ink: bool) -> str:
    return "" if color is None else ";".join(color.downgrade(system).get_ansi_codes(is_ink))


@lru_cache(4096)
def _change(old: _Pen, new: _Pen) -> str:
    """What makes one pen the other."""
    if new == old:
        return ""
    if new == _BARE:
        return _RESET
    was, now = old.attributes.split(";"), new.attributes.split(";")
    gone = [part for part in was if part and part not in now]
    if not _OFF.keys() >= set(gone):
        parts = ["0", *new]
    else:
        offs = dict.fromkeys(_OFF[part] for part in gone)
        # Bold and dim end together: what stays of the two is sent again.
        parts = [*offs, *(part for part in now if part not in was or _OFF.get(part) in offs)]
        parts.append("" if new.ink == old.ink else new.ink or "39")
        parts.append("" if new.ground == old.ground else new.ground or "49")
    return f"\x1b[{';'.join(part for part in parts if part)}m"


class LeanUpdate(CompositorUpdate):
    """An update of textual's compositor, written otherwise."""

    def __init__(self, update: ChopsUpdate | LayoutUpdate) -> None:
        self._update = update

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As textual's own."""
        return self._update.__rich_console__(console, options)

    def render_segments(self, console: Console) -> str:
        """What makes the terminal show it; textual's own writing where the form is not known."""
        try:
            return self.lean_segments(console)
        except (AttributeError, TypeError, ValueError):
            return self._update.render_segments(console)

    def lean_segments(self, console: Console) -> str:
        """What makes the terminal show it; it ends with the terminal's own style.

        Raises:
            AttributeError, TypeError, ValueError: the update has another form than expected.
        """
        system = COLOR_SYSTEMS.get(console.color_system or "truecolor", ColorSystem.TRUECOLOR)
        out: list[str] = []
        pen = _BARE
        for x, y, pieces in self._pieces():
            out.append(f"\x1b[{y + 1};{x + 1}H")
            for text, style, control in pieces:
                if control or not text:
                    continue
                wanted = _BARE if style is None else _pen(style, system)
                out += (_change(pen, wanted), text)
                pen = wanted
        out.append(_change(pen, _BARE))
        return "".join(out)

    def _pieces(self) -> Iterator[tuple[int, int, Iterable[Segment]]]:
        """Where to write what."""
        update = self._update
        if isinstance(update, LineUpdate):
            yield from update.pieces()
            return
        if isinstance(update, LayoutUpdate):
            for y, line in enumerate(update.strips, update.region.y):
                yield update.region.x, y, chain.from_iterable(line)
            return
        for y, first, last in update.spans:
            for end, (x, chop) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if chop is None or x >= last or end <= first:
                    continue
                left = max(first, x)
                yield left, y, pieces_between(chop, left - x, min(end, last) - x)


def lean(renderable: RenderableType | None) -> RenderableType | None:
    """The same update with fewer bytes; what is none of the two kinds stays as it is."""
    return (
        LeanUpdate(renderable) if isinstance(renderable, ChopsUpdate | LayoutUpdate) else renderable
    )
