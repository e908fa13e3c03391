"""Times as people type them."""

from __future__ import annotations

import time

import pytest

from gpumon.report.text.typed_time import instant_of, outside_words

NOON = time.mktime((2026, 11, 20, 12, 0, 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10", NOON - 600),
        (" 2.5 ", NOON - 150),
        ("0", NOON),
        ("-10m", NOON - 700),
        ("+30", NOON - 70),
        ("- 1.5h", NOON - 5500),
        ("10:35", NOON - 85 * 60),
        ("10:35:20", NOON - 85 * 60 + 20),
        ("12:00", NOON),
        ("13:00", NOON - 23 * 3600),
        ("2026-11-20T10:35", NOON - 85 * 60),
        ("2026-11-20 10:35", NOON - 85 * 60),
        ("2026-11-20T10:35:00Z", 1795170900.0),
    ],
)
def test_times_are_understood(text, expected):
    assert instant_of(text, NOON - 100, NOON) == expected


def test_the_zone_of_the_last_case_is_not_this_machines():
    assert time.gmtime(1795170900.0)[:5] == (2026, 11, 20, 10, 35)


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "10:75", "-", "-5y", "10 m", "99999", "9999999999999999-01"]
)
def test_what_is_no_time_is_told_with_examples(text):
    with pytest.raises(ValueError, match=r"write 10 \(minutes ago\), 10:35, -10m"):
        instant_of(text, NOON, NOON)


@pytest.mark.parametrize(
    ("after_s", "words"),
    [(-40.0, "nothing before "), (-0.5, ""), (33.0, ""), (99.5, ""), (160.0, " is still to come"),
     (1e18, "that is still to come"), (-86400.0 * 3, "nothing before ")],
)  # fmt: skip
def test_a_time_outside_of_what_is_kept_is_told(after_s, words):
    text = outside_words(1_760_000_000.0 + after_s, 1_760_000_000.0, 1_760_000_099.0)
    assert words in text
    assert bool(text) == bool(words)
