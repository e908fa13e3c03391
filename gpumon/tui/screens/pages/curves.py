"""Curves over a whole screen: the main fields of a GPU, a node or a job on one time axis.

Also the other way to see them: beside what bounds them, as a roofline.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.report.charts.chart import chart_lines, time_axis
from gpumon.report.charts.curves import SPANS_S, gpu_panels, job_panels, node_panels, span_of
from gpumon.report.charts.rank_curves import alone_panels, rank_panels
from gpumon.report.pages.speed_of_light import speed_of_light
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone, paragraph
from gpumon.report.wording.empty_states import no_gpus_words, nothing_lines, stale_subject_lines
from gpumon.tui.actions.registry import bindings_of
from gpumon.tui.screens.base.page import Page
from gpumon.tui.widgets.text.blocks import Block, Blocks

if TYPE_CHECKING:
    from gpumon.report.charts.curves import Panel
    from gpumon.report.charts.roofline import Roof
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.next_steps.commands import Subject
    from gpumon.report.text.cells import Line

MIN_HEIGHT: Final = 5
"""Fewest rows of one chart. A choice: on fewer a curve is flat, and the page scrolls instead."""
MAX_HEIGHT: Final = 10
"""Most rows of one chart. A choice: more steps show no more."""

MIN_ROOF: Final = 8
"""Fewest rows of a roofline with its scale: on fewer its slope cannot be read. A choice."""
MAX_ROOF: Final = 26
"""Most rows of a roofline. A choice: more show no more."""

_SMALL: Final = 30
"""Rows of a terminal that has none to spare for a blank line."""

_ON_A_GPU: Final = ("rank", "process")
"""Kinds of subjects that are named by a GPU's UUID and a PID."""

_FRAME: Final = 4
"""Rows that no chart has: the lines above and below the page, and a blank one on top of it."""


