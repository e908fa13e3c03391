"""Lessons: what is drawn for them, and that they can be drawn again."""

from __future__ import annotations

from collections import Counter
from random import Random

from tools import lessons

NODES = {"h100": 12, "a100": 8, "l40s": 4}


def _drawn(seed: int, weights: dict[str, float], other: float) -> list[str]:
    chance = Random(seed)
    jobs = [lessons._draw(weights, other, 0, chance, NODES, 8) for _ in range(600)]
    for job in jobs:
        assert lessons.HOURS[0] * 3600 <= job.run_s <= lessons.HOURS[1] * 3600
        assert job.shape.gpus <= 8
    return [job.workload.truth for job in jobs]


def test_every_kind_that_can_be_learnt_is_drawn() -> None:
    """And none that rests on exact counters alone."""
    truths = Counter(_drawn(3, lessons._EQUAL, 2.0))
    assert not truths.keys() & set(lessons._UNLEARNT)
    assert {"comm_bound", "input_bound", "small_batch", "healthy"} <= truths.keys()


def test_the_telling_ones_show_what_exchanges_most() -> None:
    """Beside what looks like it."""
    equal, telling = (Counter(_drawn(5, weights, other)) for weights, other in (
        (lessons._EQUAL, 2.0), (lessons._WEIGHTS, 0.3)))  # fmt: skip
    assert telling["comm_bound"] > 2 * equal["comm_bound"]
    assert telling["healthy"] > 100


def test_a_seed_gives_the_same_lesson() -> None:
    """A model can be made again."""
    assert _drawn(7, lessons._EQUAL, 2.0) == _drawn(7, lessons._EQUAL, 2.0)
    assert not set(lessons.BROAD) & set(lessons.EXCHANGING)
