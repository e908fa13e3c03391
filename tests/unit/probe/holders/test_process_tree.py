"""What GPU processes use with all that they have started: sums that only grow, or reasons."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpumon.probe.holders.process_tree import ProcessTrees
from gpumon.probe.kernel import files, process_stat
from gpumon.probe.kernel.process_stat import AllProcesses
from gpumon.probe.rows import Row
from tests.worlds.proc import write_stat, write_statm

if TYPE_CHECKING:
    from pathlib import Path

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
FIELDS = ("descendant_count", "process_tree_cpu_us", "process_tree_rss_bytes")


class World:
    """A /proc whose processes come, work and go, and trees that are scanned every 5 s."""

    def __init__(self, root: Path, cost_s: float = 0.0) -> None:
        self.proc = root / "proc"
        self._stats: dict[int, dict[str, object]] = {}
        self._spent_s = 0.0
        self.cost_s = cost_s
        self.trees = ProcessTrees(AllProcesses(str(root)), cpu_s=self._cpu_s)
        self.now = 0.0
        self.put(1, start=1)

    def _cpu_s(self) -> float:
        """Read before a scan and after it."""
        self._spent_s += self.cost_s
        return self._spent_s

    def put(self, pid: int, **fields: object) -> None:
        self._stats[pid] = {**self._stats.get(pid, {}), **fields}
        write_stat(self.proc, pid, **self._stats[pid])

    def end(self, pid: int) -> None:
        (self.proc / str(pid) / "stat").unlink()
        (self.proc / str(pid)).rmdir()
        del self._stats[pid]

    def row(self, pid: int = 10, *, after_s: float = 5.0) -> Row:
        (row,) = self.rows(pid, after_s=after_s)
        return row

    def rows(self, *pids: int, after_s: float = 5.0) -> list[Row]:
        self.now += after_s
        rows = [Row(str(pid), self.now) for pid in pids]
        for row, pid in zip(rows, pids, strict=True):
            start = self._stats.get(pid, {}).get("start", 100)
            row.values["start_time_s"] = int(str(start)) / os.sysconf("SC_CLK_TCK")
        self.trees.add_to(rows, self.now)
        return rows

    def ticks(self, pid: int = 10) -> int:
        """CPU time of the tree after the next scan."""
        return int(self.row(pid).values["process_tree_cpu_us"]) // TICK_US


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A rank with two loaders, one of which has a helper; beside them a stranger."""
    world = World(tmp_path)
    world.put(10, start=100, cpu=1000, waited=50, pages=100)
    world.put(11, parent=10, start=200, cpu=300, pages=30)
    world.put(12, parent=10, start=210, cpu=400, pages=40)
    world.put(13, parent=12, start=220, cpu=5, waited=7, pages=3)
    world.put(20, start=150, cpu=9999, pages=999)
    return world


def test_a_tree_is_the_process_and_all_below_it(world: World) -> None:
    row = world.row()
    assert row.values["descendant_count"] == 3
    assert row.values["process_tree_cpu_us"] == (1050 + 300 + 400 + 12) * TICK_US
    assert row.values["process_tree_rss_bytes"] == 173 * PAGE
    assert row.missing == {}


def test_resident_memory_is_what_statm_tells_which_counts_exactly(world: World) -> None:
    write_statm(world.proc, 10, 150)
    write_statm(world.proc, 13, 4)
    assert world.row().values["process_tree_rss_bytes"] == (150 + 30 + 40 + 4) * PAGE


def test_one_without_children_is_a_tree_of_its_own(world: World) -> None:
    row = world.row(20)
    assert [row.values[key] for key in FIELDS] == [0, 9999 * TICK_US, 999 * PAGE]


def test_a_rank_below_a_rank_is_part_of_both_trees(world: World) -> None:
    above, below = world.rows(10, 12)
    assert (above.values["descendant_count"], below.values["descendant_count"]) == (3, 1)
    assert below.values["process_tree_rss_bytes"] == 43 * PAGE


def test_what_members_use_is_added_up(world: World) -> None:
    first = world.ticks()
    world.put(10, cpu=1100)
    world.put(11, cpu=350)
    world.put(13, cpu=6, waited=9)
    assert world.ticks() - first == 100 + 50 + 3


def test_one_that_began_since_the_last_look_counts_in_full(world: World) -> None:
    first = world.ticks()
    world.put(14, parent=11, start=300, cpu=60)
    assert world.ticks() - first == 60