class CurvesScreen(Page):
    """Charts one below the other, as high as the terminal allows."""

    view = "curves"
    BINDINGS = bindings_of("curves")

    def __init__(self, subject: str, trail: tuple[str, ...]) -> None:
        """`subject` is `gpu:UUID`, `node:NAME`, `job:ID`, `rank:UUID/PID` or `process:UUID/PID`."""
        super().__init__("curves", trail, self._charts)
        self.subject = subject
        self._span_s: float | None = None
        self._is_roofline = False
        self._drawn_at = -inf
        """Unix time of the tick that is drawn."""

    def show(self, digest: Digest | None) -> None:
        """Show a tick; of one between two periods only the lines around."""
        if not self._is_between_periods(digest):
            super().show(digest)
            return
        self.digest = digest
        self.draw_frame()

    def _is_between_periods(self, digest: Digest | None) -> bool:
        """Whether a tick comes less than a period after the one that is drawn, by itself."""
        if digest is None or digest is self.digest or self.gpumon.mood.place is not None:
            return False
        return 0 < digest.tick.at - self._drawn_at < digest.tick.period_s

    def amount(self) -> str:
        """How much time is shown."""
        return f"last {units.short_duration(self._chosen(self.digest))} " if self.digest else ""

    def finding_scope(self) -> str | None:
        """What the curves are of; of a rank or a process its GPU."""
        kind, _, name = self.subject.partition(":")
        return f"gpu:{name.partition('/')[0]}" if kind in _ON_A_GPU else self.subject

    def subject_here(self) -> Subject | None:
        """What the curves are of; of a rank its process on its GPU."""
        found = super().subject_here()
        _, _, pid = self.subject.partition("/")
        return found._replace(pids=(int(pid),)) if found is not None and pid.isdecimal() else found

    def action_span(self) -> None:
        """More of the past; after the most, the least."""
        if self.digest is not None:
            longest = span_of(self.digest)
            now_s = self._chosen(self.digest)
            longer = [span for span in SPANS_S if now_s < span <= longest]
            before, self._span_s = self._span_s, longer[0] if longer else SPANS_S[0]
            if self._span_s in (before, now_s):
                self.report(f"only {units.short_duration(longest)} of the past are stored")
            self.show(self.digest)

    def action_roofline(self) -> None:
        """What bounds it, in place of the curves; then the curves again."""
        if self.subject.partition(":")[0] == "node":
            self.report("a roofline is for a job or a GPU: open one")
            return
        self._is_roofline = not self._is_roofline
        self.show(self.digest)

    def _chosen(self, digest: Digest) -> float:
        return min(span_of(digest), SPANS_S[1]) if self._span_s is None else self._span_s

    def _panels(self, digest: Digest) -> list[Panel]:
        kind, _, name = self.subject.partition(":")
        span_s = self._chosen(digest)
        if kind in _ON_A_GPU:
            uuid, _, pid = name.partition("/")
            gpu = digest.tick.gpus.get(uuid)
            if gpu is None:
                return []
            if kind == "process":
                return alone_panels(digest, gpu, int(pid), span_s)
            return rank_panels(digest, gpu, int(pid) if pid else None, span_s)
        if kind == "gpu":
            gpu = digest.tick.gpus.get(name)
            return gpu_panels(digest, gpu, span_s) if gpu else []
        if kind == "node":
            node = digest.tick.nodes.get(name)
            return node_panels(digest, node, span_s) if node else []
        view = digest.tick.job(name)
        return job_panels(digest, view, span_s) if view else []

    def _why_none(self, digest: Digest) -> tuple[str, ...]:
        kind, _, name = self.subject.partition(":")
        view = digest.tick.job(name) if kind == "job" else None
        if view is not None and not view.gpu_uuids:
            return no_gpus_words(digest, view)
        text = "Nothing is known of it at this instant: it has ended, or no node answers."
        return (text, "Esc goes back.")

    def _blocks(self, digest: Digest | None, width: int) -> list[Block]:
        """The page in blocks: their heights are known before a chart is drawn."""
        if digest is None:
            return [_written(paragraph("Waiting for the first sample …", width, Tone.DIM))]
        if self._is_roofline:
            return self._roofline(digest, width)
        panels = self._panels(digest)
        if not panels:
            return [_written(nothing_lines(digest, self._why_none(digest), width))]
        stale = stale_subject_lines(digest, self.finding_scope() or "", width)
        above = stale + _key_of_dots(self.subject)
        found = [_written(above)]
        some, height = _shared(self.size.height - _FRAME - len(above), len(panels))
        for first in range(0, len(panels), some):
            group = panels[first : first + some]
            found += [Block(1 + height, partial(_drawn, panel, width, height)) for panel in group]
            found.append(_written(time_axis(group[-1].chart, width)))
        return found

    def _roofline(self, digest: Digest, width: int) -> list[Block]:
        """What bounds it, and the roofline below, as high as the terminal allows."""
        kind, _, name = self.subject.partition(":")
        view = digest.tick.job(name) if kind == "job" else None
        one = digest.tick.gpus.get(name.partition("/")[0])
        gpus = digest.gpus(view) if view is not None else [one] if one is not None else []
        found = speed_of_light(digest, gpus, view, self._chosen(digest), width)
        stale = stale_subject_lines(digest, self.finding_scope() or "", width)
        lines = [*stale, *found.lines]
        if found.roof is None:
            return [_written(lines)]
        lines += [*([()] if self.size.height > _SMALL else []), _key_of_points(len(gpus))]
        height = max(MIN_ROOF, min(MAX_ROOF, self.size.height - _FRAME - len(lines)))
        return [_written(lines), Block(height, partial(_roofed, found.roof, width, height))]

    def _charts(self, digest: Digest | None, width: int) -> list[list[Line]]:
        return [block.make() for block in self._blocks(digest, width)]

    def draw(self) -> None:
        """Only what is in sight, unless a text is searched for: a rank has dozens of charts."""
        self._drawn_at = self.digest.tick.at if self.digest is not None else -inf
        if self.needle():
            super().draw()
        else:
            blank = Block(1, lambda: [()])
            blocks = self._blocks(self.digest, max(20, self.size.width - 4))
            self.reader.show_lines(Blocks([blank, *blocks]))


def _key_of_dots(subject: str) -> list[Line]:
    """What lines and dots of a job's charts are, above them: below, a small screen cuts it off."""
    text = "line: mean of the job's GPUs; dots: the lowest and the highest"
    return [(Cell(text, Tone.DIM),)] if subject.startswith("job:") else []


def _key_of_points(gpu_count: int) -> Line:
    """What the points of a roofline are."""
    dots = "its GPUs" if gpu_count > 1 else "parts of that time"
    text = f"● mean, dots {dots}; up: operations per second, across: per byte"
    return (Cell(text, Tone.DIM),)


def _roofed(roof: Roof, width: int, height: int) -> list[Line]:
    # Imported here, because numpy comes with it.
    from gpumon.report.charts.roofline import roofline_lines

    return roofline_lines(roof, width, height)


def _written(lines: list[Line]) -> Block:
    return Block(len(lines), lambda: lines)


def _drawn(panel: Panel, width: int, height: int) -> list[Line]:
    return [panel.title, *chart_lines(panel.chart, width, height)]


def _shared(rows: int, panels: int) -> tuple[int, int]:
    """How many charts share a screen and its time axis, and the rows of each without its title."""
    some = max(1, min(panels, (rows - 1) // (MIN_HEIGHT + 1)))
    return some, max(MIN_HEIGHT, min(MAX_HEIGHT, (rows - 1) // some - 1))
