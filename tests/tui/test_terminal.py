"""Every way out of a real terminal leaves it as it was, and says no more than it must."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import stat
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from gpumon.tui.terminal import write_crash_log

SCENE = Path(__file__).with_name("scene.py")


class Session:
    """The application on a pseudo-terminal of 80 x 24."""

    def __init__(self, mode, state):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        env = {**os.environ, "XDG_STATE_HOME": str(state), "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [sys.executable, str(SCENE), mode],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env=env,
            start_new_session=True,
        )

    def read_until(self, text):
        """Read what is drawn until this text has come."""
        while text not in self.output:
            self.output += os.read(self.master, 65536)

    def end(self):
        """Exit code, once everything that was written has been read."""
        os.set_blocking(self.master, False)
        while self.process.poll() is None:
            self._drain()
        self._drain()
        self.after = termios.tcgetattr(self.slave)
        os.close(self.slave)
        os.close(self.master)
        return self.process.returncode

    def _drain(self):
        try:
            self.output += os.read(self.master, 65536)
        except BlockingIOError:
            os.sched_yield()

    @property
    def last_words(self):
        """What was written after the application left its own screen."""
        return self.output.rpartition(b"\x1b[?1049l")[2].decode()

    def assert_restored(self):
        """Modes, screen, mouse and cursor are as before."""
        assert self.after == self.before
        for left in (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?25h"):
            assert left in self.output
        assert "Traceback" not in self.output.decode()


@pytest.mark.parametrize(
    ("action", "code"),
    [(b"q", 0), (b"\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
)
def test_quit_and_signals(tmp_path, action, code):
    session = Session("well", tmp_path)
    session.read_until(b"4711")
    if isinstance(action, bytes):
        os.write(session.master, action)
    else:
        session.process.send_signal(action)
    assert session.end() == code
    session.assert_restored()


def test_a_feed_that_hangs_does_not_hold_the_user_back(tmp_path):
    session = Session("hang", tmp_path)
    session.read_until(b"4711")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()


def test_a_feed_that_cannot_close_is_told_in_one_line(tmp_path):
    session = Session("no close", tmp_path)
    session.read_until(b"4711")
    os.write(session.master, b"q")
    assert session.end() == 0
    session.assert_restored()
    assert "gpumon: closing failed: OSError: cannot close" in session.last_words


def test_a_feed_that_ends_for_good_ends_the_terminal_with_one_line(tmp_path):
    session = Session("fail", tmp_path)
    assert session.end() == 1
    session.assert_restored()
    assert session.last_words.endswith("gpumon: gpumon itself failed sampling: X (report)\r\n")
    assert session.last_words.count("\n") == 1


@pytest.mark.parametrize(
    ("mode", "kind"), [("crash", "AttributeError"), ("no start", "ValueError")]
)
def test_a_crash_is_one_line_and_a_private_log(tmp_path, mode, kind):
    session = Session(mode, tmp_path)
    assert session.end() == 1
    session.assert_restored()
    log = tmp_path / "gpumon" / "crash.log"
    assert f"gpumon: the terminal failed: {kind}" in session.last_words
    assert str(log) in session.last_words.replace("\r\n", "")
    assert session.last_words.count("\n") == 1
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "Traceback" in log.read_text()


def test_the_log_replaces_what_lies_at_its_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "gpumon").mkdir()
    (tmp_path / "gpumon" / "crash.log").symlink_to(victim)
    log = write_crash_log(ValueError("x"))
    assert victim.read_text() == "precious"
    assert "ValueError: x" in log.read_text()


def test_nothing_heavy_is_loaded_before_the_first_picture():
    code = (
        "import sys, gpumon.tui.terminal\n"
        "heavy = {'numpy', 'sklearn', 'httpx', 'psutil', 'pynvml'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