def test_one_that_ends_is_told_by_its_parent_and_counted_once(world: World) -> None:
    """The kernel hands a child's whole time to the parent that waits for it."""
    first = world.ticks()
    world.end(11)
    world.put(10, waited=50 + 320)
    assert world.ticks() - first == 20
    world.put(10, cpu=1001)
    assert world.ticks() - first == 21


def test_one_that_nobody_waits_for_takes_nothing_away(world: World) -> None:
    """As where SIGCHLD is ignored: what it used since the last scan is lost, no more."""
    first = world.ticks()
    world.end(11)
    world.put(10, cpu=1010)
    assert world.ticks() - first == 10
    world.put(10, cpu=1030, waited=50)
    assert world.ticks() - first == 30


def test_one_that_ends_during_a_look_is_not_counted_twice(world: World) -> None:
    """It was gone although its parent, read before, had not got its time yet."""
    first = world.ticks()
    world.end(11)
    assert world.ticks() - first == 0
    world.put(10, waited=50 + 325)
    assert world.ticks() - first == 25
    world.put(10, waited=50 + 325 + 7)
    assert world.ticks() - first == 32


def test_what_was_never_told_eats_no_later_time(world: World) -> None:
    """A scan later it never comes any more: other children's time is theirs."""
    first = world.ticks()
    world.end(11)
    assert world.ticks() - first == 0
    assert world.ticks() - first == 0
    world.put(10, waited=50 + 40)
    assert world.ticks() - first == 40


def test_a_branch_that_ends_together_is_told_to_who_is_left(world: World) -> None:
    first = world.ticks()
    world.end(13)
    world.end(12)
    world.put(10, waited=50 + 412 + 9)
    assert world.ticks() - first == 9


def test_one_that_leaves_its_tree_takes_nothing_away(world: World) -> None:
    """A daemon whose parent has ended belongs to no tree here, and is still there."""
    first = world.ticks()
    world.end(12)
    world.put(10, waited=50 + 401)
    world.put(13, parent=1, cpu=500)
    row = world.row()
    assert int(row.values["process_tree_cpu_us"]) // TICK_US - first == 1
    assert row.values["descendant_count"] == 1


def test_one_that_was_there_before_brings_no_past_along(world: World) -> None:
    """As where a subreaper takes in what another has left."""
    first = world.ticks()
    world.put(20, parent=10)
    assert int(world.row(after_s=30.0).values["process_tree_cpu_us"]) // TICK_US == first
    world.put(20, cpu=10_009)
    assert world.ticks() - first == 10


def test_those_that_have_nothing_to_do_with_gpus_are_seldom_read(world: World) -> None:
    """A machine has hundreds; what comes is read, and so are all that a tree has begun with."""
    world.ticks()
    strange = world.proc / "20" / "stat"
    strange.unlink()
    strange.mkdir()
    assert world.row().values["descendant_count"] == 3
    world.put(14, parent=13, start=500, cpu=6)
    world.put(11, cpu=310)
    row = world.row()
    assert row.values["descendant_count"] == 4
    assert row.values["process_tree_cpu_us"] == (1050 + 310 + 400 + 12 + 6) * TICK_US


def test_a_pid_that_a_stranger_had_is_found_within_half_a_minute(world: World) -> None:
    world.ticks()
    world.put(20, parent=12, start=500, cpu=3)
    assert world.row().values["descendant_count"] == 3
    assert world.row(after_s=25.0).values["descendant_count"] == 4


def test_a_pid_that_is_given_anew_is_another_process(world: World) -> None:
    first = world.ticks()
    world.put(11, start=400, cpu=2)
    world.put(10, waited=50 + 300)
    assert world.ticks() - first == 2
    world.put(10, start=500, cpu=7, waited=0)
    world.put(11, parent=1)
    world.put(12, parent=1)
    assert world.ticks() == 7


def test_children_whose_parent_is_younger_are_in_no_ring(world: World) -> None:
    world.put(30, parent=31, start=50)
    world.put(31, parent=30, start=60)
    row = world.row(30)
    assert {row.missing[key] for key in FIELDS} == {"not_sampled"}


def test_a_look_is_taken_every_five_seconds_and_the_time_is_its_own(world: World) -> None:
    world.row()
    world.row()
    world.put(10, cpu=2000)
    between = world.row(after_s=1.0)
    assert between.values["process_tree_cpu_us"] == 1762 * TICK_US
    assert between.read_at == {"process_tree_cpu_us": 10.0}
    later = world.row(after_s=4.0)
    assert later.values["process_tree_cpu_us"] == 2762 * TICK_US
    assert later.read_at == {"process_tree_cpu_us": 15.0}


