"""What only this machine tells of processes: command lines, trees, and signals to them."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from gpumon.base.held_process import described
from gpumon.model.records.tick import TargetState
from gpumon.tui.screens.base.page import Page
from gpumon.tui.screens.lists import processes
from tests.worlds.probe import PATIENCE_S
from tests.worlds.workstation import Seat, workstation

WAITS = "import sys; print(flush=True); sys.stdin.read()"
SECRET = "h5nter2"

needs_handles = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="this Python knows no pidfds"
)


@contextmanager
def waiting(*words):
    """A child that waits for the end of its input."""
    line = [sys.executable, "-I", "-S", "-c", WAITS, *words]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            child.stdout.readline()
            yield child
        finally:
            child.kill()


def seat(child, **changes):
    """The child as a process on a GPU."""
    start_s = described(child.pid).start_time_s
    found = Seat(child.pid, user="ada", uid=os.geteuid(), start_s=start_s)
    return found._replace(**changes)


async def until(s, words):
    """What is read on a thread is on the screen."""
    async with asyncio.timeout(PATIENCE_S):
        while words not in s.text:
            await asyncio.sleep(0.01)
            await s.pilot.pause()


async def opened(s):
    await s.press("colon", *"ps", "enter")


async def test_ones_own_command_line_is_shown_without_secrets(stage):
    with waiting("--lr", "0.1", "--token", SECRET) as child:
        async with stage(workstation((seat(child),)), size=(260, 24)) as s:
            await opened(s)
            await until(s, "--lr 0.1 --token ***")
            assert SECRET not in s.text


async def test_it_is_below_the_gpus_too(stage):
    with waiting("--lr", "0.1", "--token", SECRET) as child:
        async with stage(workstation((seat(child),)), size=(260, 40)) as s:
            await s.press("colon", *"gpus", "enter")
            await until(s, "--lr 0.1 --token ***")
            assert SECRET not in s.text


async def test_another_process_with_the_same_number_shows_the_name_alone(stage):
    with waiting("--lr", "0.1") as other, waiting("--lr", "0.2") as child:
        gone = seat(other, program="train", start_s=5.0)
        async with stage(workstation((gone, seat(child))), size=(260, 24)) as s:
            await opened(s)
            await until(s, "--lr 0.2")
            assert "--lr 0.1" not in s.text
            assert s.line_with(str(other.pid)).endswith(" train")


async def test_others_command_lines_want_a_key(stage, monkeypatch):
    from gpumon.sources.here import command_lines

    monkeypatch.setattr(command_lines.os, "geteuid", lambda: os.getuid() + 1)
    with waiting("--lr", "0.1") as child:
        async with stage(workstation((seat(child),)), size=(260, 24)) as s:
            await opened(s)
            assert s.line_with(str(child.pid)).endswith(" python")
            await s.press("O")
            assert "other users' command lines, too" in s.lines[-2]
            await until(s, "--lr 0.1")
            await s.press("O")
            assert "only your own" in s.lines[-2]
            assert s.line_with(str(child.pid)).endswith(" python")


@pytest.mark.parametrize("url", ["ssh://desk", "slurm", "demo"])
async def test_of_any_other_target_nothing_is_read(stage, url):
    with waiting("--lr", "0.1") as child:
        targets = (TargetState(url, True, None, 0.1),)
        async with stage(workstation((seat(child),), targets=targets), size=(120, 24)) as s:
            s.app.allows_actions = True
            await opened(s)
            assert s.line_with(str(child.pid)).endswith(" python")
            assert s.app.screen._command_reader is None
            await s.press("d")
            assert "it does not run on this machine" in s.lines[-2]
            await s.press("K")
            assert s.app.screen.prompt is None
            assert "simulated" in s.lines[-2] or "does not run on this machine" in s.lines[-2]
        assert child.poll() is None


async def test_a_file_holds_no_command_line(stage, tmp_path):
    with waiting("--lr", "0.1") as child:
        async with stage(workstation((seat(child),)), size=(260, 24)) as s:
            await opened(s)
            await until(s, "--lr 0.1")
            for name in ("ps.csv", "ps.json"):
                await s.press("E")
                s.app.focused.value = str(tmp_path / name)
                await s.press("enter")
                await s.app.workers.wait_for_complete()
                text = (tmp_path / name).read_text()
                assert str(child.pid) in text
                assert "--lr" not in text


async def test_keys_of_this_machine_are_named_though_the_view_came_before_the_first_sample(stage):
    with waiting() as child:
        async with stage(None, size=(160, 24)) as s:
            s.app.allows_actions = True
            await opened(s)
            assert "d tree" not in s.lines[-1]
            await s.give(workstation((seat(child),)))
            assert "d tree" in s.lines[-1]
            assert "K signal" in s.lines[-1]


async def test_what_is_shown_of_a_command_line_is_found_and_sorted(stage):
    with waiting("b", "--lr", "0.7") as other, waiting("a", "--lr", "0.6") as child:
        seats = (seat(child), seat(other, mem_gib=30.0))
        async with stage(workstation(seats), size=(260, 24)) as s:
            await opened(s)
            await until(s, "a --lr 0.6")
            await until(s, "b --lr 0.7")
            for typed in ("0.7", "command~lr.0.7"):
                await s.press("slash", *typed, "enter")
                assert str(other.pid) in s.text, typed
                assert str(child.pid) not in s.text, typed
                await s.press("escape")
            # The name alone still says which program it is.
            await s.press("slash", *"command==python", "enter")
            assert "2 processes" in s.lines[0]
            await s.press("escape")
            lines = s.text.index(str(other.pid)), s.text.index(str(child.pid))
            assert lines == tuple(sorted(lines))
            while "COMMAND▲" not in s.text:
                await s.press("s")
            assert s.text.index(str(child.pid)) < s.text.index(str(other.pid))


async def test_command_lines_that_are_read_after_the_filter_came_are_found_in_the_same_tick(stage):
    with waiting("--lr", "0.7") as child:
        async with stage(workstation((seat(child),)), size=(260, 24)) as s:
            await s.press("p")
            await opened(s)
            await s.press("slash", *"0.7", "enter")
            await until(s, "--lr 0.7")
            assert s.lines[0].rstrip().endswith("1 process")


async def test_of_others_that_are_not_shown_nothing_is_found(stage, monkeypatch):
    from gpumon.sources.here import command_lines

    monkeypatch.setattr(command_lines.os, "geteuid", lambda: os.getuid() + 1)
    with waiting("--lr", "0.7") as child:
        async with stage(workstation((seat(child),)), size=(260, 24)) as s:
            await opened(s)
            await s.press("O")
            await until(s, "--lr 0.7")
            await s.press("slash", *"0.7", "enter")
            assert s.lines[0].rstrip().endswith("1 process")
            await s.press("O")
            assert "None of 1 processes contains" in s.text


async def test_the_tree_has_parents_and_children(stage):
    with waiting() as child:
        me = described(os.getpid())
        mine = Seat(me.pid, start_s=me.start_time_s, uid=os.geteuid())
        async with stage(workstation((mine,)), size=(260, 40)) as s:
            await opened(s)
            await s.press("d")
            assert isinstance(s.app.screen, Page)
            await until(s, f" {child.pid} ")
            assert f" {os.getppid()} " in s.text
            lines = s.lines
            above = next(n for n, line in enumerate(lines) if f" {me.pid} " in line)
            below = next(n for n, line in enumerate(lines) if f" {child.pid} " in line)
            assert above < below


async def test_the_tree_of_a_process_that_is_gone_says_so(stage):
    with waiting() as child:
        host = workstation((seat(child),))
    async with stage(host, size=(120, 24)) as s:
        await opened(s)
        await s.press("d")
        await until(s, "It has ended, or its number now belongs to another process.")


async def test_what_is_read_after_the_end_is_drawn_by_nobody_and_fails_nothing(stage):
    with waiting() as child:
        async with stage(workstation((seat(child),)), size=(120, 24)) as s:
            await opened(s)
            draw = s.app.screen._drawer()
        reader = threading.Thread(target=draw)
        reader.start()
        reader.join()
        gc.collect()


async def asked(s, text):
    """Answer the question about the process under the cursor."""
    await s.press("K")
    s.app.focused.value = text
    await s.press("enter")


@needs_handles
@pytest.mark.parametrize(
    ("typed", "number"),
    [("TERM", signal.SIGTERM), ("sigkill", signal.SIGKILL), ("int", signal.SIGINT)],
)
async def test_a_signal_is_sent_after_its_name_and_the_pid_were_typed(stage, typed, number):
    with waiting() as child:
        async with stage(workstation((seat(child),)), size=(120, 24)) as s:
            s.app.allows_actions = True
            await opened(s)
            await s.press("K")
            assert f"type TERM {child.pid} (or INT, KILL) for python {child.pid} of ada" in s.text
            await s.press("escape")
            await asked(s, f"{typed} {child.pid}")
            await until(s, f"{number.name} sent to python {child.pid} of ada: it has ended")
        assert child.wait() in (-number, 1)


@pytest.mark.parametrize("typed", ["", "TERM", "TERM 1", "HUP {pid}", "{pid}", "TERM {pid} 1"])
async def test_what_is_typed_otherwise_sends_nothing(stage, typed):
    with waiting() as child:
        async with stage(workstation((seat(child),)), size=(120, 24)) as s:
            s.app.allows_actions = True
            await opened(s)
            await asked(s, typed.format(pid=child.pid))
            assert f"not sent: type INT, TERM, KILL, and {child.pid}; or Esc" in s.lines[-2]
        assert child.poll() is None


@needs_handles
async def test_why_an_answer_is_refused_stays_until_another_one_is_typed(stage):
    with waiting() as child:
        async with stage(workstation((seat(child),)), size=(120, 24)) as s:
            s.app.allows_actions = True
            await opened(s)
            await asked(s, "HUP")
            prompt = s.app.focused
            # What was typed fast is heard of after Enter.
            prompt.post_message(prompt.Changed(prompt, prompt.value))
            await s.pilot.pause()
            assert "not sent" in s.lines[-2]
            await s.press("x")
            assert "not sent" not in s.lines[-2]


@needs_handles
async def test_it_goes_to_the_process_that_was_on_screen_or_to_nobody(stage):
    with waiting() as child:
        early = seat(child, start_s=described(child.pid).start_time_s - 1.0)
        async with stage(workstation((early,)), size=(120, 24)) as s:
            s.app.allows_actions = True
            await opened(s)
            await asked(s, f"KILL {child.pid}")
            await until(
                s,
                f"not sent to python {child.pid} of ada: the number now belongs to another process",
            )
        assert child.poll() is None


@needs_handles
async def test_a_question_is_about_the_process_it_was_asked_of(stage):
    with waiting() as child, waiting() as other:
        async with stage(workstation((seat(child),)), size=(120, 24)) as s:
            s.app.allows_actions = True
            await opened(s)
            await s.press("K")
            await s.give(workstation((seat(other, mem_gib=9.0),)))
            s.app.focused.value = f"KILL {child.pid}"
            await s.press("enter")
            await until(s, f"SIGKILL sent to python {child.pid}")
            assert other.poll() is None


@pytest.mark.parametrize(
    ("changes", "allows", "words"),
    [
        ({}, False, "only if it was started with --allow-actions"),
        ({"start_s": None}, True, "not certain"),
        ({"uid": 4_000_000, "user": "grace"}, True, "is grace's: only its owner and root may"),
        ({"uid": None, "user": None}, True, "is another user's"),
    ],
)
async def test_who_may_not_is_not_asked(stage, monkeypatch, changes, allows, words):
    monkeypatch.setattr(processes.os, "geteuid", lambda: 1000)
    with waiting() as child:
        host = workstation((seat(child, **{"uid": 1000, **changes}),))
        async with stage(host, size=(120, 24)) as s:
            s.app.allows_actions = allows
            await opened(s)
            await s.press("K")
            assert words in s.lines[-2]
            assert s.app.screen.prompt is None
        assert child.poll() is None


def test_patterns_of_secrets_are_made_once_a_line_is_read():
    code = (
        "import sys; import gpumon.tui.screens.lists.processes; "
        "print([name for name in sys.modules if name.startswith('gpumon.sources.here')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
