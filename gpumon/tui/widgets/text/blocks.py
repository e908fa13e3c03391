"""Text in blocks, each of which is made when one of its lines is asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, overload

from gpumon.report.text.cells import Cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.report.text.cells import Line

_INDENT = Cell("  ")


class Block(NamedTuple):
    """Lines that are made together."""

    height: int
    """How many lines they are."""
    make: Callable[[], list[Line]]


class Blocks(Sequence["Line"]):
    """The lines of blocks one below the other, indented as on every page."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._blocks = blocks
        self._ends = list(accumulate(block.height for block in blocks))
        self._made: dict[int, list[Line]] = {}

    def __len__(self) -> int:
        """Lines of all blocks, made or not."""
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Line: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...

    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        """One line, or several; their blocks are made unless they are."""
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        number = bisect_right(self._ends, at)
        block = self._blocks[number]
        if number not in self._made:
            self._made[number] = [(_INDENT, *line) if line else () for line in block.make()]
        return self._made[number][at - self._ends[number] + block.height]
