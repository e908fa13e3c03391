"""Some stages of a pipeline have more to do than others, and those wait."""

from __future__ import annotations

from math import nan, sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity, Window
from gpumon_detectors.evidence.clock_rows import POWER_CAP_BIT, SET_SHARE
from gpumon_detectors.evidence.gpu_use import PAST_S, is_named
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.evidence.watched import mean_of, mean_over, surest
from gpumon_detectors.ranks.late_ranks import late_ranks
from gpumon_detectors.ranks.peers import jobs_apart, name_of, shared_by, worlds_of
from gpumon_detectors.ranks.slow_causes import causes_of
from gpumon_detectors.ranks.union import union_of
from gpumon_detectors.ranks.work_windows import LEAST_TENSOR, work_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.ranks.work_windows import Floats, WorkWindows

    Places = NDArray[np.intp]

_LEAST_GPUS: Final = 4
"""Fewer GPUs have too few stages to show that the others are alike (our choice)."""

_LEAST_MORE: Final = 0.1
"""How much more a stage must do than the others: stages are seldom split to the per cent."""

_ALIKE: Final = 0.04
"""How far apart the GPUs of one stage may lie: they do the same (our choice)."""

_REST_ALIKE: Final = 0.15
_ALONE_ALIKE: Final = 0.08
"""How far apart the other stages may lie, and those of one rank: experts differ all among
themselves (our choice)."""

_LONGEST_START_S: Final = 1200.0
"""Work that begins so long after its job is its first: a slow start takes about as long."""

_LEAST_WINDOWS: Final = 10
"""Windows with work that a mean is made of (our choice)."""

_FIRST_WINDOWS: Final = 5
"""It must be so from the first windows of work on: what begins later is no design."""


_CLOCK_KEYS: Final = ("sm_clock_mhz", "clock_event_reasons")

_HEAVY_SHARE: Final = 0.9
"""Share of the windows in which the heavy stage does more than any other: in the rest there may be
a checkpoint or an evaluation (our choice)."""

_LEAST_SPIN: Final = 0.85
"""Utilisation of the stages that wait: to wait for a neighbour is a kernel that runs (our
choice)."""

_COMPUTING: Final = 0.92
"""Share of the heavy stage's step in which it computes; the rest is exchanged (our choice: exposed
exchange of healthy jobs is 4 to 16 %)."""

_MORE_WORK: Final = 0.25
"""How much more the tensor cores of a heavy stage must count for its split to be called uneven: one
of four layers, as few as stages of large models have (Megatron-LM's 96 in 8 to 64 stages). Less may
be what cannot be split any finer (our choice)."""

_SWING: Final = 0.05
"""Deviation of the logarithm of how much more the heavy stage does, from window to window: what a
split gives is the same in all of them, the loads of experts drift (our choice)."""

_LONG_WINDOWS: Final = 5
_LEAST_LONG: Final = 6
"""Windows of a minute put together, and how many such there must be: steps of a quarter of a minute
are cut by a minute's ends, and what that makes of it falls with the length; what differs from step
to step by chance falls with the root of the length, and what drifts stays (our choices)."""

_SAME_CLOCK: Final = 0.97
"""Share of the others' clock from which a stage's boards are as fast: those of one product differ
by a few per cent (our choice, stricter than what is a reason of `straggler`)."""

_SAME_KIND: Final = 0.35
"""How far apart the logarithms may lie by which the heavy stage does more on its tensor cores and
in its memory: generators and learners do other things, not more (our choice)."""


class _Stage(NamedTuple):
    """The stage that the others wait for."""

    heavy: tuple[int, ...]
    waiting: tuple[int, ...]
    first: int
    known_s: float
    times: float
    """Times that a step takes of what it would in balance."""
    more: float
    more_work: float
    """The same of what tensor cores count; NaN where they are not used, or not told."""
    swing: float
    """Deviation of it from window to window, as a logarithm; of long ones, as if of a minute."""
    spread: float
    """Deviation of the GPUs' work, as logarithms."""
    stage_count: int


