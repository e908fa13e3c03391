"""What a rank's processes use over time: whose they are, what they add up to, since when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from gpumon.fleet.history.history import History
from gpumon.model.records.block import Block, column_for
from gpumon.report.charts.process_curves import process_panels, rank_processes
from gpumon.report.charts.rank_curves import alone_panels, rank_panels
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.process import PROCESS_COLUMNS, process_rows
from tests.worlds.tick import AT, GIB, gpu, job_with_gpus, process, tick, uuid_of

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Process

UUID = uuid_of("n", 0)
RANK = {"RANK": "0", "MASTER_ADDR": "n", "MASTER_PORT": "29500"}


def owned(pid, job_id="7", variables=None, **changes) -> Process:
    made = process("n", 0, pid, job_id, None)
    return made._replace(rank_vars=RANK if variables is None else variables, **changes)


@dataclass
class Story:
    """Thirty ticks, ten seconds apart, of processes on one GPU."""

    processes: tuple[Process, ...]
    cores: dict[int, list[float | None]]
    of_trees: dict[str, float] = field(default_factory=dict)

    def digest(self) -> Digest:
        history = History()
        pids = tuple(str(pid) for pid in self.cores)
        view, _ = job_with_gpus("7", {"n": 1})
        steps = len(next(iter(self.cores.values())))
        for number in range(steps):
            at = AT - 10 * (steps - 1 - number)
            blocks = {
                "node": Block(("n",), {"uptime_s": column_for(False, [1000.0 + at - AT])}, {}, {}),
                "process": Block(
                    pids,
                    {
                        "process_cpu_cores_used": column_for(
                            False, [cores[number] for cores in self.cores.values()]
                        ),
                        "process_rss_bytes": column_for(False, [3.0 * GIB] * len(pids)),
                        **{
                            key: column_for(False, [value] * len(pids))
                            for key, value in self.of_trees.items()
                        },
                        "process_io_read_bytes_per_s": column_for(False, [5e6] * len(pids)),
                    },
                    {},
                    {},
                ),
                "context": Block(
                    tuple(f"{pid}/{UUID}" for pid in pids),
                    {
                        "context_mem_used_bytes": column_for(False, [10.0 * GIB] * len(pids)),
                        "context_sm_util_ratio": column_for(False, [0.25] * len(pids)),
                    },
                    {},
                    {},
                ),
            }
            mine = gpu("n", 0, processes=self.processes)._replace(taken_at=at)
            made = tick((view,), [mine], at=at, number=number)
            node = made.nodes["n"]._replace(blocks=blocks, taken_at=at, block=blocks["node"])
            made = made._replace(nodes={"n": node})
            history.append(made)
        return Digest(made._replace(history=history.reader()))


def text_of(panel):
    return "".join(cell.text for cell in panel.title)


def panels(story, pid):
    digest = story.digest()
    mine = digest.tick.gpus[UUID]
    return process_panels(digest, mine, rank_processes(mine, pid), 900.0)


def test_cores_memory_gpu_memory_and_storage_of_one_process():
    found = panels(Story((owned(4711),), {4711: [1.5] * 30}), 4711)
    assert [text_of(panel) for panel in found] == [
        "process 4711 CPU cores used 1.50  ",
        "process 4711 memory resident 3.0 GiB  ",
        "process 4711 GPU memory 10 GiB  ",
        "process 4711 storage read 5.0 MB/s  ┄ written –  ",
    ]
    assert set(found[0].chart.series[0].values) == {1.5}
    assert len(found[0].chart.series[0].values) == 30
    assert found[2].chart.ceiling == 80.0 * GIB


def test_only_what_claims_the_rank_s_place_is_added_up():
    child = owned(4712, parent_pid=4711)
    other_rank = owned(4713, variables={**RANK, "RANK": "1"})
    other_job = owned(4714, job_id="8")
    story = Story(
        (owned(4711), child, other_rank, other_job),
        {4711: [1.0] * 30, 4712: [0.5] * 30, 4713: [8.0] * 30, 4714: [16.0] * 30},
    )
    found = panels(story, 4711)
    assert text_of(found[0]) == "processes 4711, 4712 CPU cores used 1.50  "
    assert set(found[0].chart.series[0].values) == {1.5}
    everything = panels(story, None)
    assert text_of(everything[0]).startswith("processes 4711, 4712 and 2 more CPU cores used 25.5")


def test_processes_without_a_number_are_not_taken_for_one_rank():
    story = Story((owned(1, variables={}), owned(2, variables={})), {1: [1.0] * 30, 2: [2.0] * 30})
    assert text_of(panels(story, 1)[0]).startswith("process 1 CPU cores used 1 ")
    assert panels(story, 99) == []


def test_what_one_of_them_does_not_report_leaves_the_sum_of_the_others():
    story = Story(
        (owned(1), owned(2)), {1: [1.0] * 29 + [None], 2: [None] * 15 + [2.0] * 14 + [None]}
    )
    values = panels(story, 1)[0].chart.series[0].values
    assert values[:15] == [1.0] * 15
    assert values[15:29] == [3.0] * 14
    assert values[29] != values[29]


def test_what_an_earlier_process_with_the_same_pid_did_does_not_count():
    # Up for 1,000 s, and begun at second 900: a hundred seconds ago.
    mine = owned(4711, start_time_s=900.0)
    values = panels(Story((mine,), {4711: [1.0] * 30}), 4711)[0].chart.series[0].values
    assert sum(value == value for value in values) == 11


def test_a_rank_s_curves_hold_its_process_and_not_what_was_never_known():
    digest = Story((owned(4711),), {4711: [1.5] * 30}).digest()
    titles = [text_of(p) for p in rank_panels(digest, digest.tick.gpus[UUID], 4711, 900.0)]
    assert sum(title.startswith("process 4711") for title in titles) == 4
    blind = Story((owned(4711),), {4711: [None] * 30}).digest()
    titles = [text_of(p) for p in rank_panels(blind, blind.tick.gpus[UUID], 4711, 900.0)]
    assert not any("CPU cores used" in title for title in titles)


def test_a_process_by_itself_comes_before_its_gpu_and_without_its_peers():
    child = owned(4712, parent_pid=4711)
    digest = Story((owned(4711), child), {4711: [1.5] * 30, 4712: [9.0] * 30}).digest()
    found = alone_panels(digest, digest.tick.gpus[UUID], 4711, 900.0)
    assert [text_of(panel) for panel in found[:3]] == [
        "process 4711 (python, uid 1000) SM use 25 %  ",
        "process 4711 (python, uid 1000) CPU cores used by itself 1.50  ",
        "process 4711 (python, uid 1000) memory resident by itself 3.0 GiB  ",
    ]
    assert not any(text_of(panel).startswith("process") for panel in found[5:])
    trees = {"process_tree_cpu_cores_used": 7.25, "process_tree_rss_bytes": 20 * GIB}
    told = Story((owned(4711, user="ada"),), {4711: [1.5] * 30}, trees).digest()
    whole = alone_panels(told, told.tick.gpus[UUID], 4711, 900.0)
    assert [text_of(panel) for panel in whole[1:3]] == [
        "process 4711 (python, ada) CPU cores used with all it started 7.25  ",
        "process 4711 (python, ada) memory resident with all it started 20 GiB  ",
    ]
    hidden = Story((owned(4711, name=None, uid=None, user=None),), {4711: [1.5] * 30}).digest()
    first = alone_panels(hidden, hidden.tick.gpus[UUID], 4711, 900.0)[0]
    assert text_of(first) == "process 4711 SM use 25 %  "
    gone = alone_panels(digest, digest.tick.gpus[UUID], 99, 900.0)
    assert [text_of(panel) for panel in gone] == [text_of(panel) for panel in found[5:]]


@pytest.mark.parametrize(
    ("key", "shown", "unknown"),
    [
        ("cores", "≥1.5", "–"),
        ("rss", "≥3.0", "–"),
        ("read", "5.0M", "–"),
        ("write", "–", "–"),
        ("past", "▆" * 10, ""),
    ],
)
def test_the_list_of_processes_shows_what_each_uses(key, shown, unknown):
    column = next(column for column in PROCESS_COLUMNS if column.key == key)
    digest = Story((owned(4711), owned(4712)), {4711: [1.5] * 30}).digest()
    rows = {row.process.pid: row for row in process_rows(digest, digest.tick.gpus[UUID])}
    text = column.cell(digest, rows[4711]).text
    assert shown in text if key == "past" else text == shown
    assert column.cell(digest, rows[4712]).text == unknown
