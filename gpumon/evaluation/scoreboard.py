"""Adds up how good what was said is: per class, per step of confidence, in hours."""

from __future__ import annotations

from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.evaluation.hours import Hours, hours_of
from gpumon.model.finding import Confidence
from gpumon.model.finding_classes import CLASSES
from gpumon.model.units import DAY_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.evaluation.events import Events, Found, Judged
    from gpumon.evaluation.witness import Account

STEPS: Final = tuple(Confidence)
"""Steps of confidence, by their rank."""

SUPPORTED: Final = Confidence.SUPPORTED.rank
"""The step that scores are told of unless another is named: what is said aloud."""


DRAWS: Final = 1000
"""Samples of the bootstrap: its intervals are good to about a hundredth of their width."""

_SEED: Final = 20261124
_COVERED: Final = (2.5, 97.5)
"""Percentiles between which 95 % of the samples lie."""

NOTHING_CLAIMED: Final = "nothing"
"""In the confusion: what was said of a fault that nobody claimed anything about."""

BENIGN: Final = "healthy"


class Interval(NamedTuple):
    """A figure with the bounds between which 95 % of resampled jobs put it; NaN: not defined."""

    value: float
    low: float
    high: float


class Counted(NamedTuple):
    """One class, or all, at one step of confidence."""

    labels: int
    found: int
    claims: int
    """Of which it is known whether they are true."""
    true_claims: int

    @property
    def precision(self) -> float:
        """Share of the claims that are true, NaN without any."""
        return self.true_claims / self.claims if self.claims else nan

    @property
    def recall(self) -> float:
        """Share of the labels that were found, NaN without any."""
        return self.found / self.labels if self.labels else nan

    @property
    def f1(self) -> float:
        """Harmonic mean of both; 0 where nothing was found, NaN where there was nothing to find."""
        if not self.labels:
            return nan
        if not self.found or not self.true_claims:
            return 0.0
        return 2 * self.precision * self.recall / (self.precision + self.recall)


class Calibration(NamedTuple):
    """How often claims were true that came to one step of confidence and no further."""

    true_ratio: Interval
    claims: int
    """Of which it is known whether they are true."""


class ClassScore(NamedTuple):
    """How well the findings of one class agree with the labels, over all recordings."""

    steps: tuple[Counted, Counted, Counted]
    """By rank of confidence."""
    is_looked_for: bool
    unseen: int
    """Labels that no finding matches and whose fields were missing."""
    named: int
    """Labels whose exact subject was named."""
    delays_s: tuple[float, ...]
    """From the onset to the first supported claim, of every label that was found."""
    true_s: float
    wasted_s: float
    suspected_s: float


class Scoreboard(NamedTuple):
    """All recordings together."""

    classes: Mapping[str, ClassScore]
    """Those that are labelled or were claimed, in order of precedence."""
    macro_f1: tuple[Interval, Interval, Interval]
    """Mean F1 over the classes that are labelled, by rank of confidence."""
    all_classes: tuple[Counted, Counted, Counted]
    delays_s: tuple[float, ...]
    false_alarms: int
    gpu_days: float
    benign: int
    benign_flagged: int
    hours_error: Interval
    """Of wasted and suspected: (charged - true) / true, of jobs whose loss is known."""
    wasted_error: Interval
    benign_charged_s: float
    excess_s: float
    """Charged beyond what was claimed."""
    jobs_left_out: int
    """Of the hours, because nobody says what they lost."""
    unknown_claims: int
    """About jobs of which the labels say nothing."""
    confusion: Mapping[str, Mapping[str, int]]
    """By what is true, how often each class was said, supported or better."""
    calibration: tuple[Calibration, Calibration, Calibration]
    """By rank of confidence."""
    errors: tuple[str, ...]

    @property
    def macro_f1_of_its_classes(self) -> float:
        """Mean F1 over the labelled classes that are looked for at all, NaN without any."""
        scores = [one.steps[SUPPORTED].f1 for one in self.classes.values() if one.is_looked_for]
        known = [f1 for f1 in scores if isfinite(f1)]
        return sum(known) / len(known) if known else nan