class StageImbalance(Detector):
    """Claims that one stage of a pipeline does more than the others, which wait for it.

    The GPUs of a world, in the order of their ranks, fall into stages of equal size, those of one
    stage alike; one stage is at least 10 % busier than every other, in nine of ten windows of a
    minute since the job was first seen at work, and the others spin. What begins later, or has a
    clock or a link that is slow as its cause, is `straggler`'s.

    *Supported* after 15 minutes where nothing else can look so: stages of several GPUs; one of them
    shares a node with another; they are ranks of one job; the heavy one counts a quarter more on
    its tensor cores, always by as much, at the clock of the others and below its power limit. A
    board that is slow counts no more work, or its clock shows it. Long steps are compared over five
    minutes. Otherwise it is a *hypothesis*: the finding says what is not known. Of stages of one
    rank only the first and the last are claimed, if the job's first work was seen.

    From outside it cannot be seen whether a stage is meant to do more, as a last one that holds the
    head: the others wait all the same.

    What looks alike: boards of several products; GPUs that generate beside others that learn, whose
    tensor cores and memory differ in other ways; experts, each with a load of its own; fewer than
    four GPUs. Without SM activity nothing is claimed.

    The loss is what all GPUs wait beyond a balanced pipeline: how far the mean of their work is
    below that of the heavy stage.
    """

    name = "stage_imbalance"
    version = "1"
    finding_classes = ("stage_imbalance",)
    needs = ("gpu_util_ratio", "sm_active_ratio")
    supported_after_s = 900.0
    established_after_s = 2700.0
    every_s = 60.0

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per world with a heavy stage."""
        apart = jobs_apart(view)
        for number, job in zip(view.numbers, view.jobs, strict=True):
            if not apart[number] or len(job.gpus) < _LEAST_GPUS or not is_named(job):
                continue
            windows = work_windows(view, job, PAST_S)
            if not len(windows.ends) or windows.measure != "sm_active_ratio":
                continue
            shared = shared_by(view, job)
            for world in worlds_of(job):
                stage = _heavy_stage(job, windows, world)
                if stage is None:
                    continue
                late = late_ranks(windows, world, shared)
                start = float(windows.begins[stage.first])
                causes = causes_of(view, job, stage.heavy, stage.waiting, start)
                if (late is None or not late.has_before) and not causes.is_of_gpu:
                    yield self._finding(view, job, windows, stage)

    def _finding(self, view: View, job: JobLook, windows: WorkWindows, stage: _Stage) -> Finding:
        window = Window(
            float(windows.begins[stage.first]), float(windows.ends[-1]),
            len(windows.ends) - stage.first,
        )  # fmt: skip
        gpus = [job.uuids[place] for place in sorted((*stage.heavy, *stage.waiting))]
        names = [name_of(job, place) for place in (stage.heavy[0], stage.heavy[-1])]
        who = names[0] if len(stage.heavy) == 1 else f"{names[0]} to {names[1]}"
        since = since_words(window, is_open=True, known_s=stage.known_s)
        known_s = min(stage.known_s, window.end - window.start)
        count = counted(len(stage.waiting), "other GPU")
        verb, more = "does" if len(stage.heavy) == 1 else "do", 100 * stage.more
        meant = Evidence(
            "job", job.subject, "a last stage with the head and its loss may be meant to do more"
        )
        places = (*stage.heavy, *stage.waiting)
        union = union_of(job, places, window.start, stage.spread)
        doubts = tuple(_doubts(job, stage, window))
        is_sure = union.is_known and not doubts
        work = () if doubts else (_work_evidence(job, stage),)
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"{count} wait for one stage {since}: {who} {verb} {more:.0f} % more",
            window=window,
            evidence=(*_evidence(job, windows, stage), *work, *union.evidence, *doubts, meant),
            advice=(
                (
                    "Split the layers differently: move some from the heavy stage to the others, "
                    "or give the head a stage of its own."
                ),
            ),
            gpu_seconds=(1.0 - 1.0 / stage.times) * known_s * len(gpus),
            at_most=surest(
                self,
                known_s,
                window.samples,
                Confidence.SUPPORTED if is_sure else Confidence.HYPOTHESIS,
            ),
            gpus=gpus,
        )


def _heavy_stage(job: JobLook, windows: WorkWindows, world: Sequence[int]) -> _Stage | None:
    """The stage of a world that does most, where all of it does and all others wait."""
    places = _in_order(job, world)
    if len(places) < _LEAST_GPUS or len({job.gpus[place].name for place in places}) > 1:
        return None
    own = windows.of(np.asarray(places, np.intp))
    is_work = own.is_work
    rows = np.flatnonzero(is_work)
    if len(rows) < _LEAST_WINDOWS:
        return None
    work = mean_over(own.means["sm_active_ratio"][rows])
    size = _stage_size(work)
    if size is None:
        return None
    stages = work.reshape(-1, size).mean(axis=1)
    heavy = int(np.argmax(stages))
    members = np.arange(heavy * size, (heavy + 1) * size)
    others = np.setdiff1d(np.arange(len(places)), members)
    # GPUs at rest are no stages, and nothing is some per cent more than no work.
    if work[others].max() <= 0.0 or not _is_design(job, own, rows, stages, size):
        return None
    more = float(work[members].min() / work[others].max()) - 1.0
    util = mean_over(own.means["gpu_util_ratio"][rows])
    does_spin = (util[others] >= np.minimum(_LEAST_SPIN, util[members].max())).all()
    if more < _LEAST_MORE or not does_spin or not _is_one_kind(own, rows, members, others):
        return None
    sm = own.means["sm_active_ratio"][rows]
    with np.errstate(invalid="ignore"):
        is_heavy = np.nanmin(sm[:, members], axis=1) > np.nanmax(sm[:, others], axis=1)
    if is_heavy.mean() < _HEAVY_SHARE or not is_heavy[:_FIRST_WINDOWS].all():
        return None
    times = _times(own, rows, work)
    more_work, swing = _more_work(own, rows, members, others)
    return _Stage(
        heavy=tuple(places[at] for at in members),
        waiting=tuple(places[at] for at in others),
        first=int(rows[0]),
        known_s=float(own.seconds[rows].sum()),
        times=times,
        more=more,
        more_work=more_work,
        swing=swing,
        spread=float(np.log(work).std(ddof=1)),
        stage_count=len(stages),
    )


def _is_design(job: JobLook, own: WorkWindows, rows: Places, stages: Floats, size: int) -> bool:
    """Whether one stage stands out of others that are alike, as a head or an embedding does.

    Of stages of one rank it must be the first or the last, and the job be seen from its start on:
    else it may be a slow rank.
    """
    heavy = int(np.argmax(stages))
    rest = np.delete(stages, heavy)
    alike = _ALONE_ALIKE if size == 1 else _REST_ALIKE
    if rest.max() > (1.0 + alike) * rest.min():
        return False
    return size > 1 or (heavy in (0, len(stages) - 1) and _is_from_start(job, own, rows))


def _is_from_start(job: JobLook, own: WorkWindows, rows: Places) -> bool:
    """Whether the job's first work was seen."""
    start_at = job.job.start_at
    return start_at is not None and float(own.begins[rows[0]]) - start_at <= _LONGEST_START_S


