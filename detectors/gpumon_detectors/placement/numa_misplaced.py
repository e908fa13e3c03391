"""Ranks whose CPUs are at another socket than their GPU, in a job that waits for copies."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity
from gpumon_detectors.evidence.gpu_use import FALLS_BEHIND, SLOWEST_COPY, USUAL_PAUSE
from gpumon_detectors.evidence.job_commands import srun_in
from gpumon_detectors.evidence.phrases import counted, listed, span
from gpumon_detectors.evidence.watched import (
    newest_of,
    seen_s,
    surest,
    unbroken,
    window_of,
)
from gpumon_detectors.placement.seats import far_seats, known_mean, who_sits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, Past, View
    from gpumon_detectors.placement.seats import Seat

_SPAN_S: Final = 1800.0
"""How far back the window reaches: three times *supported*, and what is old counts no more."""

_LANE_BYTES_PER_S: Final = 0.985e9
"""What one lane of PCIe generation 3 carries one way; each generation twice as much (PCI-SIG)."""

_STALLS: Final = 0.05
"""Share of the time without a kernel from which on a GPU waits for something (our choice: a step
that is fed in time leaves gaps of a hundredth)."""

_FAR_PART: Final = 1.0 - 1.0 / 1.6
"""Part of the time of a copy that the way to the other socket takes. Public measurements of one
copy from pinned memory differ with the machine: 3.2 times as long on two Xeons with a P100
(mpicbg-scicomp/gearshifft, pull request 82), 1.27 times in NanoFlow's paper, no longer on two EPYC
9554 (ROCm/rocm_bandwidth_test, issue 129). Their geometric mean is 1.6 (our choice)."""

_LISTED: Final = 4
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""

_KEYS: Final = (
    "gpu_util_ratio",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
    "pcie_gen",
    "pcie_width",
)


class _Use(NamedTuple):
    """What the GPUs of a job did, by position; NaN where it is too little known."""

    past: Past
    util: NDArray[np.float64]
    copies: NDArray[np.float64]
    """Share of what the link carries that was copied, the busier way."""
    bytes_per_s: NDArray[np.float64]


class _Lost(NamedTuple):
    """What far copies cost."""

    share: float
    """Of the time; 0: not known, or nothing."""
    text: str
    """How it is known."""


class NumaMisplaced(Detector):
    """Claims that ranks run on CPUs of another socket than their GPU's, and wait for copies.

    Signature: *all* CPUs that a rank may use belong to NUMA nodes of another socket than the one
    its GPU is attached to; what it copies over PCIe is at least `copied_ratio` of what the link
    carries, on average; and its GPU is without a kernel in at least 5 % of the time. A fiftieth is
    where copies begin to matter: across sockets they take longer.

    *Supported* after 10 minutes; *established* after 30.

    Where the GPU never waits, or PCIe bytes are not counted, the placement is a remark: a
    *hypothesis* without weight. Ranks that copy less are not claimed.

    What looks alike: a rank that may use all CPUs of its node, or some of its GPU's own NUMA node;
    a machine with one NUMA node, or one that reports none, as virtual ones do; NUMA nodes that are
    parts of one socket (a distance below 16).

    All ranks wait for the far ones. The loss is how much longer the well placed ranks of the job
    are at work: the difference of their utilisation, for all GPUs. Below 5 % no loss is given.
    Where all ranks are far, none shows what it costs. Then it is three eighths of the time that
    GPUs pause for copies, as across sockets a copy takes about 1.6 times as long: of the time
    without a kernel, less a twentieth, and no more than what they copy takes at .15 of what the
    link carries.
    """

    name = "numa_misplaced"
    version = "1"
    finding_classes = ("numa_misplaced",)
    needs = ("gpu_util_ratio", "gpu_numa_node")
    supported_after_s = 600.0
    established_after_s = 1800.0
    every_s = 60.0

    def __init__(self, copied_ratio: float = 0.02) -> None:
        self.copied_ratio = copied_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job with ranks that are far from their GPUs and copy."""
        for job in view.jobs:
            seats = far_seats(job)
            use = _use(view, job) if seats else None
            if use is None:
                continue
            far = {seat.uuid for seat in seats}
            rows = [row for row, uuid in enumerate(job.uuids) if uuid in far]
            finding = self._finding(view, job, seats, rows, use)
            if finding is not None:
                yield finding

    def _finding(
        self, view: View, job: JobLook, seats: Sequence[Seat], rows: Sequence[int], use: _Use
    ) -> Finding | None:
        known_s = seen_s(use.past)
        util, copies = (float(np.nanmean(one[rows])) if np.isfinite(one[rows]).any() else np.nan
                        for one in (use.util, use.copies))  # fmt: skip
        if not isfinite(util) or (isfinite(copies) and copies < self.copied_ratio):
            return None
        waits = util <= 1.0 - _STALLS
        if not isfinite(copies) and not waits:
            return None
        is_sure = isfinite(copies) and waits
        lost = _lost(use, rows, util, copies) if is_sure else _Lost(0.0, "")
        window = window_of(use.past)
        most = Confidence.ESTABLISHED if is_sure else Confidence.HYPOTHESIS
        first = seats[0]
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING if is_sure else Severity.INFO,
            summary=(
                f"{counted(len(seats), 'rank')} of {len(job.gpus)} on CPUs of another socket than "
                f"their GPU's"
            ),
            window=window,
            evidence=(
                *(_seat_line(job, seat) for seat in seats[:_LISTED]),
                *_use_lines(job, use, rows, util, copies),
                *_loss_line(job, lost),
            ),
            advice=tuple(_advice(job, first)),
            gpu_seconds=lost.share * known_s * len(job.gpus) if lost.share else None,
            at_most=surest(self, known_s, window.samples, most),
        )