class Board:
    """Takes recordings, one after the other."""

    def __init__(self) -> None:
        self._found: list[tuple[str, Found]] = []
        self._judged: list[tuple[str, Judged]] = []
        self._hours: list[tuple[str, Hours]] = []
        self._benign: set[tuple[str, str]] = set()
        self._gpu_seconds = 0.0
        self._errors: list[str] = []

    def add(self, name: str, account: Account, events: Events) -> None:
        """One recording, whose name tells its jobs from those of others."""
        self._found += ((f"{name}\n{one.group}", one) for one in events.found)
        self._judged += ((f"{name}\n{one.group}", one) for one in events.judged)
        self._hours += ((f"{name}\n{one.group}", one) for one in hours_of(account, events))
        self._benign |= {(name, job_id) for job_id in events.benign}
        self._gpu_seconds += account.gpu_seconds
        self._errors += (f"{name}: {error}" for error in account.errors)

    def scores(self, draws: int = DRAWS) -> Scoreboard:
        """Everything so far.

        Args:
            draws: Samples of the bootstrap; 0: no bounds are told.
        """
        keys = _in_order(
            {one.label.finding_class for _, one in self._found}
            | {one.claim.finding_class for _, one in self._judged if one.is_true is not None}
        )
        flagged = {
            group
            for group, one in self._judged
            if one.is_of_benign and one.is_true is False and one.claim.rank >= SUPPORTED
        }
        known = [one for _, one in self._hours if one.is_known and not one.is_benign]
        resampled = _Resampled(keys, self._found, self._judged, self._hours, draws)
        every = tuple(_counted(None, rank, self._found, self._judged) for rank in range(len(STEPS)))
        loud = every[SUPPORTED]
        return Scoreboard(
            classes={key: self._class(key, known) for key in keys},
            macro_f1=(resampled.macro_f1(0), resampled.macro_f1(1), resampled.macro_f1(2)),
            all_classes=(every[0], every[1], every[2]),
            delays_s=_delays_s(one for _, one in self._found),
            false_alarms=loud.claims - loud.true_claims,
            gpu_days=self._gpu_seconds / DAY_S,
            benign=len(self._benign),
            benign_flagged=len(flagged & {f"{name}\n{job_id}" for name, job_id in self._benign}),
            hours_error=resampled.error(lambda one: _sum(one.wasted_s) + _sum(one.suspected_s)),
            wasted_error=resampled.error(lambda one: _sum(one.wasted_s)),
            benign_charged_s=sum(
                _sum(h.wasted_s) + _sum(h.suspected_s) for _, h in self._hours if h.is_benign
            ),
            excess_s=sum(one.excess_s for _, one in self._hours),
            jobs_left_out=sum(not one.is_known for _, one in self._hours),
            unknown_claims=sum(one.is_true is None for _, one in self._judged),
            confusion=self._confusion(),
            calibration=(resampled.true_ratio(0), resampled.true_ratio(1), resampled.true_ratio(2)),
            errors=tuple(self._errors),
        )

    def _class(self, key: str, known: Sequence[Hours]) -> ClassScore:
        mine = [one for _, one in self._found if one.label.finding_class == key]
        counted = [_counted(key, rank, self._found, self._judged) for rank in range(len(STEPS))]
        return ClassScore(
            steps=(counted[0], counted[1], counted[2]),
            is_looked_for=all(one.is_looked_for for one in mine),
            unseen=sum(one.is_unseen and one.found_at(SUPPORTED) == inf for one in mine),
            named=sum(one.is_named for one in mine),
            delays_s=_delays_s(mine),
            true_s=sum(one.true_s.get(key, 0.0) for one in known),
            wasted_s=sum(one.wasted_s.get(key, 0.0) for one in known),
            suspected_s=sum(one.suspected_s.get(key, 0.0) for one in known),
        )

    def _confusion(self) -> dict[str, dict[str, int]]:
        rows: dict[str, dict[str, int]] = {}
        for _, one in self._found:
            if one.found_at(SUPPORTED) == inf:
                row = rows.setdefault(one.label.finding_class, {})
                row[NOTHING_CLAIMED] = row.get(NOTHING_CLAIMED, 0) + 1
        for _, judged in self._judged:
            key = judged.claim.finding_class
            if judged.claim.rank < SUPPORTED or judged.is_true is None:
                continue
            for truth in (key,) if judged.is_true else judged.truths or (BENIGN,):
                row = rows.setdefault(truth, {})
                row[key] = row.get(key, 0) + 1
        return rows


