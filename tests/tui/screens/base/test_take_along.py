"""What the terminal hands over: the clipboard, files, commands, a shell."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import stat
import subprocess
import threading
from contextlib import nullcontext

import pytest

from gpumon.model.job_name import job_name
from gpumon.model.records.cluster import JobView
from gpumon.model.records.tick import TargetState
from gpumon.report.next_steps.commands import Subject
from gpumon.sources.source import Wish
from gpumon.tui import job_changes
from gpumon.tui.app import GpumonApp
from gpumon.tui.screens.base.files import (
    FileRefusedError,
    form_of,
    without_fonts,
    write_beside,
    write_new,
)
from gpumon.tui.screens.lists.commands import CommandsView
from tests.worlds.probe import PATIENCE_S
from tests.worlds.tick import AT, fleet, job, tick


async def test_copying_takes_the_name_of_what_the_cursor_is_on(stage):
    async with stage(fleet()) as s:
        await s.press("y")
        assert s.app.clipboard == "4711"
        assert "copied" in s.lines[-2]
        s.now[0] += 10.0
        s.app.screen.draw_frame()
        await s.pilot.pause()
        assert "copied" not in s.lines[-2]
        await s.press("enter", "y")
        assert s.app.clipboard.startswith("GPU-")


@pytest.mark.parametrize(
    ("subject", "is_copied"),
    [
        (Subject(node="gpu07"), True),
        (Subject(job_name("5", "5_[2-9]")), True),
        (Subject(node="n1;reboot"), False),
        (Subject(node="-oProxyCommand=/tmp/x"), False),
        (Subject(group=("account", "$(id)")), False),
        (Subject(group=("account", "a b")), False),
    ],
)
async def test_a_name_that_commands_refuse_is_not_copied(stage, monkeypatch, subject, is_copied):
    async with stage(fleet()) as s:
        monkeypatch.setattr(s.app.screen, "subject_here", lambda: subject)
        await s.press("y")
        assert (s.app.clipboard == subject.name) is is_copied
        assert ("copied, where" in s.lines[-2]) is is_copied


async def test_the_commands_of_a_rank_are_three_keys_away(stage):
    async with stage(fleet(), size=(120, 40)) as s:
        await s.press("enter", "x")
        assert isinstance(s.app.screen, CommandsView)
        await s.press("enter")
        assert s.app.clipboard == s.app.screen.grid.current.line == "sbatch --gpus=5"
        await s.press("j", "y")
        assert "py-spy dump --pid" in s.app.clipboard
        await s.press("j", "y")
        assert "py-spy record" in s.app.clipboard


@pytest.mark.parametrize("key", ["y", "x", "exclamation_mark"])
async def test_where_nothing_has_a_name_it_is_said(stage, key):
    async with stage() as s:
        await s.press(key)
        assert "→" in s.lines[-2]


async def test_what_changes_the_world_is_shown_only_where_it_was_allowed(stage, monkeypatch):
    async with stage(fleet(), size=(120, 40)) as s:
        await s.press("x")
        assert "scancel" not in s.text
        await s.press("escape")
        s.app.allows_actions = True
        monkeypatch.setattr(type(s.app), "is_real", False)
        await s.press("x", "G", "enter")
        assert "scancel 4711" in s.text
        assert "simulated or recorded" in s.lines[-2]


async def test_the_footer_says_what_enter_does_with_the_row(stage):
    async with stage(fleet(), size=(120, 40)) as s:
        s.app.allows_actions = True
        await s.press("x")
        assert " Enter copy " in s.lines[-1]
        await s.press("G")
        assert " Enter run … " in s.lines[-1]
        await s.press("g")
        assert " Enter copy " in s.lines[-1]


def scancel_is(script, monkeypatch, folder):
    """Put a line of shell in the place of Slurm's scancel."""
    fake = folder / "scancel"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


async def test_a_change_is_run_after_its_job_was_typed(stage, monkeypatch, tmp_path):
    log = tmp_path / "log"
    scancel_is(f'echo "$@" >> {log}', monkeypatch, tmp_path)
    async with stage(fleet(), size=(120, 40)) as s:
        s.app.allows_actions = True
        await s.press("x", "G", "enter", *"47", "enter")
        assert "not run" in s.text
        assert not log.exists()
        await s.press(*"11", "enter")
        await s.app.workers.wait_for_complete()
        await s.pilot.pause()
        assert log.read_text() == "4711\n"
        assert "scancel 4711: sent, the queue's next answer shows" in s.text
        assert s.feed.wishes == [Wish(has_changed_queue=True)]


