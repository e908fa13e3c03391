"""The benchmark measures what it says. How much that is, the machine decides."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.bench import oneshot, tree
from tests.bench.attached import Reader
from tests.bench.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

BURN = "import time\nwhile time.process_time() < 0.2: pass\n"


def test_a_command_is_run_as_often_as_asked_and_its_children_count() -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
    costs = oneshot.measure(
        {"idle": [sys.executable, "-c", "pass"], "parent": [sys.executable, "-c", child]},
        runs=2,
        warm_ups=1,
        env=os.environ,
    )
    assert {cost.runs for cost in costs.values()} == {2}
    assert costs["parent"].cpu_s >= 0.2
    assert costs["idle"].peak_rss_mib > 1


def test_a_command_that_fails_is_not_measured() -> None:
    with pytest.raises(oneshot.CommandFailedError, match="broken ended with 3"):
        oneshot.measure({"broken": [sys.executable, "-c", "exit(3)"]}, 1, 0, os.environ)


def test_usage_counts_threads_and_reaped_children() -> None:
    code = (
        "import subprocess, sys, threading\n"
        f"burn = {BURN!r}\n"
        "thread = threading.Thread(target=lambda: exec(burn)); thread.start(); thread.join()\n"
        "subprocess.run([sys.executable, '-c', burn])\n"
        "print(flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        used = tree.usage(process.pid)
        process.communicate()
    assert used is not None
    assert used.cpu_s >= 0.2
    assert used.reaped_s >= 0.19
    assert used.pss_mib <= used.rss_mib


def test_a_process_that_is_gone_has_no_usage() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert tree.usage(process.pid) is None


def test_descendants_include_children_of_children() -> None:
    child = "print(flush=True); input()"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = tree.descendants(process.pid)
        process.communicate(b"\n")
    assert len(found) == 2


def test_set_up_of_the_terminal_is_no_paint() -> None:
    code = (
        "import sys, tty\n"
        "tty.setcbreak(0)\n"
        "sys.stdout.write('\\x1b[?1049h\\x1b[2J\\x1b]0;a long window title\\x07\\x1b[38;5;12m')\n"
        "sys.stdout.flush(); sys.stdin.read(1)\n"
        "sys.stdout.write('\\x1b[1mten letters\\x1b[0m MARKER'); sys.stdout.flush()\n"
        "sys.stdin.read(1)\n"
    )
    with Terminal([sys.executable, "-c", code], dict(os.environ), "MARKER") as terminal:
        terminal.wait_for_paint(0.3)
        before = terminal.paint_s
        terminal.press(b"x")
        terminal.wait_for_paint(20)
    assert before is None
    assert terminal.paint_s is not None
    assert terminal.marker_s is not None
    assert terminal.quit_s is not None


def test_what_a_terminal_draws_is_counted() -> None:
    code = "for _ in range(3): print('x' * 998, flush=True)"
    with Terminal([sys.executable, "-c", code], dict(os.environ), "never") as terminal:
        terminal.wait_for_paint(20)
        drawn = terminal.traffic()
    assert drawn.bytes == 3 * 1000
    assert 1 <= drawn.seconds <= 3


def test_who_only_reads_counts_what_comes_after_the_first_answer(tmp_path: Path) -> None:
    path = tmp_path / "s"
    sizes = [900, 100, 140]
    asked: list[bytes] = []

    def answer() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as stream:
            for number, size in enumerate(sizes):
                asked.append(stream.readline())
                stream.readline()
                beat = json.dumps({"kind": "beat", "at": time.time() - 7.0})
                mark = json.dumps({"kind": "mark", "run": "a", "sequence": number, "at": 0})
                lines = f"{beat}\n{mark}\n"
                body = f"{'x' * (size - len(lines) - 1)}\n{lines}".encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)
            stream.readline()
            stream.readline()

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        reader = Reader(str(path))
        reader.run()
        thread.join()
    assert [b"since=a-1" in line for line in asked] == [False, False, True]
    assert reader.answers == len(sizes)
    assert reader.bytes == sum(sizes[1:])
    assert [seconds >= 7.0 for seconds in reader.late_s] == [True, True]
    assert reader.first is not None
    assert reader.last is not None
    assert reader.last[0] - reader.first[0] == 1
