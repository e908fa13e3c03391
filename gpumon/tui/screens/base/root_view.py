"""What the views of the whole fleet share whatever they draw: the way from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.text import units
from gpumon.report.text.cells import Tone, paragraph
from gpumon.tui.actions.action import NEED_NO_QUEUE, ROOTS
from gpumon.tui.actions.registry import footer_of
from gpumon.tui.screens.base.view import View
from gpumon.tui.status import QUEUE_OLD_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line
    from gpumon.tui.actions.action import Action, ViewName


class RootView(View):
    """A view that belongs to the cycle of Tab."""

    @property
    def root(self) -> ViewName:
        """Its place in the cycle."""
        return self.view

    def trail(self) -> tuple[str, ...]:
        """The name of the view."""
        return (self.root,)

    def action_switch(self) -> None:
        """To the next view."""
        self._go_by(1)

    def action_switch_back(self) -> None:
        """To the previous view."""
        self._go_by(-1)

    @property
    def _is_bottom(self) -> bool:
        """Whether it is of the whole fleet, so that nothing lies below it that was come from."""
        return self.root == self.view

    @property
    def shows_processes(self) -> bool:
        """Lists of the whole fleet do not, but that of processes."""
        return False

    def footer(self) -> Sequence[Action]:
        """Also say that a group's jobs are closed, where the whole fleet's are quit."""
        named = footer_of(self.view)
        if self._is_bottom:
            return named
        return [a._replace(label="close") if a.name == "close" else a for a in named]

    def action_close(self) -> None:
        """Quit, unless what was come from lies below; hours that nothing keeps want a second q."""
        if not self._is_bottom:
            super().action_close()
        elif unsaved := self.gpumon.unsaved_words():
            self.report(f"{unsaved}: press q again to quit")
        else:
            self.action_quit()

    @property
    def _cycle(self) -> Sequence[ViewName]:
        """The views that Tab goes through."""
        digest = self.digest
        return ROOTS if digest is None or has_jobs_in_view(digest.tick) else NEED_NO_QUEUE

    def _go_by(self, steps: int) -> None:
        cycle = self._cycle
        # From a view that the cycle passes over it goes on as from the one before that.
        at = cycle.index(self.root) if self.root in cycle else min(0, -steps)
        self._choose(cycle[(at + steps) % len(cycle)])

    def _choose(self, view: ViewName) -> None:
        self.gpumon.go(view)
        self.gpumon.save_root(view)

    def action_back(self) -> None:
        """Clear the filter, else back to the jobs; without a queue to the GPUs."""
        first = self._cycle[0]
        if self.needle() or not self._is_bottom or first == "jobs":
            is_leaving = not self.needle() and self.root != "jobs"
            super().action_back()
            if is_leaving:
                self.gpumon.save_root("jobs")
        elif self.view != first:
            self._choose(first)

    def action_view(self, key: str) -> None:
        """To the view with this number; without a queue 1 is the first that there is."""
        wanted: ViewName = self._cycle[0] if key == "1" else ROOTS[int(key) - 1]
        if wanted not in self._cycle:
            self.report(f"no queue answers here: key {key}, {wanted}, has nothing to show")
        elif wanted != self.view or not self._is_bottom:
            self._choose(wanted)

    def steps_before(self, digest: Digest) -> Iterable[None]:
        """What the headline counts."""
        from gpumon.report.headline.lines import headline_steps

        return headline_steps(digest)

    def headline_lines(self, digest: Digest, width: int) -> list[Line]:
        """What is wrong with the tick as a whole, then what the whole fleet has and loses."""
        from gpumon.report.headline.lines import TALL, headline

        is_tall = self.app.size.height >= TALL
        return stale_queue_lines(digest, width) + headline(digest, width, is_tall=is_tall)


def has_jobs_in_view(tick: Tick) -> bool:
    """Whether a queue is asked, or jobs are known all the same, as in a recording."""
    is_asked = tick.queue_at is not None or any("slurm" in t.url for t in tick.targets)
    return is_asked or bool(tick.jobs)


def stale_queue_lines(digest: Digest, width: int) -> list[Line]:
    """That the queue's answer has grown old, or that no node answers any more."""
    from gpumon.report.wording.empty_states import silent_lines

    tick = digest.tick
    silent = silent_lines(tick, width)
    if tick.queue_at is None or tick.at - tick.queue_at <= QUEUE_OLD_S:
        return silent
    age = units.short_duration(tick.at - tick.queue_at)
    text = f"stale {age}: the queue has not answered since; jobs may have begun or ended"
    return paragraph(text, width, Tone.WARN, "! ", "  ") + silent