TASKS = (("812", "812_4", "RUNNING"), ("813", "812_1", "RUNNING"), ("812", "812_[5-9]", "PENDING"))
"""Number, label and state: one task of an array has its number."""


def array(tasks=TASKS, **changes):
    jobs = [job(number, label=label, state=state) for number, label, state in tasks]
    return tick(tuple(JobView(one, (), 0, (), ()) for one in jobs), **changes)


async def test_the_task_with_its_arrays_number_is_cancelled_alone(stage, monkeypatch, tmp_path):
    log = tmp_path / "log"
    scancel_is(f'echo "$@" >> {log}', monkeypatch, tmp_path)
    async with stage(array(), size=(120, 40)) as s:
        s.app.allows_actions = True
        while "812_4" not in s.cursor_line():
            await s.press("j")
        await s.press("y")
        assert s.app.clipboard == "812_4"
        await s.press("x", "G", "enter", *"812", "enter")
        assert "not run: type 812_4" in s.text
        await s.press(*"_4", "enter")
        await s.app.workers.wait_for_complete()
        await s.pilot.pause()
        assert log.read_text() == "812_4\n"
        assert "done" not in s.text
        await s.give(array(queue_at=AT + 5))
        assert "done" not in s.text
        assert s.feed.wishes == [Wish(has_changed_queue=True)] * 2
        await s.give(array(TASKS[1:], queue_at=AT + 10))
        assert "scancel 812_4: done: 812_4 has left the queue" in s.lines[-2]


async def test_a_change_goes_to_the_cluster_that_is_on_screen(stage, monkeypatch, tmp_path):
    log = tmp_path / "log"
    scancel_is(f"env > {log}", monkeypatch, tmp_path)
    monkeypatch.setenv("SLURM_CLUSTERS", "prod")
    monkeypatch.setenv("SCANCEL_STATE", "PENDING")
    monkeypatch.setenv("SLURM_CONF", "/etc/other/slurm.conf")
    async with stage(array(TASKS[1:2]), size=(120, 40)) as s:
        s.app.allows_actions = True
        await s.press("x", "G", "enter", *"812_1", "enter")
        await s.app.workers.wait_for_complete()
    seen = dict(line.partition("=")[::2] for line in log.read_text().splitlines())
    assert not {"SLURM_CLUSTERS", "SCANCEL_STATE"} & seen.keys()
    assert seen["SLURM_CONF"] == "/etc/other/slurm.conf"


async def test_a_change_that_slurm_took_for_nothing_is_not_shown_as_done(
    stage, monkeypatch, tmp_path
):
    scancel_is("exit 0", monkeypatch, tmp_path)
    async with stage(array(TASKS[1:2]), size=(120, 40)) as s:
        s.app.allows_actions = True
        await s.press("x", "G", "enter", *"812_1", "enter")
        await s.app.workers.wait_for_complete()
        await s.press("escape")
        for answer in range(1, 4):
            assert "still RUNNING" not in s.text
            await s.give(array(TASKS[1:2], queue_at=AT + answer))
        assert "after 3 answers of the queue 812_1 is still RUNNING" in s.lines[-2]


async def test_what_the_page_says_must_still_be_so(stage, monkeypatch, tmp_path):
    log = tmp_path / "log"
    scancel_is(f"touch {log}", monkeypatch, tmp_path)
    async with stage(array(TASKS[2:]), size=(160, 40)) as s:
        s.app.allows_actions = True
        await s.press("4", "x", "G")
        assert "scancel '812_[5-9]'" in s.text
        await s.press("enter", *"812_[5-9]")
        started = (("812", "812_[6-9]", "PENDING"), ("815", "812_5", "RUNNING"))
        await s.give(array(started, queue_at=AT + 5))
        await s.press("enter")
        await s.app.workers.wait_for_complete()
        assert "not run: some of 812_[5-9] have changed by now" in s.text
    assert not log.exists()


async def test_a_change_behind_a_login_node_goes_over_it(stage, monkeypatch, tmp_path):
    log = tmp_path / "log"
    scancel_is(f"touch {log}", monkeypatch, tmp_path)
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {log}.ssh\n')
    ssh.chmod(0o755)
    targets = (TargetState("slurm+ssh://bob@login:2222", True, None, 0.1),)
    async with stage(array(TASKS[2:], targets=targets), size=(120, 40)) as s:
        s.app.allows_actions = True
        await s.press("4", "x", "G")
        assert "ssh -p 2222 bob@login scancel" in s.text
        await s.press("enter", *"812_[5-9]", "enter")
        await s.app.workers.wait_for_complete()
    assert not log.exists()
    words = log.with_suffix(".ssh").read_text().splitlines()
    # The login shell reads the list of tasks once more.
    assert words[-2:] == ["scancel", "'812_[5-9]'"]
    assert words[words.index("--") + 1] == "login"
    assert words[words.index("-l") + 1] == "bob"
    assert words[words.index("-p") + 1] == "2222"
    assert words[words.index("SLURM_CLUSTERS") - 1] == "-u"


