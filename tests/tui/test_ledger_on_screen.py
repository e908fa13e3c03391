"""The ledger on the screen: which job wastes most, and what became of a job's GPU time."""

from __future__ import annotations

from gpumon.model.records.ledger import Account, LedgerTotals, Prices
from tests.worlds.tick import AT, fleet


async def test_which_job_wastes_most_is_answered_by_one_key_however_narrow(stage):
    whole = fleet()
    accounts = [
        Account(job_id, "", "", "", "H100", AT - 7200, AT - 7200, {"useful": 7200.0 - s, "hang": s})
        for job_id, s in (("4711", 720.0), ("4690", 3600.0))
    ]
    ledger = LedgerTotals(AT, AT - 9000, tuple(accounts), tuple(accounts))
    async with stage(whole._replace(ledger=ledger), (80, 24)) as s:
        assert "LOST▼" not in s.text
        await s.press("W")
        assert s.text.index("4690 ") < s.text.index("4711 ")
        assert "LOST▼" in s.text
        assert "1.00" in s.cursor_line()
        await s.press("W")
        assert "LOST▼" in s.text
        await s.press("S", "W")
        assert "LOST▼" in s.text
        await s.press("0")
        assert "LOST▼" not in s.text


async def test_a_jobs_page_shows_its_ledger(stage):
    seconds = {"useful": 3600.0, "hang": 7200.0, "unobserved": 1800.0}
    held = Account("4711", "", "", "", "H100", AT - 12_600, AT - 10_800, seconds)
    ledger = LedgerTotals(AT, AT - 9000, (held,), (held,), Prices({"default": 2.0}, 0.0, "EUR"))
    async with stage(fleet()._replace(ledger=ledger), (200, 40)) as s:
        await s.press("enter")
        assert "booked 3.50 GPU-h, 7.00 EUR since " in s.text
        assert "unobserved 0.50 GPU-h, 14 %" in s.text
        assert "wasted 2.00 GPU-h, 67 %, 4.00 EUR  hang 2.00 GPU-h" in s.text