class _Resampled:
    """Draws jobs again and again, with replacement: the jobs differ, not their samples."""

    def __init__(
        self,
        keys: Sequence[str],
        found: Sequence[tuple[str, Found]],
        judged: Sequence[tuple[str, Judged]],
        hours: Sequence[tuple[str, Hours]],
        draws: int,
    ) -> None:
        self._keys, self._found, self._judged, self._hours = keys, found, judged, hours
        groups = dict.fromkeys(group for part in (found, judged, hours) for group, _ in part)
        self._place = {group: place for place, group in enumerate(groups)}
        dice, count = np.random.default_rng(_SEED), len(groups)
        drawn = dice.multinomial(count, [1 / count] * count, draws) if count else np.ones((0, 0))
        # The first row is what was seen.
        self._weights: NDArray[np.float64] = np.ones((1 + len(drawn), count), np.float64)
        self._weights[1:] = drawn

    def macro_f1(self, rank: int) -> Interval:
        """Mean F1 of the classes with labels; in a sample, of those that it has labels of."""
        labels, found, claims, true = np.zeros((4, len(self._place), len(self._keys)))
        column = {key: place for place, key in enumerate(self._keys)}
        for group, one in self._found:
            at = self._place[group], column[one.label.finding_class]
            labels[at] += 1
            found[at] += one.found_at(rank) < inf
        for group, judged in self._judged:
            if judged.is_true is not None and judged.claim.rank >= rank:
                at = self._place[group], column[judged.claim.finding_class]
                claims[at] += 1
                true[at] += judged.is_true
        labels, found, claims, true = (
            self._weights @ part for part in (labels, found, claims, true)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            precision, recall = np.nan_to_num(true / claims), np.nan_to_num(found / labels)
            f1 = np.nan_to_num(2 * precision * recall / (precision + recall))
            means = np.where(labels > 0, f1, 0.0).sum(axis=1) / (labels > 0).sum(axis=1)
        return _interval(means)

    def true_ratio(self, rank: int) -> Calibration:
        """Share of true claims among those whose surest step was this one."""
        claims, true = np.zeros((2, len(self._place)))
        for group, judged in self._judged:
            if judged.is_true is not None and judged.claim.rank == rank:
                claims[self._place[group]] += 1
                true[self._place[group]] += judged.is_true
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = (self._weights @ true) / (self._weights @ claims)
        return Calibration(_interval(shares), int(claims.sum()))

    def error(self, charged: Callable[[Hours], float]) -> Interval:
        """What was charged beyond the truth, as a share of the truth."""
        true, charged_s = np.zeros((2, len(self._place)))
        for group, one in self._hours:
            if one.is_known and not one.is_benign:
                true[self._place[group]] += _sum(one.true_s)
                charged_s[self._place[group]] += charged(one)
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = (self._weights @ charged_s) / (self._weights @ true) - 1.0
        return _interval(np.where(np.isfinite(errors), errors, nan))


def _interval(values: NDArray[np.float64]) -> Interval:
    drawn = values[1:][np.isfinite(values[1:])]
    if not np.isfinite(values[0]):
        return Interval(nan, nan, nan)
    low, high = np.percentile(drawn, _COVERED) if len(drawn) else (nan, nan)
    return Interval(float(values[0]), float(low), float(high))


def _counted(
    key: str | None,
    rank: int,
    found: Sequence[tuple[str, Found]],
    judged: Sequence[tuple[str, Judged]],
) -> Counted:
    """One class, or without a key all of them, at one step of confidence or better."""
    mine = [one for _, one in found if key in (None, one.label.finding_class)]
    claims = [
        one.is_true
        for _, one in judged
        if one.is_true is not None
        and one.claim.rank >= rank
        and key in (None, one.claim.finding_class)
    ]
    return Counted(
        len(mine), sum(one.found_at(rank) < inf for one in mine), len(claims), sum(claims)
    )


def _delays_s(found: Iterable[Found]) -> tuple[float, ...]:
    """From the onset to the first supported claim; one that was there before counts as 0."""
    first_claims = ((one.found_at(SUPPORTED), one.label.start) for one in found)
    return tuple(sorted(max(0.0, at - start) for at, start in first_claims if at < inf))


def _sum(seconds: Mapping[str, float]) -> float:
    return sum(seconds.values())


def _in_order(keys: Iterable[str]) -> list[str]:
    order = {key: place for place, key in enumerate(CLASSES)}
    return sorted(keys, key=lambda key: (order.get(key, len(order)), key))
