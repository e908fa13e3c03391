"""Another rank is the slowest in each step, and all the others wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity, Window
from gpumon_detectors.evidence.gpu_use import is_named
from gpumon_detectors.evidence.job_context import serving_name
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.ranks.peers import LEAST_GPUS, worlds_of
from gpumon_detectors.ranks.union import LEAST_WINDOWS, PAST_S, WIDTH_S, union_of
from gpumon_detectors.ranks.work_windows import WORK_KEYS, medians, windows_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.plugin import Finding, JobLook, Past, View
    from gpumon_detectors.ranks.work_windows import Floats, WorkWindows


LOSS_WIDTH_S: Final = 10.0
"""Windows over which the loss is counted: the shorter, the less of it evens out. Below it samples
of several nodes are not of the same moment (our choice; history's own beat)."""

_LEAST_SPREAD: Final = 0.03
"""Spread between the ranks of one window, as a share of their work. Equal data leave a hundredth
and less; a spread of a fifth from step to step leaves as much over 33 steps (our choice)."""

_MOST_SHARE: Final = 0.3
"""How much oftener than in turn one rank may be the slowest."""

_MOST_MEMORY: Final = 0.35
"""Correlation of a rank's lead with that in the window before: data are drawn again in each step,
the load of experts and servers changes slowly (our choice)."""

_STATIC_SHARE: Final = 0.5
"""How far apart ranks may lie all the time, as a share of the spread within windows."""

_LEAST_UTIL: Final = 0.85
"""Mean utilisation of each rank: those that are ahead spin in the collective, so none rests (our
choice)."""

_LEAST_TENSOR: Final = 0.05
"""Mean tensor activity from which it shows how much a rank computes; below, SM activity does (our
choice)."""


class Moving(NamedTuple):
    """Ranks of which another one is the slowest in each window."""

    first: int
    known_s: float
    spread: float
    """Deviation of a rank's work within windows, as a share of it."""
    leaders: int
    """How many of the ranks were the slowest in some window."""
    lost: float
    """Share of the time for which ranks wait for the slowest of a window, at least."""
    field: str


class DataImbalance(Detector):
    """Claims that the work of a job's steps is spread unevenly, and differently each time.

    Where sequences, images or graphs differ in size, a different rank has most to do in each step
    and the others wait for it. Over windows of half a minute the work of the ranks then differs by
    3 % and more, each of them is ahead now and then, and the one that was ahead in one window is
    not ahead in the next; utilisation stays at 85 % and more on all of them, since a rank that
    waits spins.

    *Supported* after 15 minutes, *established* after 40, where the ranks are known to be of one
    world; or, where worlds are unknown, where what their NVLinks carry in each window is no more
    than half as far apart as their work: in each step all ranks of a job exchange as much.
    Otherwise it is a *hypothesis*, as servers side by side have loads that differ as well.

    What looks alike: ranks that differ all the time (`stage_imbalance`, `straggler`); experts and
    servers, whose load changes slowly; steps of less than a second even out within a window and are
    not seen. Nothing is claimed without SM activity, or where values are more than half a minute
    apart.

    The loss is how much less the ranks do than the one that does most, on average over windows of
    ten seconds, as all wait for it. It is a lower bound: within a window of several steps a part of
    their difference evens out, and the number of steps is not known.
    """

    name = "data_imbalance"
    version = "1"
    finding_classes = ("data_imbalance",)
    needs = ("gpu_util_ratio", "sm_active_ratio")
    supported_after_s = 900.0
    established_after_s = 2400.0
    every_s = 300.0
    longest_period_s = 30.0

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per world in which the slowest rank changes."""
        for job in view.jobs:
            if len(job.gpus) < LEAST_GPUS or not is_named(job) or serving_name(job) is not None:
                continue
            if not (job.latest("sm_active_ratio") > 0).any():
                continue
            past = job.past(WORK_KEYS, PAST_S)
            windows = windows_of(past, WIDTH_S)
            for world in worlds_of(job):
                moving = moving_of(windows, world, past)
                if moving is not None:
                    yield self._finding(view, job, windows, world, moving)

    def _finding(
        self,
        view: View,
        job: JobLook,
        windows: WorkWindows,
        world: Sequence[int],
        moving: Moving,
    ) -> Finding:
        window = Window(
            float(windows.begins[moving.first]),
            float(windows.ends[-1]),
            len(windows.ends) - moving.first,
        )
        known_s = min(moving.known_s, window.end - window.start)
        union = union_of(job, world, window.start, moving.spread)
        since = since_words(window, is_open=True, known_s=known_s)
        name = "tensor cores" if moving.field == "tensor_active_ratio" else "SMs"
        text = f"{name}: the ranks of one window differ by {100 * moving.spread:.1f} % of their "
        text += f"work, and {moving.leaders} of {len(world)} have had most to do"
        share = f"at least {100 * moving.lost:.0f} % of the time is spent waiting for the slowest"
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"another of {len(world)} ranks is the slowest each time {since}",
            window=window,
            evidence=(
                Evidence(moving.field, job.subject, text, moving.spread),
                *union.evidence,
                Evidence(moving.field, job.subject, share, moving.lost),
            ),
            advice=(
                (
                    "Give each rank as much in each step: sort by length, pack sequences, or "
                    "balance batches by tokens."
                ),
            ),
            gpu_seconds=moving.lost * known_s * len(world),
            at_most=surest(
                self,
                known_s,
                window.samples,
                Confidence.ESTABLISHED if union.is_known else Confidence.HYPOTHESIS,
            ),
            gpus=[job.uuids[place] for place in world],
        )


def moving_of(windows: WorkWindows, world: Sequence[int], past: Past) -> Moving | None:
    """How the slowest rank of a world changes, None where none does.

    Args:
        windows: Of all GPUs of the job, `WIDTH_S` long.
        world: Positions of its GPUs.
        past: What the windows are made of.
    """
    if len(world) < LEAST_GPUS or not len(windows.ends):
        return None
    own = windows.of(np.asarray(world, np.intp))
    if own.measure != "sm_active_ratio":
        return None
    rows = np.flatnonzero(own.is_work)
    tensor = own.means["tensor_active_ratio"][rows]
    has_tensor = bool(len(rows)) and float(np.nan_to_num(tensor).mean()) >= _LEAST_TENSOR
    field = "tensor_active_ratio" if has_tensor else "sm_active_ratio"
    work = own.means[field][rows]
    rows = rows[np.isfinite(work).all(axis=1)]
    if len(rows) < LEAST_WINDOWS:
        return None
    util = own.means["gpu_util_ratio"][rows].mean(axis=0)
    if util.min() < _LEAST_UTIL:
        return None
    lead = np.log(np.maximum(own.means[field][rows], 1e-6))
    lead -= medians(lead)[:, None]
    usual = lead.mean(axis=0)
    swing = lead - usual
    spread = float(np.median(swing.std(axis=1, ddof=1)))
    if spread < _LEAST_SPREAD:
        return None
    if usual.std() > _STATIC_SHARE * spread or not _changes(swing):
        return None
    first = _since(swing, spread)
    if first is None or len(rows) - first < LEAST_WINDOWS:
        return None
    leaders = len(np.unique(swing[first:].argmax(axis=1)))
    lost = _lost(past, world, field, usual, float(own.begins[rows[first]]))
    known_s = float(own.seconds[rows[first:]].sum())
    return Moving(
        first=int(rows[first]),
        known_s=known_s,
        spread=spread,
        leaders=leaders,
        lost=lost,
        field=field,
    )


def _lost(past: Past, world: Sequence[int], field: str, usual: Floats, since: float) -> float:
    """Share of the time since then for which ranks wait for the slowest of a short window.

    Args:
        past: What is known of all GPUs of the job.
        world: Positions of the ranks' GPUs.
        field: What tells how much each does.
        usual: By how much each of them, as a logarithm, does more all the time.
        since: Unix time.
    """
    own = windows_of(past, LOSS_WIDTH_S).of(np.asarray(world, np.intp))
    return waited_share(own.means[field][own.is_work & (own.begins >= since)] / np.exp(usual))


def waited_share(work: Floats) -> float:
    """Share of the time for which ranks wait for the busiest of each window; 0 of nothing known.

    Args:
        work: What each rank does, window by rank.
    """
    work = work[np.isfinite(work).all(axis=1)]
    most = float(work.max(axis=1).sum()) if work.size else 0.0
    return 1.0 - float(work.mean(axis=1).sum()) / most if most > 0.0 else 0.0


def _changes(swing: Floats) -> bool:
    """Whether each rank is ahead in its turn, and none for long."""
    count = swing.shape[1]
    ahead = np.bincount(swing.argmax(axis=1), minlength=count) / len(swing)
    if ahead.max() > 1.0 / count + _MOST_SHARE or (count <= 8 and ahead.min() == 0.0):
        return False
    memory = float((swing[1:] * swing[:-1]).mean() / (swing**2).mean())
    return memory <= _MOST_MEMORY


def _since(swing: Floats, spread: float) -> int | None:
    """First window of the stretch until now in which ranks differ as much."""
    own = swing.std(axis=1) >= 0.25 * spread
    share = np.cumsum(own[::-1])[::-1] / np.arange(len(own), 0, -1)
    found = np.flatnonzero(own & (share >= 0.8))
    return int(found[0]) if len(found) else None
