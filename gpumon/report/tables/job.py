"""The columns of the job table, and the order in which jobs are listed."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.model.job_states import has_ended
from gpumon.report.facts.array_tasks import asked_gpus
from gpumon.report.facts.columns import Column, SortKey, shown_first
from gpumon.report.facts.reference_values import LOW_RATIO
from gpumon.report.tables.place import types_column
from gpumon.report.text import units
from gpumon.report.text.cells import EMPTY_CELL, NO_VALUE, Cell, Tone
from gpumon.report.wording.gpu_cells import DUTY_DOC, duty_cell
from gpumon.report.wording.loss_words import LOSING, job_loss, losing_column, loss_cell, loss_key
from gpumon.report.wording.pending import expected_start, start_words
from gpumon.report.wording.trend import CELLS, trend_text
from gpumon.report.wording.verdict_words import (
    MARKS_DOC,
    WATCHING,
    class_words,
    state_cell,
    step_cell,
    verdict_cell,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.losses import Stake
    from gpumon.report.facts.tick_index import Digest

_STATE_ORDER: Final = {"RUNNING": 0, "COMPLETING": 1, "PENDING": 2}


def default_order(digest: Digest, view: JobView) -> SortKey:
    """What loses most now, weighed by how sure that is, and so on, as in every list.

    After those whose nodes something is found of, running before pending, then by GPUs. Jobs that
    have ended come last, with or without findings: nothing can be done for them.
    """
    job = view.job
    ended = 1.0 if has_ended(job.state) else 0.0
    beside = 0.0 if digest.findings_of_nodes(view) else 1.0
    state = _STATE_ORDER.get(job.state, 3)
    stake = digest.stake(view).first
    return (ended, *stake, beside, state, -(job.gpu_count or 0), job.job_id)


def search_text(digest: Digest, view: JobView) -> str:
    """What the row filter looks through, lower case."""
    job = view.job
    finding = digest.shown_finding(view)
    words = (
        job.label,
        job.name,
        job.user,
        job.account,
        job.partition,
        job.state,
        " ".join(job.nodes),
        *sorted({*job.gpu_types, *_types(digest, view)}),
        *((class_words(finding), finding.finding_class) if finding else ()),
    )
    return "\n".join(words).lower()


def _types(_digest: Digest, view: JobView) -> tuple[str, ...]:
    """Slurm's type of each GPU that it holds, else those that it asks for by name."""
    held = tuple(kind for part in view.job.allocations for kind in part.gpu_types)
    return held or view.job.gpu_types


def age_s(digest: Digest, view: JobView) -> float | None:
    """Time since the job started, or since it was submitted while it waits.

    Of a job that has ended how long it ran, which grows no more; None where it is not reported.
    """
    job = view.job
    since = job.submit_at if job.state == "PENDING" else job.start_at
    until = job.end_at if has_ended(job.state) else digest.tick.at
    return None if since is None or until is None else max(0.0, until - since)


def _tone(view: JobView) -> Tone:
    """What is not at work is dim."""
    return Tone.PLAIN if view.job.state == "RUNNING" else Tone.DIM


def _named(view: JobView, text: str) -> Cell:
    """A text from the queue; a job that only a label names has none."""
    return NO_VALUE if view.job.is_labelled and not text else Cell(text, _tone(view))


def _gpus(digest: Digest, view: JobView) -> Cell:
    count = asked_gpus(view.job)
    if count is None:
        return Cell(str(len(view.gpu_uuids))) if view.gpu_uuids else NO_VALUE
    known = len(digest.gpus(view))
    if view.job.state == "RUNNING" and 0 < known < count:
        return Cell(f"{known}/{count}", Tone.WARN)
    return Cell(str(count), _tone(view) if count else Tone.DIM)


def _gpu_count(_digest: Digest, view: JobView) -> float | None:
    """GPUs held or asked for; where Slurm does not say, those whose UUIDs are known."""
    count = asked_gpus(view.job)
    return float(count) if count is not None else float(len(view.gpu_uuids)) or None


def _verdict(digest: Digest, view: JobView) -> str:
    """The verdict without its sign: a finding's class, else the words shown."""
    finding = digest.shown_finding(view)
    if finding is not None and not has_ended(view.job.state):
        return finding.finding_class
    if view.job.state == "PENDING":
        return f"waits: {view.job.reason}" if view.job.reason else "waits"
    words = verdict_cell(digest, view).text.removeprefix(f"{units.MISSING} ")
    return WATCHING if words.startswith(WATCHING) else words


def _activity(digest: Digest, view: JobView) -> Cell:
    """SM activity; where no GPU of the job has that counter, the duty cycle, marked `≤`."""
    value = digest.mean(view, "sm_active_ratio")
    if value is None:
        return duty_cell(digest.mean(view, "gpu_util_ratio"))
    low = value < LOW_RATIO and view.job.state == "RUNNING"
    return Cell(units.percent(value), Tone.WARN if low else Tone.PLAIN)


