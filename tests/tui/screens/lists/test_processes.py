"""The view of processes: who is on which GPU, with what, for how long; and the ways on from it."""

from __future__ import annotations

import csv

import pytest
from rich.cells import cell_len

from gpumon.model.missing import Reason
from gpumon.report.wording.empty_states import PROCESSES_NOT_REPORTED
from gpumon.sources.own_login import own_login
from gpumon.tui.screens.lists.processes import ProcessesView
from gpumon.tui.screens.pages.curves import CurvesScreen
from gpumon.tui.screens.pages.node import NodeScreen
from tests.tui.test_hostile import NAMES
from tests.worlds.tick import BUSY, fleet, gpu, tick
from tests.worlds.workstation import SEATS, Seat, workstation


def rows(s):
    """The first words of each row."""
    lines = s.lines
    first = next(at for at, line in enumerate(lines) if "PID" in line) + 1
    return [line.split() for line in lines[first:-2] if line.strip()]


async def test_every_process_on_every_gpu_has_a_line(stage):
    async with stage(workstation(), size=(120, 24)) as s:
        await s.press("colon", *"ps", "enter")
        assert isinstance(s.app.screen, ProcessesView)
        assert rows(s) == [
            ["4243", "grace", "1", "20", "90", "≥7.2", "60m", "train"],
            ["4242", "ada", "0", "12", "31", "≥1.5", "60m", "python"],
            ["900", "gdm", "0", "0.2", "–", "–", "–", "Xorg"],
            ["900", "gdm", "1", "0.2", "–", "–", "–", "Xorg"],
        ]
        assert "4 processes" in s.lines[0]
        await s.resize(80, 24)
        assert [row[0] for row in rows(s)] == ["4243", "4242", "900", "900"]
        assert "COMMAND" in s.text


async def test_the_node_is_in_front_where_there_are_several(stage):
    async with stage(workstation((*SEATS, Seat(77, node="other"))), size=(120, 24)) as s:
        await s.press("colon", *"processes", "enter")
        assert [row[2] for row in rows(s) if row[0] in ("77", "4242")][::-1] == [
            "other:0",
            "desk:0",
        ]
        await s.press("G", "g")
        await s.press("o")
        assert isinstance(s.app.screen, NodeScreen)


async def test_rows_are_filtered_and_sorted_by_any_column(stage):
    async with stage(workstation(), size=(120, 24)) as s:
        await s.press("colon", *"ps", "enter")
        for typed, wanted in [
            ("user==ada & sm<40", ["4242"]),
            ("pid==900 & gpu==1", ["900"]),
            ("mem>10 & time>30m", ["4243", "4242"]),
            ("cores>2 | type==G", ["4243", "900", "900"]),
            ("user==1001", ["4243"]),
            ("command~xorg & sm?", ["900", "900"]),
            ("grace", ["4243"]),
        ]:
            await s.press("slash", *typed, "enter")
            assert [row[0] for row in rows(s)] == wanted, typed
            await s.press("escape")
        for _ in range(20):
            if "SM%▼" in s.text:
                break
            await s.press("greater_than_sign")
        assert [row[0] for row in rows(s)] == ["4243", "4242", "900", "900"]
        await s.press("S")
        assert [row[0] for row in rows(s)] == ["4242", "4243", "900", "900"]


async def test_cores_and_memory_are_those_of_the_tree_where_it_is_known(stage):
    seats = (Seat(1, cores=0.5, tree_cores=9.5, tree_gib=40.0), Seat(2, cores=3.0))
    async with stage(workstation(seats), size=(120, 24)) as s:
        await s.press("colon", *"ps", "enter", "slash", *"cores>9 & rss>30", "enter")
        assert [(row[0], row[5]) for row in rows(s)] == [("1", "9.5")]
        await s.press("escape", "slash", *"cores<9 & rss<30", "enter")
        assert [(row[0], row[5]) for row in rows(s)] == [("2", "≥3.0")]


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (Reason.NO_PERMISSION, "1 of 2 by their PID alone: /proc shows this user no more of them."),
        (Reason.NO_PROCESS, "1 of 2 by their PID alone: gone, or not in this PID namespace."),
    ],
)
async def test_why_lines_are_a_pid_alone_is_said_above_them(stage, why, words):
    """As under hidepid and in a container."""
    known, dark = Seat(1), Seat(2)
    made = workstation((known, dark))
    gpus = {
        uuid: one._replace(processes=tuple(_darkened(p, why) for p in one.processes))
        for uuid, one in made.gpus.items()
    }
    async with stage(made._replace(gpus=gpus), size=(120, 24)) as s:
        await s.press("colon", *"ps", "enter")
        assert s.lines[2].strip() == words
        assert [row[0] for row in rows(s)] == ["PID", "1", "2"]
    async with stage(made, size=(120, 24)) as s:
        await s.press("colon", *"ps", "enter")
        assert "PID alone" not in s.text


