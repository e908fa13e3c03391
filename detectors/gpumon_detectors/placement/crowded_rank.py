"""A rank that gets no CPU while its peers do: its cores were taken, or are shared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity, Window
from gpumon_detectors.evidence.job_commands import srun_in
from gpumon_detectors.evidence.machine_commands import ask_node
from gpumon_detectors.evidence.phrases import listed, span
from gpumon_detectors.placement.seats import LEAST_WAIT, crowded, who_sits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.plugin import Finding, JobLook, View
    from gpumon_detectors.placement.seats import Crowded

_SPAN_S: Final = 600.0
"""How far back the waits are averaged: twice *supported* (our choice)."""

_LISTED: Final = 4
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""


class CrowdedRank(Detector):
    """Claims that single ranks wait for a CPU, while their peers get theirs at once.

    Signature: the main thread of a rank's process, which launches its kernels, could have run in at
    least 15 % of the time and had no CPU, at least three times as long as those of its peers in the
    median; at most half of the job's processes do. What was done to its CPUs is named where it
    shows: it may use at most half as many as its peers, or one only, which a peer is bound to too;
    twice as long is enough then.

    *Supported* after 5 minutes. Where neither of these shows, another program is on its CPUs, and
    the claim stays a *hypothesis* for 10 minutes.

    What looks alike: a job with more threads than CPUs, whose ranks wait alike; a rank that
    computes on its CPU and has it; short waits behind interrupts. Where the kernel does not count
    waits (/proc/PID/schedstat) nothing is claimed.

    What it costs shows in the steps of all ranks. Counters of CPUs do not show these, so no loss is
    given.
    """

    name = "crowded_rank"
    version = "1"
    finding_classes = ("cpu_oversubscribed",)
    needs = ("process_cpu_wait_ratio",)
    supported_after_s = 300.0
    established_after_s = 1800.0
    every_s = 10.0

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job with ranks that wait for CPUs and peers that do not."""
        nodes = _with_waits(view)
        for job in view.jobs:
            if len(job.gpus) < 2 or not nodes.intersection(job.job.nodes):
                continue
            found, window = crowded(view, job, _SPAN_S)
            if found and window is not None:
                yield self._finding(view, job, found, window)

    def _finding(
        self, view: View, job: JobLook, found: Sequence[Crowded], window: Window
    ) -> Finding:
        is_plain = any(one.fewer or one.shares_with for one in found)
        is_long = window.end - window.start >= 0.95 * _SPAN_S
        most = Confidence.SUPPORTED if is_plain or is_long else Confidence.HYPOTHESIS
        named = listed([who_sits(job, one.seat) for one in found[:_LISTED]])
        worst = max(one.wait for one in found)
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING,
            summary=f"{named} without a CPU in {100 * worst:.0f} % of the time, unlike the others",
            window=window,
            evidence=[line for one in found[:_LISTED] for line in _lines(job, one, window)],
            advice=tuple(_advice(job, found)),
            machine_advice=tuple(ask_node(view, found[0].seat.process.node)),
            gpus=[one.seat.uuid for one in found],
            at_most=most,
        )


def _with_waits(view: View) -> set[str]:
    """Nodes on which a process waits for a CPU now."""
    names, values = view.history.newest_of_all("process_cpu_wait_ratio", "process")
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(values >= LEAST_WAIT / 2)
    return {names[int(row)].partition("/")[0] for row in rows}


def _lines(job: JobLook, one: Crowded, window: Window) -> Iterator[Evidence]:
    subject = f"gpu:{one.seat.uuid}"
    over = span(window.end - window.start)
    text = (
        f"{who_sits(job, one.seat)}, process {one.seat.process.pid}: could run and had no CPU in "
        f"{100 * one.wait:.0f} % of the time over {over}, its peers in {100 * one.peers_wait:.0f} %"
    )
    yield Evidence("process_cpu_wait_ratio", subject, text, one.wait)
    if one.fewer is not None:
        yield one.fewer
    if one.shares_with is not None:
        cpu, peer = one.seat.process.cpus_allowed, who_sits(job, one.shares_with)
        yield Evidence("cpus_allowed", subject, f"it may use CPU {cpu} only, as {peer} may")
    if one.fewer is None and one.shares_with is None:
        allowed = one.seat.process.cpus_allowed or "–"
        text = f"it may use CPUs {allowed}; some other program is on them"
        yield Evidence("cpus_allowed", subject, text)


def _advice(job: JobLook, found: Sequence[Crowded]) -> Iterator[str]:
    first = found[0].seat.process
    within = srun_in(job.job)
    if within is not None:
        yield f"See which CPUs it may use: {within} -w {first.node} taskset -cp {first.pid}"
    if any(one.fewer or one.shares_with for one in found):
        yield (
            "Give every rank CPUs of its own: srun --cpus-per-task with --cpu-bind=cores, and no "
            "OMP_PLACES, KMP_AFFINITY or taskset that puts ranks on one CPU."
        )
