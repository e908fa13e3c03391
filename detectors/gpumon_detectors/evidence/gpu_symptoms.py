"""Signs that a GPU itself is broken, as the driver tells them, each with since when and what to do.

What the driver's error numbers mean is `gpumon.model.gpu.xid`'s, what is wrong by a value that of
the table of conditions; the order of gravity follows the immediate actions that are listed there.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.plugin import CONDITIONS, Action, Confidence, Severity, Wrong
from gpumon_detectors.evidence.clock_rows import newest_known
from gpumon_detectors.evidence.episodes import REST_S, over_words
from gpumon_detectors.evidence.gpu_use import PAST_S
from gpumon_detectors.evidence.phrases import clock_time, counted
from gpumon_detectors.evidence.symptom import RECENT_ROWS, Symptom, since_when

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import EventFacts, GpuFacts, JobLook, View, Xid

_SPAN_S: Final = 3600.0
"""Errors that were counted within so long are told by their number and time; older ones by what the
counter holds."""

VITAL: Final = ("temp_c", "power_w", "mem_used_bytes")
"""What every GPU tells while it is alive; not one of them is a matter of permission."""

_ECC: Final = "ecc_uncorrected_volatile_count"
_CLOSED: Final = "open_error"
_ECC_EVENT: Final = 0x2
"""`nvmlEventTypeDoubleBitEccError` of nvml.h: an uncorrectable memory error."""

_GRAVE: Final = frozenset(
    {Action.RESET_GPU, Action.RESTART_NODE, Action.CHECK_ECC, Action.CHECK_POWER}
)
"""Actions after which no work on the GPU goes on as it was."""


_BLAMED_BEFORE_S: Final = 600.0
_BLAMED_AFTER_S: Final = 300.0
"""A fault is taken for the cause of what stops so long after it, or before it is told: as Meta's
clusters attribute failures to checks (RSC: ten minutes before, five after)."""


_CODE_KEYS: Final = (
    *(_ECC, _CLOSED, "remap_failure", "recovery_action"),
    *("remap_pending", "retired_pages_pending"),
)
"""Conditions of the GPU itself that no other rule tells: heat is `throttled`'s, a link has rules of
its own."""

_CODES: Final = tuple(one for one in CONDITIONS if one.key in _CODE_KEYS)


def suspects(view: View) -> Iterator[GpuFacts]:
    """GPUs of which anything at all is told now; spares the sound ones every further look."""
    uuids = view.uuids
    # History knows of a counter what came after the first look alone, the driver's facts all of it.
    is_odd = view.is_lost | (view.fleet(_ECC)[:-1] > 0) | (view.fleet(_CLOSED)[:-1] > 0)
    for key in _CODE_KEYS if uuids else ():
        # Single samples are missing now and then: one of the last ones tells.
        recent = view.table(uuids, (key,), REST_S).columns[key][-RECENT_ROWS:]
        is_odd |= np.any(recent > 0, axis=0)
    with_events = {e.uuid for node in view.nodes_with("event").values() for e in node.events}
    is_odd[view.layout.places(with_events)] = True
    for place in np.flatnonzero(is_odd & ~view.is_stale):
        yield view.gpus[uuids[place]]


def symptoms(view: View, gpu: GpuFacts) -> list[Symptom]:
    """What is wrong with a GPU, the gravest first.

    A program's own errors are not among them, nor events of which nothing is to be made.
    """
    errors = list(_memory_errors(view, gpu))
    codes = [code for code in _codes(view, gpu) if code.field != _ECC or not errors]
    found = [*_lost(view, gpu), *codes, *errors]
    seen: set[int | None] = set()
    for event in view.events(gpu.uuid):
        number = event.xid.number if event.xid else None
        is_fault = event.xid is not None and not (event.xid.is_application or event.xid.is_silent)
        if number not in seen and (is_fault or event.event_type == _ECC_EVENT):
            seen.add(number)
            found.append(_event(view, event))
    return sorted(found, key=lambda symptom: -symptom.severity.rank)


class Faults:
    """Faults of GPUs that stopped the work of jobs; who is odd is looked up once an evaluation."""

    def __init__(self, view: View) -> None:
        self._view = view

    @cached_property
    def _odd(self) -> frozenset[str]:
        return frozenset(gpu.uuid for gpu in suspects(self._view))

    def stopped(self, job: JobLook, at: float) -> bool:
        """Whether the driver tells a fault of a GPU that came with a stop of its job's work.

        Args:
            job: The job.
            at: Unix time since when it stands still.
        """
        return any(
            symptom.severity is not Severity.INFO
            and symptom.at_most is not Confidence.HYPOTHESIS
            and -_BLAMED_AFTER_S <= at - symptom.since <= _BLAMED_BEFORE_S
            for gpu in job.gpus
            if gpu.uuid in self._odd
            for symptom in symptoms(self._view, gpu)
        )


def program_errors(view: View, gpu: GpuFacts) -> list[Symptom]:
    """Errors of late that programs cause, each number once."""
    by_number = {e.xid.number: e for e in view.events(gpu.uuid) if e.xid and e.xid.is_application}
    return [_event(view, event) for event in by_number.values()]


def lost_since(view: View, gpu: GpuFacts) -> float:
    """Unix time since when a lost GPU tells nothing, as far as history reaches."""
    return _silence(view, gpu)[0]


def _silence(view: View, gpu: GpuFacts) -> tuple[float, int]:
    past = view.past((gpu.uuid,), VITAL, PAST_S)
    is_silent = ~np.any([np.isfinite(column[:, 0]) for column in past.columns.values()], axis=0)
    is_known = np.ones(len(past.times), np.bool_)
    return since_when(view, past.times, is_silent, is_known, is_lasting=True)


def _lost(view: View, gpu: GpuFacts) -> Iterator[Symptom]:
    if gpu.is_lost:
        since, samples = _silence(view, gpu)
        text = f"fell off the bus at {clock_time(since)}: the driver answers GPU_IS_LOST"
        advice = "Free the node and power-cycle it: a reset does not bring back a lost GPU."
        yield Symptom(
            field="temp_c",
            text=text,
            value=None,
            severity=Severity.CRITICAL,
            machine_advice=advice,
            since=since,
            samples=samples,
        )


def _codes(view: View, gpu: GpuFacts) -> Iterator[Symptom]:
    """What the table of conditions says, with since when: also what was so before gpumon came."""
    for one in _CODES:
        value = gpu.value(one.key)
        if value == 0:
            continue
        times, values = view.series(gpu.uuid, one.key, PAST_S)
        if value is None:
            value = np.nan_to_num(newest_known(values[-RECENT_ROWS:, None])[0])
        if value and one.is_so(value, 0.0):
            is_known = np.isfinite(values)
            newest = newest_known(values[:, None])[0]
            since, samples = since_when(view, times, values == newest, is_known, is_lasting=True)
            if not is_known.any():
                # History does not keep it, and it has been so as long as anybody looked.
                since, samples = view.observed_since, max(1, len(times))
            wrong = Wrong(one, float(value), 0.0)
            severity = Severity.CRITICAL if one.is_grave else Severity.WARNING
            advice = f"{one.advice[:1].upper()}{one.advice[1:]}."
            yield Symptom(
                field=one.key,
                text=wrong.sentence,
                value=float(value),
                severity=severity,
                machine_advice=advice,
                since=since,
                samples=samples,
            )


def _memory_errors(view: View, gpu: GpuFacts) -> Iterator[Symptom]:
    """Uncorrected errors that were counted while gpumon watched, within the last hour."""
    times, values = view.series(gpu.uuid, _ECC, _SPAN_S)
    known = np.flatnonzero(np.isfinite(values))
    rows = known[1:][np.diff(values[known]) > 0] if len(known) else known
    if len(rows):
        count = int(values[known[-1]] - values[known[np.searchsorted(known, rows[0]) - 1]])
        over = over_words(times, int(rows[0]), is_scattered=True)
        text = f"{counted(count, 'uncorrected memory error')} {over}"
        advice = f"Memory: {Action.CHECK_ECC.value}."
        since, samples = float(times[rows[0]]), len(times) - int(rows[0])
        yield Symptom(
            field=_ECC,
            text=text,
            value=float(count),
            severity=Severity.CRITICAL,
            machine_advice=advice,
            since=since,
            samples=samples,
        )


def _event(view: View, event: EventFacts) -> Symptom:
    at = view.now if event.at is None else min(event.at, view.now)
    if event.xid is None:
        text = f"uncorrected memory error at {clock_time(at)}"
        advice = f"Memory: {Action.CHECK_ECC.value}."
        return Symptom(
            field="event_type",
            text=text,
            value=None,
            severity=Severity.CRITICAL,
            machine_advice=advice,
            since=at,
            samples=1,
        )
    known = event.xid
    text = f"Xid {known.number} at {clock_time(at)}: {known.meaning}"
    name = f"Xid {known.number}"
    mine = f"{name}: {known.owner_advice}." if known.owner_advice else ""
    machine = f"{name}: {known.machine_advice}." if known.machine_advice else ""
    # Where the number leaves open whose fault it is, one event proves nothing against the GPU.
    sure = Confidence.ESTABLISHED if known.is_blamed else Confidence.HYPOTHESIS
    severity = _severity(known)
    return Symptom(
        field="xid",
        text=text,
        value=float(known.number),
        severity=severity,
        machine_advice=machine,
        since=at,
        samples=1,
        at_most=sure,
        advice=mine,
    )


def _severity(known: Xid) -> Severity:
    """How grave an error is by what is to be done about it now."""
    if known.is_application or known.is_remark:
        return Severity.INFO
    return Severity.CRITICAL if known.action in _GRAVE else Severity.WARNING
