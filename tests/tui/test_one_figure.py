"""Every view of one tick: one figure for a loss, one sum for the fleet, one order."""

from __future__ import annotations

import re

import pytest

from gpumon.report.document.document import document
from gpumon.report.lists.once import table
from gpumon.report.text import units
from tests.tui.keyboard import pressed

pytestmark = pytest.mark.slow

HOUR_S = 3600.0
SIZES = [(80, 24), (160, 50)]
VIEWS = {"jobs": "1", "gpus": "2", "nodes": "3", "users": "6", "accounts": "7", "partitions": "8"}
ELSEWHERE = {"pending": "4", "ended": "5", "fleet": "9"}
"""Views of the fleet whose rows do not add up to what it loses: the headline says it there too."""

BY_NAME = ("reservations", "processes")
"""The same, gone to by name."""

ROUNDED = 0.05
"""A cell of LOST/H shows a decimal below 10, none above: each may be off by half of that."""


def cells(stage, title):
    """The texts of a column in the view on top, by row."""
    columns, rows = stage.app.screen.grid.table
    column = next(one for one in stage.app.screen.grid.plan.columns if one.title == title)
    assert columns
    return [column.cell(stage.app.digest, row).text.strip() for row in rows]


def parts(text):
    """What is wasted and what is suspected, of a cell such as `3.4~1.7`, `~0.7`, `16`, `–`."""
    wasted, _, suspected = text.replace(",", "").replace("<", "").replace("h", "").partition("~")
    return tuple(float(one) if one not in ("", "–") else 0.0 for one in (wasted, suspected))


def off_by(text):
    """By how much a cell may be off."""
    return sum(0.5 if float(one) >= 9.95 else ROUNDED for one in re.findall(r"[\d.]+", text))


def summed(texts):
    """Sums of both parts, and by how much they may be off."""
    both = [parts(text) for text in texts]
    return (
        sum(wasted for wasted, _ in both),
        sum(suspected for _, suspected in both),
        sum(map(off_by, texts)) + 1e-6,
    )


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_a_loss_has_one_figure(stage, demo_past, size):
    """In the list of findings, on the finding's page, on the job's, in JSON and in the ledger."""
    tick = demo_past.newest
    listed = {one["summary"]: one for one in document(tick)["findings"]}
    async with stage(demo_past.newest, size) as s:
        await s.press("f")
        _, rows = s.app.screen.grid.table
        losses = dict(zip((row.identity for row in rows), cells(s, "LOST"), strict=True))
        by_identity = {one.identity: one for one in (*tick.findings, *tick.cleared)}
        checked = 0
        for identity, shown in losses.items():
            finding = by_identity[identity]
            charged = tick.ledger.charged.get(identity)
            booked_s = charged.wasted_s if charged else 0.0
            if booked_s < 0.005 * HOUR_S:
                await s.press("j")
                continue
            figure = units.gpu_hours(booked_s)
            assert shown.removesuffix("h").startswith(figure)
            if finding.is_open:
                data = listed[finding.summary]
                assert data["wasted_gpu_seconds"] == pytest.approx(booked_s, abs=1e-3)
            await s.press("enter")
            assert re.search(rf"lost\s+{re.escape(figure)}", s.text), s.text
            await s.press("escape", "j")
            checked += 1
        assert checked >= 6
        await pressed(s, ("q", "1", "Enter"))
        top = next(iter(losses.values())).removesuffix("h")
        assert f"{top} GPU-h lost since" in s.text


