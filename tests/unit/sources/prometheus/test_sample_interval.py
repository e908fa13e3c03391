"""The time between two samples, as polls see it."""

from __future__ import annotations

from gpumon.sources.prometheus.known import Key, Known
from gpumon.sources.prometheus.sample_interval import MOST_LONG, WatchedInterval

BEGAN = 1_790_000_000.0


def seen(*polls: dict[str, float]) -> float | None:
    """The interval after polls, each with the age of samples by host."""
    watched = WatchedInterval()
    for poll in polls:
        watched.see({key_of(host): known(host, at) for host, at in poll.items()})
    return watched.interval_s


def key_of(host: str) -> Key:
    return f"GPU-{host}", ""


def known(host: str, at: float) -> Known:
    return Known({"Hostname": host}, BEGAN + at)


def test_one_poll_shows_no_interval() -> None:
    assert seen() is None
    assert seen({"a": 0.0}) is None
    assert seen({"a": 0.0}, {"a": 0.0}) is None


def test_a_single_gap_may_be_of_the_time_before_anybody_gathered() -> None:
    assert seen({"a": 0.0}, {"a": 47.0}) is None
    assert seen({"a": 0.0}, {"a": 47.0}, {"a": 60.0}) == 13.0


def test_what_polls_missed_makes_it_no_longer() -> None:
    assert seen({"a": 0.0}, {"a": 34.0}, {"a": 34.0}, {"a": 51.0}, {"a": 102.0}) == 17.0


def test_the_slowest_of_several_counts() -> None:
    polls = [{"a": 0.0, "b": 3.0}, {"a": 9.0, "b": 43.0}, {"a": 18.0, "b": 83.0}]
    assert seen(*polls) == 40.0


def test_who_has_gone_counts_no_more() -> None:
    assert seen({"a": 0.0, "b": 0.0}, {"a": 8.0, "b": 55.0}, {"a": 16.0, "b": 110.0}) == 55.0
    assert seen({"a": 0.0, "b": 0.0}, {"a": 8.0, "b": 55.0}, {"a": 16.0}) == 8.0
    began = [{"a": 0.0}, {"a": 8.0}, {"a": 16.0}]
    assert seen(*began, {"b": 1.0}) is None
    assert seen(*began, {"b": 1.0}, {"b": 21.0}, {"b": 41.0}) == 20.0


def test_of_a_large_fleet_some_nodes_are_watched() -> None:
    hosts = [f"n{number:03}" for number in range(3 * MOST_LONG)]
    polls = [{h: at * (10.0 + (h == hosts[-1])) for h in hosts} for at in range(3)]
    assert seen(*polls) == 10.0
