"""Every way out of a real terminal leaves it as it was, and says no more than it must."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from gpumon.tui import terminal
from gpumon.tui.terminal import write_crash_log
from tests.worlds.probe import PATIENCE_S, eventually

SCENE = Path(__file__).with_name("scene.py")
SHELL = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = subprocess.Popen(sys.argv[1:], process_group=0)
os.tcsetpgrp(0, child.pid)
_, status = os.waitpid(child.pid, os.WUNTRACED)
os.tcsetpgrp(0, os.getpgrp())
print("[1]+ Stopped" if os.WIFSTOPPED(status) else status, flush=True)
sys.stdin.readline()
os.tcsetpgrp(0, child.pid)
os.killpg(child.pid, signal.SIGCONT)
_, status = os.waitpid(child.pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""What a shell does for a program that stops: it takes the terminal, and at `fg` gives it back."""


MODES = (
    *((b"\x1b[?%dh" % mode, b"\x1b[?%dl" % mode) for mode in (1049, 1000, 1003, 1006, 2004, 1004)),
    (b"\x1b[?25l", b"\x1b[?25h"),
    (b"\x1b[?7l", b"\x1b[?7h"),
    (b"\x1b[>", b"\x1b[<u"),
)
"""Screen, mouse, paste, focus, cursor, wrap and keyboard: how each is taken and given back."""

REDRAW = b"\x0c"
"""Ctrl-L: what did not change goes over the wire again."""