def _darkened(process, why):
    """One of which nothing but the PID is known, and the first as it is."""
    if process.pid == 1:
        return process
    return process._replace(name=None, uid=None, user=None, why=why)


async def test_u_keeps_ones_own_processes(stage):
    seats = (*SEATS, Seat(55, user=own_login()))
    async with stage(workstation(seats), size=(120, 24)) as s:
        await s.press("colon", *"ps", "enter", "u")
        assert [row[0] for row in rows(s)] == ["55"]
        assert "mine  1 process " in s.lines[0] + " "


async def test_enter_opens_the_process_over_time(stage):
    async with stage(workstation(), size=(120, 40)) as s:
        await s.press("colon", *"ps", "enter", "enter")
        assert isinstance(s.app.screen, CurvesScreen)
        assert s.app.screen.subject.endswith("/4243")
        assert "desk:4243" in s.lines[0]


async def test_y_copies_the_pid_and_x_lists_commands_for_it(stage):
    async with stage(workstation(), size=(120, 24)) as s:
        await s.press("colon", *"ps", "enter", "y")
        assert s.app.clipboard == "4243"
        await s.press("x")
        assert "py-spy dump --pid 4243" in s.text


async def test_a_jobs_process_is_called_by_its_jobs_user(stage):
    async with stage(fleet(), size=(120, 24)) as s:
        await s.press("colon", *"ps", "enter", "slash", *"user==grace", "enter")
        assert len(rows(s)) == 5
        assert {row[1] for row in rows(s)} == {"grace"}


async def test_where_processes_cannot_be_read_the_list_does_not_claim_that_there_is_none(stage):
    hung = gpu("desk", 3, {**BUSY, "process_count": None})
    local = workstation()
    async with stage(tick((), [hung], queue_at=None, targets=local.targets)) as s:
        await s.press("colon", *"ps", "enter")
        assert "Which processes are on GPU 3 is not known." in s.text
        assert "No process" not in s.text


async def test_without_a_queue_gpus_have_no_column_of_jobs_unless_it_is_chosen(stage):
    async with stage(workstation(), size=(60, 24)) as s:
        titles = s.line_with("LOST/H")
        assert "JOB" not in titles
        assert "MEM" in titles
        s.app.screen.grid.choose(("node", "gpu", "job", "why"))
        await s.pilot.pause()
        assert "JOB" in s.line_with("WHY")


async def test_without_a_queue_tab_goes_through_the_views_that_show_something(stage):
    async with stage(workstation(), size=(120, 24)) as s:
        met = [s.app.screen.view]
        for _ in range(4):
            await s.press("tab")
            met.append(s.app.screen.view)
        assert met == ["gpus", "nodes", "fleet", "processes", "gpus"]
        await s.press("shift+tab")
        assert s.app.screen.view == "processes"
        await s.press("4", "tab")
        assert s.app.screen.view == "gpus"
        await s.press("4", "shift+tab")
        assert s.app.screen.view == "processes"


@pytest.mark.parametrize("name", NAMES)
async def test_hostile_programs_and_users_are_text(stage, name):
    seats = (Seat(7, user=name, program=name, kind=name), Seat(8, node=name or "x"))
    async with stage(workstation(seats)) as s:
        await s.press("colon", *"ps", "enter")
        for keys in ((), ("slash", "p", "enter"), ("escape",), ("enter",), ("escape", "c")):
            await s.press(*keys)
            assert not any(ord(c) < 32 and c != "\n" for c in s.text)
            assert "\u202e" not in s.text
            for strip in s.app.screen._compositor.render_strips():
                assert cell_len("".join(segment.text for segment in strip)) == 80


async def test_a_file_has_the_columns_with_their_units(stage, tmp_path):
    path = tmp_path / "ps.csv"
    async with stage(workstation(), size=(120, 24)) as s:
        await s.press("colon", *"ps", "enter", "E")
        s.app.focused.value = str(path)
        await s.press("enter")
        await s.app.workers.wait_for_complete()
    written = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["pid"] for row in written] == ["4243", "4242", "900", "900"]
    assert written[0]["memory (bytes)"] == str(20 * 2**30)
    assert written[0]["command"] == "train"


async def test_where_exporters_alone_are_read_nobody_is_said_to_be_on_no_gpu(stage):
    listed = gpu("n1", 0, {**BUSY, "process_count": None})
    missing = {**listed.block.missing, ("process_count", 0): Reason.NOT_SHARED}
    page = listed._replace(block=listed.block._replace(missing=missing))
    async with stage(tick((), [page], queue_at=None), size=(100, 24)) as s:
        await s.press("colon", *"ps", "enter")
        assert PROCESSES_NOT_REPORTED in s.text
        assert "No process is" not in s.text