def test_soon_after_the_first_look_the_trees_are_read_again_for_a_rate(world: World) -> None:
    """Only they: one that began since is found, and counted in full, by the next scan of all."""
    first = world.ticks()
    world.put(11, cpu=380)
    world.end(12)
    world.put(10, waited=50 + 402)
    world.put(14, parent=10, start=900, cpu=7)
    assert world.row(after_s=0.4).read_at == {"process_tree_cpu_us": 5.0}
    second = world.row(after_s=0.4)
    assert int(second.values["process_tree_cpu_us"]) // TICK_US - first == 80 + 2
    assert second.read_at == {"process_tree_cpu_us": pytest.approx(5.8)}
    assert world.row(after_s=1.0).read_at == second.read_at
    third = world.row(after_s=3.2)
    assert int(third.values["process_tree_cpu_us"]) // TICK_US - first == 80 + 2 + 7
    assert third.values["descendant_count"] == 2


def test_a_look_that_somebody_else_took_has_its_own_time(world: World) -> None:
    every = AllProcesses(str(world.proc.parent))
    world.trees = ProcessTrees(every)
    every.snapshot(3.0)
    assert world.row().read_at == {"process_tree_cpu_us": 3.0}


def test_looking_takes_a_five_hundredth_of_a_core_at_most(world: World) -> None:
    world.row()
    world.cost_s = 0.08
    world.row()
    for _ in range(3):
        assert world.row(after_s=9.0).read_at == {"process_tree_cpu_us": 10.0}
    world.cost_s = 0.0
    assert world.row(after_s=13.0).read_at == {"process_tree_cpu_us": 50.0}
    assert world.row(after_s=5.0).read_at == {"process_tree_cpu_us": 55.0}


def test_where_nothing_holds_a_gpu_nothing_is_looked_at(world: World) -> None:
    every = AllProcesses(str(world.proc.parent))
    trees = ProcessTrees(every, cpu_s=lambda: pytest.fail("it scanned"))
    trees.add_to([], 5.0)
    gone = Row("10", 5.0)
    gone.missing["start_time_s"] = "no_process"
    trees.add_to([gone], 5.0)
    assert {gone.missing[key] for key in FIELDS} == {"no_process"}


def test_tiers_that_are_not_wanted_are_not_looked_at(world: World) -> None:
    world.trees = ProcessTrees(AllProcesses(str(world.proc.parent)), scans=False)
    row = world.row()
    assert {row.missing[key] for key in FIELDS} == {"not_sampled"}


def test_one_that_came_after_the_look_waits_for_the_next(world: World) -> None:
    world.row()
    world.put(40, start=900)
    assert {world.row(40, after_s=1.0).missing[key] for key in FIELDS} == {"not_sampled"}
    assert world.row(40, after_s=4.0).values["descendant_count"] == 0


def test_a_look_that_does_not_see_all_tells_nothing_and_ends_no_count(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.ticks()
    with monkeypatch.context() as patched:
        patched.setattr(process_stat, "MAX_PROCESSES", 3)
        row = world.row()
    assert {row.missing[key] for key in FIELDS} == {"not_sampled"}
    assert not set(FIELDS) & set(row.values)
    world.put(11, cpu=310)
    assert world.ticks() - first == 10


def test_a_proc_that_hides_others_is_no_permission(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.proc / "mounts").write_text("proc /proc proc rw,hidepid=2 0 0\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    row = world.row()
    assert {row.missing[key] for key in FIELDS} == {"no_permission"}


def test_one_process_that_may_not_be_read_could_be_below_any(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = files.read_bytes

    def refusing(path: str, most: int) -> bytes:
        if path.endswith("/20/stat"):
            raise PermissionError
        return read(path, most)

    monkeypatch.setattr(files, "read_bytes", refusing)
    row = world.row()
    assert {row.missing[key] for key in FIELDS} == {"no_permission"}


def test_a_kernel_that_tells_no_use_is_not_supported(world: World) -> None:
    line = (world.proc / "13/stat").read_text().rsplit(" ", 2)[0]
    (world.proc / "13/stat").write_text(line)
    row = world.row()
    assert {row.missing[key] for key in FIELDS} == {"not_supported"}
