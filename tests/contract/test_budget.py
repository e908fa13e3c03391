"""How many calls the driver is asked for, per GPU and beat: counted by the stand-in driver."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.worlds.probe import bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

GPUS = 4
HOT = 8
"""Calls per GPU at a beat on which only the hot tier has its turn."""
MEDIUM = 13
"""Calls per GPU that the medium tier adds every 5 s; a board with a fan takes the last one."""
LINKS = 2
"""Calls per GPU with NVLinks that these add every 10 s, once their first rates are known."""
SLOW = 7
"""Calls per GPU that the slow tier adds every 30 s."""
START = 32
"""Calls per GPU that happen once: who it is, limits, what it supports."""
NODE = 1
"""Calls per beat for the whole node: events."""
REMOTES = 2
"""Calls per NVLink that happen once, a few at a beat."""

CHILD = """
import json, sys
from gpumon.probe.driver.driver import Driver
from gpumon.probe.driver.gpu import Wanted
from gpumon.probe.driver.sweep import Sweeper
now = [1000.0]
sweeper = Sweeper(Wanted(**json.loads(sys.argv[1])), Driver(lambda: now[0]))
for line in sys.stdin:
    beats, seconds, zoom, shows_processes = json.loads(line)
    sweeper.zoom = frozenset(zoom)
    sweeper.shows_processes = shows_processes
    for _ in range(beats):
        sweeper.sweep()
        found = sweeper.take()
        now[0] += seconds
    rows = [[row.values, row.labels, row.missing] for row in found.gpus]
    events = [row.key for row in found.events]
    print(json.dumps([rows, sweeper.driver.account(), events, found.errors]), flush=True)
