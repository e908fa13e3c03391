"""What gpumon costs, measured on real processes with an injected clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpumon.base.footprint import CHILDREN_EVERY_S, FootprintMeter, _meters, footprint, reap
from tests.worlds.probe import bounded, children, eventually, is_alive


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


@pytest.fixture
def child():
    with subprocess.Popen(["sleep", "600"]) as process, bounded(process):
        eventually(lambda: name_of(process.pid) == "sleep", "it runs")
        yield process


def name_of(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


def cpu_s():
    return sum(os.times()[:2])


def rss_of(pid):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_the_first_answer_has_no_rate_and_the_next_one_does():
    clock = Clock()
    meter = FootprintMeter(monotonic=clock)
    first = meter.footprint()
    assert first.cpu_ratio is None
    assert first.rss_bytes >= 5e6
    clock.time += 0.5
    assert meter.footprint() is first
    clock.time += 0.6
    second = meter.footprint()
    assert second is not first
    assert second.cpu_ratio is not None
    assert second.cpu_ratio >= 0


def test_work_that_was_done_is_counted_over_the_time_between(monkeypatch):
    clock = Clock()
    meter = FootprintMeter(monotonic=clock)
    # What other tests have left running here works, too.
    monkeypatch.setattr(meter, "_find_children", list)
    used_s = [cpu_s()]
    meter.footprint()
    used_s.append(cpu_s())
    while cpu_s() - used_s[1] < 0.2:
        sum(range(10000))
    used_s.append(cpu_s())
    clock.time += 2.0
    found_s = (meter.footprint().cpu_ratio or 0.0) * 2.0
    used_s.append(cpu_s())
    # Looking costs time, too, and the kernel counts in hundredths of a second.
    least_s, most_s = used_s[2] - used_s[1], used_s[3] - used_s[0]
    assert least_s - 0.05 <= found_s <= most_s + 0.05


def test_children_count_with_their_memory_and_by_name(child):
    meter = FootprintMeter(monotonic=Clock())
    found = meter.footprint()
    assert found.children.count("sleep") >= 1
    assert found.rss_bytes >= rss_of(os.getpid()) / 2 + rss_of(child.pid)
    assert len(found.children) >= len(children())


def test_a_child_that_ended_is_dropped(child):
    clock = Clock()
    meter = FootprintMeter(child.pid, clock)
    assert meter.footprint().children == ()
    script = "import subprocess; subprocess.run(['sleep', '600'])"
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        eventually(lambda: len(children(parent.pid)) == 1, "it has a child")
        (grandchild,) = children(parent.pid)
        eventually(lambda: name_of(grandchild) == "sleep", "it runs")
        own = FootprintMeter(parent.pid, clock)
        assert own.footprint().children == ("sleep",)
        os.kill(grandchild, 9)
        parent.wait()
        clock.time += 1.0
        gone = own.footprint()
        assert gone.children == ()
        assert gone.cpu_ratio is not None
        assert gone.cpu_ratio >= 0


def test_a_new_child_is_found_in_time():
    clock = Clock()
    script = "sleep 600 & read go; sleep 601 & read go"
    command = ["sh", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as shell:
        try:
            eventually(lambda: len(children(shell.pid)) == 1, "it has a child")
            meter = FootprintMeter(shell.pid, clock)
            assert len(meter.footprint().children) == 1
            shell.stdin.write(b"go\n")
            shell.stdin.flush()
            eventually(lambda: len(children(shell.pid)) == 2, "it has another")
            clock.time += 1.0
            assert len(meter.footprint().children) == 1
            clock.time += CHILDREN_EVERY_S
            assert len(meter.footprint().children) == 2
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def test_everybody_asks_one_meter(monkeypatch):
    monkeypatch.setitem(_meters, "own", FootprintMeter(monotonic=Clock()))
    assert footprint() is footprint()


def test_measuring_imports_nothing_that_only_the_end_needs():
    program = (
        "import sys; from gpumon.base.footprint import FootprintMeter; "
        "FootprintMeter().footprint(); sys.exit('psutil' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_the_kernel_s_lists_children_are_found_among_all_processes(child, monkeypatch):
    def refused(_pid):
        raise FileNotFoundError

    monkeypatch.setattr("gpumon.base.footprint._below", refused)
    assert "sleep" in FootprintMeter(monotonic=Clock()).footprint().children


@pytest.fixture
def parent():
    """Starts a process that starts a program, waits for nothing, and is ended with the test."""
    started = []

    def start(*words):
        program = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(60)"
        started.append(subprocess.Popen([sys.executable, "-c", program, *map(str, words)]))
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("before", ["", "trap '' TERM;"], ids=["ends-when-asked", "does-not-hear"])
def test_what_a_process_left_behind_is_ended(tmp_path, parent, before):
    pid = parent("sh", "-c", f"{before} sleep 60 & echo > {tmp_path}/up; wait")
    eventually((tmp_path / "up").exists, "the script runs")
    (shell,) = children(pid)
    (sleeper,) = children(shell)
    reap(pid, limit_s=0.2)
    # Their own parent does not collect them, so their names may stay.
    eventually(lambda: not is_alive(shell) and not is_alive(sleeper), "both have ended")
    assert reap(pid) == ()


def test_a_program_that_has_to_end_others_first_is_asked_and_not_killed(tmp_path, parent):
    link = tmp_path / "srun"
    link.write_text(
        "#!/bin/sh\ntrap 'echo > $1.asked' TERM\necho > $1\nwhile :; do sleep 0.01; done\n"
    )
    link.chmod(0o755)
    pid = parent(link, tmp_path / "up")
    eventually((tmp_path / "up").exists, "it runs")
    (srun,) = children(pid)
    try:
        assert "srun" in reap(pid)
        assert is_alive(srun)
        eventually((tmp_path / "up.asked").exists, "it was asked")
    finally:
        os.kill(srun, signal.SIGKILL)


def test_a_program_that_asked_for_its_footprint_leaves_no_child():
    program = (
        "import subprocess; from gpumon.base.footprint import footprint; footprint(); "
        "devnull = subprocess.DEVNULL; "
        "print(subprocess.Popen(['sleep', '60'], stdout=devnull, stderr=devnull).pid)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    eventually(lambda: not is_alive(int(done.stdout)), "it has ended")
