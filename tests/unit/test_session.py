"""Tests pass alike whoever starts them: a terminal, `nohup`, the background of a script."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.probe import PATIENCE_S

IGNORED = """
import signal
print([number.name for number in signal.Signals
       if number not in (signal.SIGPIPE, signal.SIGXFSZ)
       and signal.getsignal(number) is signal.SIG_IGN])
"""
"""All but what Python itself ignores."""
WAYS = {
    "nohup": ["nohup"],
    "background": ["sh", "-c", '"$@" & wait $!', "sh"],
    "all at once": ["sh", "-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh"],
}


def test_children_of_tests_take_signals() -> None:
    done = subprocess.run([sys.executable, "-c", IGNORED], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_children_of_tests_write_as_they_do_for_users() -> None:
    assert "PYTHONUNBUFFERED" not in os.environ


@pytest.mark.parametrize("way", WAYS)
def test_children_of_tests_take_signals_that_the_tests_themselves_ignore(way: str) -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*WAYS[way], *words, f"{Path(__file__)}", "-k", "not themselves"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_hang_up_under_nohup_ends_no_tests() -> None:
    """What runs the tests survives it as before; only its children do not inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = "import os, signal; from tests.inherited import children_take_signals\n"
        code += "with children_take_signals(): os.kill(os.getpid(), signal.SIGHUP)\n"
        code += "print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            restore_signals=False,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
