"""A GPU's clock is held down by heat, power or the board, or lies far below its peers'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.contract import Detector
from gpumon.model.catalogue.fields import clock_event_names
from gpumon.model.finding import Evidence, Severity, Window
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.clock_rows import HELD_BITS, ClockRows, clock_rows
from gpumon_detectors.evidence.episodes import REST_S, episode_row, is_dense, row_seconds
from gpumon_detectors.evidence.phrases import clock_time, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.detect.facts.facts import GpuFacts
    from gpumon.detect.view import JobLook, View
    from gpumon.model.finding import Finding

_SPAN_S: Final = 3600.0
_GRAVE_LOSS: Final = 0.3
"""Share of the clock from which on the job's slowest rank costs as much as a lost GPU in three."""


class _Case(NamedTuple):
    """One GPU of a job through one episode."""

    gpu: GpuFacts
    rows: ClockRows
    place: int
    """Its column."""
    first: int
    """Row of the first bad sample."""

    @property
    def times(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Unix times of the episode."""
        return self.rows.times[self.first :]


class Throttled(Detector):
    """Claims that the clock of a GPU that computes is held down.

    A sample is bad where the GPU is loaded and (1) the driver names a hardware slowdown, a thermal
    slowdown of software or hardware, or a power brake as the reason, or one of the driver's
    counters of time lost to these grew by more than 1 % of the time; or (2) its SM clock is below
    `clock_ratio` of the median of the job's loaded GPUs, while it is used as much and draws no
    more power than they do. An episode lasts as long as bad samples are no further apart than 3
    minutes, and is claimed while they fall into 6 of 10 minutes.

    *Supported* after 10 minutes (0.6 events a minute over 10 minutes is the alarm of operators of
    large clusters), *established* after 30.

    What looks alike: a software power cap at full load is how a busy GPU works, and no reason here
    unless the clock lies below the peers'; a heavier pipeline stage runs at a lower clock too, but
    draws more power than its peers; an idle GPU rests at a low clock; the first warm minute after
    a launch is no episode. Clocks differ by a few per cent from board to board.

    The loss is 1 minus the ratio of the clock to that of the job's sound GPUs, or to the GPU's own
    before the episode; without either it is not said. `critical` from a loss of 30 % on.
    """

    name = "throttled"
    version = "1"
    finding_classes = ("throttled",)
    needs = ("clock_event_reasons", "sm_clock_mhz")
    supported_after_s = 600.0
    established_after_s = 1800.0
    subjects = "gpu"

    def __init__(self, clock_ratio: float = 0.9) -> None:
        self.clock_ratio = clock_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per GPU whose clock is held down."""
        told: set[str] = set()
        has_held = view.job_layout.groups.some(_recently_held(view))
        for number in np.flatnonzero(has_held | self._may_differ(view)):
            job = view.running[number]
            if not (has_held[number] or self._is_uneven(job)):
                continue
            rows = clock_rows(job, _SPAN_S)
            if not len(rows.times):
                continue
            is_bad = rows.is_held | rows.is_slow(self.clock_ratio)
            for place, gpu in enumerate(job.gpus):
                first = episode_row(rows.times, is_bad[:, place])
                if first is None or gpu.uuid in told or not rows.is_known[-1, place]:
                    continue
                if is_dense(rows.times[first:], is_bad[first:, place]):
                    told.add(gpu.uuid)
                    yield self._finding(view, _Case(gpu, rows, place, first), is_bad)

    def _may_differ(self, view: View) -> NDArray[np.bool_]:
        """Jobs of which the newest clocks differ at all by what a GPU may lie below the median."""
        groups, clocks = view.job_layout.groups, view.fleet("sm_clock_mhz")
        may: NDArray[np.bool_] = groups.least(clocks) < self.clock_ratio * groups.most(clocks)
        return may

    def _is_uneven(self, job: JobLook) -> bool:
        """Whether the newest clocks alone show a GPU below its peers; spares the window of most."""
        clocks = job.latest("sm_clock_mhz")
        known = clocks[np.isfinite(clocks)]
        return len(known) > 2 and bool(known.min() < self.clock_ratio * np.median(known))

    def _finding(
        self, view: View, case: _Case, is_bad: np.ndarray[tuple[int, int], np.dtype[np.bool_]]
    ) -> Finding:
        gpu, times = case.gpu, case.times
        window = Window(float(times[0]), float(times[-1]), len(times))
        reference, whose = case.rows.reference(case.place, case.first, is_bad)
        clocks = case.rows.clock[case.first :, case.place].astype(np.float64)
        counts = case.rows.is_loaded[case.first :, case.place] & np.isfinite(clocks)
        mean = float(clocks[counts].mean()) if counts.any() else float(clocks[-1])
        lost = np.clip(1 - clocks / reference, 0, 1) if reference else np.full(len(times), np.nan)
        seconds = np.where(counts, row_seconds(times), 0.0)
        gpu_seconds = float(np.nansum(lost * seconds)) if reference else None
        busy_s = float(seconds.sum())
        share = gpu_seconds / busy_s if gpu_seconds is not None and busy_s else 0.0
        words = ", ".join(self._reasons(case)) or "clock below its peers'"
        since = f"since {clock_time(window.start)} ({span(window.end - window.start)} observed)"
        loss = f", {100 * share:.0f} % of the clock lost" if share else ""
        return view.finding(
            self,
            subject=gpu.subject,
            severity=Severity.CRITICAL if share >= _GRAVE_LOSS else Severity.WARNING,
            summary=f"{gpu.place} throttled {since}: {words}{loss}",
            window=window,
            evidence=tuple(self._evidence(view, case, is_bad, mean, reference, whose)),
            advice=tuple(_advice(view, gpu, words)),
            gpu_seconds=gpu_seconds,
            gpus=[gpu.uuid],
        )

    def _reasons(self, case: _Case) -> tuple[str, ...]:
        """What the driver gave as reasons during the episode."""
        masks = case.rows.mask[case.first :, case.place]
        known = masks[np.isfinite(masks)].astype(np.int64)
        seen = int(np.bitwise_or.reduce(known)) if len(known) else 0
        return clock_event_names(seen & HELD_BITS)

    def _evidence(
        self,
        view: View,
        case: _Case,
        is_bad: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
        mean: float,
        reference: float | None,
        whose: str,
    ) -> Iterator[Evidence]:
        uuid, place = case.gpu.uuid, case.place
        bad, held = is_bad[case.first :, place], case.rows.is_held[case.first :, place]
        yield Evidence(
            "clock_event_reasons",
            case.gpu.subject,
            f"{int(held.sum())} of {len(held)} samples with {', '.join(self._reasons(case))}"
            if held.any()
            else f"no reason is told; {int(bad.sum())} of {len(bad)} samples below the peers",
            float(held.sum()),
        )
        beside = f", {whose} {reference:.0f} MHz" if reference else ", nothing to compare with"
        text = f"SM clock {mean:.0f} MHz under load{beside}"
        yield Evidence("sm_clock_mhz", case.gpu.subject, text, mean)
        temp, power, limit = view.latest((uuid,), ("temp_c", "power_w", "power_limit_w"))[:, 0]
        if np.isfinite(temp):
            slowdown = case.gpu.value("temp_slowdown_c")
            at = f", slows down at {slowdown:.0f} °C" if slowdown else ""
            yield Evidence("temp_c", case.gpu.subject, f"{temp:.0f} °C now{at}", float(temp))
        if np.isfinite(power) and np.isfinite(limit):
            usual = case.gpu.value("power_limit_default_w")
            by = f", {usual:.0f} W by default" if usual else ""
            text = f"{power:.0f} W now of a limit of {limit:.0f} W{by}"
            yield Evidence("power_w", case.gpu.subject, text, float(power))


def _recently_held(view: View) -> NDArray[np.bool_]:
    """Per GPU whether a reason that holds the clock down was told within the last minutes."""
    is_held = np.zeros(len(view.uuids), np.bool_)
    if not view.uuids:
        return is_held
    masks = view.table(view.uuids, ("clock_event_reasons",), REST_S).columns["clock_event_reasons"]
    # Below the lowest of these bits there is nothing to look for, and most GPUs stay below it.
    places = np.flatnonzero((masks >= (HELD_BITS & -HELD_BITS)).any(axis=0))
    bits = np.nan_to_num(masks[:, places]).astype(np.int64) & HELD_BITS
    is_held[places] = bits.any(axis=0)
    return is_held


def _advice(view: View, gpu: GpuFacts, words: str) -> Iterator[str]:
    if "power" in words:
        yield "Check the node's power supplies and the board's power cables."
    elif "thermal" in words:
        yield "Check fans, air flow or coolant of the node, and the temperature of its inlet."
    else:
        yield "Compare power limit and clock settings with those of the other GPUs of the node."
    yield from commands.ask_gpu(view, gpu, "-q -d PERFORMANCE,CLOCK,TEMPERATURE,POWER")
    yield from commands.leave_out(gpu.node)
    yield from commands.drain(gpu.node, "GPU throttled, see nvidia-smi -q -d PERFORMANCE")
