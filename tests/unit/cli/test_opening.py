"""A recording that takes long to open holds nobody back."""

from __future__ import annotations

import os
import pty
import termios
import threading
from pathlib import Path

import pytest

from gpumon.cli import opening
from gpumon.cli.opening import opened
from gpumon.sources.recording.decode import RecordingError
from tests.worlds.probe import PATIENCE_S

FILE = Path("/shared/fleet.gpumon.zst")


@pytest.fixture
def terminal():
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


@pytest.fixture
def endless():
    """A file whose reading comes to no end before the test does."""
    may = threading.Event()
    yield lambda _path: may.wait(PATIENCE_S)
    may.set()


@pytest.mark.parametrize("key", [b"q", b"jkq", b"\x04"])
def test_q_leaves_while_a_file_is_being_read_and_the_terminal_is_as_before(
    terminal, endless, capsys, key
):
    master, slave = terminal
    before = termios.tcgetattr(slave)
    os.write(master, key)
    assert opened(FILE, endless, slave, silent_s=0.0) is None
    assert termios.tcgetattr(slave) == before
    assert f"reading {FILE} …  q leaves" in capsys.readouterr().err


def test_other_keys_do_nothing_and_the_recording_comes(terminal, monkeypatch):
    master, slave = terminal
    may, real = threading.Event(), os.read

    def read(descriptor, count):
        typed = real(descriptor, count)
        may.set()
        return typed

    monkeypatch.setattr(opening.os, "read", read)
    os.write(master, b"x")
    found = opened(FILE, lambda path: may.wait(PATIENCE_S) and path, slave, silent_s=0.0)
    assert found == FILE


def test_what_opens_at_once_says_nothing(capsys):
    assert opened(FILE, lambda path: path) == FILE
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("error", [RecordingError("is no recording"), OSError(5, "I/O error")])
def test_what_cannot_be_read_is_told_to_whoever_asked(error):
    def fail(_path):
        raise error

    with pytest.raises(type(error)) as caught:
        opened(FILE, fail)
    assert caught.value is error


def test_without_a_terminal_for_keys_it_is_waited_for(monkeypatch):
    monkeypatch.setattr(opening, "_standard_input", lambda: None)
    may = threading.Event()
    monkeypatch.setattr(opening, "narrate", lambda _text: may.set())
    assert opened(FILE, lambda path: may.wait(PATIENCE_S) and path, silent_s=0.0) == FILE
