"""The columns of the findings: what is claimed of whom, since when, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.finding_classes import class_of
from gpumon.report.facts.columns import Column, SortKey, shown_first
from gpumon.report.facts.losses import Stake, loss_of, stake_of
from gpumon.report.text import units
from gpumon.report.text.cells import NO_VALUE, Cell, Tone
from gpumon.report.text.units import index_text
from gpumon.report.wording.loss_words import LOSING, losing_column, loss_cell, loss_key
from gpumon.report.wording.verdict_words import MARKS_DOC, NEW, SEVERITY_TONES, finding_cell

if TYPE_CHECKING:
    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import JobView
    from gpumon.report.facts.tick_index import Digest


def finding_key(finding: Finding) -> str:
    """What names a finding over time."""
    return "\n".join((*finding.identity, "" if finding.is_open else "cleared"))


def finding_order(digest: Digest, finding: Finding) -> SortKey:
    """What is open before what is known or out of sight, before what is cleared; then by loss."""
    return (
        _STATE_ORDER[state_of(finding)],
        *stake_of(digest.tick, finding).first,
        *finding.identity,
    )


_STATE_ORDER: Final = {"open": 0.0, "unknown": 1.0, "acknowledged": 2.0, "cleared": 3.0}


def state_of(finding: Finding) -> str:
    """One of `open`, `unknown` (its subject is out of sight), `acknowledged`, `cleared`."""
    if not finding.is_open:
        return "cleared"
    if finding.unknown_since is not None:
        return "unknown"
    return "acknowledged" if finding.is_acknowledged else "open"


def state_words(digest: Digest, finding: Finding) -> str:
    """The state with its time: `open`, `unknown for 3m`, `cleared 10:31`."""
    state = state_of(finding)
    if finding.cleared_at is not None:
        return f"cleared {units.clock_time(finding.cleared_at)}"
    if finding.unknown_since is not None:
        known = ", acknowledged" if finding.is_acknowledged else ""
        return f"unknown for {units.short_duration(digest.tick.at - finding.unknown_since)}{known}"
    return state


def subject_words(digest: Digest, finding: Finding) -> str:
    """Whom it is about, as people call it: `48214 rank 3`, `gpu02:1`, `gpu04`."""
    kind, _, name = finding.subject.partition(":")
    if kind == "gpu":
        gpu = digest.tick.gpus.get(name)
        return name if gpu is None else f"{gpu.node}:{index_text(gpu)}"
    if kind == "job":
        job_id, _, rank = name.partition("/rank:")
        view = digest.job(job_id)
        label = view.job.label if view else job_id
        return f"{label} rank {rank}" if rank else label
    return name


def finding_search(digest: Digest, finding: Finding) -> str:
    """Text in which bare words are looked for, lower case."""
    view = _holder(digest, finding)
    job = (view.job.user, view.job.name, view.job.account) if view else owners(digest, finding)
    known = class_of(finding)
    words = (
        known.title,
        finding.finding_class,
        finding.subject,
        subject_words(digest, finding),
        finding.summary,
        finding.severity.value,
        finding.confidence.value,
        known.category.value,
        state_of(finding),
        *job,
    )
    return "\n".join(words).lower()


def _tone(finding: Finding, tone: Tone = Tone.PLAIN) -> Tone:
    """What is over, or known, is dim."""
    return tone if state_of(finding) in ("open", "unknown") else Tone.DIM


def _dimmed(finding: Finding, cell: Cell) -> Cell:
    return cell._replace(tone=_tone(finding, cell.tone))


def _claim(digest: Digest, finding: Finding) -> Cell:
    cell = finding_cell(digest.tick, finding)
    sign, _, words = cell.text.partition(" ")
    new = NEW if finding.identity in digest.news else ""
    return Cell(f"{sign} {new}{words}", _tone(finding, cell.tone))


def _state(digest: Digest, finding: Finding) -> Cell:
    tone = Tone.WARN if state_of(finding) == "unknown" else Tone.PLAIN
    return Cell(state_words(digest, finding), _tone(finding, tone))


def _holder(digest: Digest, finding: Finding) -> JobView | None:
    """The job that it is about, or that holds the GPU that it is about."""
    kind, _, name = finding.subject.partition(":")
    if kind == "gpu":
        return digest.job_by_gpu.get(name)
    return digest.job(name.partition("/")[0]) if kind == "job" else None


def _user(digest: Digest, finding: Finding) -> Cell:
    view, users = _holder(digest, finding), users_of(digest, finding)
    if not users:
        return NO_VALUE
    more = len(users) - 1
    return Cell(f"{users[0]} +{more}" if view is None and more else users[0], _tone(finding))


def users_of(digest: Digest, finding: Finding) -> tuple[str, ...]:
    """The owner of its job, else the users that hold a GPU without one."""
    view = _holder(digest, finding)
    return owners(digest, finding) if view is None else (view.job.user,)


def owners(digest: Digest, finding: Finding) -> tuple[str, ...]:
    """The users that hold a GPU without a job as its node calls them, else as `uid 1007`."""
    kind, _, name = finding.subject.partition(":")
    gpu = digest.tick.gpus.get(name) if finding.owners and kind == "gpu" else None
    names = {p.uid: p.user for p in gpu.processes} if gpu else {}
    return tuple(names.get(uid) or f"uid {uid}" for uid in finding.owners)


def _job(digest: Digest, finding: Finding) -> Cell:
    view = _holder(digest, finding)
    return Cell(view.job.label, _tone(finding)) if view else NO_VALUE


def _stake(digest: Digest, finding: Finding) -> Stake | None:
    """What it costs; None while its subject is out of sight."""
    return None if state_of(finding) == "unknown" else stake_of(digest.tick, finding)


_SHOWN: Final = (
    "class", "subject", LOSING, "gpu_seconds", "since", "confidence", "state", "summary",
)  # fmt: skip

_COLUMNS: Final[tuple[Column[Finding], ...]] = (
    Column(
        "severity",
        "SEVERITY",
        8,
        "left",
        priority=5,
        cell=lambda _d, f: Cell(f.severity.value, _tone(f, SEVERITY_TONES[f.severity])),
        order=lambda _d, f: (float(f.severity.rank),),
        doc="How much it matters if it is right.",
        is_descending=True,
        value=lambda _d, f: f.severity.value,
    ),
    Column(
        "class",
        "FINDING",
        20,
        "left",
        priority=0,
        cell=_claim,
        order=lambda _d, f: (class_of(f).title,),
        doc="How grave (" + MARKS_DOC + ") and what is claimed; a trailing ? is a "
        "hypothesis, new: found since you last looked. Enter says what it means.",
        max_width=24,
    ),
    losing_column(_stake, " to it"),
    Column(
        "subject",
        "SUBJECT",
        12,
        "left",
        priority=0,
        cell=lambda d, f: Cell(subject_words(d, f), _tone(f, Tone.STRONG)),
        order=lambda d, f: (subject_words(d, f),),
        doc="The job, rank, GPU or node that it is about.",
        max_width=16,
    ),
    Column(
        "user",
        "USER",
        8,
        "left",
        priority=4,
        cell=_user,
        order=lambda d, f: (_user(d, f).text,),
        doc="Who holds the job or the GPU.",
        max_width=12,
        words=users_of,
    ),
    Column(
        "job",
        "JOB",
        8,
        "left",
        priority=4,
        cell=_job,
        order=lambda d, f: (_job(d, f).text,),
        doc="The job that it is about, or that holds the GPU.",
        max_width=12,
    ),
    Column(
        "since",
        "SINCE",
        6,
        "right",
        priority=1,
        cell=lambda d, f: Cell(units.short_duration(d.tick.at - f.began_at), _tone(f)),
        order=lambda d, f: (d.tick.at - f.began_at,),
        doc="Time since its evidence began.",
        is_descending=True,
        unit="s",
    ),
    Column(
        "last_seen",
        "SEEN",
        5,
        "right",
        priority=3,
        cell=lambda d, f: Cell(units.short_duration(d.tick.at - f.last_seen), _tone(f)),
        order=lambda d, f: (d.tick.at - f.last_seen,),
        doc="Time since it was last seen.",
        unit="s",
    ),
    Column(
        "confidence",
        "CONF",
        11,
        "left",
        priority=4,
        cell=lambda _d, f: Cell(f.confidence.value, _tone(f)),
        order=lambda _d, f: (float(f.confidence.rank),),
        doc="How sure it is: hypothesis, supported, established.",
        is_descending=True,
        value=lambda _d, f: f.confidence.value,
    ),
    Column(
        "gpu_seconds",
        "LOST",
        7,
        "right",
        priority=2,
        cell=lambda d, f: _dimmed(f, loss_cell(loss_of(d.tick, f))),
        order=lambda d, f: loss_key(loss_of(d.tick, f)),
        doc="GPU-hours lost since its onset, by the ledger; after ~ suspected ones.",
        is_descending=True,
        unit="GPU-s",
    ),
    Column(
        "category",
        "KIND",
        9,
        "left",
        priority=5,
        cell=lambda _d, f: Cell(class_of(f).category.value, _tone(f)),
        order=lambda _d, f: (float(class_of(f).category.rank), class_of(f).category.value),
        doc="Kind of cause.",
        max_width=13,
    ),
    Column(
        "state",
        "STATE",
        9,
        "left",
        priority=3,
        cell=_state,
        order=lambda d, f: (_STATE_ORDER[state_of(f)], state_words(d, f)),
        doc="open, unknown since its subject is out of sight, acknowledged, or cleared.",
        max_width=14,
        value=lambda _d, f: state_of(f),
    ),
    Column(
        "summary",
        "SAYS",
        20,
        "left",
        priority=1,
        cell=lambda _d, f: Cell(f.summary, _tone(f)),
        order=None,
        doc="The claim in one sentence.",
        max_width=140,
    ),
)

FINDING_COLUMNS: Final = shown_first(_SHOWN, _COLUMNS)
