"""A signal goes to the process that was looked at, or to nobody."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from gpumon.base import held_process
from gpumon.base.held_process import NotSentError, described, send
from tests.worlds.probe import PATIENCE_S

WAITS = "import sys; print(flush=True); sys.stdin.read()"

needs_handles = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="this Python knows no pidfds"
)


@contextmanager
def waiting():
    """A child that waits for the end of its input."""
    words = [sys.executable, "-I", "-S", "-c", WAITS]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            child.stdout.readline()
            yield child
        finally:
            child.kill()


def start_of(child):
    return described(child.pid).start_time_s


def refusing(error):
    def call(*_):
        raise error

    return call


def test_the_kernel_says_who_a_process_is():
    with waiting() as child:
        now = described(child.pid)
        assert now.parent_pid == os.getpid()
        assert now.program.startswith("python")
        assert now.rss_bytes > 0
        assert now.began_at(now.start_time_s)
        assert not now.began_at(now.start_time_s + 1.0)
        assert not now.has_ended
    assert described(child.pid) is None


def test_a_program_s_name_may_hold_brackets_and_blanks(tmp_path):
    (tmp_path / "7").mkdir()
    numbers = " ".join(str(n) for n in range(1, 40))
    (tmp_path / "7" / "stat").write_bytes(b"7 (a) S 1 (b\xff) R " + numbers.encode())
    found = described(7, str(tmp_path))
    assert (found.program, found.state, found.parent_pid) == ("a) S 1 (b�", "R", 1)


@pytest.mark.parametrize("text", [b"", b"7 (a", b"7 (a) R", b"7 (a) R " + b"x " * 40])
def test_what_is_no_stat_file_is_no_process(tmp_path, text):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_bytes(text)
    assert described(7, str(tmp_path)) is None


@needs_handles
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_signal_reaches_the_process_of_that_start(number):
    with waiting() as child:
        assert send(child.pid, start_of(child), number, PATIENCE_S)
        assert child.wait() == -number


@needs_handles
def test_a_process_that_goes_on_is_said_to_be_there():
    with waiting() as child:
        assert send(child.pid, start_of(child), signal.SIGCONT) is False
        assert child.poll() is None


@needs_handles
def test_another_process_with_the_same_number_gets_nothing():
    with waiting() as child:
        with pytest.raises(NotSentError, match="now belongs to another process"):
            send(child.pid, start_of(child) - 1.0, signal.SIGKILL)
        assert child.poll() is None


@needs_handles
def test_one_that_has_ended_is_told_before_and_after_it_is_collected():
    with waiting() as child:
        start = start_of(child)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(NotSentError, match="it has ended"):
            send(child.pid, start, signal.SIGTERM)
        child.wait()
        with pytest.raises(NotSentError, match="it has ended"):
            send(child.pid, start, signal.SIGTERM)


@needs_handles
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(errno.EPERM, "no"), "not permitted"),
        (ProcessLookupError(errno.ESRCH, "gone"), "it has ended"),
        (OSError(errno.EIO, "worn out"), "the kernel says: worn out"),
    ],
)
def test_what_the_kernel_refuses_is_told(monkeypatch, error, words):
    with waiting() as child:
        start = start_of(child)
        monkeypatch.setattr(held_process.signal, "pidfd_send_signal", refusing(error))
        with pytest.raises(NotSentError, match=words):
            send(child.pid, start, signal.SIGTERM)
        assert child.poll() is None


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_without_handles_is_told_with_a_way_out(monkeypatch, number):
    call = refusing(OSError(number, "no"))
    monkeypatch.setattr(held_process.os, "pidfd_open", call, raising=False)
    with pytest.raises(NotSentError, match=r"pidfd.*kill 7"):
        send(7, 1.0, signal.SIGTERM)
    monkeypatch.delattr(held_process.os, "pidfd_open")
    with pytest.raises(NotSentError, match=r"pidfd.*kill 7"):
        send(7, 1.0, signal.SIGTERM)
