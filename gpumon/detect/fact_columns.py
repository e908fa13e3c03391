"""Facts of all GPUs field by field: what tells the sound ones of a large fleet apart at once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from gpumon.detect.facts import GpuFacts
    from gpumon.detect.layout import GpuLayout


def _value(key: str, gpu: GpuFacts) -> float | None:
    return None if gpu.is_stale else gpu.value(key)


def _is_stale(gpu: GpuFacts) -> float:
    return gpu.is_stale


def _is_lost(gpu: GpuFacts) -> float:
    return gpu.is_lost


class FactColumns:
    """One column per field that was asked for, kept up from look to look."""

    def __init__(self, layout: GpuLayout, gpus: Mapping[str, GpuFacts]) -> None:
        self._layout = layout
        self._gpus = gpus
        self._columns: dict[Callable[[GpuFacts], float | None], NDArray[np.float64]] = {}
        self._tellers: dict[str, Callable[[GpuFacts], float | None]] = {}

    def column(self, key: str) -> NDArray[np.float64]:
        """Newest value of every GPU, NaN where it is missing or stale, and one NaN at the end."""
        return self._known(self._tellers.setdefault(key, partial(_value, key)))

    @property
    def is_stale(self) -> NDArray[np.bool_]:
        """Per GPU whether nothing was heard of it for long."""
        return self._known(_is_stale)[:-1] > 0

    @property
    def is_lost(self) -> NDArray[np.bool_]:
        """Per GPU whether it fell off the bus."""
        return self._known(_is_lost)[:-1] > 0

    def refresh(self, uuids: Iterable[str]) -> None:
        """Take over what changed about some GPUs; all of them are in the layout."""
        changed = [(self._layout.place[uuid], self._gpus[uuid]) for uuid in uuids]
        for tell, column in self._columns.items():
            for place, gpu in changed:
                value = tell(gpu)
                column[place] = np.nan if value is None else value

    def _known(self, tell: Callable[[GpuFacts], float | None]) -> NDArray[np.float64]:
        column = self._columns.get(tell)
        if column is None:
            told = [tell(gpu) for gpu in self._gpus.values()]
            column = np.array([*told, None], np.float64)
            self._columns[tell] = column
        return column
