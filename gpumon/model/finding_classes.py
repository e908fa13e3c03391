"""The classes of inefficiency: what each means, what it costs, and which one explains another.

Each GPU-second is charged to one class: hardware fault before hang before idle before degraded
link and throttle before input before communication before precision, so that totals never exceed
the allocation (the taxonomy's own order; within a category the order of `CLASSES` counts).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.model.finding import Finding


class Category(StrEnum):
    """Kinds of causes, in the order in which one explains the next."""

    HARDWARE = "hardware"
    """A GPU, a node or its telemetry is lost or faulty."""
    HANG = "hang"
    """The job makes no progress."""
    IDLE = "idle"
    """GPUs are held and not used."""
    DEGRADED = "degraded"
    """A link or a clock is slower than it should be."""
    INPUT = "input"
    """The job waits for data, storage or its own start."""
    COMMUNICATION = "communication"
    """Ranks wait for one another."""
    COMPUTE = "compute"
    """The GPU works, but not well: precision, batch, memory."""
    REQUEST = "request"
    """More was asked for than is used; no GPU-second of the job itself is lost."""

    @property
    def rank(self) -> int:
        """Precedence: the lowest explains the others."""
        return _RANKS[self]


_RANKS: Final = {category: rank for rank, category in enumerate(Category)}


class Loss(StrEnum):
    """How much of a GPU-second is lost while a class holds."""

    WHOLE = "whole"
    """All of it: the GPU does nothing for the job."""
    PART = "part"
    """A share, which the finding has."""
    NONE = "none"
    """None of it: what is wasted is not the job's GPU time."""


class FindingClass(NamedTuple):
    """One class of inefficiency."""

    key: str
    title: str
    category: Category
    meaning: str
    """One sentence for a reader who does not know the word."""
    severity: Severity
    """What a finding of it weighs unless its detector knows better."""
    loss: Loss


_W, _C, _I = Severity.WARNING, Severity.CRITICAL, Severity.INFO
_HW, _IDLE, _DEG = Category.HARDWARE, Category.IDLE, Category.DEGRADED
_IN, _COM, _CPU, _REQ = Category.INPUT, Category.COMMUNICATION, Category.COMPUTE, Category.REQUEST

_LISTED: Final = (
    FindingClass(
        "gpu_fault", "GPU fault", _HW, "The GPU or its memory failed, or left the bus.",
        severity=_C,
        loss=Loss.PART,
    ),
    FindingClass(
        "telemetry_lost", "telemetry lost", _HW,
        "A node, or one of its GPUs, has stopped reporting.", severity=_C, loss=Loss.NONE,
    ),
    FindingClass(
        "stuck_completing", "node not given back", _HW,
        "A job has ended, and Slurm cannot take its node back.", severity=_W, loss=Loss.NONE,
    ),
    FindingClass(
        "filesystem_full", "file system full", _HW,
        "Shared memory or a disk that programs rely on has no room left.", severity=_W,
        loss=Loss.NONE,
    ),
    FindingClass(
        "hang", "hang", Category.HANG, "All ranks wait for one another and none will come.",
        severity=_C,
        loss=Loss.WHOLE,
    ),
    FindingClass(
        "never_started", "never started", _IDLE,
        "The job holds GPUs and has not touched one since it began.", severity=_C, loss=Loss.WHOLE,
    ),
    FindingClass(
        "cpu_only", "CPU job on GPUs", _IDLE,
        "The job computes, on CPUs alone, and its GPUs stay unused.", severity=_C, loss=Loss.WHOLE,
    ),
    FindingClass(
        "idle_tail", "idle tail", _IDLE,
        "The work is done and the GPUs are not given back.", severity=_W, loss=Loss.WHOLE,
    ),
    FindingClass(
        "partial_gpus_idle", "some GPUs unused", _IDLE,
        "Some of the job's GPUs are unused while the others work.", severity=_W, loss=Loss.WHOLE,
    ),
    FindingClass(
        "interactive_idle", "idle session", _IDLE,
        "A shell or notebook holds GPUs and hardly uses them.", severity=_W, loss=Loss.WHOLE,
    ),
    FindingClass(
        "idle_held", "idle, memory held", _IDLE,
        "Processes hold GPU memory and compute nothing.", severity=_C, loss=Loss.WHOLE,
    ),
    FindingClass(
        "fabric_degraded", "fabric degraded", _DEG,
        "NVLink or network ports are down, slow or full of errors.", severity=_C, loss=Loss.PART,
    ),
    FindingClass(
        "pcie_degraded", "PCIe degraded", _DEG,
        "The GPU's PCIe link runs below its width or generation under load.", severity=_C,
        loss=Loss.PART,
    ),
    FindingClass(
        "throttled", "throttled", _DEG,
        "Heat or power keeps the clock below what the work needs.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "slow_startup", "slow start", _IN,
        "Loading, compiling or installing takes a large part of the run.", severity=_W,
        loss=Loss.WHOLE,
    ),
    FindingClass(
        "checkpoint_stall", "checkpoint stall", _IN,
        "GPUs wait while checkpoints are written.", severity=_W, loss=Loss.WHOLE,
    ),
    FindingClass(
        "storage_bound", "storage bound", _IN, "GPUs wait for the file system.", severity=_W,
        loss=Loss.PART,
    ),
    FindingClass(
        "input_bound", "input bound", _IN, "GPUs wait for data that CPUs prepare.", severity=_W,
        loss=Loss.PART,
    ),
    FindingClass(
        "cpu_oversubscribed", "too many threads", _IN,
        "The job runs more threads than it has CPU cores, and GPUs wait for them.", severity=_W,
        loss=Loss.PART,
    ),
    FindingClass(
        "numa_misplaced", "CPUs far from GPUs", _IN,
        "The job's CPUs or memory are at another socket than its GPUs.", severity=_W,
        loss=Loss.PART,
    ),
    FindingClass(
        "recompiling", "compiling again", _IN,
        "The program compiles again and again while GPUs wait.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "copy_bound", "host copy bound", _IN,
        "GPUs wait for copies between host and device.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "straggler", "straggler", _COM, "One rank is slower and all others wait.", severity=_C,
        loss=Loss.PART,
    ),
    FindingClass(
        "stage_imbalance", "stages unbalanced", _COM,
        "Some pipeline stages have more to do than others.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "data_imbalance", "data out of balance", _COM,
        "The slowest rank changes from step to step.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "comm_bound", "communication bound", _COM,
        "All ranks spend their time exchanging data.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "nic_misplaced", "port far from GPU", _COM,
        "Ranks talk through a network port that is far from their GPU.", severity=_W,
        loss=Loss.PART,
    ),
    FindingClass(
        "fragmented", "too many nodes", _COM,
        "The job's GPUs would fit into fewer nodes.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "slow_drift", "steps get slower", _COM,
        "Steps take longer than they did in the same run.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "memory_leak", "memory leak", _CPU,
        "Memory grows steadily towards its limit.", severity=_W, loss=Loss.NONE,
    ),
    FindingClass(
        "memory_limited", "memory limited", _CPU,
        "Full GPU memory keeps the work from filling the GPU.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "no_tensor_cores", "no tensor cores", _CPU,
        "Dense work runs outside of the tensor cores.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "small_batch", "small batch", _CPU,
        "Kernels are too small to fill the GPU.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "oversized_gpu", "GPU too large", _CPU,
        "The work would fit into a smaller GPU or a slice of one.", severity=_W, loss=Loss.PART,
    ),
    FindingClass(
        "program_error", "program error", _REQ,
        "The driver reports an error that programs cause, not hardware.", severity=_I,
        loss=Loss.NONE,
    ),
    FindingClass(
        "overasked", "asked for too much", _REQ,
        "Time, CPUs or memory were asked for and are not used.", severity=_I, loss=Loss.NONE,
    ),
)  # fmt: skip

