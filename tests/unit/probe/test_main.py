"""The probe's life: hello, period, wishes, and its end by lease, closed input or a dead parent."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpumon.probe.main import LEASE_S, OFTEN, Wishes
from gpumon.sources.probes.program import LOCAL_START, local_program
from tests.worlds.probe import PATIENCE_S, Probe, children, eventually, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]


class Time:
    """Seconds that pass only while a thread sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.on_sleep: Callable[[], object] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()


def wishes(text: bytes, time: Time | None = None) -> Wishes:
    time = time or Time()
    return Wishes(io.BytesIO(text), 1.0, time.monotonic, time.sleep)


def test_the_lease_is_thirty_seconds() -> None:
    assert LEASE_S == 30.0


def test_the_lease_runs_out_when_nothing_is_heard() -> None:
    time = Time()
    wishes(b"", time).watch()
    assert time.now == 1000.0 + LEASE_S


@pytest.mark.parametrize("line", [b"period 2\n", b"zoom 3\n", b"\n", b"\xff\xfe\n"])
def test_any_line_renews_the_lease(line: bytes) -> None:
    time = Time()
    heard = wishes(line, time)
    slept: list[float] = []

    def speak_once() -> None:
        slept.append(time.now)
        if len(slept) == 1:
            # In the middle of its sleep.
            time.now = 1020.0
            heard.listen()
            time.now = 1030.0

    time.on_sleep = speak_once
    heard.watch()
    # It slept through, and then for what was left: no second in which nothing is due wakes it.
    assert slept == [1000.0 + LEASE_S, 1020.0 + LEASE_S]
    assert time.now == 1020.0 + LEASE_S


@pytest.mark.parametrize(
    ("text", "period_s", "changed"),
    [
        (b"period 0.5\n", 0.5, True),
        (b"period 1.0\n", 1.0, False),
        (b"period 0\n", 0.1, True),
        (b"period -3\n", 0.1, True),
        (b"period inf\n", 1.0, False),
        (b"period 1e999\n", 1.0, False),
        (b"period nan\n", 1.0, False),
        (b"period 1e300\n", 86400.0, True),
        (b"period x\n", 1.0, False),
        (b"period\n", 1.0, False),
        (b"period 2 3\n", 1.0, False),
        (b"zoom 2\nperiod 3", 3.0, True),
        (b"x" * 10_000 + b"\nperiod 4\n", 4.0, True),
    ],
)
def test_wishes(text: bytes, period_s: float, changed: bool) -> None:
    heard = wishes(text)
    heard.listen()
    assert (heard.period_s, heard.changed.is_set()) == (period_s, changed)


@pytest.mark.parametrize(
    ("text", "zoom"),
    [
        (b"zoom GPU-1,GPU-2\n", {"GPU-1", "GPU-2"}),
        (b"zoom GPU-1\nzoom GPU-3\n", {"GPU-3"}),
        (b"zoom GPU-1\nzoom off\n", set()),
        (b"zoom GPU-1\nzoom\n", {"GPU-1"}),
        (b"zoom GPU-1\nperiod 2\n", {"GPU-1"}),
    ],
)
def test_a_wish_for_zoom_names_the_gpus(text: bytes, zoom: set[str]) -> None:
    heard = wishes(text)
    heard.listen()
    assert heard.zoom == zoom


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"", True),
        (b"processes unseen\n", False),
        (b"processes unseen\nperiod 2\nprocesses\nprocesses 3\n", False),
        (b"processes unseen\nprocesses seen\n", True),
    ],
)
def test_a_wish_tells_whether_processes_are_on_screen(text: bytes, shown: bool) -> None:
    heard = Wishes(io.BytesIO(text), 1.0)
    heard.listen()
    assert heard.shows_processes is shown


def start(**options: object) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        LOCAL_START, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin
    options = {"nonce": "abc", "period_s": 0.12, "once": False, **options}
    child.stdin.write(local_program(options))
    child.stdin.flush()
    return child


def hello(child: subprocess.Popen[bytes]) -> dict[str, object]:
    assert child.stdout
    for line in child.stdout:
        if line.strip():
            return dict(json.loads(line))
    raise AssertionError("no hello")