def _trend(digest: Digest, view: JobView) -> Cell:
    """Two hours of it as bars, and the value of now."""
    now = _activity(digest, view)
    if not view.gpu_uuids or has_ended(view.job.state):
        return EMPTY_CELL
    return Cell(f"{trend_text(digest, view):>{CELLS}} {now.text:>3}", now.tone)


def _stake(digest: Digest, view: JobView) -> Stake | None:
    """What a running job costs; None: it is not in the ledger, or not judged yet."""
    ledger = digest.tick.ledger
    if view.job.state != "RUNNING" or (ledger is not None and job_loss(digest, view) is None):
        return None
    is_found = bool(digest.findings_by_job.get(view.job.job_id))
    is_judged = ledger is not None and not digest.is_unjudged and not digest.unjudged(view)
    return digest.stake(view) if is_found or is_judged else None


def _ratio(key: str) -> Callable[[Digest, JobView], Cell]:
    def cell(digest: Digest, view: JobView) -> Cell:
        value = digest.mean(view, key)
        return NO_VALUE if value is None else Cell(units.percent(value))

    return cell


def _by_age(digest: Digest, view: JobView) -> SortKey | None:
    age = age_s(digest, view)
    return None if age is None else (age,)


def _by_mean(key: str) -> Callable[[Digest, JobView], SortKey | None]:
    def order(digest: Digest, view: JobView) -> SortKey | None:
        value = digest.mean(view, key)
        return None if value is None else (value,)

    return order


def _power(digest: Digest, view: JobView) -> Cell:
    power_w = digest.mean(view, "power_w")
    if power_w is None:
        return NO_VALUE
    return Cell(units.power(power_w, digest.mean(view, "power_limit_w")))


def _memory(digest: Digest, view: JobView) -> Cell:
    used = digest.mean(view, "mem_used_bytes")
    if used is None:
        return NO_VALUE
    return Cell(units.memory(used, digest.mean(view, "mem_total_bytes")))


def _confidence(digest: Digest, view: JobView) -> Cell:
    finding = digest.shown_finding(view)
    return NO_VALUE if finding is None else Cell(finding.confidence.value)


def _age(digest: Digest, view: JobView) -> Cell:
    age = age_s(digest, view)
    if age is None:
        return NO_VALUE
    return Cell(units.short_duration(age), _tone(view))


