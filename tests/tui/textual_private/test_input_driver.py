"""The driver that sleeps until there is input: keys come through, and its end comes at once."""

from __future__ import annotations

import asyncio
import fcntl
import io
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
from textual.events import Key, Paste

from gpumon.tui.textual_private import input_driver
from gpumon.tui.textual_private.input_driver import MOST_TYPED, Outlet, PatientDriver, Typing
from gpumon.tui.themed_app import DressedApp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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
    poll = XTermParser.tick

    def late(parser: XTermParser) -> Iterable[Message]:
        nonlocal now_s
        yield from poll(parser)
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


def test_long_work_hears_that_something_was_read_before_its_turn_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys, typing = os.pipe()
    driver = asyncio.run(listening())
    heard: list[str] = []
    app = SimpleNamespace(note_input=lambda: heard.append("noted"), screen_stack=())
    monkeypatch.setattr(driver, "_app", app)
    monkeypatch.setattr(driver, "process_message", lambda message: heard.append(message.key))
    driver.fileno = keys
    driver._bell = os.pipe()
    os.write(typing, b"jk")
    monkeypatch.setattr(driver.exit_event, "is_set", lambda: bool(heard))
    try:
        driver.run_input_thread()
        assert heard == ["noted", "j", "k"]
    finally:
        for end in (keys, typing, *driver._bell):
            os.close(end)


def understood(
    typing: Typing, text: str, now_s: float = 0.0, *, is_line: bool = False
) -> list[str]:
    """Keys by name, pasted texts in brackets."""
    found = typing.read(text, now_s, is_line)
    return [
        one.key if isinstance(one, Key) else f"[{one.text}]"
        for one in found
        if isinstance(one, Key | Paste)
    ]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("\x1bj", ["escape", "j"]),
        ("\x1b7", ["escape", "7"]),
        ("\x1bf", ["escape", "f"]),
        ("\x1bG", ["escape", "G"]),
        ("\x1b\r", ["escape", "enter"]),
        ("\x1b\x1bk", ["escape", "escape", "k"]),
        ("\x1bj\x1bk", ["escape", "j", "escape", "k"]),
        ("jj\x1b:x", ["j", "j", "escape", "colon", "x"]),
        ("\x1b\x1b[B", ["escape", "down"]),
        ("\x1b[B", ["down"]),
        ("\x1bOP", ["f1"]),
        ("\x1b[5~", ["pageup"]),
        ("\x1b[Z", ["shift+tab"]),
    ],
)
def test_escape_and_a_key_in_one_packet_are_two_keys(text: str, keys: list[str]) -> None:
    assert understood(Typing(XTermParser()), text) == keys


def test_escape_and_a_key_in_two_packets_are_two_keys() -> None:
    typing = Typing(XTermParser())
    assert understood(typing, "j\x1b", 5.0) == ["j"]
    assert list(typing.poll(is_late=False)) == []
    assert understood(typing, "k", 5.02) == ["escape", "k"]
    assert understood(typing, "\x1b", 6.0) == []
    assert understood(typing, "[A", 6.01) == ["up"]
    assert understood(typing, "\x1b", 7.0) == []
    assert [one.key for one in typing.poll(is_late=True) if isinstance(one, Key)] == ["escape"]
    assert understood(typing, "j", 7.5) == ["j"]


def test_alt_moves_by_words_only_in_a_line() -> None:
    for text, key in (("\x1bb", "ctrl+left"), ("\x1bf", "ctrl+right"), ("\x1b\x7f", "ctrl+w")):
        assert understood(Typing(XTermParser()), text, is_line=True) == [key]
        assert understood(Typing(XTermParser()), text)[0] == "escape"


def test_a_burst_that_nobody_can_type_is_pasted() -> None:
    typing = Typing(XTermParser())
    text = "Dear q,\rplease p x!\t" * 400
    found = []
    for start in range(0, len(text), 4096):
        found += understood(typing, text[start : start + 4096], 3.0 + start / 1e5)
    assert "".join(found).replace("][", "") == f"[{text}]".replace("\r", "\n")
    assert len(found) == 2
    assert understood(typing, "qx", 3.3) == ["[qx]"], "its last bytes come by themselves"
    assert understood(typing, "q", 9.0) == ["q"]


@pytest.mark.parametrize(
    "text", ["j" * 90, "jk" * 60, "k" * 50 + "\r", "s" * MOST_TYPED, ":node gpu-042\r"]
)
def test_keys_held_down_and_commands_are_typed_however_late_they_come(text: str) -> None:
    found = understood(Typing(XTermParser()), text)
    assert len(found) == len(text)
    assert not any(one.startswith("[") for one in found)


def test_one_line_for_a_line_that_is_open_is_typed_with_its_end() -> None:
    """A path that comes in one piece is taken, and so is what follows at once."""
    typing = Typing(XTermParser())
    path = "/scratch/project-7/exports/of-this-week/jobs.csv"
    assert understood(typing, f"{path}\r", 1.0, is_line=True)[-1] == "enter"
    assert understood(typing, "q", 1.01) == ["q"]
    assert understood(typing, f"{path}\rqqq\r", 5.0, is_line=True)[0].startswith("[")


def test_other_keys_within_a_burst_stay_keys() -> None:
    text = "some words that nobody types at once\x1b[Band ever more of them after that"
    found = understood(Typing(XTermParser()), text)
    assert [one for one in found if not one.startswith("[")] == ["down"]


def test_what_the_terminal_itself_calls_pasted_is_taken_without_its_escapes() -> None:
    typing = Typing(XTermParser())
    assert understood(typing, "\x1b[200~a\x1bq", 1.0) == []
    assert understood(typing, "\x1bz\x1b[201~", 1.1) == ["[aqz]"]
    assert understood(typing, "\x1bz", 1.2) == ["escape", "z"]


def test_keys_come_through_where_descriptors_are_many() -> None:
    """A thousand ssh clients have three each, and a terminal is opened again after every shell."""
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


def test_what_was_handed_over_is_out_once_its_last_piece_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(input_driver, "OUT_S", 0.0)
    file = io.StringIO()
    found = Outlet(file)
    assert found.wait(), "nothing was handed over"
    found.hand_over()
    found.hand_over()
    assert not found.wait(), "nobody writes, and nobody is held up"
    found.write("begin ")
    found.flush()
    assert not found.wait(), "its last piece is missing"
    found.write("end")
    found.flush()
    assert found.wait()
    assert file.getvalue() == "begin end"
    found.hand_over()
    assert not found.wait(), "another frame"


def test_a_frame_has_left_the_driver_when_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(input_driver, "OUT_S", PATIENCE_S)
    master, slave = pty.openpty()
    tty.setraw(slave)
    screen = tmp_path / "screen"

    async def draw() -> list[bool]:
        driver = PatientDriver(App[None]())
        driver.fileno = slave
        with screen.open("w") as file:
            driver._file = file
            driver.start_application_mode()
            found = []
            for number in range(20):
                for piece in ("[", str(number), "]"):
                    driver.write(piece)
                driver.flush()
                found.append(screen.read_text().endswith(f"[{number}]"))
            driver.disable_input()
            driver.close()
        return found

    try:
        assert asyncio.run(draw()) == [True] * 20
    finally:
        os.close(master)
        os.close(slave)