def finish(child: subprocess.Popen[bytes]) -> bytes:
    """What it still prints, and its exit status is collected."""
    out, _ = child.communicate(timeout=PATIENCE_S)
    return out


def test_the_hello_names_protocol_nonce_and_process(standin: Start) -> None:
    standin("h100", gpus=1)
    child = start()
    try:
        first_line = hello(child)
        assert first_line["gpumon_probe"] == 1
        assert first_line["nonce"] == "abc"
        assert first_line["pid"] == child.pid
    finally:
        finish(child)


def test_closing_its_input_ends_it_at_once(standin: Start) -> None:
    standin("h100", gpus=1)
    child = start()
    hello(child)
    finish(child)
    assert child.returncode == 0


@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetTemperature"])
def test_closing_its_input_ends_it_within_a_hung_call(standin: Start, function: str) -> None:
    node = standin("h100", gpus=1)
    node.state.hang(function)
    node.state.write()
    child = start()
    hello(child)
    eventually(lambda: function in node.counts(), f"{function} is called")
    finish(child)
    assert child.returncode == 0


def test_a_monitor_that_stops_reading_and_goes_leaves_no_probe(standin: Start) -> None:
    standin("h100", gpus=8)
    child = start()
    hello(child)
    for pipe in (child.stdin, child.stdout, child.stderr):
        assert pipe
        pipe.close()
    assert child.wait(timeout=PATIENCE_S) == 0


PARENT = """
import os, select
from tests.worlds.probe import Probe
probe = Probe()
probe.frame()
print(probe.pid, flush=True)
select.select([], [], [])
"""


def test_a_killed_monitor_leaves_no_probe(standin: Start) -> None:
    standin("h100", gpus=1)
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    try:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        eventually(lambda: not is_alive(pid), "the probe has ended")
    finally:
        parent.kill()
        parent.communicate()


def test_a_wish_changes_the_beat(standin: Start) -> None:
    standin("h100", gpus=1)
    with Probe(period_s=3600.0) as probe:
        probe.frame()
        probe.stream.send("period 0.1")
        for _ in range(3):
            probe.frame()


def test_a_report_has_only_changes_where_they_are_asked_for(standin: Start) -> None:
    standin("h100", gpus=1)
    child = start(only_changes=True)
    try:
        hello(child)
        assert child.stdout
        reports = (json.loads(line)["blocks"] for line in child.stdout)
        first = next(reports)
        # What is missing at first comes with the second one, which is whole for that.
        later = next(found for found in reports if not any("keys" in found[n] for n in OFTEN))
    finally:
        finish(child)
    assert all("keys" in first[name] for name in OFTEN)
    assert "power_limit_default_w" in first["gpu"]["columns"]
    assert "power_limit_default_w" not in later["gpu"]["columns"]


@pytest.mark.parametrize("options", [{}, {"only_changes": True, "shared_output": True}])
def test_every_report_is_whole_else(standin: Start, options: dict[str, object]) -> None:
    standin("h100", gpus=1)
    child = start(**options)
    try:
        assert child.stdout
        heads = []
        for line in child.stdout:
            # Where others write there too a line is one of some pieces, each with its own head.
            heads += [keys for _, keys in re.findall(rb'("gpu":\{)("keys")?', line)]
            if len(heads) == 4:
                break
    finally:
        finish(child)
    assert heads == [b'"keys"'] * 4


def test_a_single_report_ends_the_probe(standin: Start) -> None:
    standin("h100", gpus=1)
    with Probe(once=True) as probe:
        assert probe.frame().block("gpu").keys
        probe.until_end()
    assert not is_alive(probe.pid)
    assert probe.pid not in children()


def test_no_shell_or_helper_is_left_between_the_monitor_and_the_probe(standin: Start) -> None:
    """The start command replaces itself, so that what is killed is the probe."""
    standin("h100", gpus=1)
    with Probe() as probe:
        probe.frame()
        assert children(probe.pid) == set()
        assert os.getsid(probe.pid) == probe.pid
