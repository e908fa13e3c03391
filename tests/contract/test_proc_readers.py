"""What the probe reads of this machine is what psutil reads of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from gpumon.probe.holders.process_tree import ProcessTrees
from gpumon.probe.holders.processes import Processes
from gpumon.probe.kernel.host import Host
from gpumon.probe.kernel.log import KernelLog
from gpumon.probe.kernel.process_stat import AllProcesses
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.probe.rows import Row

pytestmark = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs Linux's /proc")

needs_sys = pytest.mark.skipif(
    not Path("/sys/class/net").is_dir(), reason="needs /sys, which says what devices are real"
)


@pytest.fixture
def node() -> Row:
    return Host().read(time.monotonic())


def between(reading: Callable[[], float], field: str, slack: float = 0.0) -> None:
    """What grows or wavers is held between two readings of psutil, once it wavers little enough."""

    def is_between() -> bool:
        before, found, after = reading(), Host().read(1.0).values[field], reading()
        low, high = sorted((before, after))
        return low - slack <= found <= high + slack

    eventually(is_between, f"{field} is what psutil reads before or after it")


def test_cpus(node: Row) -> None:
    assert node.values["cpu_count"] == psutil.cpu_count()


def test_memory(node: Row) -> None:
    assert node.values["host_mem_total_bytes"] == psutil.virtual_memory().total
    assert node.values["host_swap_total_bytes"] == psutil.swap_memory().total
    between(lambda: psutil.virtual_memory().available, "host_mem_available_bytes", 1 << 22)
    between(lambda: psutil.swap_memory().free, "host_swap_free_bytes", 1 << 22)


@pytest.mark.parametrize(("place", "field"), [(0, "load_1m"), (1, "load_5m"), (2, "load_15m")])
def test_load(place: int, field: str) -> None:
    between(lambda: psutil.getloadavg()[place], field, 0.01)


def test_boot(node: Row) -> None:
    assert time.time() - node.values["uptime_s"] == pytest.approx(psutil.boot_time(), abs=30)


def test_ticks_of_the_cpus() -> None:
    """psutil counts seconds, and keeps guests within user time as the kernel does."""
    tick = os.sysconf("SC_CLK_TCK")

    def total() -> float:
        times = psutil.cpu_times()
        return round(
            tick
            * sum(
                getattr(times, name)
                for name in (
                    *("user", "nice", "system", "idle"),
                    *("iowait", "irq", "softirq", "steal"),
                )
            )
        )

    between(total, "cpu_total_ticks")
    between(lambda: round(tick * psutil.cpu_times().iowait), "cpu_iowait_ticks")


@needs_sys
@pytest.mark.parametrize(("field", "name"), [("rx", "bytes_recv"), ("tx", "bytes_sent")])
def test_network(field: str, name: str) -> None:
    physical = {
        card.name for card in Path("/sys/class/net").iterdir() if (card / "device").exists()
    }

    def total() -> int:
        counters = psutil.net_io_counters(pernic=True, nowrap=False)
        return sum(getattr(counters[card], name) for card in physical)

    between(total, f"net_{field}_bytes")


@needs_sys
@pytest.mark.parametrize(("field", "name"), [("read", "read_bytes"), ("write", "write_bytes")])
def test_disks(field: str, name: str) -> None:
    physical = {disk.name for disk in Path("/sys/block").iterdir() if (disk / "device").exists()}

    def total() -> int:
        counters = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
        return sum(getattr(counters[disk], name) for disk in physical if disk in counters)

    between(total, f"disk_{field}_bytes")


def test_hanging_processes_are_about_as_many() -> None:
    def both() -> bool:
        host = Host()
        host.read(0.0)
        found = host.read(1.0).values["d_state_process_count"]
        statuses = [process.info["status"] for process in psutil.process_iter(["status"])]
        assert found < len(statuses)
        return abs(found - statuses.count(psutil.STATUS_DISK_SLEEP)) <= 20

    eventually(both, "as many wait for a disk as psutil sees")


def test_this_process_and_its_parents() -> None:
    me = psutil.Process()
    family = [me, *me.parents()]
    rows = {row.key: row for row in Processes().rows([one.pid for one in family], 1.0)}
    assert len(rows) == len(family)
    for one in family:
        row = rows[str(one.pid)]
        assert row.values["parent_pid"] == one.ppid()
        assert row.values["uid"] == one.uids().effective
        started = psutil.boot_time() + row.values["start_time_s"]
        assert started == pytest.approx(one.create_time(), abs=2.0)
        used = sum(one.cpu_times()[:2])
        assert row.values["process_cpu_us"] / 1e6 == pytest.approx(used, abs=2.0)
        assert row.values["process_rss_bytes"] == pytest.approx(one.memory_info().rss, rel=0.2)
        # psutil completes names that the kernel cuts after 15 characters.
        assert one.name().startswith(row.labels["name"])
    mine = rows[str(me.pid)]
    assert "rank_vars" in mine.labels
    assert mine.values["process_io_write_bytes"] <= me.io_counters().write_bytes


PARENT = """
import subprocess, sys, time
busy = "import time; held = bytearray(20 << 20); [0 for _ in range(2_000_000)]; time.sleep(600)"
children = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(2)]
for _ in range(3):
    subprocess.run([sys.executable, "-c", "[0 for _ in range(3_000_000)]"], check=True)
print("ready", flush=True)
sys.stdin.read()
[child.kill() for child in children]
"""


def test_the_tree_of_a_process_is_psutil_s() -> None:
    """Two children that stay, and three that have ended and were waited for."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == b"ready\n"

        def is_the_same() -> bool:
            trees = ProcessTrees(AllProcesses())
            rows = Processes().rows([os.getpid(), parent.pid], 1.0)
            trees.add_to(rows, 1.0)
            whole, part = sorted(rows, key=lambda row: row.key != str(os.getpid()))
            top = psutil.Process(parent.pid)
            family = [top, *top.children(recursive=True)]
            used = sum(sum(one.cpu_times()[:4]) for one in family)
            held = sum(one.memory_info().rss for one in family)
            assert part.values["descendant_count"] == len(family) - 1 == 2
            assert whole.values["descendant_count"] >= 3
            assert whole.values["process_tree_cpu_us"] >= part.values["process_tree_cpu_us"]
            is_used = part.values["process_tree_cpu_us"] / 1e6 == pytest.approx(used, abs=0.1)
            is_held = part.values["process_tree_rss_bytes"] == held
            return bool(is_used and is_held and held > 2 * (20 << 20))

        eventually(is_the_same, "a tree uses what psutil says of its processes")
        parent.communicate(b"")


def test_the_kernel_s_log_is_read_or_says_why_not() -> None:
    log = KernelLog()
    rows = log.rows(time.monotonic(), {})
    assert log.reason in ("", "no_permission", "not_supported", "failed")
    assert not (log.reason and rows)
    for row in rows:
        assert row.values["xid"] > 0
