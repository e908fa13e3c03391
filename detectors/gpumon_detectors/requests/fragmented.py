"""The job's GPUs would fit into fewer nodes."""

from __future__ import annotations

from math import ceil, isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity
from gpumon_detectors.evidence.gpu_use import LEAST_KNOWN
from gpumon_detectors.evidence.job_commands import show_job
from gpumon_detectors.evidence.phrases import counted, gib, span
from gpumon_detectors.evidence.watched import (
    known_share,
    mean_of,
    newest_of,
    seen_s,
    surest,
    unbroken,
    window_of,
)
from gpumon_detectors.placement.exchange import NVLINK_REACH, PORT_REACH, exposed, nvlink_peak

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, Past, View, Window

_SPAN_S: Final = 3 * 3600.0
"""How far back the window reaches: beyond *established*."""

_PORT = ("nic_tx_bytes_per_s", "nic_speed_gbps")


class _Spread(NamedTuple):
    """Nodes of a job, and how few would hold it."""

    nodes: int
    fewest: int
    per_node: int
    """GPUs of each node of the cluster's kind."""


class _Traffic(NamedTuple):
    """What a job's nodes sent over their ports."""

    node: str
    """The one that sent least."""

    window: Window
    seen_s: float
    share: float
    """Of what its ports can carry, on average."""
    bytes_per_s: float
    busiest: float
    """Share of what its busiest port carries: an exchange takes as long as that is busy."""


class Fragmented(Detector):
    """Claims that a job is spread over more nodes than its GPUs need, and pays for it.

    Signature: its nodes are alike, fewer of them would hold its GPUs, its CPUs and its memory, and
    each of its nodes sends at least `busy_port_ratio` of what its network ports carry, on average
    over the window. A twentieth is where an exchange is no longer a matter of control messages;
    NVLink within a node carries several times what its ports do.

    *Supported* after 61 minutes, when Princeton's Job Defense Shield reports fragmentation,
    *established* after 120.

    What looks alike: memory or CPUs that fewer nodes do not have, which Slurm's records show; ranks
    that exchange next to nothing, which lose nothing by it; other jobs' traffic, so that a job
    which shares a node with another one stays a *hypothesis*. Data that are read over the same
    ports are received, not sent. Without port counters nothing is claimed.

    Where one node would do, the loss is at least the share of the time in which the busiest port of
    a node is busy (what it carries over the .8 of its speed that an exchange reaches), less that
    which the same bytes take over NVLink (.6 of its peak). What is hidden behind the computation
    costs nothing, so no more counts as busy than the SMs that are active while kernels run are
    short of .85, which dense training fills. Where two nodes or more stay, GPUs have no NVLink, SM
    activity is not known, or other jobs use the ports too, no loss is given.
    """

    name = "fragmented"
    version = "1"
    finding_classes = ("fragmented",)
    needs = _PORT[:1]
    supported_after_s = 3660.0
    established_after_s = 7200.0
    every_s = 60.0

    def __init__(self, busy_port_ratio: float = 0.05) -> None:
        self.busy_port_ratio = busy_port_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose ranks exchange data between nodes that they do not need."""
        for job in view.jobs:
            spread = _spread(job)
            if spread is None:
                continue
            traffic = _traffic(view, job)
            if traffic is not None and traffic.share >= self.busy_port_ratio:
                yield _finding(self, view, job, spread, traffic)


def _spread(job: JobLook) -> _Spread | None:
    """How a job is spread, None where it is as dense as it can be, or where that is not known."""
    nodes = [node.slurm for node in job.nodes if node.slurm is not None]
    count = len(job.job.nodes)
    if count < 2 or len(nodes) != count or job.gpus_unknown:
        return None
    sizes = {(node.gpu_count, node.cpu_count, node.mem_bytes) for node in nodes}
    per_node, cpus, mem_bytes = sizes.pop()
    if sizes or not per_node:
        return None
    fewest = ceil(job.gpu_count / per_node)
    if cpus and job.job.cpu_count:
        fewest = max(fewest, ceil(job.job.cpu_count / cpus))
    if mem_bytes and job.job.mem_bytes:
        fewest = max(fewest, ceil(job.job.mem_bytes / mem_bytes))
    return _Spread(count, fewest, per_node) if fewest < count else None


def _traffic(view: View, job: JobLook) -> _Traffic | None:
    """What the job's nodes send, None where a port's counters are not known."""
    ports = {node.name: [f"{node.name}/{p}" for p in node.block("nic").keys] for node in job.nodes}
    entities = [entity for of_node in ports.values() for entity in of_node]
    if not all(ports.values()):
        return None
    past = unbroken(view.past(entities, _PORT, _SPAN_S, job.all_held_since))
    if len(past.times) < 2:
        return None
    owners = np.array([entity.partition("/")[0] for entity in entities])
    sent, capacity = _loads(past)
    is_port = np.isfinite(capacity)
    loads = []
    for name in ports:
        mine = is_port & (owners == name)
        if not mine.any() or not np.isfinite(sent[mine]).all():
            return None
        bytes_per_s = float(sent[mine].sum())
        load = bytes_per_s / float(capacity[mine].sum())
        loads.append((load, bytes_per_s, float((sent / capacity)[mine].max()), name))
    share, least, busiest, name = min(loads)
    return _Traffic(
        node=name,
        window=window_of(past),
        seen_s=seen_s(past),
        share=share,
        bytes_per_s=least,
        busiest=busiest,
    )


def _loads(past: Past) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Per port what it sent and what it carries, bytes a second.

    NaN: what it sent is too little known; and it carries nothing, or says nothing now.
    """
    sent, speed_gbps = _PORT
    means = np.where(known_share(past, sent) >= LEAST_KNOWN, mean_of(past, sent), np.nan)
    speeds, is_now = newest_of(past, speed_gbps), np.isfinite(newest_of(past, sent))
    return means, np.where(is_now & (speeds > 0), speeds * 1e9 / 8, np.nan)


