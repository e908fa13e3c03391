"""What was ignored when the terminal began stays so; its own terminal it cannot do without."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.tui.test_terminal import Session
from tests.worlds.probe import PATIENCE_S

IGNORING = "import os, signal, sys\nsignal.signal(int(sys.argv[1]), signal.SIG_IGN)\n"
IGNORING += "os.execv(sys.argv[2], sys.argv[2:])"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_what_was_ignored_stays_ignored(tmp_path, number):
    session = Session("well", tmp_path, (sys.executable, "-c", IGNORING, str(int(number))))
    session.read_until(b"4711")
    session.process.send_signal(number)
    # It lives on for another page.
    os.write(session.master, b"\r")
    session.read_until(b"rank")
    os.write(session.master, b"qq")
    assert session.end() == 0
    session.assert_restored()


def test_without_its_terminal_it_ends_under_nohup_as_well(tmp_path):
    before = (sys.executable, "-c", IGNORING, str(int(signal.SIGHUP)))
    session = Session("well", tmp_path, before, is_controlling=True)
    session.read_until(b"4711")
    session.hang_up()
    assert session.process.wait(PATIENCE_S) == 129
