"""A week's ledger as a text."""

from __future__ import annotations

import pytest

from gpumon.model.records.ledger import NOTHING, Added, Compared, LedgerTotals, Total
from gpumon.report.pages.week import session_entries, week_entries

HOUR_S = 3600.0
WEEK_S = 7 * 24 * HOUR_S
SINCE = 1_790_000_000.0


def total(useful_h=0.0, suspected=None, **wasted_h):
    wasted = {key: hours * HOUR_S for key, hours in wasted_h.items()}
    guesses = {key: hours * HOUR_S for key, hours in (suspected or {}).items()}
    return Total(useful_h * HOUR_S, 0.0, 0.0, wasted, guesses, SINCE)


def text(newest, before, width=100, names=None, names_before=None):
    weeks = Compared(
        SINCE,
        WEEK_S,
        Added(newest, names if names is not None else {"ada": newest}, SINCE + WEEK_S),
        Added(before, names_before if names_before is not None else {"ada": before}, SINCE),
    )
    entries = week_entries(weeks, width)
    return "\n".join("".join(cell.text for cell in line) for lines in entries for line in lines)


def row(shown, name):
    return next(line for line in shown.splitlines() if line.startswith(name)).split()


def test_what_got_better_and_what_worse_is_on_top():
    shown = text(total(600, hang=30, idle_held=4), total(700, hang=10, partial_gpus_idle=90))
    assert "Better than before: some GPUs unused 11.2 → 0.0 %" in shown
    assert "Worse than before: hang 1.2 → 4.7 %, idle, memory held 0.0 → 0.6 %" in shown
    assert shown.index("Better") < shown.index("cause")


def test_what_did_not_change_is_as_before():
    shown = text(total(990, hang=10), total(1980, hang=21))
    assert "No cause takes more or less than in the 7 days before." in shown


def test_without_a_week_before_nothing_is_compared():
    shown = text(total(10, hang=10), NOTHING, names_before={})
    assert "nothing to compare with" in shown
    assert "Better" not in shown
    assert row(shown, "hang") == ["hang", "10.0", "50.0", "%", "–"]


def test_a_cause_that_is_over_has_its_line_and_crumbs_have_none():
    shown = text(
        total(600, throttled=0.001, suspected={"input_bound": 0.004}),
        total(600, partial_gpus_idle=90),
    )
    assert row(shown, "some GPUs unused")[3:] == ["0.00", "0.0", "%", "13.0", "%"]
    assert "throttled" not in shown.split("user")[0].split("cause")[1]
    assert "~" not in shown


def test_users_are_by_what_they_lose_with_the_share_of_before():
    names = {"bob\x1b[31m": total(10, hang=30), "ada": total(40, idle_held=10)}
    shown = text(total(50, hang=30), total(80, hang=20), 80, names, {"ada": total(80, hang=20)})
    assert "\x1b" not in shown
    lines = shown[shown.index("user ") :].splitlines()
    assert lines[0].split() == ["user", "GPU-h", "lost", "share", "before", "most", "of", "it"]
    assert lines[1].split()[1:] == ["40.0", "30.0", "75.0", "%", "–", "hang"]
    assert lines[2].split()[:7] == ["ada", "50.0", "10.0", "20.0", "%", "20.0", "%"]


def test_of_many_users_the_rest_is_counted():
    names = {f"u{number}": total(1, hang=20 - number) for number in range(15)}
    shown = text(total(15, hang=195), NOTHING, names=names, names_before={})
    assert "3 more users: gpumon report --since 7days" in shown
    assert "u12" not in shown


@pytest.mark.parametrize("width", [40, 80, 160])
def test_sentences_fit_into_the_width(width):
    entries = week_entries(
        Compared(SINCE, WEEK_S, Added(total(6, hang=3), {}, None), Added(total(9), {}, None)), width
    )
    sentences = [line for lines in entries[:3] for line in lines]
    assert all(sum(len(cell.text) for cell in line) <= width for line in sentences)


def test_without_a_ledger_on_disk_the_session_is_shown():
    ledger = LedgerTotals(SINCE, SINCE, (), ())
    entries = session_entries(ledger, 80)
    shown = "\n".join("".join(cell.text for cell in line) for part in entries for line in part)
    assert "is_kept = true" in shown
    assert "Nothing was observed yet." in shown
    assert session_entries(None, 80)