def _lost_share(job: JobLook, spread: _Spread, traffic: _Traffic) -> float:
    """By how much less time the same exchange takes within one node, at least; 0: not known."""
    peak, room = nvlink_peak(job), exposed(job, _SPAN_S)
    mine = sum(gpu.node == traffic.node for gpu in job.gpus)
    if spread.fewest > 1 or not job.is_alone or peak is None or not mine or not isfinite(room):
        return 0.0
    within = traffic.bytes_per_s / mine / (NVLINK_REACH * peak)
    return max(0.0, min(room, traffic.busiest / PORT_REACH) - within)


def _finding(
    detector: Fragmented, view: View, job: JobLook, spread: _Spread, traffic: _Traffic
) -> Finding:
    gpus = counted(job.gpu_count, "GPU")
    evidence = [
        Evidence(
            "job",
            job.subject,
            f"{gpus}, {job.job.cpu_count or '–'} CPUs and "
            f"{gib(job.job.mem_bytes) if job.job.mem_bytes else '–'} of memory on "
            f"{spread.nodes} nodes with {counted(spread.per_node, 'GPU')} each; "
            f"{spread.fewest} would do",
            float(spread.nodes),
        ),
        Evidence(
            _PORT[0],
            job.subject,
            f"every node sends at least {traffic.bytes_per_s / 1e9:.2f} GB/s, "
            f"{100 * traffic.share:.0f} % of what its ports carry, on average over "
            f"{span(traffic.seen_s)}",
            traffic.bytes_per_s,
        ),
    ]
    if not job.is_alone:
        evidence.append(Evidence("job", job.subject, "other jobs are on these nodes and send too"))
    lost = _lost_share(job, spread, traffic)
    if lost:
        text = f"over NVLink of one node it would save at least {100 * lost:.0f} % of the time"
        evidence.append(Evidence("sm_active_ratio", job.subject, text, lost))
    fewest = spread.fewest
    each = ceil(job.gpu_count / fewest)
    advice = [f"Ask for whole nodes: sbatch --nodes={fewest} --gpus-per-node={each}"]
    shown = show_job(job)
    if shown is not None:
        advice.append(f"Where its parts run: {shown}")
    most = Confidence.ESTABLISHED if job.is_alone else Confidence.HYPOTHESIS
    return view.finding(
        detector,
        subject=job.subject,
        severity=Severity.WARNING,
        summary=f"{gpus} spread over {spread.nodes} nodes where {counted(fewest, 'node')} would do",
        window=traffic.window,
        evidence=evidence,
        advice=advice,
        gpu_seconds=lost * traffic.seen_s * job.gpu_count if lost else None,
        at_most=surest(detector, traffic.seen_s, traffic.window.samples, most),
    )
