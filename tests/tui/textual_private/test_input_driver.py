"""The driver that sleeps until there is input: keys come through, and its end comes at once."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import queue
import resource
import select
import sys
import termios
import tty
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key

from gpumon.tui.textual_private import input_driver
from gpumon.tui.textual_private.input_driver import PatientDriver
from gpumon.tui.themed_app import DressedApp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.message import Message

PATIENCE_S = 20.0
MANY_FILES = 2048


class Listening(PatientDriver):
    """Keeps what it would hand on, and reads from a terminal of its own."""

    def process_message(self, message: Message) -> None:
        """Keep the keys."""
        if isinstance(message, Key):
            self.heard.put(message.key)

    heard: queue.SimpleQueue[str]


async def listening() -> Listening:
    """One that has heard nothing; textual's drivers are made in a running loop."""
    driver = Listening(App[None]())
    driver.heard = queue.SimpleQueue()
    return driver


def test_keys_and_an_escape_alone_come_through_in_two_lives() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave, termios.TCSANOW)

    async def listen() -> list[str]:
        driver = await listening()
        driver.fileno = slave
        driver._file = os.fdopen(os.dup(slave), "w")
        found = []
        for typed in (b"j", b"\x1b", b"\x1b[B"):
            driver.start_application_mode()
            os.write(master, typed)
            found.append(await asyncio.to_thread(driver.heard.get, timeout=PATIENCE_S))
            os.read(master, 1 << 16)
            driver.disable_input()
            assert driver._key_thread is not None
            assert not driver._key_thread.is_alive()
        driver.close()
        driver._file.close()
        return found

    try:
        assert asyncio.run(listen()) == ["j", "escape", "down"]
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("held_up_s", [0.07, 0.4, 30.0])
def test_an_escape_comes_through_to_a_thread_that_is_held_up_after_a_look(
    monkeypatch: pytest.MonkeyPatch, held_up_s: float
) -> None:
    now_s = 1000.0
    look = XTermParser.tick

    def late(parser: XTermParser) -> Iterable[Message]:
        nonlocal now_s
        yield from look(parser)
        now_s += held_up_s

    def wait(watched: list[int], timeout_s: float | None) -> set[int]:
        found = set(select.select(watched, [], [], 0)[0])
        assert found or timeout_s is not None, "waits for the next key"
        return found

    monkeypatch.setattr("textual._parser.get_time", lambda: now_s)
    monkeypatch.setattr(input_driver, "time", SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr(input_driver, "_ready", wait)
    monkeypatch.setattr(XTermParser, "tick", late)
    keys, typing = os.pipe()
    driver = asyncio.run(listening())
    driver.fileno = keys
    driver._bell = os.pipe()
    heard_by_app = driver.process_message

    def hear(message: Message) -> None:
        heard_by_app(message)
        driver.exit_event.set()

    monkeypatch.setattr(driver, "process_message", hear)
    os.write(typing, b"\x1b")
    try:
        driver.run_input_thread()
        assert driver.heard.get_nowait() == "escape"
    finally:
        for end in (keys, typing, *driver._bell):
            os.close(end)


def test_keys_come_through_where_descriptors_are_many() -> None:
    """A thousand ssh clients have three each, and a terminal is opened anew after every shell."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < MANY_FILES:
        pytest.skip("this system lets no process open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, MANY_FILES), hard))
    keys, typing = os.pipe()
    far = fcntl.fcntl(keys, fcntl.F_DUPFD, MANY_FILES - 8)
    try:
        os.write(typing, b"j")
        assert input_driver._ready([far], None) == {far}
    finally:
        for end in (keys, typing, far):
            os.close(end)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_terminal_is_read_by_it() -> None:
    found = DressedApp().get_driver_class()
    assert issubclass(found, LinuxDriver)
    assert found is PatientDriver


def test_a_textual_with_another_parser_reads_the_terminal_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "textual._xterm_parser", None)
    monkeypatch.delitem(sys.modules, "gpumon.tui.textual_private.input_driver")
    assert DressedApp().get_driver_class() is LinuxDriver