CLASSES: Final = {known.key: known for known in _LISTED}
"""Every class that is known here, by its key, in order of precedence."""

CLASS_RANKS: Final = {key: position for position, key in enumerate(CLASSES)}
"""Which of two classes of one category explains the other: the lower one."""


def finding_class(key: str, categories: Mapping[str, str] | None = None) -> FindingClass:
    """The class of a key; a plugin's own is made from the category that the plugin declares."""
    known = CLASSES.get(key)
    if known is not None:
        return known
    named = (categories or {}).get(key)
    category = Category(named) if named in tuple(Category) else Category.REQUEST
    loss = Loss.NONE if category is Category.REQUEST else Loss.PART
    return FindingClass(
        key=key,
        title=key.replace("_", " "),
        category=category,
        meaning="",
        severity=Severity.WARNING,
        loss=loss,
    )


def class_of(finding: Finding) -> FindingClass:
    """The class of a finding; of a plugin's own with the category that the plugin gave it."""
    return finding_class(finding.finding_class, {finding.finding_class: finding.category})


def is_fault(known: FindingClass) -> bool:
    """Whether a class means that hardware is broken, which is reported without delay.

    Of what is slower than it should be only links and ports are among these: one that is down, or
    counts errors, is broken, while a clock or a PCIe link must be seen under load for a while.
    """
    return known.category is Category.HARDWARE or known.key == "fabric_degraded"


class Verdict(NamedTuple):
    """What is the matter with one subject."""

    main: Finding
    """The finding that the GPU-seconds are charged to."""
    explained: tuple[Finding, ...]
    """Findings about the same subject that the main one accounts for, by precedence."""


def precedence(finding: Finding) -> tuple[int, int, int, int]:
    """Sort key: the lowest explains the others.

    What is open comes before what is cleared, *supported* and better before a hypothesis, then the
    order of classes: a hypothesis of a graver class does not take GPU-seconds from a proven one.
    """
    known = class_of(finding)
    return (
        0 if finding.is_open else 1,
        0 if finding.confidence.rank > 0 else 1,
        known.category.rank,
        CLASS_RANKS.get(finding.finding_class, len(CLASS_RANKS)),
    )


def merge(findings: Iterable[Finding]) -> dict[str, Verdict]:
    """One verdict per subject, of all that several detectors report about it."""
    by_subject: dict[str, list[Finding]] = {}
    for finding in findings:
        by_subject.setdefault(finding.subject, []).append(finding)
    verdicts = {}
    for subject, found in by_subject.items():
        first, *rest = sorted(found, key=precedence)
        verdicts[subject] = Verdict(first, tuple(rest))
    return verdicts