def headline_shows(stage, total, losing, name):
    """Above every view of the fleet."""
    headline = "\n".join(stage.lines[:4])
    assert f"lost now {units.gpus_lost(losing.wasted_gpus)} + ~" in headline, name
    assert units.gpu_hours(total.waste_s) in headline, name


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_the_fleet_has_one_sum(stage, demo_past, size):
    """What is lost now and what was lost: in every table, the headline, the ledger and JSON."""
    tick = demo_past.newest
    total, losing = tick.ledger.total(), tick.ledger.losing.total()
    async with stage(demo_past.newest, size) as s:
        for name, key in VIEWS.items():
            await s.press(key)
            wasted, suspected, off = summed(cells(s, "LOST/H"))
            assert wasted == pytest.approx(losing.wasted_gpus, abs=off), name
            assert suspected == pytest.approx(losing.suspected_gpus, abs=off), name
            if name not in ("gpus", "nodes"):
                lost, _, _ = summed(cells(s, "LOST"))
                assert lost == pytest.approx(total.waste_s / HOUR_S, abs=0.06 * len(tick.jobs)), (
                    name
                )
            headline_shows(s, total, losing, name)
        for name, key in ELSEWHERE.items():
            await s.press(key)
            headline_shows(s, total, losing, name)
        groups = re.findall(r"^ \S+ · .* · lost/h (\S+)$", s.text, re.MULTILINE)
        wasted, suspected, off = summed(groups)
        assert wasted == pytest.approx(losing.wasted_gpus, abs=off)
        assert suspected == pytest.approx(losing.suspected_gpus, abs=off)
        for name in BY_NAME:
            await s.press("colon", *name, "enter")
            headline_shows(s, total, losing, name)
        await s.press("1", "f")
        wasted, suspected, off = summed(cells(s, "LOST/H"))
        assert wasted == pytest.approx(losing.wasted_gpus, abs=off)
        assert suspected == pytest.approx(losing.suspected_gpus, abs=off)
        head = re.search(r"([\d.]+) GPU-h, ~[\d.]+ GPU-h lost, cleared: ([\d.]+) GPU-h", s.text)
        assert float(head[1]) + float(head[2]) == pytest.approx(total.waste_s / HOUR_S, abs=0.1)
        await s.press("q")
        await s.press("B")
        shares = re.findall(r"^ *([a-z][^~\n]*?)  +([\d.,]+) +[\d.]+ %$", s.text, re.MULTILINE)
        known = {"useful", "unexplained", "unobserved"}
        charged = sum(
            float(hours.replace(",", "")) for cause, hours in shares if cause not in known
        )
        assert charged == pytest.approx(total.waste_s / HOUR_S, abs=0.05)
        data = document(tick)
        assert data["ledger"]["total"]["wasted_gpu_seconds"] == pytest.approx(
            total.waste_s, abs=1.0
        )
        for name in ("user", "account", "partition", "gpu"):
            parts_s = sum(line["wasted_gpu_seconds"] for line in data["ledger"][f"by_{name}"])
            assert parts_s == pytest.approx(total.waste_s, abs=1.0), name
        plain = table(tick, 120)
        assert f"lost now {units.gpus_lost(losing.wasted_gpus)} + ~" in plain
        assert units.gpu_hours(total.waste_s) in plain


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_what_a_job_lost_is_one_figure_also_after_its_end(stage, demo_past, size):
    """In the list, on its page, among those that ended, and of its ranks together."""
    ledger = demo_past.newest.ledger
    ended = {one.job.job_id for one in demo_past.newest.ended.jobs}
    over = [job_id for job_id in ended if (total := ledger.job(job_id)) and total.waste_s >= 36.0]
    assert over
    async with stage(demo_past.newest, size) as s:
        await s.press("5")
        for job_id in over:
            figure = units.gpu_hours(ledger.job(job_id).waste_s)
            assert re.search(rf"^ *{job_id} .* {re.escape(figure)}h? ", s.text, re.MULTILINE), (
                s.text
            )
        await s.press("1")
        listed = cells(s, "LOST/H")
        _, rows = s.app.screen.grid.table
        for row, shown in list(zip(rows, listed, strict=True))[:4]:
            figure = units.gpu_hours(ledger.job(row.job.job_id).waste_s)
            await s.press("enter")
            assert f"{figure} GPU-h" in s.text
            wasted, suspected, off = summed(cells(s, "LOST/H"))
            assert (wasted, suspected) == pytest.approx(parts(shown), abs=off + off_by(shown))
            await s.press("escape", "j")


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_there_is_one_order(stage, demo_past, size):
    """By what is lost an hour, what is suspected counting less; its column says so."""
    async with stage(demo_past.newest, size) as s:
        for name, key in VIEWS.items():
            await s.press(key)
            assert "LOST/H▼" in s.text, name
            texts = cells(s, "LOST/H")
            sure = [parts(text)[0] for text in texts if "~" not in text]
            assert sure == sorted(sure, reverse=True), name
            assert parts(texts[0])[0] == max(parts(text)[0] for text in texts), name
        await s.press("1")
        _, rows = s.app.screen.grid.table
        jobs = [row.job.job_id for row in rows]
        losing = {job_id for job_id, text in zip(jobs, cells(s, "LOST/H"), strict=True)
                  if any(parts(text))}  # fmt: skip
        await s.press("f")
        _, rows = s.app.screen.grid.table
        digest = s.app.digest
        of = [digest.job_of(row) if hasattr(digest, "job_of") else row.subject for row in rows]
        named = [subject.removeprefix("job:") for subject in of if subject.startswith("job:")]
        first = [job_id for job_id in dict.fromkeys(named) if job_id in losing]
        assert first == [job_id for job_id in jobs if job_id in first]
        plain = [line.split()[1] for line in table(demo_past.newest, 120).splitlines()
                 if re.match(r" *[\d~.]+ 48\d+", line)]  # fmt: skip
        assert plain == [job_id for job_id in jobs if job_id in plain]


@pytest.mark.parametrize("view", ["2", "4"], ids=["gpus", "pending"])
async def test_where_a_line_is_not_one_thing_lines_are_what_none_passes(stage, demo_past, view):
    """A MIG instance has a line, an array of many jobs has one: both were counted as the noun."""
    async with stage(demo_past.newest, (80, 24)) as s:
        await s.press(view, "slash", *"zzqx", "enter")
        counted = re.search(r"None of (\d+) lines contains", s.text)
        assert counted
        assert f"0 of {counted[1]} lines" in s.lines[0]
