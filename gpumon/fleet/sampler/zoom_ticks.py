"""Zoom ticks, made between two periods of what is on the screen: whether they are worth making.

They are only shown, never stored, evaluated or charged: see `Sampler`, which makes them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from gpumon.sources.probes.zoom import Zoom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpumon.model.records.frame import Frame
    from gpumon.sources.source import Wish

MOST_SHARE: Final = 0.25
"""Share of the time between two pictures that making one may take: of a large fleet joining jobs
and GPUs costs too much to be done oftener than the beat."""

DEAR: Final = 3
"""So many dear pictures in a row are no accident."""

_ROOM: Final = 1.5
"""So many steps must be left to the beat: the picture of the beat itself comes anyway."""


class Closer:
    """Knows what is looked at, and whether its nodes really say more than the others."""

    def __init__(self, cpu_s: Callable[[], float] = time.thread_time) -> None:
        """Nothing is looked at; `cpu_s` tells the CPU time that the caller's thread has used."""
        self.cpu_s = cpu_s
        self._zoom = Zoom()
        self._has_news = False
        self._dear = 0
        self.period_s: float | None = None
        """Seconds between two pictures of what is looked at; None: no more than of all else."""

    def wish(self, wish: Wish) -> None:
        """Take what is to be looked at, or that nothing is; may come from any thread."""
        if wish.is_about_zoom:
            self._zoom = Zoom(wish.zoom_nodes, wish.zoom_gpus)
            self._dear = 0
            self.period_s = None

    def hear(self, frames: Iterable[Frame]) -> None:
        """Note whether a node that is looked at has said something."""
        if self._zoom.nodes and not self._has_news:
            nodes = set(self._zoom.nodes)
            self._has_news = any(
                frame.blocks and not nodes.isdisjoint((frame.node, *frame.host_names))
                for frame in frames
            )

    def step_s(self, tick_period_s: float, left_s: float) -> float | None:
        """Seconds to the next picture before the beat; None: there is none.

        Args:
            tick_period_s: Seconds between two beats.
            left_s: Seconds to the next one.
        """
        self._has_news = False
        zoom = self._zoom
        step_s = zoom.period_s(frozenset(zoom.nodes), tick_period_s)
        if (
            not zoom.nodes
            or self._dear >= DEAR
            or step_s >= tick_period_s
            or left_s < _ROOM * step_s
        ):
            return None
        return step_s

    def has_news(self, step_s: float) -> bool:
        """Whether a picture is worth making: a node that is looked at has said more."""
        if self._has_news and self._zoom.nodes:
            self.period_s = step_s
        return self._has_news

    def cost(self, seconds: float, step_s: float) -> None:
        """Take the CPU time of a picture; too much of it ends the pictures between beats."""
        self._dear = self._dear + 1 if seconds > MOST_SHARE * step_s else 0
        if self._dear >= DEAR:
            self.period_s = None