"""

USE = "nvmlDeviceGetProcessUtilization"

Beats = Any


@contextmanager
def sweeping(node: Standin, **wanted: Any) -> Iterator[Beats]:
    """A process that passes over the GPUs beat by beat, on a clock that only it moves."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, json.dumps(wanted)],
        env=node.env(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin
    assert child.stdout
    given, said = child.stdin, child.stdout

    def beats(
        count: int, zoom: tuple[str, ...] = (), seconds: float = 1.0, *, is_seen: bool = True
    ) -> Any:
        given.write(json.dumps([count, seconds, zoom, is_seen]) + "\n")
        given.flush()
        return json.loads(said.readline())

    with child, bounded(child, 300.0):
        yield beats
        given.close()
        child.wait()


def quick(start: Start, profile: str = "h100", gpus: int = GPUS) -> Standin:
    """A node whose samples may lie as close as the process makes its passes."""
    node = start(profile, gpus=gpus)
    node.state.set(gpm_min_interval_ms=0)
    node.state.write()
    return node


def total(node: Standin) -> int:
    return sum(count.total for count in node.counts().values())


@pytest.mark.parametrize("profile", ["h100", "b200", "a100", "rtx", "r470"])
def test_each_tier_keeps_its_budget(profile: str, standin: Start) -> None:
    node = quick(standin, profile)
    links = int(node.state.values.get("gpu.0.nvlink_count", 0))
    with sweeping(node) as beats:
        beats(1)
        first = total(node)
        assert first <= GPUS * (START + HOT + MEDIUM + LINKS + SLOW + REMOTES * links) + 6
        # Links are asked for their other ends a few at a beat, which is over by now.
        beats(9)
        settled = total(node)
        per_beat = []
        for _ in range(50):
            before = total(node)
            beats(1)
            per_beat.append(total(node) - before)
    assert settled - first <= GPUS * (9 * HOT + MEDIUM + LINKS + REMOTES * links) + 9 * NODE
    kinds = sorted(set(per_beat))
    hot, medium, slow = kinds[0], kinds[1], kinds[-1]
    assert hot <= GPUS * HOT + NODE
    assert medium <= hot + GPUS * MEDIUM
    assert kinds[-2] <= medium + GPUS * LINKS
    assert slow <= kinds[-2] + GPUS * SLOW
    # Every 5 s and every 30 s: at beats 10 to 59 that is ten times, and once. Links are read at 15,
    # 25, ..., 55.
    counted = [per_beat.count(calls) for calls in kinds]
    assert counted == ([40, 4, 5, 1] if links else [40, 9, 1])


def test_a_whole_minute_costs_few_calls_a_second(standin: Start) -> None:
    node = quick(standin)
    with sweeping(node) as beats:
        beats(10)
        before = total(node)
        beats(60)
        per_gpu_and_second = (total(node) - before) / 60 / GPUS
    assert per_gpu_and_second <= HOT + MEDIUM / 5 + LINKS / 10 + SLOW / 30 + NODE / GPUS


def test_how_busy_processes_are_is_asked_only_while_they_are_on_screen(standin: Start) -> None:
    node = quick(standin)
    for index in range(GPUS):
        node.state.process(index, 1000 + index, 1 << 30)
    node.state.write()
    with sweeping(node) as beats:
        beats(30)
        seen = node.counts()[USE].total
        beats(30, is_seen=False)
        unseen = node.counts()[USE].total - seen
        beats(2)
        again = node.counts()[USE].total - seen - unseen
    assert seen >= GPUS * 6
    assert (unseen, again) == (0, 2 * GPUS)


def test_a_tier_that_is_off_is_never_read_and_says_so(standin: Start) -> None:
    node = quick(standin)
    with sweeping(node, tiers=["hot"]) as beats:
        rows, *_ = beats(40)
    calls = node.counts()
    for function in ("nvmlDeviceGetPerformanceState", "nvmlDeviceGetComputeMode"):
        assert function not in calls
    assert "nvmlDeviceGetComputeRunningProcesses_v3" not in calls
    values, _, missing = rows[0]
    assert "temp_c" in values
    for key in ("perf_state", "compute_mode", "process_count", "ecc_mode"):
        assert missing[key] == "not_shared"


def test_gpm_that_is_off_is_never_called(standin: Start) -> None:
    node = quick(standin)
    with sweeping(node, gpm=False) as beats:
        rows, *_ = beats(3)
    assert not [name for name in node.counts() if name.startswith("nvmlGpm")]
    assert rows[0][2]["sm_active_ratio"] == "not_shared"
    assert rows[0][0]["gpu_util_ratio"] == 0


def test_the_call_of_20_ms_is_for_zoom_only_one_gpu_a_beat(standin: Start) -> None:
    node = quick(standin, "rtx")
    uuids = [node.state.values[f"gpu.{index}.uuid"] for index in range(GPUS)]
    for index in range(GPUS):
        node.state.gpu(index, pcie_tx_bytes_per_s=(index + 1) << 20)
    node.state.write()
    call = "nvmlDeviceGetPcieThroughput"
    with sweeping(node) as beats:
        rows, *_ = beats(5)
        assert call not in node.counts()
        assert rows[1][2]["pcie_tx_bytes_per_s"] == "not_shared"
        rows, *_ = beats(4, (uuids[1], uuids[3]))
        # Two directions, one GPU a beat.
        assert node.counts()[call].total == 2 * 4
        assert [row[0].get("pcie_tx_bytes_per_s") for row in rows] == [None, 2 << 20, None, 4 << 20]
        rows, *_ = beats(1)
        assert node.counts()[call].total == 2 * 4
        assert "pcie_tx_bytes_per_s" not in rows[1][0]


@pytest.mark.parametrize("profile", ["h100", "a100"])
def test_the_call_of_20_ms_is_never_made_where_counters_answer(
    profile: str, standin: Start
) -> None:
    node = quick(standin, profile)
    uuids = tuple(node.state.values[f"gpu.{index}.uuid"] for index in range(GPUS))
    with sweeping(node) as beats:
        beats(6, uuids)
    assert "nvmlDeviceGetPcieThroughput" not in node.counts()


def test_the_report_accounts_for_its_calls(standin: Start) -> None:
    node = quick(standin)
    with sweeping(node) as beats:
        _, account, _, _ = beats(12)
    counted = node.counts()
    assert account["by"]["nvmlDeviceGetTemperature"] == counted["nvmlDeviceGetTemperature"].total
    assert account["total"] == sum(account["by"].values())
    assert set(account["slowest"]) == {"call", "gpu", "ms"}


def test_processes_are_listed_anew_when_memory_in_use_changes(standin: Start) -> None:
    node = quick(standin, gpus=1)
    call = "nvmlDeviceGetComputeRunningProcesses_v3"
    with sweeping(node) as beats:
        beats(2)
        before = node.counts()[call].total
        node.state.gpu(0, mem_used_bytes=1 << 30)
        node.state.process(0, 4194303, 1 << 30)
        node.state.write()
        rows, *_ = beats(1)
        assert rows[0][0]["process_count"] == 1
        assert node.counts()[call].total > before
        before = node.counts()[call].total
        beats(1)
        assert node.counts()[call].total == before


def test_instances_come_and_go(standin: Start) -> None:
    node = quick(standin, "mig", gpus=1)
    with sweeping(node) as beats:
        beats(6)
        assert node.counts()["nvmlGpmMigSampleGet"].total == 2 * 2
        found = node.counts()["nvmlDeviceGetMigDeviceHandleByIndex"].total
        beats(20)
        assert node.counts()["nvmlDeviceGetMigDeviceHandleByIndex"].total == found
        beats(10)
        assert node.counts()["nvmlDeviceGetMigDeviceHandleByIndex"].total == 2 * found
