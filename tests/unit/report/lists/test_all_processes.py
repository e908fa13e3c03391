"""The rows of all processes are made in steps, and name one process for ever."""

from __future__ import annotations

from gpumon.report.facts.tick_index import Digest
from gpumon.report.lists.all_processes import (
    STEP,
    every_process,
    process_key,
    process_order,
    process_steps,
)
from gpumon.report.tables.process import all_process_rows
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


def of_other_uuids(tick, order):
    """The same with UUIDs that sort in another order than the GPUs' numbers."""
    names = {uuid: f"GPU-{place}" for uuid, place in zip(tick.gpus, order, strict=True)}

    def named(one):
        used = {names[uuid]: held for uuid, held in one.mem_used_bytes.items()}
        return one._replace(mem_used_bytes=used, gpu_uuids=tuple(used))

    gpus = {
        names[gpu.uuid]: gpu._replace(
            uuid=names[gpu.uuid], processes=tuple(map(named, gpu.processes))
        )
        for gpu in tick.gpus.values()
    }
    nodes = {
        name: node._replace(gpu_uuids=tuple(names[uuid] for uuid in node.gpu_uuids))
        for name, node in tick.nodes.items()
    }
    return tick._replace(gpus=gpus, nodes=nodes)


def test_lines_that_are_alike_are_in_the_order_of_the_gpus():
    seats = (Seat(7, gpus=(0, 1, 2, 3)), Seat(5, gpus=(1, 3)))
    digest = Digest(of_other_uuids(workstation(seats), "CADB"))
    wanted = [(5, 1), (5, 3), (7, 0), (7, 1), (7, 2), (7, 3)]
    whole = sorted(every_process(digest), key=lambda row: process_order(digest, row))
    below = all_process_rows(digest, digest.tick.gpus.values())
    for rows in (whole, below):
        numbers = [(row.process.pid, digest.tick.gpus[row.uuid].nvml_index) for row in rows]
        assert numbers == wanted
