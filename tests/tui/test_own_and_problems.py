"""`u` keeps one's own jobs in every view of jobs; `n` goes to the next row with a problem."""

from __future__ import annotations

import pytest

from gpumon.sources.own_login import own_login
from tests.tui.board import board
from tests.worlds.tick import finding, fleet, job_with_gpus, tick, uuid_of


def shared(**changes):
    """Two of this user's jobs among five."""
    made = fleet()
    jobs = tuple(
        view._replace(job=view.job._replace(user=own_login()))
        if view.job.job_id in ("4711", "4730")
        else view._replace(job=view.job._replace(user="barbara"))
        for view in made.jobs
    )
    return made._replace(jobs=jobs, **changes)


async def test_u_keeps_ones_own_in_every_view_and_gives_all_back(stage):
    async with stage(shared(), size=(120, 24)) as s:
        assert "mine" not in s.lines[0]
        await s.press("u")
        assert "mine  2 jobs" in s.lines[0]
        assert "4690" not in s.text
        await s.press("2")
        assert "mine" in s.lines[0]
        assert "8 of 28 GPUs" in s.lines[0]
        await s.press("4")
        assert "mine  1 waiting job" in s.lines[0]
        await s.press("3")
        assert "mine" not in s.lines[0]
        await s.press("1", "f", "u", "escape")
        assert "5 jobs" in s.lines[0]
        assert "4690" in s.text


async def test_where_nothing_is_ones_own_the_way_back_is_said(stage):
    async with stage(fleet(), size=(120, 24)) as s:
        await s.press("u")
        assert f"None of the jobs here belongs to {own_login()}. u shows all." in s.text
        await s.press("u")
        assert "4711" in s.text


async def test_the_demos_user_is_you():
    async with board("u", size=(120, 40)) as b:
        lines = b.seen().lines
        first = next(place for place, line in enumerate(lines) if "JOBID" in line) + 1
        end = next(place for place, line in enumerate(lines) if line.startswith("──"))
        rows = [line for line in lines[first:end] if line.strip()]
        assert rows
        assert all(" you " in line for line in rows)


def troubled(*job_ids):
    made = [job_with_gpus(str(n), {f"n{n}": 2}, name=f"job-{n}") for n in range(40, 49)]
    views, gpus = tuple(v for v, _ in made), [g for _, gs in made for g in gs]
    return tick(views, gpus, findings=tuple(finding(f"job:{n}") for n in job_ids))


async def test_n_goes_on_to_problems_new_ones_first_and_back_again(stage):
    async with stage(troubled(42, 47), size=(120, 24)) as s:
        await s.press("s")
        for key, job in (("n", "42"), ("n", "47"), ("n", "42"), ("N", "47"), ("N", "42")):
            await s.press(key)
            assert s.cursor_line().split()[1] == job, key
        await s.give(troubled(41, 42, 47)._replace(number=9))
        await s.press("n")
        assert s.cursor_line().split()[1] == "41", "it is new"
        await s.press("n")
        assert s.cursor_line().split()[1] == "42"


async def test_n_says_where_there_is_no_other_problem(stage):
    async with stage(troubled(), size=(120, 24)) as s:
        await s.press("n")
        assert "no other row has a finding of its own that warns" in s.lines[-2]


@pytest.mark.parametrize("view", ["2", "3", "f"])
async def test_n_goes_through_gpus_nodes_and_findings(stage, view):
    hot = finding(f"gpu:{uuid_of('n44', 1)}", finding_class="ecc_errors")
    whole = troubled()._replace(findings=(finding("job:40"), hot))
    async with stage(whole, size=(120, 24)) as s:
        await s.press(view, "G" if view == "f" else "g", "n")
        assert "n44" in s.cursor_line() or view == "f"
        before = s.cursor_line()
        await s.press("n")
        assert (s.cursor_line() != before) == (view == "f")
