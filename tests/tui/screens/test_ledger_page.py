"""The page of the ledger: a week beside the week before it."""

from __future__ import annotations

import pytest

from gpumon.model.records.ledger import Added, Compared, Total
from tests.worlds.tick import AT, fleet

DAY_S = 86400.0


def total(useful_h, **wasted_h):
    wasted = {key: hours * 3600.0 for key, hours in wasted_h.items()}
    return Total(useful_h * 3600.0, 0.0, 0.0, wasted, {}, AT - 7 * DAY_S)


def weeks():
    now, before = total(900, hang=100), total(700, hang=100, partial_gpus_idle=200)
    return Compared(
        AT - 7 * DAY_S, 7 * DAY_S, Added(now, {"ada": now}, AT), Added(before, {}, AT - 7 * DAY_S)
    )


class Ledger:
    """A ledger that is read when the test says so."""

    def __init__(self):
        self.weeks, self.trouble, self.asked = None, "", []

    def ask(self, now):
        self.asked.append(now)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_one_key_tells_what_got_better_this_week(stage, size):
    async with stage(fleet(), size=size) as s:
        s.app.stored_ledger = Ledger()
        await s.press("B")
        assert s.app.stored_ledger.asked == [AT]
        assert "Reading the ledger" in s.text
        s.app.stored_ledger.weeks = weeks()
        await s.give(fleet(at=AT + 2.0))
        assert "Better than before: some GPUs unused 20.0 → 0.0 %" in s.text
        assert s.lines[0].rstrip().endswith("› ledger")
        await s.press("q")
        assert "ledger" not in s.lines[0]
        for word in ("ledger", "books"):
            await s.press("colon", *word, "enter")
            assert s.lines[0].rstrip().endswith("› ledger")
            await s.press("q")


async def test_what_keeps_the_ledger_from_being_read_is_shown(stage):
    async with stage(fleet(), size=(80, 24)) as s:
        s.app.stored_ledger = Ledger()
        s.app.stored_ledger.trouble = "/srv/[b]books[/b]: Permission denied"
        await s.press("B")
        assert "! /srv/[b]books[/b]: Permission denied" in s.text


async def test_without_a_stored_ledger_it_says_how_to_have_one(stage):
    async with stage(fleet(), size=(80, 24)) as s:
        await s.press("B")
        assert "is_kept = true" in s.text
