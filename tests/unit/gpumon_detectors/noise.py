"""What telemetry suffers, for scenes of any family of rules."""

from __future__ import annotations

from math import inf
from zlib import crc32

HOLE_S = 60.0
BETWEEN_HOLES_S = 1440.0
_ROUND_S = BETWEEN_HOLES_S + HOLE_S
MISSING_SHARE = 0.05

TROUBLES = ("none", "missing", "holes", "shared", "restart")
"""What telemetry suffers: nothing, 5 % of all values missing, a hole of 60 s in every 25 minutes, a
neighbour at work on the node, gpumon begun anew in the middle of the last phase."""


OF_EACH_SECOND = ("missing",)
"""What of it a scene of a sample a second suffers: it costs ten times as much as others, and
what the others do to rules shows at longer periods."""


def troubles_at(period_s):
    """What a scene of a period suffers, one after the other."""
    return OF_EACH_SECOND if period_s < 10.0 else TROUBLES


def of_one_colour(scene: str, pairs: list[tuple[float, str]]) -> list[bool]:
    """Which of a scene's pairs of period and trouble run every day, as fields of a chessboard.

    Every period and every trouble is among them where the scene has two of the other. Scenes begin
    with the colour that their name draws, so that each pair is met by every second scene.
    """
    periods = sorted({period_s for period_s, _ in pairs})
    if len(periods) == 1 or len({trouble for _, trouble in pairs}) == 1:
        return [True] * len(pairs)
    first = crc32(scene.encode())
    return [
        (first + periods.index(period_s) + TROUBLES.index(trouble)) % 2 == 0
        for period_s, trouble in pairs
    ]


def later(values, begun_s):
    """Values of a phase that has lasted for so long already."""

    def moved(value):
        return (lambda s: value(s + begun_s)) if callable(value) else value

    return {key: moved(value) for key, value in values.items()}


def thinned(values, dice):
    """Values of which one in twenty is missing."""

    def told(value):
        def at(seconds):
            if dice.random() < MISSING_SHARE:
                return None
            return value(seconds) if callable(value) else value

        return at

    return {key: told(value) for key, value in values.items()}


def stretches(seconds, trouble, longest_s=inf):
    """Parts of a phase: seconds that have passed before it, its length, whether it is a hole."""
    passed_s = 0.0
    while passed_s < seconds:
        until_s = (passed_s // _ROUND_S) * _ROUND_S + BETWEEN_HOLES_S
        is_hole = trouble == "holes" and passed_s >= until_s
        end_s = min(seconds, until_s + HOLE_S * is_hole if trouble == "holes" else seconds)
        part_s = min(end_s - passed_s, longest_s)
        yield passed_s, part_s, is_hole
        passed_s += part_s
