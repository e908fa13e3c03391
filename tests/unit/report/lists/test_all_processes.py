"""The rows of all processes are made in steps, and name one process for ever."""

from __future__ import annotations

from gpumon.report.facts.tick_index import Digest
from gpumon.report.lists.all_processes import (
    STEP,
    every_process,
    process_key,
    process_steps,
)
from tests.worlds.workstation import Seat, workstation


def test_many_processes_are_rows_after_steps_none_of_which_makes_many():
    digest = Digest(workstation(tuple(Seat(pid) for pid in range(1, 4 * STEP))))
    steps = process_steps(digest)
    for _ in range(3):
        next(steps)
    # What is left in the middle goes on where it stopped.
    del steps
    rows = every_process(digest)
    assert [row.process.pid for row in rows] == list(range(1, 4 * STEP))
    assert all(row.owner and row.context for row in rows)
    assert every_process(digest) is rows


def test_a_pid_that_comes_again_is_another_row():
    before, after = (
        every_process(Digest(workstation((Seat(7, start_s=start),))))[0] for start in (1.0, 2.0)
    )
    assert process_key(before) != process_key(after)