@pytest.mark.parametrize(
    ("urls", "why"),
    [
        (("slurm", "slurm+ssh://other"), "several clusters are in view"),
        (("slurm+http://localhost:6820",), "nothing by slurmrestd"),
        (("local",), "no Slurm queue"),
    ],
)
async def test_a_job_is_changed_only_where_its_cluster_is_sure(
    stage, monkeypatch, tmp_path, urls, why
):
    log = tmp_path / "log"
    scancel_is(f"touch {log}", monkeypatch, tmp_path)
    states = tuple(TargetState(url, True, None, 0.1) for url in urls)
    async with stage(array(TASKS[1:2], targets=states), size=(120, 40)) as s:
        s.app.allows_actions = True
        await s.press("x", "G", "enter")
        assert why in s.lines[-2]
        assert s.app.screen.prompt is None
    assert not log.exists()


async def test_a_shell_takes_the_road_by_which_its_node_is_read(stage, monkeypatch):
    ran = []
    monkeypatch.setattr(subprocess, "run", lambda words, **_: ran.append(words) or done(0))
    monkeypatch.setattr(GpumonApp, "suspend", lambda _: nullcontext())
    targets = (TargetState("slurm+ssh://bob@login:2222", True, None, 0.1),)
    async with stage(fleet(targets=targets)) as s:
        await s.press("enter", "exclamation_mark")
        assert "ended with 0" in s.text
    ((program, option, proxy, *rest),) = ran
    assert (program, option, rest) == ("ssh", "-o", ["--", "gpu01"])
    assert "-l bob -p 2222" in proxy
    assert proxy.endswith("-- login")


def done(code):
    return subprocess.CompletedProcess((), code)


async def test_where_several_targets_may_have_a_node_no_shell_is_opened(stage, monkeypatch):
    ran = []
    monkeypatch.setattr(subprocess, "run", lambda words, **_: ran.append(words))
    targets = tuple(TargetState(f"slurm+ssh://{name}", True, None, 0.1) for name in ("a", "b"))
    async with stage(fleet(targets=targets)) as s:
        await s.press("enter", "exclamation_mark")
        assert "how to reach it is unclear" in s.text
    assert not ran


async def test_a_change_that_slurm_refused_asks_nothing_of_the_queue(stage, monkeypatch, tmp_path):
    scancel_is("echo 'scancel: error: not yours' >&2; exit 1", monkeypatch, tmp_path)
    async with stage(fleet(), size=(120, 40)) as s:
        s.app.allows_actions = True
        await s.press("x", "G", "enter", *"4711", "enter")
        await s.app.workers.wait_for_complete()
        await s.pilot.pause()
        assert "→ scancel 4711: not yours" in s.text
        assert s.feed.wishes == []


async def test_a_change_goes_on_and_is_shown_where_its_page_was_left(stage, monkeypatch, tmp_path):
    go = tmp_path / "go"
    scancel_is(f"until [ -e {go} ]; do sleep 0.02; done", monkeypatch, tmp_path)
    async with stage(fleet(), size=(120, 40)) as s:
        s.app.allows_actions = True
        await s.press("x", "G", "enter", *"4711", "enter")
        s.now[0] += 10.0
        s.app.screen.draw_frame()
        await s.pilot.pause()
        assert "→ running: scancel 4711" in s.lines[-2]
        await s.press("escape")
        go.touch()
        await s.app.workers.wait_for_complete()
        await s.pilot.pause()
        assert "› jobs" in s.lines[0]
        assert "scancel 4711: sent" in s.lines[-2]
        assert s.feed.wishes == [Wish(has_changed_queue=True)]


async def typed(s, path):
    """Answer the question for a file."""
    await s.press("E")
    s.app.focused.value = str(path)
    await s.press("enter")
    await s.app.workers.wait_for_complete()
    await s.pilot.pause()


async def test_a_table_is_written_as_csv_and_json(stage, tmp_path):
    async with stage(fleet()) as s:
        for name in ("jobs.csv", "jobs.json"):
            await typed(s, tmp_path / name)
            assert "written" in s.text
        rows = list(csv.reader((tmp_path / "jobs.csv").read_text().splitlines()))
        made = json.loads((tmp_path / "jobs.json").read_text())
        shown, _ = s.app.screen.grid.shown
        assert len(rows) == shown + 1
        assert len(made["rows"]) == shown
        assert "4711" in rows[1]
        numbers = [v for row in made["rows"] for v in row.values() if isinstance(v, float)]
        assert numbers
        assert stat.S_IMODE((tmp_path / "jobs.csv").stat().st_mode) == 0o600


