"""Draws only the lines of a screen that changed.

Textual draws every line of every widget between the topmost and the lowest change. A tick a
second changes the clock in the last line and a few cells at the top: that is the whole screen.

The compositor is no part of what textual promises: what fails here is drawn by textual's own.
"""

from __future__ import annotations

from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region

from gpumon.tui.textual_private.cropping import cropped, pieces_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.segment import Segment
    from textual.strip import Strip

    Stretch = tuple[int, int]
    """First cell of a line and the one behind the last."""

    Part = tuple[int, int, Strip, int]
    """First cell on the screen and the one behind the last, a line that has them, and its cell
    that is the first."""

_column_of: Final = itemgetter(0)


class LineUpdate(ChopsUpdate):
    """An update that knows its stretches as parts of whole lines; cut when they are asked for."""

    def __init__(
        self, spans: list[tuple[int, int, int]], lines: Mapping[int, Sequence[Part]]
    ) -> None:
        self.spans = spans
        self.lines = lines
        """From left to right, by the number of the line on the screen."""

    @cached_property
    def chops(self) -> Mapping[int, Mapping[int, Strip]]:  # type: ignore[override]
        """The stretches by where they begin."""
        return {
            y: {x: cropped(strip, first, first + end - x) for x, end, strip, first in parts}
            for y, parts in self.lines.items()
        }

    @cached_property
    def chop_ends(self) -> Mapping[int, list[int]]:  # type: ignore[override]
        """Where they end."""
        return {y: [end for _, end, _, _ in parts] for y, parts in self.lines.items()}

    def pieces(self) -> Iterator[tuple[int, int, Iterable[Segment]]]:
        """Column and line of each stretch, and what it is made of."""
        for y, parts in self.lines.items():
            for x, end, strip, first in parts:
                yield x, y, pieces_between(strip, first, first + end - x)


class ThriftyCompositor(Compositor):
    """Textual's compositor, whose partial updates ask widgets for changed lines only."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """What changed since the last update; None: nothing."""
        try:
            update = self.changed_lines()
        except (AttributeError, TypeError, ValueError):
            return super().render_partial_update()
        self._dirty_regions.clear()
        return update

    def changed_lines(self) -> ChopsUpdate | None:
        """The same by the lines that changed, front widget first; None: nothing changed.

        Raises:
            AttributeError, TypeError, ValueError: the compositor has another form than expected.
        """
        spans = list(self._regions_to_spans(self._dirty_regions))
        if not spans:
            return None
        bare: dict[int, list[Stretch]] = {}
        for y, first, end in spans:
            bare.setdefault(y, []).append((first, end))
        lines: dict[int, list[Part]] = {y: [] for y in bare}
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            covered: dict[int, list[Stretch]] = {}
            for y in bare:
                if bare[y] and shown.y <= y < shown.bottom:
                    covered[y], bare[y] = _parted(bare[y], shown.x, shown.right)
            for run in _runs(y for y, stretches in covered.items() if stretches):
                part = Region(shown.x - region.x, run[0] - region.y, shown.width, len(run))
                for y, strip in zip(run, widget.render_lines(part), strict=True):
                    lines[y] += [(x, end, strip, x - shown.x) for x, end in covered[y]]
        for parts in lines.values():
            parts.sort(key=_column_of)
        return LineUpdate(spans, lines)


def _parted(stretches: list[Stretch], first: int, end: int) -> tuple[list[Stretch], list[Stretch]]:
    """What of the stretches lies between two cells, and what does not."""
    inside, outside = [], []
    for left, right in stretches:
        if left < end and right > first:
            inside.append((max(left, first), min(right, end)))
            outside += [(left, first)] if left < first else []
            outside += [(end, right)] if right > end else []
        else:
            outside.append((left, right))
    return inside, outside


def _runs(lines: Iterable[int]) -> Iterator[list[int]]:
    """Numbers in order, in runs without a gap."""
    run: list[int] = []
    for y in sorted(lines):
        if run and y != run[-1] + 1:
            yield run
            run = []
        run.append(y)
    if run:
        yield run


def thrifty(found: Compositor) -> Compositor:
    """Ours in the place of textual's; another one stays."""
    return ThriftyCompositor() if type(found) is Compositor else found
