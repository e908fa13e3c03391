"""Tries inputs on several processes; one that ends is reported, and another takes its place."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import queue
import resource
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.fuzz import trial, workplace
from tests.fuzz.targets.every import TARGETS
from tests.fuzz.trial import Failure, Tried

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_BYTES: Final = 4 * 2**30
"""Memory of one process: an input that wants more gets a MemoryError, and not the whole machine."""

HARD_S: Final = 120.0
"""What even a call that no signal reaches may take, by the clock."""


class Task(NamedTuple):
    """Some inputs of one target; none: only its branches."""

    target: str
    seed: int
    first: int
    inputs: int


class _Worker:
    """One process, and what it is at."""

    def __init__(self, context: Any, tasks: Any, results: Any) -> None:
        self.at = context.Array("q", [-1, -1, 0], lock=False)
        self.process = context.Process(target=_work, args=(tasks, results, self.at), daemon=True)
        self.process.start()


def _work(tasks: Any, results: Any, at: Any) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(5)
    # What was there before is not walked again after each piece.
    gc.collect()
    gc.freeze()
    names = list(TARGETS)
    while (task := tasks.get()) is not None:
        at[0], at[1], at[2] = names.index(task.target), task.first, task.seed

        def note(index: int) -> None:
            at[1] = index
            faulthandler.dump_traceback_later(HARD_S, exit=True, file=_NOWHERE)

        results.put(trial.tried(TARGETS[task.target], task.seed, task.first, task.inputs, note))
        at[0] = -1


_NOWHERE = open(os.devnull, "w")  # noqa: SIM115, PTH123 - it lives as long as the process


def tried(tasks: Iterable[Task], jobs: int, until: float | None = None) -> Iterator[Tried]:
    """Results as they come.

    Args:
        tasks: What is to be tried, one after the other.
        jobs: Processes.
        until: Monotonic time at which no further one is begun.
    """
    workplace.shared()
    context = multiprocessing.get_context("fork")
    todo, results = context.Queue(), context.Queue()
    left = iter(tasks)
    given = 0
    workers = [_Worker(context, todo, results) for _ in range(jobs)]
    for task in _some(left, 2 * jobs, until):
        todo.put(task)
        given += 1
    while given:
        try:
            found = results.get(timeout=1.0)
        except queue.Empty:
            found = _ended(workers, context, todo, results)
            if found is None:
                continue
        given -= 1
        for task in _some(left, 1, until):
            todo.put(task)
            given += 1
        yield found
    for _ in workers:
        todo.put(None)
    for worker in workers:
        worker.process.join(5.0)


def _some(left: Iterator[Task], count: int, until: float | None) -> list[Task]:
    if until is not None and time.monotonic() >= until:
        return []
    return [task for _, task in zip(range(count), left, strict=False)]


def _ended(workers: list[_Worker], context: Any, todo: Any, results: Any) -> Tried | None:
    """What a process was at that has ended; another one is begun."""
    for place, worker in enumerate(workers):
        if worker.process.is_alive():
            continue
        number, index, seed = worker.at
        workers[place] = _Worker(context, todo, results)
        if number < 0:
            continue
        target = list(TARGETS.values())[number]
        failure = Failure(
            target.name,
            seed,
            index,
            f"ended its process ({worker.process.exitcode})",
            "see --replay",
        )
        return Tried(target.name, 0, 0, (failure,))
    return None
