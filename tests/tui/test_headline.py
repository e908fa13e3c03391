"""The headline above the views of the whole fleet, and the bell."""

from __future__ import annotations

import pytest

from gpumon.model.finding import Coverage
from gpumon.report.text.units import clock_time
from gpumon.tui.app import GpumonApp
from tests.tui.conftest import HandFeed
from tests.tui.keyboard import settle
from tests.unit.report.headline.test_lines import fleet_tick
from tests.worlds.tick import AT, finding

SEEN = (Coverage("hang", 1, 0, (), "ok"),)


@pytest.mark.parametrize("key", ["1", "2", "3", "9"])
async def test_three_lines_where_there_is_room_and_one_where_there_is_not(stage, key):
    async with stage(fleet_tick(), (120, 32)) as s:
        await s.press(key)
        assert s.lines[1].startswith(" 24 GPUs: 12 held · 4 free · 8 down")
        assert s.lines[2].startswith(" useful █")
        assert s.lines[3].startswith(" lost since ")
        await s.resize(120, 31)
        assert s.lines[1].startswith(" 12 of 24 GPUs held · lost now 11 + ~2.6 GPUs ≈ 33 €/h · ")
        assert "GPU-h of" not in s.text


async def test_the_jobs_of_one_user_have_no_headline_of_the_fleet(stage):
    async with stage(fleet_tick(), (120, 40)) as s:
        await s.press("6", "enter")
        assert "users › ada" in s.lines[0]
        assert "24 GPUs" not in s.text


async def test_what_was_found_while_nobody_looked_is_new(stage):
    async with stage(fleet_tick(coverage=SEEN), (120, 40)) as s:
        await s.press("down")
        s.now[0] = 59.0
        late = finding("job:1", first_seen=AT + 40)
        await s.give(fleet_tick(coverage=SEEN, findings=(late,), at=AT + 59))
        assert s.app.news == frozenset()
        s.now[0] = 61.0
        await s.give(fleet_tick(coverage=SEEN, findings=(late,), at=AT + 61))
        assert s.lines[1].endswith(f"! 1 new since {clock_time(AT)}")
        assert s.app.news == {late.identity}
        await s.press("down")
        assert s.lines[1].endswith("! 1 new since " + clock_time(AT))


@pytest.mark.parametrize("rings", [True, False])
async def test_the_bell_is_rung_where_that_was_asked_for(rings, monkeypatch):
    feed, now, rung = HandFeed(), [0.0], []
    app = GpumonApp(feed, monotonic=lambda: now[0], rings_bell=rings)
    monkeypatch.setattr(app, "bell", lambda: rung.append(now[0]))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for at_s, found in ((0.0, ()), (70.0, ()), (90.0, (finding("job:1", first_seen=AT + 80),))):
            now[0] = at_s
            feed.on_tick(fleet_tick(coverage=SEEN, findings=found, at=AT + at_s))
            await settle(pilot)
    assert rung == ([90.0] if rings else [])