class Session:
    """The application on a pseudo-terminal of 80 x 24."""

    def __init__(self, mode, state, before=(), *, is_controlling=False, words=None, path=""):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        env = {**os.environ, "XDG_STATE_HOME": str(state), "TERM": "xterm-256color"}
        env["PATH"] = f"{path}:{env['PATH']}"
        self.process = subprocess.Popen(
            words or [*before, sys.executable, str(SCENE), mode],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env=env,
            start_new_session=True,
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if is_controlling else None,
        )

    def read_until(self, text):
        """Read what is drawn until this text has come."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.output:
            left_s = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self.master], [], [], left_s)
            assert ready, (text, self.output[-500:])
            self.output += os.read(self.master, 65536)

    def read_again(self, text):
        """Read until this text has come once more."""
        self.output = b""
        self.read_until(text)

    def skip(self):
        """Forget what has come so far: it says nothing of a key that is yet to be pressed."""
        while select.select([self.master], [], [], 0.0)[0]:
            os.read(self.master, 65536)

    def stop(self, number):
        """Send a signal, and return once the process is stopped."""
        self.process.send_signal(number)
        self.await_stop()

    def await_stop(self):
        """Return once the process is stopped."""
        stopped = os.WSTOPPED | os.WNOWAIT | os.WNOHANG
        eventually(lambda: os.waitid(os.P_PID, self.process.pid, stopped), "it is stopped")

    def hang_up(self):
        """Take the terminal away."""
        os.close(self.slave)
        os.close(self.master)

    def end(self):
        """Exit code, once everything that was written has been read."""
        os.set_blocking(self.master, False)
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.output[-500:]
            self._drain()
        # A terminal hands over some KB at a time.
        while self._drain():
            pass
        self.after = termios.tcgetattr(self.slave)
        os.close(self.slave)
        os.close(self.master)
        return self.process.returncode

    def _drain(self):
        """Whether anything has come."""
        try:
            self.output += os.read(self.master, 65536)
        except BlockingIOError:
            os.sched_yield()
            return False
        return True

    @property
    def last_words(self):
        """What was written after the application left its own screen."""
        return self.output.rpartition(b"\x1b[?1049l")[2].decode()

    def waiting_bytes(self):
        """How much was written that was not read yet."""
        return struct.unpack("i", fcntl.ioctl(self.master, termios.FIONREAD, b"\0" * 4))[0]

    def assert_restored(self):
        """Modes, screen, mouse and cursor are as before."""
        assert self.after == self.before
        self.assert_restored_modes()

    def assert_restored_modes(self):
        """What was taken of the terminal by escapes was given back, and no traceback written."""
        for begun, left in MODES:
            assert self.output.rfind(begun) < self.output.rfind(left), left
        # As bytes: what was read before may have ended within a character.
        assert b"Traceback" not in self.output


@pytest.mark.parametrize(
    ("action", "code"),
    [(b"q", 0), (b"\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
)
def test_quit_and_signals(tmp_path, action, code, said):
    session = Session("well", tmp_path)
    session.read_until(b"4711")
    if isinstance(action, bytes):
        os.write(session.master, action)
    else:
        session.process.send_signal(action)
    assert session.end() == code
    session.assert_restored()
    words = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", session.last_words).strip()
    said(f"{words or 'nothing'}; exit code {code}, the terminal as before")


def test_a_feed_that_hangs_does_not_hold_the_user_back(tmp_path):
    session = Session("hang", tmp_path)
    session.read_until(b"4711")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()


def test_a_file_that_is_written_for_ever_does_not_hold_the_user_back(tmp_path):
    session = Session("hung export", tmp_path)
    session.read_until(b"4711")
    os.write(session.master, b"E")
    session.read_until(b"gpumon-jobs")
    os.write(session.master, b"\x15")
    session.read_until(b"file to write")
    os.write(session.master, b"%s/jobs.csv\r" % bytes(tmp_path))
    eventually((tmp_path / "jobs.csv.begun").exists, "the file is written")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()


def test_a_feed_that_cannot_close_is_told_in_one_line(tmp_path, said):
    session = Session("no close", tmp_path)
    session.read_until(b"4711")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()
    assert "gpumon: closing failed: OSError: cannot close" in session.last_words
    said(session.last_words.strip())


def test_a_feed_that_ends_for_good_ends_the_terminal_with_one_line(tmp_path):
    session = Session("fail", tmp_path)
    assert session.end() == 1
    session.assert_restored()
    assert session.last_words.endswith("gpumon: gpumon itself failed sampling: X (report)\r\n")
    assert session.last_words.count("\n") == 1


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("crash", "AttributeError"), ("no start", "ValueError"), ("no paint", "IndexError")],
)
def test_a_crash_is_one_line_and_a_private_log(tmp_path, mode, kind, said):
    session = Session(mode, tmp_path)
    assert session.end() == 1
    session.assert_restored()
    log = tmp_path / "gpumon" / "crash.log"
    assert f"gpumon: the terminal failed: {kind}" in session.last_words
    assert str(log) in session.last_words.replace("\r\n", "")
    assert session.last_words.count("\n") == 1
    said(session.last_words.strip().replace(str(tmp_path), ""))
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "Traceback" in log.read_text()


def test_the_end_of_the_samplers_thread_ends_the_terminal_with_one_line(tmp_path, said):
    session = Session("sampler", tmp_path)
    assert session.end() == 1
    session.assert_restored()
    assert "gpumon itself failed sampling: RuntimeError: broken" in session.last_words
    assert session.last_words.count("\n") == 1
    said(session.last_words.strip())


def test_the_end_of_the_detection_worker_is_not_the_terminals(tmp_path):
    session = Session("worker", tmp_path)
    session.read_until(b"JOBID")
    workers = []
    while not workers:
        os.write(session.master, REDRAW)
        session.read_again(b"every")
        workers = psutil.Process(session.process.pid).children()
    workers[0].kill()
    os.write(session.master, REDRAW)
    session.read_again(b"every")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()


@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP])
def test_a_stopped_process_goes_on_with_a_whole_screen(tmp_path, number):
    session = Session("well", tmp_path)
    session.read_until(b"4711")
    session.stop(number)
    if number == signal.SIGTSTP:
        assert termios.tcgetattr(session.slave) == session.before
    session.process.send_signal(signal.SIGCONT)
    session.read_again(b"4711")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()


def test_told_to_stop_in_the_middle_of_a_write_it_stops_and_goes_on(tmp_path):
    session = Session("stop in a write", tmp_path)
    session.read_until(b"4711")
    session.await_stop()
    assert termios.tcgetattr(session.slave) == session.before
    session.process.send_signal(signal.SIGCONT)
    session.read_again(b"4711")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()


def test_ctrl_z_gives_the_terminal_to_the_shell_until_fg(tmp_path):
    shell = (sys.executable, "-c", SHELL)
    session = Session("well", tmp_path, shell, is_controlling=True)
    session.read_until(b"4711")
    os.write(session.master, b"\x1a")
    session.read_until(b"[1]+ Stopped")
    assert termios.tcgetattr(session.slave) == session.before
    session.assert_restored_modes()
    os.write(session.master, b"fg\n")
    session.read_again(b"4711")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()


def while_ssh_connects(folder, before=()):
    """A session whose terminal an `ssh` has that waits for an answer, and the file with its PID."""
    ssh, pid = folder / "ssh", folder / "ssh.pid"
    ssh.write_text(f"#!/bin/sh\necho $$ >{pid}\necho connecting\nread answer\necho heard $answer\n")
    ssh.chmod(0o755)
    session = Session("well", folder, before, is_controlling=True, path=folder)
    session.read_until(b"4711")
    os.write(session.master, b"\r")
    session.read_until(b"rank")
    os.write(session.master, b"!")
    session.read_until(b"connecting")
    return session, pid


def test_ctrl_z_while_ssh_has_the_terminal_stops_both_until_fg(tmp_path):
    session, pid = while_ssh_connects(tmp_path, (sys.executable, "-c", SHELL))
    os.write(session.master, b"\x1a")
    session.read_until(b"[1]+ Stopped")
    # Until it is stopped, what is typed next may still be its answer.
    ssh = psutil.Process(int(pid.read_text()))
    eventually(lambda: ssh.status() == psutil.STATUS_STOPPED, "ssh is stopped, too")
    os.write(session.master, b"fg\n")
    os.write(session.master, b"yes\n")
    session.read_until(b"heard yes")
    session.read_until(b"ended with 0")
    os.write(session.master, b"\x03")
    assert session.end() == 0
    session.assert_restored()


def test_ctrl_c_while_ssh_connects_ends_ssh_alone(tmp_path):
    session, _ = while_ssh_connects(tmp_path)
    os.write(session.master, b"\x03")
    session.read_until(b"ended with -2")
    os.write(session.master, b"\x03")
    assert session.end() == 0
    session.assert_restored()


def test_ctrl_z_without_a_shell_stops_nothing(tmp_path):
    session = Session("well", tmp_path)
    session.read_until(b"4711")
    os.write(session.master, b"\x1a")
    session.read_until(b"no shell here")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()


@pytest.mark.parametrize("is_controlling", [True, False])
@pytest.mark.parametrize("mode", ["well", "busy"])
def test_a_terminal_that_is_gone_ends_the_process(tmp_path, mode, is_controlling):
    session = Session(mode, tmp_path, is_controlling=is_controlling)
    session.read_until(b"4711")
    session.hang_up()
    assert session.process.wait(PATIENCE_S) == 129


def test_a_terminal_that_is_gone_leaves_no_traceback_where_errors_go(tmp_path):
    errors = tmp_path / "errors"
    session = Session("busy", tmp_path, ("sh", "-c", f'exec "$@" 2>{errors}', "sh"))
    session.read_until(b"4711")
    session.hang_up()
    assert session.process.wait(PATIENCE_S) == 129
    assert "Traceback" not in errors.read_text()


def test_a_standard_output_that_was_closed_before_is_not_missed_at_the_end(tmp_path):
    session = Session("well", tmp_path, ("sh", "-c", 'exec "$@" >&-', "sh"))
    session.read_until(b"4711")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()


@pytest.mark.parametrize("mode", ["busy", "hang"])
def test_a_terminal_that_takes_nothing_does_not_hold_a_signal_back(tmp_path, mode):
    session = Session(mode, tmp_path)
    session.read_until(b"4711")
    held = -1
    while held != (held := session.waiting_bytes()) or (mode == "busy" and not held):
        os.sched_yield()
    session.process.send_signal(signal.SIGTERM)
    assert session.process.wait(PATIENCE_S) == 143
    assert termios.tcgetattr(session.slave) == session.before
    session.hang_up()


def test_keys_cannot_come_from_what_is_no_terminal():
    done = subprocess.run(
        [sys.executable, str(SCENE), "well"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"is not a terminal, so keys cannot be read" in done.stderr


def test_the_log_replaces_what_lies_at_its_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "gpumon").mkdir()
    (tmp_path / "gpumon" / "crash.log").symlink_to(victim)
    log = write_crash_log(ValueError("x"))
    assert victim.read_text() == "precious"
    assert "ValueError: x" in log.read_text()


def test_choices_that_cannot_be_stored_are_reported_at_the_end(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "_guard", lambda *_given: None)
    app = SimpleNamespace(run=lambda: 0, crash=None)
    feed = SimpleNamespace(close=lambda: None, failure=None)
    for trouble, is_reported in (("/h/look.json cannot be written: \x1b full", True), ("", False)):
        shelf = SimpleNamespace(close=lambda: None, trouble=trouble)
        assert terminal._shown(app, feed, shelf) == 0
        printed = capsys.readouterr().err
        assert (
            "gpumon: your choices were not saved: /h/look.json cannot be" in printed
        ) is is_reported
        assert "\x1b" not in printed
        assert printed.count("\n") == int(is_reported)


def test_nothing_heavy_is_loaded_before_the_first_screen():
    code = (
        "import sys, gpumon.tui.terminal\n"
        "heavy = {'numpy', 'sklearn', 'httpx', 'psutil', 'pynvml'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_screen_is_drawn_where_standard_error_leads_elsewhere(tmp_path):
    printed = tmp_path / "printed"
    session = Session("well", tmp_path, ["sh", "-c", f'exec "$@" 2>{printed}', "sh"])
    session.read_until(b"4711")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()
    assert printed.read_text() == ""
