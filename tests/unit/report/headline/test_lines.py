"""The headline: what the fleet has and loses, never cut amid a word."""

from __future__ import annotations

import re

import pytest

from gpumon.model.finding import Coverage, Severity
from gpumon.model.records.frame import QueueRecords
from gpumon.model.records.ledger import Account, LedgerTotals, Losing, LosingNow, Open, Prices
from gpumon.report.facts.tick_index import Digest
from gpumon.report.headline.lines import headline
from gpumon.report.text.ascii_only import ascii_only
from gpumon.report.text.cells import text_width
from gpumon.report.text.units import clock_time
from tests.worlds.queue import slurm_node
from tests.worlds.tick import AT, finding, job_with_gpus, tick

HOUR = 3600.0
SINCE = clock_time(AT - 2 * HOUR)
LOST = {"hang": 5.5, "partial_gpus_idle": 9.5, "~idle_held": 11.0, "throttled": 0.2}
"""GPU-hours."""


def ledger_totals(prices=None, losing=None, seconds=None, since=AT - 2 * HOUR):
    usual = {"useful": 40.0, "unexplained": 3.75, "unobserved": 30.0, **LOST}
    hours = usual if seconds is None else seconds
    account = Account(
        "1", "ada", "ml", "h100", "H100", since, since, {k: h * HOUR for k, h in hours.items()},
        (Open(12.0, 12.0 * (AT - since)), Open(), Open()),
    )  # fmt: skip
    now = LosingNow({}, losing if losing is not None else {"1": Losing(11.0, 2.6)})
    prices = Prices({"H100": 3.0}, 0.0, "€") if prices is None else prices
    return LedgerTotals(AT, since, (account,), (account,), prices, losing=now)


def fleet_tick(ledger=None, **changes):
    view, gpus = job_with_gpus("1", {"n1": 8, "n2": 4})
    listed = (
        slurm_node("n1", "allocated", 8, gpus_used=8),
        slurm_node("n2", "mixed", 8, gpus_used=4),
        slurm_node("n3", "down", 8, gpus_used=0),
    )
    made = tick((view,), gpus, queue=QueueRecords((), listed, AT, AT))
    return made._replace(ledger=ledger_totals() if ledger is None else ledger, **changes)


NEWS = (
    finding("job:1", first_seen=AT - 300, severity=Severity.WARNING),
    finding("node:n1", finding_class="gpu_fault", first_seen=AT - 200, severity=Severity.CRITICAL),
    finding("node:n2", first_seen=AT - 900, severity=Severity.CRITICAL),
    finding("node:n3", first_seen=AT - 100, is_acknowledged=True),
)


def lines(made, width=158, *, is_tall=True, since=None):
    found = headline(Digest(made, news_since=since), width, is_tall=is_tall)
    return ["".join(cell.text for cell in line) for line in found]


def test_three_lines_show_what_there_is_what_becomes_of_it_and_what_was_lost():
    first, second, third = lines(fleet_tick())
    assert first == "24 GPUs: 12 held · 4 free · 8 down"
    assert re.sub(r"(.)\1{3,}", r"\1", second) == (
        "useful █ 57 %   wasted ▓ 22   suspected ▒ 16   unexplained ░ 5   unobserved · 30 "
        "lost now 11 + ~2.6 GPUs ≈ 33 €/h"
    )
    assert third == (
        f"lost since {SINCE}: 15.2 + ~11.0 GPU-h of 70.0 seen (22 %): some GPUs unused 9.50 · "
        "hang 5.50 · ~idle, memory held 11.0 · throttled 0.20"
    )


def test_the_shares_are_as_long_as_they_are_large():
    second = lines(fleet_tick())[1]
    lengths = [second.count(sign) for sign in "█▓▒░"]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] / lengths[1] == pytest.approx(57 / 22, rel=0.35)


@pytest.mark.parametrize("width", range(20, 170))
@pytest.mark.parametrize("is_tall", [True, False])
def test_no_part_is_cut_at_any_width(width, is_tall):
    whole = " ".join(lines(fleet_tick(findings=NEWS), 400, is_tall=True, since=AT - 600))
    words = {*re.split(r"[ :]+", re.sub("[█▓▒░]", "", whole)), "12", "of", "GPUs", "more", "new"}
    for line in lines(fleet_tick(findings=NEWS), width, is_tall=is_tall, since=AT - 600):
        assert text_width(line) <= width
        found = re.split(r"[ :]+", re.sub("[█▓▒░]", "", line))
        assert {one for one in found if not one.isdigit() and set(one) - {"·"}} <= words


