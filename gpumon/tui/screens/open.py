"""Who opens what: the one place that knows every screen by its name.

A screen is imported when the user opens it, but the jobs, which the first screen shows.
"""

from __future__ import annotations

import time
from importlib import import_module
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.tui.actions.action import NEED_NO_QUEUE, ROOTS
from gpumon.tui.screens.base.root_view import has_jobs_in_view
from gpumon.tui.screens.lists.jobs import JobsView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from textual.screen import Screen
    from textual.timer import Timer

    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.columns import Column
    from gpumon.report.facts.groups import Scope
    from gpumon.report.lists.filter_tables import RowFilter
    from gpumon.report.next_steps.commands import Subject
    from gpumon.tui.actions.action import ViewName
    from gpumon.tui.beside import Discovering, LedgerReader
    from gpumon.tui.screens.base.contract import Entries, Trail
    from gpumon.tui.screens.base.view import View
    from gpumon.tui.status import Mood

MANY_NODES: Final = 33
"""Nodes from which on who sees everybody's jobs begins with the map of the fleet: a list of them
no longer fits on a screen. Who sees only their own begins with these, however large the cluster."""

VIEW_PERIOD_S: Final = 0.1
"""How often one more view is imported: each takes 5 to 25 ms, in which a key would wait. All are
there within a second."""

_ROOT_VIEWS: Final[Mapping[ViewName, tuple[str, str]]] = {
    "gpus": ("gpus", "GpusView"),
    "nodes": ("nodes", "NodesView"),
    "pending": ("pending", "PendingView"),
    "ended": ("ended", "EndedView"),
    "users": ("users_accounts", "UsersView"),
    "accounts": ("users_accounts", "AccountsView"),
    "partitions": ("partitions", "PartitionsView"),
    "reservations": ("reservations", "ReservationsView"),
    "processes": ("processes", "ProcessesView"),
    "fleet": ("fleet", "MapView"),
}
"""Modules of the views of the whole fleet in `lists`, but the jobs', and their classes."""


_PAGES: Final = ("gpu", "node")
"""Modules of the pages in `pages` that Enter opens from a list, but the job's."""


class AllViews:
    """Makes the screens that others ask for."""

    def root(self, view: ViewName) -> View | None:
        """A view of the whole fleet; None for the jobs, which lie below all others."""
        found = _ROOT_VIEWS.get(view)
        if found is None:
            return None
        module, name = found
        # Each for itself: the first screen with rows waits for no view that it does not show.
        made: type[View] = getattr(_imported(module), name)
        return made()

    def roots_to_come(self, tick: Tick) -> Iterator[object]:
        """Imports one view of the whole fleet after the other, that no Tab has to wait for it.

        Tab passes over those that would be empty here: they come when somebody asks for one. The
        pages that Enter opens from a list come first.
        """
        cycle = ROOTS if has_jobs_in_view(tick) else NEED_NO_QUEUE
        pages = ("job", *_PAGES) if cycle is ROOTS else _PAGES
        lists = dict.fromkeys(_ROOT_VIEWS[view][0] for view in cycle if view in _ROOT_VIEWS)
        return chain((_imported(page, "pages") for page in pages), map(_imported, lists))

    def jobs(self, scope: Scope | None = None) -> JobsView:
        """The jobs of a group; None: the whole queue."""
        return JobsView(scope)

    def job(self, job_id: str, label: str, trail: Trail = ("jobs",)) -> Screen[None]:
        """One job with its ranks and GPUs."""
        from gpumon.tui.screens.pages.job import JobScreen

        return JobScreen(job_id, label, trail)

    def ranks(self, job_id: str, label: str, trail: Trail) -> Screen[None]:
        """The ranks of a job over time."""
        from gpumon.tui.screens.pages.ranks import RanksScreen

        return RanksScreen(job_id, label, trail)

    def gpu(self, uuid: str, trail: Trail) -> Screen[None]:
        """The page of a GPU."""
        from gpumon.tui.screens.pages.gpu import GpuScreen

        return GpuScreen(uuid, trail)

    def node(self, name: str, trail: Trail) -> Screen[None]:
        """The page of a node."""
        from gpumon.tui.screens.pages.node import NodeScreen

        return NodeScreen(name, trail)

    def curves(self, subject: str, trail: Trail) -> Screen[None]:
        """Curves of a GPU, a node, a job or a rank."""
        from gpumon.tui.screens.pages.curves import CurvesScreen

        return CurvesScreen(subject, trail)

    def findings(self, trail: Trail, scope: str | None) -> Screen[None]:
        """The findings about something; None: all."""
        from gpumon.tui.screens.lists.findings import FindingsView

        return FindingsView(trail, scope)

    def finding(self, identity: tuple[str, str, str], trail: Trail) -> Screen[None]:
        """One finding with its evidence."""
        from gpumon.tui.screens.lists.findings import FindingScreen

        return FindingScreen(identity, trail)

    def commands(self, about: Subject, trail: Trail) -> Screen[None]:
        """The commands for something."""
        from gpumon.tui.screens.lists.commands import CommandsView

        return CommandsView(about, trail)

    def columns(
        self, table: ViewName, columns: Sequence[Column[Any]], trail: Trail
    ) -> Screen[None]:
        """Which columns of a table are shown."""
        from gpumon.tui.screens.lists.column_choice import ColumnView

        return ColumnView(table, columns, trail)

    def page(self, heading: str, trail: Trail, entries: Entries) -> Screen[None]:
        """A text."""
        from gpumon.tui.screens.base.page import Page

        return Page(heading, trail, entries)

    def help(
        self, view: ViewName, columns: Sequence[tuple[str, str]], trail: Trail
    ) -> Screen[None]:
        """Keys and signs of a view, and its columns with what they mean."""
        from gpumon.tui.screens.base.page import help_page

        return help_page(view, columns, trail)

    def findings_in_full(self, trail: Trail, scope: str | None) -> Screen[None]:
        """Findings in full, and what the detectors could not see."""
        from gpumon.tui.screens.base.page import findings_page

        return findings_page(trail, scope)

    def errors(self, trail: Trail, mood: Callable[[], Mood]) -> Screen[None]:
        """Targets, errors, and how gpumon itself fares."""
        from gpumon.tui.screens.base.page import errors_page

        return errors_page(trail, mood)

    def patterns(self, trail: Trail, discovery: Discovering | None) -> Screen[None]:
        """Patterns in what no finding explains."""
        from gpumon.tui.screens.base.page import patterns_page

        return patterns_page(trail, discovery)

    def ledger(self, trail: Trail, stored: LedgerReader | None) -> Screen[None]:
        """Where GPU time went, week by week."""
        from gpumon.tui.screens.base.page import ledger_page

        return ledger_page(trail, stored)


