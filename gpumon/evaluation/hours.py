"""Puts the ledger beside the truth: GPU-hours charged and GPU-hours lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.evaluation.witness import Charge
from gpumon.model.finding_classes import CLASSES, Loss

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.evaluation.events import Events, Found
    from gpumon.evaluation.witness import Account
    from gpumon.model.records.label import Label

_SOME_GPUS: Final = frozenset({"partial_gpus_idle"})
"""Classes that lose all of some of a job's GPUs: which, only `gpu_seconds` says."""

_NOTHING: Final = Charge({}, {})


class Hours(NamedTuple):
    """One job's ledger beside what is true of it, GPU-seconds by class."""

    group: str
    true_s: dict[str, float]
    wasted_s: dict[str, float]
    suspected_s: dict[str, float]
    is_benign: bool
    is_known: bool
    """Whether the loss of everything that is true of it is known."""
    excess_s: float
    """Charged beyond what was claimed."""


def hours_of(account: Account, events: Events) -> list[Hours]:
    """Every job of which anything is known."""
    by_job: dict[str, list[Found]] = {job_id: [] for job_id in events.benign}
    for one in events.found:
        by_job.setdefault(one.group, []).append(one)
    claimed = claimed_seconds(events)
    found = []
    for job_id, faults in by_job.items():
        if job_id not in account.holds:
            continue
        charge = account.charges.get(job_id, _NOTHING)
        true_s: dict[str, float] = {}
        is_known = True
        for fault in faults:
            lost_s = lost_seconds(account, fault.label)
            is_known &= lost_s is not None
            key = fault.label.finding_class
            true_s[key] = true_s.get(key, 0.0) + (lost_s or 0.0)
        found.append(
            Hours(
                group=job_id,
                true_s=true_s,
                wasted_s=dict(charge.wasted_s),
                suspected_s=dict(charge.suspected_s),
                is_benign=job_id in events.benign and not faults,
                is_known=is_known,
                excess_s=_excess_s(account, job_id, charge, claimed.get(job_id, {})),
            )
        )
    return found


def lost_seconds(account: Account, label: Label) -> float | None:
    """GPU-seconds that a fault cost within the recording; None: nobody says.

    A label without them loses all time of its GPUs where its class loses all.
    """
    start, end = max(label.start, account.start), min(label.end, account.end)
    inside_s = max(0.0, end - start)
    if label.gpu_seconds is not None:
        whole_s = label.end - label.start
        return label.gpu_seconds * inside_s / whole_s if whole_s > 0.0 else label.gpu_seconds
    loss = CLASSES[label.finding_class].loss
    if loss is Loss.NONE:
        return 0.0
    gpus = _gpus_of(account, label.subjects)
    if loss is Loss.PART or gpus is None or label.finding_class in _SOME_GPUS:
        return None
    return gpus * inside_s


def _gpus_of(account: Account, subjects: Sequence[str]) -> int | None:
    """GPUs of the widest of some subjects; None: not known."""
    named = [subject for subject in subjects if subject.startswith("gpu:")]
    if len(named) == len(subjects):
        return len(named)
    counts = [
        account.holds[subject[4:]].gpu_count
        for subject in subjects
        if subject.startswith("job:") and subject[4:] in account.holds
    ]
    return max(counts, default=None)


def claimed_seconds(events: Events) -> dict[str, dict[str, float]]:
    """GPU-seconds that claims say are lost, by job (or subject without one) and class."""
    claimed: dict[str, dict[str, float]] = {}
    for judged in events.judged:
        by_class, key = claimed.setdefault(judged.group, {}), judged.claim.finding_class
        by_class[key] = by_class.get(key, 0.0) + (judged.claim.gpu_seconds or 0.0)
    return claimed


def _excess_s(account: Account, job_id: str, charge: Charge, claimed: Mapping[str, float]) -> float:
    """GPU-seconds charged to a job beyond what its findings say is lost, class by class."""
    # A finding that clears between two ticks says what it lost until the one before.
    slack_s = account.holds[job_id].gpu_count * account.period_s
    excess = 0.0
    for key in {*charge.wasted_s, *charge.suspected_s}:
        charged_s = charge.wasted_s.get(key, 0.0) + charge.suspected_s.get(key, 0.0)
        excess += max(0.0, charged_s - claimed.get(key, 0.0) - slack_s)
    return excess
