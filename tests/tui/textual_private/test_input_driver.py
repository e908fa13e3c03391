"""The driver that sleeps until there is input: keys come through, and its end comes at once."""

from __future__ import annotations

import asyncio
import os
import pty
import queue
import sys
import termios
import tty
from typing import TYPE_CHECKING

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key

from gpumon.tui.textual_private.input_driver import PatientDriver
from gpumon.tui.themed_app import DressedApp

if TYPE_CHECKING:
    import pytest
    from textual.message import Message

PATIENCE_S = 20.0


class Listening(PatientDriver):
    """Keeps what it would hand on, and reads from a terminal of its own."""

    def process_message(self, message: Message) -> None:
        """Keep the keys."""
        if isinstance(message, Key):
            self.heard.put(message.key)

    heard: queue.SimpleQueue[str]


def test_keys_and_an_escape_alone_come_through_in_two_lives() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave, termios.TCSANOW)

    async def listen() -> list[str]:
        driver = Listening(App[None]())
        driver.heard = queue.SimpleQueue()
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