class ViewsAhead:
    """Imports one view after the other while the user does not type."""

    def __init__(
        self,
        every: Callable[[float, Callable[[], None]], Timer],
        typed_s: Callable[[], float],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Begin nothing yet.

        Args:
            every: Calls a function every so many seconds, on the thread that paints.
            typed_s: When the last key came, by the clock; minus infinity: none has.
            clock: Seconds.
        """
        self._every = every
        self._typed_s = typed_s
        self._clock = clock
        self._views: Iterator[object] | None = None
        self._timer: Timer | None = None

    def take(self, views: Iterator[object], *, is_queue: bool) -> None:
        """Begin with the first screen.

        Who only watches a machine without a queue never needs them: there a key begins it.

        Args:
            views: Imports a view with each step.
            is_queue: Whether there is a queue.
        """
        self._views = views
        if is_queue or self._typed_s() > -inf:
            self._begin()

    def note_key(self) -> None:
        """A key has come: the next may ask for another view."""
        if self._views is not None:
            self._begin()

    def _begin(self) -> None:
        if self._timer is None:
            self._timer = self._every(VIEW_PERIOD_S, self._step)

    def _step(self) -> None:
        if self._views is None or self._timer is None:
            return
        is_typing = self._clock() - self._typed_s() < VIEW_PERIOD_S
        if not is_typing and next(self._views, None) is None:
            self._timer.stop()


def _imported(module: str, room: str = "lists") -> object:
    return import_module(f"gpumon.tui.screens.{room}.{module}")


def first_view(tick: Tick, last: str | None, passes: RowFilter | None) -> ViewName:
    """The view that a filter is about, else the one of last time, else what suits the fleet.

    Args:
        tick: The first tick.
        last: What was chosen last; a view that would be empty here, or is none, does not count.
        passes: The filter of the command line.
    """
    has_jobs = has_jobs_in_view(tick)
    if passes is not None:
        if passes.jobs is not None and (has_jobs or not tick.gpus):
            return "jobs"
        return "gpus" if passes.processes is None else "processes"
    for root in ROOTS:
        if root == last and (has_jobs or root in NEED_NO_QUEUE):
            return root
    users = {view.job.user for view in tick.jobs}
    if len(tick.nodes) >= MANY_NODES and len(users) > 1:
        return "fleet"
    return "jobs" if has_jobs or not (tick.gpus or tick.targets) else "gpus"
