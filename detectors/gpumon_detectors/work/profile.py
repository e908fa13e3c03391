"""What each GPU of a job does over a while, in slices of two minutes, and since when it does so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import LEAST_EVIDENCE_S, Window
from gpumon_detectors.evidence.watched import unbroken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Past

GLANCE_S: Final = 720.0
"""A first look back, which spares most jobs the long one: the shortest claim and a slice."""

SPAN_S: Final = 6 * 3600.0
"""How far back it is looked for since when it lasts (our choice: as hangs are)."""

_SLICE_S: Final = 120.0
"""Means are taken over so long: a step, an evaluation of some batches and a short checkpoint
disappear in it, a change of what the job does does not (our choice)."""

SOME_SM: Final = 0.02
"""SM activity of a slice from which a GPU is at work in it, with however small kernels (our
choice)."""

_KNOWN: Final = 0.5
"""Share of a slice that must be known of a field."""

_FITTING: Final = 0.85
"""Share of the time since then in which the signs must show: the rest are checkpoints and
evaluations (our choice; a healthy checkpoint takes less than .08 of the time)."""

_LONGEST_BREAK_S: Final = 420.0
"""What interrupts the signs, or is not known, for longer ends the stretch: three slices, so that
one evaluation or one checkpoint of a large model does not (our choice)."""


class Profile(NamedTuple):
    """Means of fields by slice and GPU; slices are counted back from the newest row."""

    past: Past
    firsts: NDArray[np.intp]
    """First row of each slice, the oldest slice first."""
    seconds: NDArray[np.float64]
    """Seconds of each slice that were observed."""
    means: Mapping[str, NDArray[np.float64]]
    """By field, slice by GPU; NaN where it is known for less than half of a slice."""

    def most(self, key: str) -> NDArray[np.float64]:
        """Per slice the largest mean of any GPU, NaN where one of them is not known."""
        most: NDArray[np.float64] = self.means[key].max(axis=1)
        return most

    def share(self, key: str, whole: str) -> NDArray[np.float64]:
        """By slice and GPU one field as a share of another, NaN where that is 0 or not known."""
        parts, wholes = self.means[key], self.means[whole]
        share: NDArray[np.float64] = parts / np.where(wholes > 0, wholes, np.nan)
        return share

    def since(self, fits: NDArray[np.bool_], is_known: NDArray[np.bool_]) -> Stretch | None:
        """The stretch until now whose slices show the signs, None where there is none to speak of.

        Args:
            fits: By slice whether the signs show.
            is_known: By slice whether that can be told; what is not known for a moment breaks
                nothing.
        """
        known_s = np.where(is_known, self.seconds, 0.0)
        fitting_s = np.where(fits & is_known, self.seconds, 0.0)
        behind, behind_fitting = (np.cumsum(part[::-1])[::-1] for part in (known_s, fitting_s))
        is_begin = fits & is_known & (behind_fitting >= _FITTING * behind)
        is_begin[: self._behind_break(self.seconds - fitting_s, fits & is_known)] = False
        begins = np.flatnonzero(is_begin)
        if not len(begins):
            return None
        first = int(begins[0])
        is_shown = fits & is_known
        is_shown[:first] = False
        seconds = self.seconds.copy()
        # Of its first row no more than the row's own samples span: what lies before is another's.
        row = self.firsts[first]
        past = self.past
        seconds[first] -= float(past.seconds[row] - (past.times[row] - past.begins[row]))
        found = Stretch(self, first, is_shown, np.where(is_shown, seconds, 0.0))
        return found if found.known_s >= LEAST_EVIDENCE_S else None

    @staticmethod
    def _behind_break(broken_s: NDArray[np.float64], fits: NDArray[np.bool_]) -> int:
        """First slice behind the last break that is too long."""
        total = 0.0
        for place in range(len(fits) - 1, -1, -1):
            total = 0.0 if fits[place] else total + float(broken_s[place])
            if total > _LONGEST_BREAK_S:
                return place + 1
        return 0


class Stretch(NamedTuple):
    """A time until now in which a job's GPUs did the same."""

    profile: Profile
    first: int
    """Its first slice."""
    is_shown: NDArray[np.bool_]
    """By slice whether it is one of those that show it."""
    seconds: NDArray[np.float64]
    """By slice the seconds in which it was seen, 0 in the others."""

    @property
    def window(self) -> Window:
        """From its first to its last sample."""
        past, row = self.profile.past, int(self.profile.firsts[self.first])
        return Window(float(past.begins[row]), float(past.times[-1]), len(past.times) - row)

    @property
    def known_s(self) -> float:
        """Seconds in which it showed."""
        return float(self.seconds.sum())

    @property
    def is_open(self) -> bool:
        """Whether it may have begun before it was observed."""
        return self.first == 0

    def means(self, key: str) -> NDArray[np.float64]:
        """Per GPU the mean of a field over the slices that show it, NaN where it is not known."""
        values = self.profile.means[key][self.is_shown]
        weights = self.seconds[self.is_shown][:, None] * np.isfinite(values)
        with np.errstate(invalid="ignore", divide="ignore"):
            means: NDArray[np.float64] = np.nansum(weights * np.nan_to_num(values), axis=0) / (
                weights.sum(axis=0)
            )
        return means

    def mean(self, key: str) -> float:
        """The same over all GPUs of which it is known, NaN without any."""
        means = self.means(key)
        known = means[np.isfinite(means)]
        return float(known.mean()) if len(known) else float("nan")

    def share(self, key: str, whole: str) -> float:
        """Mean of a field as a share of another's, NaN where that is 0 or not known."""
        total = self.mean(whole)
        return self.mean(key) / total if total > 0 else float("nan")

    def peak(self, key: str) -> float:
        """Largest value of any GPU and row, of the fields whose peaks were asked for."""
        row = int(self.profile.firsts[self.first])
        values = self.profile.past.peaks[key][row:]
        return float(np.nanmax(values)) if np.isfinite(values).any() else float("nan")


def profile_of(job: JobLook, keys: Sequence[str], seconds: float, peaks: int = 0) -> Profile | None:
    """What a job's GPUs did while it held them all, behind the last long hole; None: nothing known.

    Args:
        job: The job.
        keys: Fields of GPUs.
        seconds: How far to look back.
        peaks: Of so many of the first fields the largest values are kept too.
    """
    past = unbroken(job.past(keys, seconds, peaks))
    if len(past.times) < 2 or not job.gpus:
        return None
    numbers = ((past.times[-1] - past.times) // _SLICE_S).astype(np.intp)
    firsts = np.flatnonzero(np.diff(numbers, prepend=numbers[0] + 1))
    row_s = past.seconds_from(0)
    seconds_of = np.add.reduceat(row_s, firsts)
    weights, means = row_s[:, None], {}
    for key in keys:
        values = past.columns[key]
        is_known = np.isfinite(values)
        known_s = np.add.reduceat(weights * is_known, firsts, axis=0)
        total = np.add.reduceat(weights * np.where(is_known, values, 0.0), firsts, axis=0)
        is_enough = (known_s > 0) & (known_s >= _KNOWN * seconds_of[:, None])
        means[key] = np.where(is_enough, total / np.where(known_s > 0, known_s, 1.0), np.nan)
    return Profile(past, firsts, seconds_of, means)