def _in_order(job: JobLook, world: Sequence[int]) -> list[int]:
    """Positions by rank, where all are known, else as the job holds them."""
    number = {
        uuid: rank.rank for rank in job.ranks if rank.rank is not None for uuid in rank.gpu_uuids
    }
    if all(job.uuids[place] in number for place in world):
        return sorted(world, key=lambda place: number[job.uuids[place]])
    return list(world)


def _stage_size(work: Floats) -> int | None:
    """The largest size of stages in which the GPUs of each stage are alike; None: there is none."""
    count = len(work)
    for size in range(count // 2, 0, -1):
        if count % size:
            continue
        stages = work.reshape(-1, size)
        if (stages.max(axis=1) <= (1.0 + _ALIKE) * stages.min(axis=1)).all():
            return size
    return None


def _is_one_kind(own: WorkWindows, rows: Places, members: Places, others: Places) -> bool:
    """Whether the heavy stage does more of the same, as far as tensor cores and memory tell."""
    more = []
    for key in ("tensor_active_ratio", "dram_active_ratio"):
        mean = mean_over(own.means[key][rows])
        if not np.isfinite(mean).all() or mean.min() < LEAST_TENSOR:
            return True
        more.append(float(np.log(mean[members].mean() / mean[others].mean())))
    return abs(more[0] - more[1]) <= _SAME_KIND


def _times(own: WorkWindows, rows: Places, work: Floats) -> float:
    """Times that a step takes of what it would in balance."""
    tensor = mean_over(own.means["tensor_active_ratio"][rows])
    if np.isfinite(tensor).all() and tensor.min() >= LEAST_TENSOR:
        work = tensor
    lost = _COMPUTING * (1.0 - float(work.mean() / work.max()))
    return 1.0 / (1.0 - lost)


def _more_work(
    own: WorkWindows, rows: Places, members: Places, others: Places
) -> tuple[float, float]:
    """How much more each GPU of the heavy stage counts on its tensor cores, and how that swings.

    All ranks share each step, so what their tensor cores count in a window is to one another as the
    operations that they are given. NaN where they are not used, or not told.
    """
    tensor = own.means["tensor_active_ratio"][rows]
    tensor = tensor[np.isfinite(tensor).all(axis=1)]
    if len(tensor) < _LEAST_WINDOWS or tensor.mean(axis=0).min() < LEAST_TENSOR:
        return nan, nan
    mean = tensor.mean(axis=0)
    heavy, rest = (np.maximum(tensor[:, some].mean(axis=1), 1e-6) for some in (members, others))
    more = float(mean[members].min() / mean[others].max()) - 1.0
    return more, _swing(heavy, rest)


def _swing(heavy: Floats, rest: Floats) -> float:
    """How much the ratio of two rows of windows varies, beyond what cut steps make of it."""
    swing = float(np.log(heavy / rest).std())
    count = len(heavy) // _LONG_WINDOWS
    if count < _LEAST_LONG:
        return swing
    longs = (one[-count * _LONG_WINDOWS :].reshape(count, -1).mean(axis=1) for one in (heavy, rest))
    return min(swing, sqrt(_LONG_WINDOWS) * float(np.log(np.divide(*longs)).std()))


def _doubts(job: JobLook, stage: _Stage, window: Window) -> Iterator[Evidence]:
    """What else looks like a heavy stage, as far as it is not ruled out."""
    names = [{job.gpus[place].node for place in some} for some in (stage.heavy, stage.waiting)]
    if len(stage.heavy) == 1:
        text = "it is one GPU: a rank that does more for another reason looks the same"
        yield Evidence("job", job.subject, text)
    elif not names[0] & names[1]:
        text = "it has its nodes to itself: a slow node looks the same"
        yield Evidence("job", job.subject, text)
    key = "tensor_active_ratio"
    if not stage.more_work >= _MORE_WORK:
        is_known = stage.more_work == stage.more_work
        text = f"its tensor cores count {100 * stage.more_work:.0f} % more: layers cannot be halved"
        text = text if is_known else "not seen: whether its tensor cores count more work"
        yield Evidence(key, job.subject, text, stage.more_work if is_known else None)
    elif stage.swing > _SWING:
        text = f"how much more it does varies by {100 * stage.swing:.0f} %: experts drift like this"
        yield Evidence(key, job.subject, text, stage.swing)
    past = job.past(_CLOCK_KEYS, window.end - window.start)
    clocks = mean_of(past, "sm_clock_mhz")
    mine, theirs = (float(clocks[list(some)].mean()) for some in (stage.heavy, stage.waiting))
    bits = past.columns["clock_event_reasons"][:, list(stage.heavy)]
    known = bits[np.isfinite(bits)].astype(np.int64)
    if not mine >= _SAME_CLOCK * theirs or not len(known):
        is_known = mine < _SAME_CLOCK * theirs
        text = f"its clocks are {mine:.0f} MHz, those of the others {theirs:.0f} MHz"
        text = (
            text if is_known else "not seen: whether its clocks are as high as those of the others"
        )
        yield Evidence("sm_clock_mhz", job.subject, text, mine if is_known else None)
    elif ((known & POWER_CAP_BIT) != 0).mean() >= SET_SHARE:
        text = "it is at its power limit, which slows the stage that draws most"
        yield Evidence("clock_event_reasons", job.subject, text)


def _work_evidence(job: JobLook, stage: _Stage) -> Evidence:
    text = f"its tensor cores count {100 * stage.more_work:.0f} % more at the clock of the others: "
    text += "more work, no slower boards"
    return Evidence("tensor_active_ratio", job.subject, text, stage.more_work)


def _evidence(job: JobLook, windows: WorkWindows, stage: _Stage) -> Iterator[Evidence]:
    rows = slice(stage.first, None)
    sm, util = (
        mean_over(windows.means[key][rows]) for key in ("sm_active_ratio", "gpu_util_ratio")
    )
    heavy, others = (float(sm[list(places)].mean()) for places in (stage.heavy, stage.waiting))
    spin = float(util[list(stage.waiting)].mean())
    text = f"SMs {100 * heavy:.0f} % in one of {stage.stage_count} stages, "
    text += (
        f"{100 * others:.0f} % in the others, whose utilisation is {100 * spin:.0f} %: they spin"
    )
    yield Evidence("sm_active_ratio", job.subject, text, heavy)
    text = f"each step takes {stage.times:.2f} times as long as it would in balance"
    yield Evidence("sm_active_ratio", job.subject, text, stage.times)