def _use(view: View, job: JobLook) -> _Use | None:
    """What the GPUs of a job did of late; None where that is too short to be known."""
    past = unbroken(view.past(job.uuids, _KEYS, _SPAN_S, job.all_held_since))
    if len(past.times) < 2:
        return None
    with np.errstate(invalid="ignore"):
        link = (
            _LANE_BYTES_PER_S
            * newest_of(past, "pcie_width")
            * 2.0 ** (newest_of(past, "pcie_gen") - 3.0)
        )
        moved = np.fmax(*(known_mean(past, key) for key in _KEYS[1:3]))
        return _Use(past, known_mean(past, _KEYS[0]), moved / link, moved)


def _lost(use: _Use, rows: Sequence[int], util: float, copies: float) -> _Lost:
    """What far copies cost, for all GPUs of the job alike.

    Args:
        use: What the GPUs of the job did.
        rows: Those that are far.
        util: Mean utilisation of these.
        copies: What they copy, as a share of what the link carries.
    """
    near = np.delete(use.util, rows)
    near = near[np.isfinite(near)]
    if len(near):
        more = float(np.median(near)) - float(np.nanmedian(use.util[rows]))
        text = f"ranks beside their GPUs are at work in {100 * more:.0f} % more of the time"
        return _Lost(more if more >= FALLS_BEHIND else 0.0, text)
    pauses = min(1.0 - util - USUAL_PAUSE, copies / SLOWEST_COPY)
    lost = max(0.0, _FAR_PART * pauses)
    text = f"across sockets copies take about 1.6 times as long: {100 * lost:.0f} % of the time"
    return _Lost(lost, text)


def _seat_line(job: JobLook, seat: Seat) -> Evidence:
    nodes = listed([str(node) for node in seat.process.cpu_numa_nodes])
    text = (
        f"{who_sits(job, seat)} is at NUMA node {seat.gpu_numa_node}, its process may use "
        f"CPUs {seat.process.cpus_allowed} of NUMA node {nodes} (distance {seat.distance})"
    )
    return Evidence("gpu_numa_node", f"gpu:{seat.uuid}", text, float(seat.gpu_numa_node or 0))


def _use_lines(
    job: JobLook, use: _Use, rows: Sequence[int], util: float, copies: float
) -> Iterator[Evidence]:
    over = span(seen_s(use.past))
    if isfinite(copies):
        rate = float(np.nanmean(use.bytes_per_s[rows]))
        text = f"they copy {rate / 1e9:.1f} GB/s, {100 * copies:.0f} % of what the link carries"
        yield Evidence("pcie_rx_bytes_per_s", job.subject, f"{text}, over {over}", rate)
    else:
        text = "how much they copy is not known: PCIe bytes are not counted here"
        yield Evidence("pcie_rx_bytes_per_s", job.subject, text)
    text = f"a kernel runs on them in {100 * util:.0f} % of the time"
    yield Evidence("gpu_util_ratio", job.subject, text, util)


def _loss_line(job: JobLook, lost: _Lost) -> Iterator[Evidence]:
    if lost.share:
        yield Evidence("gpu_util_ratio", job.subject, lost.text, lost.share)


def _advice(job: JobLook, seat: Seat) -> Iterator[str]:
    yield (
        "Bind each rank to the CPUs beside its GPU: srun --gpu-bind=closest, or numactl "
        f"--cpunodebind={seat.gpu_numa_node} --membind={seat.gpu_numa_node} for this one."
    )
    within = srun_in(job.job)
    if within is not None:
        yield f"See which CPUs are near which GPU: {within} nvidia-smi topo -m"