async def test_any_view_is_written_as_an_image_that_fetches_nothing(stage, tmp_path):
    async with stage(fleet()) as s:
        await s.press("question_mark")
        await typed(s, tmp_path / "help.svg")
        drawn = (tmp_path / "help.svg").read_text()
        assert drawn.startswith("<svg")
        assert "@font-face" not in drawn
        await s.press("E")
        s.app.focused.value = str(tmp_path / "help.csv")
        await s.press("enter")
        assert "no table here" in s.text


async def test_a_file_is_replaced_only_when_asked_for(stage, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("mine")
    async with stage(fleet(), size=(160, 40)) as s:
        await typed(s, path)
        assert "exists" in s.text
        assert path.read_text() == "mine"
        await typed(s, f"{path}!")
        assert path.read_text() != "mine"
        await s.press("E")
        s.app.focused.value = "jobs.exe"
        await s.press("enter")
        assert "must end in one of" in s.text


def test_a_link_is_never_written_through(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "b")
    with pytest.raises(FileRefusedError):
        write_new(str(tmp_path / "a.csv"), lambda: "x", is_forced=True)
    assert not (tmp_path / "b").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileRefusedError, match="No such file"):
        write_new(str(tmp_path / "no" / "a.csv"), lambda: "x", is_forced=False)


NO_NAMES = {
    "a home": "~nobody-of-that-name/a.csv",
    "too long": f"{'n' * 300}.csv",
    "too long with what is added": f"{'n' * 249}.csv",
    "below a file": "file/a.csv",
    "a NUL": "a\0.csv",
}


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES)
@pytest.mark.parametrize("is_forced", [False, True])
def test_what_no_file_can_be_named_is_refused(tmp_path, monkeypatch, name, is_forced):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileRefusedError):
        write_new(name, lambda: "y", is_forced=is_forced)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


async def test_a_mistyped_home_ends_no_terminal(stage):
    async with stage(fleet()) as s:
        await typed(s, "~nobody-of-that-name/a.csv")
        assert "no user of that name has a home directory here" in s.text


def test_a_name_tells_the_form():
    assert form_of("a.SVG") == "svg"
    assert without_fonts("@font-face {x}<svg>") == "<svg>"


async def test_a_simulated_node_has_no_shell(stage, monkeypatch):
    ran = []
    monkeypatch.setattr(subprocess, "run", lambda words, **_: ran.append(words))
    async with stage(fleet()) as s:
        monkeypatch.setattr(type(s.app), "is_real", False)
        await s.press("enter", "exclamation_mark")
        assert "no shell" in s.text
    assert not ran


async def test_where_the_terminal_cannot_be_lent_it_is_said(stage):
    async with stage(fleet()) as s:
        await s.press("enter", "exclamation_mark")
        assert "cannot run a shell" in s.text


async def test_a_change_that_nobody_answers_is_given_up(stage, monkeypatch, tmp_path):
    os.mkfifo(tmp_path / "never")
    scancel_is(f"exec cat {tmp_path}/never", monkeypatch, tmp_path)
    monkeypatch.setattr(job_changes, "RUN_LIMIT_S", 0.05)
    async with stage(fleet(), size=(120, 40)) as s:
        s.app.allows_actions = True
        await s.press("x", "G", "enter", *"4711", "enter")
        await s.app.workers.wait_for_complete()
        await s.pilot.pause()
        assert "scancel 4711: no answer in 0 s" in s.text
        assert s.feed.wishes == []


async def test_a_second_file_is_not_begun_where_the_first_one_hangs(tmp_path):
    may, begun = threading.Event(), threading.Event()

    def hangs():
        begun.set()
        assert may.wait(PATIENCE_S)
        return "a"

    first = asyncio.ensure_future(write_beside(str(tmp_path / "a.csv"), hangs, is_forced=False))
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    with pytest.raises(FileRefusedError, match="the previous file is not written yet"):
        await write_beside(str(tmp_path / "b.csv"), lambda: "b", is_forced=False)
    (tmp_path / "other").mkdir()
    await write_beside(str(tmp_path / "other" / "c.csv"), lambda: "c", is_forced=False)
    may.set()
    assert (await first).read_text() == "a"
    await write_beside(str(tmp_path / "b.csv"), lambda: "b", is_forced=False)
    assert sorted(path.name for path in tmp_path.rglob("*.csv")) == ["a.csv", "b.csv", "c.csv"]
