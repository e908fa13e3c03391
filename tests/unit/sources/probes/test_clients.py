"""How many ssh clients may run at once, by what a machine has, and who gets how many."""

from __future__ import annotations

import resource
import threading
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.probes import clients
from gpumon.sources.probes.clients import (
    BUSY_LOOK_S,
    FEW,
    FILES_RESERVED,
    MOST,
    OWN_BYTES,
    Bound,
    Clients,
    Limits,
    Ticks,
    bound,
    of_this_machine,
    read_limits,
    read_ticks,
)

if TYPE_CHECKING:
    from pathlib import Path

GIB = 2**30


def test_a_thousand_nodes_are_read_at_once_on_16_gib() -> None:
    usual = Limits(memory_bytes=16 * GIB, files=524_288, processes=60_000)
    assert 1000 <= bound(usual).clients <= MOST


@pytest.mark.parametrize(
    ("limits", "clients_at_once", "because"),
    [
        (Limits(), MOST, "at most 2,000 ssh clients"),
        (Limits(64 * GIB, 524_288, 100_000), MOST, "at most 2,000 ssh clients"),
        (Limits(4 * GIB, 524_288, None), 4 * GIB // 8 // OWN_BYTES, "the 4.0 GiB of memory here"),
        (Limits(None, 4096, None), (4096 - FILES_RESERVED) // 3, "3 of the 4,096 files"),
        (Limits(None, None, 300), 150, "half of the 300 processes"),
        (Limits(64 * GIB, 200, 300), 1, "3 of the 200 files"),
    ],
)
def test_the_tightest_limit_is_the_bound_and_is_named(
    limits: Limits, clients_at_once: int, because: str
) -> None:
    found = bound(limits)
    assert (found.clients, because in found.because) == (clients_at_once, True)


def test_pools_share_what_there_is_by_their_size() -> None:
    shared = Clients(Limits(processes=400))
    assert shared.share(1, 150) == 150
    assert [shared.share(2, 450), shared.share(1, 150)] == [150, 50]
    assert shared.share(2, 0) == 0
    assert shared.share(1, 150) == 150


def test_a_small_pool_beside_a_huge_one_runs_all_the_same() -> None:
    shared = Clients(Limits(processes=100))
    shared.share(1, 5000)
    assert shared.share(2, 1) == 1


def test_few_clients_read_no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Limits:
        raise AssertionError("nobody has to know")

    monkeypatch.setattr(clients, "read_limits", fails)
    assert Clients().share(1, FEW) == FEW


def test_limits_of_memory_and_processes_are_those_of_the_groups_above_too(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal:       16777216 kB\nMemFree: 1 kB\n")
    (proc / "self/cgroup").write_text("3:memory:/user/me\n0::/user.slice/me.slice/shell.scope\n")
    shell = groups / "user.slice/me.slice/shell.scope"
    shell.mkdir(parents=True)
    (groups / "memory/user/me").mkdir(parents=True)
    assert read_limits(proc, groups).memory_bytes == 16 * GIB
    (shell / "memory.max").write_text("max\n")
    (shell.parent / "memory.max").write_text(f"{6 * GIB}\n")
    (shell.parent.parent / "pids.max").write_text("777\n")
    found = read_limits(proc, groups)
    assert (found.memory_bytes, found.processes) == (6 * GIB, 777)
    (groups / "memory/user/memory.limit_in_bytes").write_text(f"{2 * GIB}\n")
    assert read_limits(proc, groups).memory_bytes == 2 * GIB


def test_a_machine_that_tells_nothing_has_no_known_limit_of_memory(tmp_path: Path) -> None:
    assert read_limits(tmp_path, tmp_path).memory_bytes is None


def test_the_limit_of_open_files_is_raised_as_far_as_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, pair: made.append(pair))
    monkeypatch.setattr(clients, "read_limits", lambda: Limits(None, 4096, None))
    shared = Clients()
    shared.share(1, 40)
    assert made == []
    shared.share(1, 600)
    assert made == [(FILES_RESERVED + 3 * 600, 4096)]
    shared.share(1, 5000)
    assert made[-1] == (FILES_RESERVED + 3 * shared.bound.clients, 4096)
    assert made[-1][0] <= 4096


def test_threads_share_one_bound_of_this_process() -> None:
    found: list[Clients] = []
    threads = [threading.Thread(target=lambda: found.append(of_this_machine())) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found[0].bound == found[1].bound
    assert isinstance(found[0].bound, Bound)


def test_ticks_are_those_of_all_cpus_without_what_guests_took_twice(tmp_path: Path) -> None:
    lines = "cpu  70 5 20 800 40 3 2 10 60 5\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 7\n"
    (tmp_path / "stat").write_text(lines)
    assert read_ticks(tmp_path) == Ticks(idle=840, total=950)


@pytest.mark.parametrize("text", ["", "cpu\n", "cpu 1 2 3\n", "cpu a b c d e\n", None])
def test_a_kernel_that_says_no_ticks_has_none(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "stat").write_text(text)
    assert read_ticks(tmp_path) is None


def test_this_machine_says_its_ticks() -> None:
    found = read_ticks()
    assert found is not None
    assert 0 <= found.idle <= found.total > 0


def test_a_machine_is_busy_whose_cpus_were_hardly_idle_since_the_last_look() -> None:
    said = iter([Ticks(500, 9000), Ticks(503, 9100), Ticks(543, 9200), Ticks(543, 9200), None])
    machine = Clients(ticks=lambda: next(said))
    found = [machine.is_busy(70.0 + look * BUSY_LOOK_S) for look in range(5)]
    assert found == [False, True, False, False, False]


def test_ticks_are_not_read_again_at_once() -> None:
    reads: list[None] = []

    def ticks() -> Ticks:
        reads.append(None)
        return Ticks(0, 100 * len(reads))

    machine = Clients(ticks=ticks)
    machine.is_busy(3.0)
    assert machine.is_busy(3.0 + BUSY_LOOK_S)
    assert machine.is_busy(3.0 + 1.9 * BUSY_LOOK_S)
    assert len(reads) == 2


def test_more_cpus_log_more_clients_in_at_once() -> None:
    assert Clients(cpus=16).first_starts == pytest.approx(8 * Clients(cpus=2).first_starts, abs=8)
    assert Clients(cpus=1).first_starts >= 4
