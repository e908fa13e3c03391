"""How the rules of this room claim: window, loss and doubts are counted alike in all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.plugin import Evidence, Severity, Window
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.waits.causes import waits_of
from gpumon_detectors.waits.doubts import doubts_of, surest_of
from gpumon_detectors.waits.gpu_rows import PAST_S, mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Claimant, Finding, JobLook, View
    from gpumon_detectors.waits.causes import Cause, Waits

_LEAST_S: Final = 300.0
"""Before, nothing is told (the taxonomy's window of class 10, and the least evidence of all)."""


class WaitVerdict(NamedTuple):
    """What a rule says of a job's waits."""

    what: str
    """Begins the summary, before since when."""
    evidence: tuple[Evidence, ...]
    advice: tuple[str, ...]
    machine_advice: tuple[str, ...] = ()


def waiting_jobs(
    view: View, cause: Cause, least_s: float = _LEAST_S
) -> Iterator[tuple[JobLook, Waits]]:
    """Jobs whose GPUs have waited for something for long enough to say so."""
    for job in view.jobs:
        waits = waits_of(view, job)
        if waits is None or waits.cause is not cause:
            continue
        if waits.rows.seen_s(waits.first) >= least_s:
            yield job, waits


def claimed(
    detector: Claimant,
    view: View,
    job: JobLook,
    waits: Waits,
    verdict: WaitVerdict,
    portal_names: str,
) -> Finding:
    """The finding about one job: lost is the share of the time in which its GPUs wait."""
    rows = waits.rows
    known_s = rows.seen_s(waits.first)
    start, end = float(rows.begins[waits.first]), float(rows.times[-1])
    window = Window(start, end, len(rows.times) - waits.first)
    doubts = doubts_of(job, waits, portal_names)
    most = surest(detector, known_s, window.samples, surest_of(doubts))
    start_at = job.job.start_at
    was_watched = start_at is not None and view.observed_since <= start_at
    is_cut = start - rows.longest_s <= view.now - PAST_S
    is_open = rows.seen_s() - known_s < _LEAST_S and (is_cut or not was_watched)
    members = len(rows.members)
    is_part = members < len(job.gpus)
    return view.finding(
        detector,
        subject=job.subject,
        severity=Severity.WARNING,
        summary=f"{verdict.what} {since_words(window, is_open, known_s)}",
        window=window,
        evidence=(*verdict.evidence, *(doubt.evidence for doubt in doubts)),
        advice=verdict.advice,
        machine_advice=verdict.machine_advice,
        gpu_seconds=waits.lost_share * (end - start) * members,
        at_most=most,
        gpus=[job.uuids[place] for place in rows.members] if is_part else (),
    )


def busy_evidence(job: JobLook, waits: Waits) -> Evidence:
    """For how much of the time kernels run."""
    busy = waits.rows.busy(waits.first)
    gpus = counted(len(waits.rows.members), "GPU")
    text = f"kernels run on its {gpus} for {100 * busy:.0f} % of the time"
    return Evidence("gpu_util_ratio", job.subject, text, busy)


def cpu_evidence(job: JobLook, waits: Waits) -> Evidence:
    """How many of its CPUs are busy."""
    host = waits.host
    cores = mean(host.cores[waits.first :], waits.rows.seconds[waits.first :])
    whose = "the job keeps" if host.is_own else "all programs of its nodes together keep"
    key = "job_cpu_cores_used" if host.is_own else "cpu_busy_ratio"
    if cores != cores:
        return Evidence(key, job.subject, "not seen: CPU time of the job")
    text = f"{whose} {cores:.1f} of its {host.allowed:.0f} CPUs busy"
    return Evidence(key, job.subject, text, cores)


def io_evidence(job: JobLook, waits: Waits) -> Iterator[Evidence]:
    """For how much of the time a task waits for I/O, where that is known."""
    host = waits.host
    waited = mean(host.io_pressure[waits.first :], waits.rows.seconds[waits.first :])
    if waited == waited:
        whose = "of the job" if host.is_own_io else "on its nodes"
        key = "job_io_pressure_some_ratio" if host.is_own_io else "io_pressure_some_ratio"
        text = f"some task {whose} waits for I/O for {100 * waited:.0f} % of the time"
        yield Evidence(key, job.subject, text, waited)
