"""Each signal in each phase of a look: it ends, with the code that says why and no traceback."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from gpumon.cli import main
from tests.worlds.probe import bounded, eventually

PIPE_BYTES = 4096
LONG = "600"
ENDS = [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)]

RAISING = """
import os, runpy, sys

at, number, sys.argv = sys.argv[1], int(sys.argv[2]), ["gpumon", *sys.argv[3:]]

class Raising:
    def find_spec(name, *_):
        if name == at:
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Raising)
runpy.run_module("gpumon", run_name="__main__", alter_sys=True)
"""
"""gpumon to which a signal comes as it begins to import something."""

WHILE_TEXT_IS_EXECUTED = """
import sys

import gpumon.cli
import gpumon.cli.commands.doctor as module

module.doctor = lambda _words: exec("raise KeyboardInterrupt")
sys.argv = ["gpumon", "doctor"]
sys.exit(gpumon.cli.main())
"""
"""gpumon that Ctrl-C reaches while a class is made of text, as dataclasses and named tuples are."""

WITH_A_THREAD = """
import atexit, os, sys, threading, time

import gpumon.cli
import gpumon.cli.commands.doctor as module

class TakenApart:
    def __del__(self, write=os.write):
        write(2, b"taken apart")

def doctor(_words):
    threading.Thread(target=time.sleep, args=(600.0,), daemon=True).start()
    atexit.register(sys.stdout.write, " and the last")
    sys.stdout.write("a line")
    return 3

sys.at_the_end = TakenApart()
module.doctor = doctor
sys.argv = ["gpumon", "doctor"]
sys.exit(gpumon.cli.main())
"""
"""gpumon one of whose threads is still at it as the command ends, for example in an import."""


def started(*words, stdout=subprocess.PIPE):
    command = [sys.executable, "-m", "gpumon", *words]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True)


def ended(code, told):
    """How an end is told: by the exit code, beside what stands on standard error."""
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{told.strip() or 'nothing'}; {how}"


def remembers(process):
    """Whether a picture is in its past, which lies in files that have no name."""
    for link in Path(f"/proc/{process.pid}/fd").glob("*"):
        # Files are opened and closed meanwhile.
        with suppress(FileNotFoundError):
            if "memfd" in str(link.readlink()):
                return True
    return False


def waiting_bytes(reader):
    return struct.unpack("i", fcntl.ioctl(reader, termios.FIONREAD, b"\0" * 4))[0]


@pytest.mark.parametrize("module", ["gpumon.cli", "gpumon.cli.commands.watch"])
@pytest.mark.parametrize(("number", "code"), ENDS)
def test_while_it_starts(module, number, code, said):
    words = [module, str(int(number)), "--json", "--for", "0", "demo:1x1"]
    done = subprocess.run(
        [sys.executable, "-c", RAISING, *words],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout == ""
    assert done.returncode in (code, -number)
    said(ended(done.returncode, done.stderr))


@pytest.mark.parametrize("words", [("--json",), ("--once",)], ids=" ".join)
@pytest.mark.parametrize(("number", "code"), ENDS)
def test_while_it_looks(words, number, code, said):
    with started(*words, "--for", LONG, "demo:1x2") as process, bounded(process, 300.0):
        eventually(lambda: remembers(process), "the look has begun")
        process.send_signal(number)
        out, told = process.communicate()
    assert (process.returncode, told, out) == (code, "", "")
    said(ended(process.returncode, told))


def run_text(tmp_path, text):
    (tmp_path / "program.py").write_text(text)
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "program"],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_while_python_executes_text(tmp_path):
    """Python remembers that, and would end by the signal whatever code it is given later."""
    assert run_text(tmp_path, WHILE_TEXT_IS_EXECUTED) == (130, "", "")


def test_python_is_not_taken_apart_under_a_thread_that_still_runs(tmp_path):
    """Some of such ends are a SIGSEGV."""
    assert run_text(tmp_path, WITH_A_THREAD) == (3, "a line and the last", "")


@pytest.mark.parametrize(("number", "code"), ENDS)
def test_while_it_writes_a_document(number, code, said):
    """Nobody reads, so it is in the middle of it."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with started("--json", "--for", "0", "demo:8x8", stdout=writer) as process:
        os.close(writer)
        with bounded(process, 300.0):
            eventually(lambda: waiting_bytes(reader) >= PIPE_BYTES, "the pipe is full")
            process.send_signal(number)
            told = process.stderr.read()
            process.wait()
    os.close(reader)
    assert (process.returncode, told) == (code, "")
    said(ended(process.returncode, told))


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 0), (signal.SIGHUP, -signal.SIGHUP)],
)
def test_between_two_documents_of_a_stream(number, code, said):
    with started("--watch", "0.2", "demo:1x2") as process, bounded(process, 300.0):
        assert process.stdout.readline().endswith("}\n")
        process.send_signal(number)
        out, told = process.communicate()
    assert (process.returncode, told) == (code, "")
    assert not out or out.endswith("}\n") or number is signal.SIGHUP
    said(ended(process.returncode, told))


def test_what_an_interrupt_brings_about_is_told_as_the_interrupt(monkeypatch, capsys):
    def wait(_words):
        try:
            raise KeyboardInterrupt
        finally:
            # As a second interrupt leaves it, that came while the lock was taken back.
            threading.Lock().release()

    monkeypatch.setattr("gpumon.cli.commands.doctor.doctor", wait)
    assert main(["doctor"]) == 130
    assert capsys.readouterr() == ("", "")