_JOB_COLUMNS: Final[tuple[Column[JobView], ...]] = (
    losing_column(_stake, " of the job"),
    Column(
        "job_id",
        "JOBID",
        8,
        "left",
        priority=0,
        cell=lambda _d, v: Cell(v.job.label, _tone(v)),
        order=lambda _d, v: (float(v.job.job_id) if v.job.job_id.isdecimal() else inf, v.job.label),
        doc="Slurm's job id; an array task as 6_1.",
        max_width=12,
        # The number that Slurm gave a task of an array finds it as well.
        value=lambda _d, v: v.job.job_id,
    ),
    Column(
        "name",
        "NAME",
        8,
        "left",
        priority=2,
        cell=lambda _d, v: _named(v, v.job.name),
        order=lambda _d, v: (v.job.name,),
        doc="The job's name.",
        max_width=16,
    ),
    Column(
        "user",
        "USER",
        8,
        "left",
        priority=1,
        cell=lambda _d, v: _named(v, v.job.user),
        order=lambda _d, v: (v.job.user,),
        doc="Owner of the job.",
        max_width=10,
    ),
    Column(
        "gpus",
        "GPUS",
        5,
        "right",
        priority=0,
        cell=_gpus,
        order=lambda _d, v: (float(asked_gpus(v.job) or 0),),
        doc="GPUs held or asked for, by all tasks of an array; 6/8: telemetry names only 6.",
        max_width=7,
        is_descending=True,
        unit="",
        value=_gpu_count,
    ),
    Column(
        "trend",
        "LAST 2H SM%",
        16,
        "left",
        priority=7,
        cell=_trend,
        order=_by_mean("sm_active_ratio"),
        doc="SM activity of the last two hours, a bar for ten minutes, and now, mean over the "
        "job's GPUs." + DUTY_DOC,
        is_drawn=True,
    ),
    Column(
        "verdict",
        "VERDICT",
        36,
        "left",
        priority=0,
        cell=verdict_cell,
        order=default_order,
        doc="The finding that explains the others: " + MARKS_DOC + "; ○ hypothesis, "
        "◐ supported, ● established; new: found since you last looked. no finding: detectors "
        "looked and found nothing; watching 8s (2 of 19): so many have judged so far; unknown: "
        "they could not see.",
        max_width=110,
        value=_verdict,
    ),
    Column(
        "next",
        "NEXT",
        22,
        "left",
        priority=8,
        cell=step_cell,
        order=None,
        doc="The first thing to do; x lists the commands, Enter shows the rest.",
        max_width=60,
    ),
    Column(
        "partition",
        "PART",
        6,
        "left",
        priority=8,
        cell=lambda _d, v: Cell(v.job.partition, _tone(v)),
        order=lambda _d, v: (v.job.partition,),
        doc="Slurm partition.",
        max_width=10,
    ),
    Column(
        "nodes",
        "NODES",
        5,
        "right",
        priority=6,
        cell=lambda _d, v: Cell(str(len(v.job.nodes))) if v.job.nodes else NO_VALUE,
        order=lambda _d, v: (float(len(v.job.nodes)),),
        doc="Nodes that the job holds.",
        max_width=0,
        is_descending=True,
        unit="",
        value=lambda _d, v: float(len(v.job.nodes)) if v.job.nodes else None,
    ),
    Column(
        "age",
        "AGE",
        6,
        "right",
        priority=1,
        cell=_age,
        order=_by_age,
        doc="Time since the start, or since the submission while the job waits; how long it ran "
        "once it has ended.",
        max_width=0,
        is_descending=True,
        unit="s",
    ),
    Column(
        "state",
        "ST",
        3,
        "left",
        priority=1,
        cell=lambda _d, v: NO_VALUE if v.job.is_labelled else state_cell(v.job.state),
        order=lambda _d, v: (float(_STATE_ORDER.get(v.job.state, 3)), v.job.state),
        doc="Slurm's state code: R running, PD pending, CG completing.",
        value=lambda _d, v: None if v.job.is_labelled else v.job.state,
    ),
    Column(
        "sm_active_ratio",
        "SM%",
        4,
        "right",
        priority=1,
        cell=_activity,
        order=_by_mean("sm_active_ratio"),
        doc="Share of SM-cycles with work, mean over the job's GPUs with a known value." + DUTY_DOC,
    ),
    Column(
        "tensor_active_ratio",
        "TENSOR%",
        7,
        "right",
        priority=3,
        cell=_ratio("tensor_active_ratio"),
        order=_by_mean("tensor_active_ratio"),
        doc="Share of cycles in which a tensor pipe worked, mean over the job's GPUs.",
    ),
    Column(
        "dram_active_ratio",
        "DRAM%",
        5,
        "right",
        priority=6,
        cell=_ratio("dram_active_ratio"),
        order=_by_mean("dram_active_ratio"),
        doc="Share of the memory bandwidth in use, mean over the job's GPUs.",
    ),
    Column(
        "power_w",
        "W/LIMIT",
        9,
        "right",
        priority=4,
        cell=_power,
        order=_by_mean("power_w"),
        doc="Board power and its limit in watts, mean per GPU.",
        max_width=0,
        is_descending=True,
    ),
    Column(
        "mem_used_bytes",
        "MEM GiB",
        8,
        "right",
        priority=5,
        cell=_memory,
        order=_by_mean("mem_used_bytes"),
        doc="Device memory in use and in all, GiB, mean per GPU.",
        max_width=0,
        is_descending=True,
    ),
    Column(
        "gpu_util_ratio",
        "UTIL%",
        5,
        "right",
        priority=9,
        cell=lambda d, v: Cell(_ratio("gpu_util_ratio")(d, v).text, Tone.DIM),
        order=_by_mean("gpu_util_ratio"),
        doc="Share of time in which any kernel ran, mean: 100 says nothing about how much of the "
        "GPU.",
    ),
    Column(
        "confidence",
        "CONF",
        11,
        "left",
        priority=7,
        cell=_confidence,
        order=None,
        doc="How sure the finding is: hypothesis, supported, established.",
    ),
    Column(
        "starts",
        "STARTS",
        9,
        "right",
        priority=10,
        cell=lambda d, v: Cell(start_words(d, v), Tone.DIM),
        order=lambda _d, v: None if (start := expected_start(v)) is None else (start,),
        doc="When the scheduler expects to start a waiting job.",
        unit="s",
        value=lambda d, v: None if (at := expected_start(v)) is None else at - d.tick.at,
    ),
    Column(
        "wasted_gpu_s",
        "LOST",
        7,
        "right",
        priority=8,
        cell=lambda d, v: loss_cell(job_loss(d, v)),
        order=lambda d, v: loss_key(job_loss(d, v)),
        doc="GPU-hours that supported findings claim of the job's time; after ~ what is suspected.",
        max_width=0,
        is_descending=True,
        unit="GPU-s",
    ),
    Column(
        "account",
        "ACCOUNT",
        8,
        "left",
        priority=9,
        cell=lambda _d, v: Cell(v.job.account, _tone(v)),
        order=lambda _d, v: (v.job.account,),
        doc="Slurm account that the job is charged to.",
        max_width=12,
    ),
    Column(
        "qos",
        "QOS",
        8,
        "left",
        priority=9,
        cell=lambda _d, v: Cell(v.job.qos, _tone(v)),
        order=lambda _d, v: (v.job.qos,),
        doc="Quality of service.",
        max_width=12,
    ),
    types_column(_types),
)

JOB_COLUMNS: Final = shown_first(
    (LOSING, "job_id", "name", "user", "gpus", "trend", "verdict", "next"), _JOB_COLUMNS
)
