"""What a healed cable lets through is old, whatever the moment of its arrival."""

from __future__ import annotations

import random

import pytest

from gpumon.sources.probes.delay import JITTER_S, STEADY, Delay

BOOTED_S = 86_400.0
"""How much longer the node has been running than the monitor's machine."""


def delay_of(delay: Delay, made_s: float, heard_s: float) -> float:
    return delay.of(BOOTED_S + made_s, heard_s)


def usual(delay: Delay, start_s: int, end_s: int, way_s: float = 0.1) -> list[float]:
    return [delay_of(delay, made_s, made_s + way_s) for made_s in range(start_s, end_s)]


def test_ordinary_reports_have_no_delay() -> None:
    ways = random.Random(1)
    delay = Delay()
    assert {delay_of(delay, made_s, made_s + ways.uniform(0.01, 1.4)) for made_s in range(900)} == {
        0.0
    }


@pytest.mark.parametrize("period_s", [0.2, 1.0, 10.0])
def test_reports_that_a_cut_cable_held_back_are_as_late_as_they_are(period_s: float) -> None:
    delay = Delay()
    usual(delay, 0, 60)
    held = [60.0 + number * period_s for number in range(int(30.0 / period_s))]
    found = [delay_of(delay, made_s, 100.1 + 0.001 * place) for place, made_s in enumerate(held)]
    true = [100.0 - made_s for made_s in held]
    assert found == pytest.approx(true, abs=0.2)
    # Whoever goes on reporting is fresh at once.
    assert usual(delay, 101, 110) == [0.0] * 9


def test_a_node_that_stood_still_is_late_for_a_few_reports_only() -> None:
    delay = Delay()
    usual(delay, 0, 60)
    # Its clock stood for 40 s, so that everything now seems to take 40 s.
    found = usual(delay, 60, 80, way_s=40.1)
    assert found[0] == pytest.approx(40.0, abs=0.2)
    assert found[STEADY:] == [0.0] * (20 - STEADY)


def test_clocks_that_drift_apart_make_no_delay() -> None:
    delay = Delay()
    # 500 ppm is the most that NTP turns a clock by; a day of it is 43 s.
    assert {delay_of(delay, made_s, 1.0005 * made_s) for made_s in range(86_400)} == {0.0}
    assert {delay_of(delay, 90_000.0 + made_s, made_s) for made_s in range(600)} == {0.0}


def test_a_little_late_is_not_late() -> None:
    delay = Delay()
    usual(delay, 0, 10)
    assert delay_of(delay, 10.0, 10.1 + JITTER_S - 0.1) == 0.0
    assert delay_of(delay, 20.0, 20.1 + JITTER_S + 1.0) > JITTER_S


@pytest.mark.parametrize("made_s", [-1e308, -1e9, 1e308])
def test_no_report_is_older_than_the_first_one_whatever_the_node_says(made_s: float) -> None:
    delay = Delay()
    assert delay.of(1e308, 100.0) == 0.0
    assert 0.0 <= delay.of(made_s, 107.0) <= 7.0
    assert 0.0 <= delay.of(-made_s, 108.0) <= 8.0


def test_on_a_slow_way_no_report_is_older_than_the_one_before() -> None:
    ways, delay = random.Random(3), Delay()
    heard_s, times = 0.0, []
    for made_s in range(2_000):
        way_s = ways.choice([*[0.1] * 20, JITTER_S, 1.1 * JITTER_S, 1.2 * JITTER_S])
        heard_s = max(heard_s, made_s + way_s)
        times.append(heard_s - delay_of(delay, made_s, heard_s))
    assert times == sorted(times)


def test_a_way_that_grows_little_by_little_is_told_all_the_same() -> None:
    delay = Delay()
    usual(delay, 0, 10)
    found = [delay_of(delay, made_s, 1.2 * made_s - 1.9) for made_s in range(10, 110)]
    assert max(found) > JITTER_S