def test_one_line_has_the_most_important_and_leaves_out_the_least():
    made = fleet_tick(findings=NEWS)
    (wide,) = lines(made, 118, is_tall=False, since=AT - 600)
    assert wide == (
        f"12 of 24 GPUs held · lost now 11 + ~2.6 GPUs ≈ 33 €/h · lost 15.2 + ~11.0 GPU-h"
        f" since {SINCE} · ‼ 2 new since {clock_time(AT - 600)}"
    )
    (less,) = lines(made, 100, is_tall=False, since=AT - 600)
    assert less == wide.replace(" + ~11.0", "").replace(f" since {clock_time(AT - 600)}", "")
    (narrow,) = lines(made, 78, is_tall=False, since=AT - 600)
    assert narrow == (
        f"12 of 24 GPUs held · lost now 11 + ~2.6 GPUs ≈ 33 €/h · ‼ 2 new since"
        f" {clock_time(AT - 600)}"
    )
    (least,) = lines(made, 36, is_tall=False, since=AT - 600)
    assert least == "12 of 24 GPUs held · ‼ 2 new"


def test_what_is_new_is_counted_with_the_gravest_sign_and_nothing_without_an_absence():
    first = lines(fleet_tick(findings=NEWS), since=AT - 600)[0]
    assert first.endswith(f"  ‼ 2 new since {clock_time(AT - 600)}")
    assert text_width(first) == 158
    assert "new" not in lines(fleet_tick(findings=NEWS))[0]
    assert "new" not in lines(fleet_tick(findings=NEWS), since=AT - 50)[0]
    only = fleet_tick(findings=NEWS[:1])
    assert "  ! 1 new" in lines(only, since=AT - 600)[0]


def test_money_is_shown_only_where_a_price_is_configured():
    assert "≈" not in lines(fleet_tick(ledger_totals(Prices())))[1]
    assert "≈" not in lines(fleet_tick(ledger_totals(Prices({"A100": 2.0}, 0.0, "€"))))[1]


def test_each_jobs_gpus_have_their_own_price():
    ledger = ledger_totals(Prices({"H100": 3.0, "A100": 1.0}, 0.0, "$"))
    (one,) = ledger.accounts
    mixed = one._replace(gpu="A100", open=(Open(4.0, 0.0), Open(), Open()))
    other = one._replace(job_id="2", gpu="A100")
    free = one._replace(job_id="3", gpu="T4")
    now = LosingNow({}, {"1": Losing(8.0, 0.0), "2": Losing(5.0, 9.0), "3": Losing(7.0, 0.0)})
    ledger = ledger._replace(accounts=(one, mixed, other, free), losing=now)
    # Twelve GPUs at 3 and four at 1 are 2.5 each: 8 × 2.5 + 5 × 1, and nothing for what has none.
    assert "≈ 25 $/h" in lines(fleet_tick(ledger))[1]


def test_nothing_is_called_lost_where_nothing_is_and_no_loss_is_denied_before_it_was_sought():
    sound = ledger_totals(losing={}, seconds={"useful": 8.0})
    seen = Coverage("hang", 1, 0, (), "ok")
    judged = lines(fleet_tick(sound, coverage=(seen,)))
    assert judged[1].endswith("nothing lost now")
    assert judged[2] == f"nothing lost since {SINCE} of 8.00 GPU-h seen"
    waits = Coverage("throttle", 0, 0, (), "waiting", needs_s=300.0)
    early = lines(fleet_tick(sound, coverage=(seen, waits)))
    assert early[1].endswith("watching (1 of 2)")
    assert early[2] == f"no loss found yet since {SINCE} of 8.00 GPU-h seen"
    assert "watching (1 of 2)" in lines(fleet_tick(sound, coverage=(seen, waits)), is_tall=False)[0]


def test_what_was_not_observed_is_not_called_sound():
    unseen = lines(fleet_tick(ledger_totals(losing={}, seconds={"unobserved": 6.0})))
    assert "useful" not in unseen[1]
    assert unseen[1].startswith("unobserved ·")
    assert unseen[2] == f"nothing seen since {SINCE} of 6.00 GPU-h"


def test_a_ledger_of_days_shows_how_long_not_a_time_of_day():
    third = lines(fleet_tick(ledger_totals(since=AT - 76 * HOUR)))[2]
    assert third.startswith("lost in 3d04h: ")


def test_without_a_ledger_there_is_the_first_line_alone():
    made = fleet_tick()._replace(ledger=None)
    assert lines(made) == lines(made, is_tall=False) == ["24 GPUs: 12 held · 4 free · 8 down"]
    assert lines(tick((), ())) == []


def test_every_share_is_shown_in_ascii():
    second = ascii_only(lines(fleet_tick())[1])
    assert second.isascii()
    for word, sign in zip(
        ("useful", "wasted", "suspected", "unexplained", "unobserved"), "#%+:.", strict=True
    ):
        assert f"{word} {sign}" in second
    assert "= 33" in second


def test_at_rest_it_stays_as_it_is():
    before = lines(fleet_tick())
    ledger = ledger_totals(
        losing={"1": Losing(11.2, 2.58)},
        seconds={"useful": 40.01, "unexplained": 3.75, "unobserved": 30.01, **LOST, "hang": 5.501},
    )
    assert lines(fleet_tick(ledger))[::2] == before[::2]
    assert lines(fleet_tick(ledger))[1].replace("34 €", "33 €") == before[1]
