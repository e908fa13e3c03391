"""The words for states, reasons and verdicts, the same in the terminal and in plain text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpumon.model.finding import Confidence, Finding, Severity
from gpumon.model.finding_classes import class_of
from gpumon.model.job_states import SHORT_CODES, has_ended
from gpumon.model.missing import Reason
from gpumon.report.facts.losses import mark_of
from gpumon.report.text.cells import EMPTY_CELL, Cell, Tone
from gpumon.report.text.units import clock_time, short_duration
from gpumon.report.wording.pending import start_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.records.cluster import Gpu, JobView
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.tick_index import Digest

REASONS: Final = {
    Reason.NOT_SUPPORTED: "not offered by GPU or driver",
    Reason.NO_PERMISSION: "this user may not read it",
    Reason.NOT_SAMPLED: "no sample yet",
    Reason.STALE: "stale",
    Reason.LOST: "the GPU fell off the bus",
    Reason.GARBAGE: "out of range and dropped",
    Reason.FAILED: "reading failed, see errors (e)",
    Reason.NO_PROCESS: "the process was gone",
    Reason.NOT_SHARED: "not asked for or not shared",
}

SEVERITY_TONES: Final = {
    Severity.INFO: Tone.INFO,
    Severity.WARNING: Tone.WARN,
    Severity.CRITICAL: Tone.BAD,
}

SEVERITY_SIGNS: Final = {Severity.INFO: "i", Severity.WARNING: "!", Severity.CRITICAL: "‼"}

MARKS_DOC: Final = (
    "i info, ! warning, ‼ critical: it stops or may corrupt work, or costs GPU time now"
)
"""What the marks of findings mean."""

FOR_MACHINE: Final = "Administrators:"
"""Before a step that is not for who owns the job."""

WATCHING: Final = "watching"
"""The verdict of a job while some detectors have not judged it."""

_BAD_STATES: Final = frozenset(
    {"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
)


def state_cell(state: str) -> Cell:
    """A job's state as squeue's code."""
    code = SHORT_CODES.get(state, state[:3])
    if state in _BAD_STATES:
        return Cell(code, Tone.BAD)
    return Cell(code, Tone.PLAIN if state == "RUNNING" else Tone.DIM)


def class_words(finding: Finding) -> str:
    """A finding's class as the catalogue calls it: `some GPUs unused`."""
    return class_of(finding).title


def finding_cell(tick: Tick, finding: Finding) -> Cell:
    """Its mark and its class by its title; a claim that is only a hypothesis ends in `?`."""
    doubt = "?" if finding.confidence is Confidence.HYPOTHESIS else ""
    mark = mark_of(tick, finding)
    return Cell(f"{SEVERITY_SIGNS[mark]} {class_words(finding)}{doubt}", SEVERITY_TONES[mark])


def borne_cell(tick: Tick, finding: Finding, whose: str) -> Cell:
    """A finding about something else, which a row has its part of: `! node: fabric degraded`."""
    cell = finding_cell(tick, finding)
    sign, _, words = cell.text.partition(" ")
    return Cell(f"{sign} {whose}: {words}", cell.tone)


CONFIDENCE_SIGNS: Final = {
    Confidence.HYPOTHESIS: "○",
    Confidence.SUPPORTED: "◐",
    Confidence.ESTABLISHED: "●",
}

_ASIDE: Final = re.compile(r" \((?:[^()]* observed|job [^()]*)\)")
"""What a column has no room for: how long it was observed, and the jobs, which are the rows."""


NEW: Final = "new: "
"""Before what was found since the user looked last."""


def sentence_cell(tick: Tick, finding: Finding, *, is_new: bool = False) -> Cell:
    """`‼● hangs since 14:31: …`: how grave, how sure, what, and since when."""
    words = _ASIDE.sub("", finding.summary)
    if finding.subject.startswith("node:") and not words.startswith(finding.subject[5:]):
        words = f"{finding.subject[5:]}: {words}"
    sure = CONFIDENCE_SIGNS[finding.confidence]
    mark = mark_of(tick, finding)
    text = f"{SEVERITY_SIGNS[mark]}{sure} {NEW * is_new}{words}"
    return Cell(text, SEVERITY_TONES[mark])


def runs_jobs(tick: Tick) -> bool:
    """Whether jobs are run, so that who owns one and who runs its machine are likely to be two."""
    return tick.queue_at is not None or bool(tick.jobs)


def machine_step(tick: Tick, step: str) -> str:
    """A step for who runs the machine: without jobs that is who reads it, and is not named."""
    return f"{FOR_MACHINE} {step}" if runs_jobs(tick) else step


def next_cell(finding: Finding) -> Cell:
    """The first thing to do: the owner's of a job, else that of who runs the machine."""
    if finding.advice:
        return Cell(finding.advice[0], Tone.INFO)
    if finding.machine_advice:
        return Cell(f"{FOR_MACHINE} {finding.machine_advice[0]}", Tone.INFO)
    return EMPTY_CELL


def verdict_cell(digest: Digest, view: JobView) -> Cell:
    """What is known of a job: the finding that explains the others, its node's, or why none is."""
    if has_ended(view.job.state):
        return Cell(view.job.state.lower().replace("_", " "), Tone.DIM)
    finding = digest.shown_finding(view)
    if finding is not None:
        return sentence_cell(digest.tick, finding, is_new=finding.identity in digest.news)
    if view.job.state == "PENDING":
        return Cell(_wait_words(digest, view), Tone.DIM)
    if view.job.state != "RUNNING":
        return Cell(view.job.state.lower().replace("_", " "), Tone.DIM)
    age_s = digest.stale_age_s(view)
    if age_s is not None:
        return Cell(f"stale {short_duration(age_s)}", Tone.WARN)
    if not view.job.gpu_count and not view.gpu_uuids:
        return Cell("– no GPUs", Tone.DIM)
    if not digest.gpus(view):
        return Cell("– unknown", Tone.DIM)
    return Cell(_silence_words(digest, view), Tone.DIM)


def step_cell(digest: Digest, view: JobView) -> Cell:
    """The first thing to do about a job."""
    finding = None if has_ended(view.job.state) else digest.shown_finding(view)
    return EMPTY_CELL if finding is None else next_cell(finding)


def _wait_words(digest: Digest, view: JobView) -> str:
    """`waits: Resources, starts in 2h14m`."""
    words = f"waits: {view.job.reason}" if view.job.reason else "waits"
    start = start_words(digest, view)
    return f"{words}, starts {start}" if start else words


def _silence_words(digest: Digest, view: JobView) -> str:
    """Why a job has no verdict: not judged yet, not seen, or judged and found well."""
    watching = f"{WATCHING} {short_duration(digest.watched_s(view))}"
    if digest.is_unjudged:
        return watching
    total, waiting = len(digest.coverage_at_work), len(digest.unjudged(view))
    muted = sum(one.state == "muted" for one in digest.tick.coverage)
    judged = f"({total - waiting - muted} of {total})"
    if waiting:
        # Without the dash, as then all of it fits into a column of 80 cells.
        return f"{watching} {judged}"
    if digest.is_blind:
        return "– unknown"
    return f"– no finding {judged}" if muted else "– no finding"


def reason_words(reason: Reason | None) -> str:
    """Why a value is missing, in words; empty where it is present."""
    return "" if reason is None else REASONS[reason]


def reading_words(digest: Digest, gpu: Gpu, reason: Reason) -> str:
    """Why a value of a GPU is missing, with what the node itself reports of a failed read."""
    if reason is Reason.STALE:
        return stale_words(digest, gpu)
    node = digest.tick.nodes.get(gpu.node)
    if reason is Reason.FAILED and node is not None and node.errors:
        return _failed_words(gpu, node.errors)
    return REASONS[reason]


def _failed_words(gpu: Gpu, errors: Sequence[SourceError]) -> str:
    """What failed on this GPU, else on the whole node: what fails of another one is none of it."""
    for error in errors:
        if gpu.uuid in error.where:
            return error.message
    common = [error.message for error in errors if "GPU-" not in error.where]
    return f"read failed: {common[0]}" if common else REASONS[Reason.FAILED]


def old_cell(tick: Tick, age_words: str, finding: Finding | None) -> Cell:
    """How old what is known is, then the finding that is still open, which may be cut."""
    if finding is None:
        return Cell(age_words, Tone.WARN)
    found = finding_cell(tick, finding)
    tone = found.tone if found.tone is Tone.BAD else Tone.WARN
    return Cell(f"{age_words} · {found.text}", tone)


def left_since(digest: Digest, gpu: Gpu) -> float | None:
    """Unix time since when a GPU's node is not watched, as no job in view is there; else None."""
    node = digest.tick.nodes.get(gpu.node)
    return None if node is None else node.left_at


def left_words(left_at: float) -> str:
    """`not watched since 14:03`: its probe was ended on purpose, which is no trouble."""
    return f"not watched since {clock_time(left_at)}"


def old_gpu_cell(digest: Digest, gpu: Gpu, finding: Finding | None) -> Cell:
    """How old what is known of a GPU is; dim where its node was left on purpose."""
    left_at = left_since(digest, gpu)
    if left_at is None:
        return old_cell(digest.tick, stale_words(digest, gpu), finding)
    # Shorter than the time of day, which a table of 120 cells would cut.
    words = f"not watched for {short_duration(digest.tick.at - left_at)}"
    return Cell(words, Tone.DIM) if finding is None else old_cell(digest.tick, words, finding)


def stale_words(digest: Digest, gpu: Gpu) -> str:
    """`stale 12s`: how old the GPU's newest values are, or since when it is not watched."""
    left_at = left_since(digest, gpu)
    if left_at is not None:
        return left_words(left_at)
    return f"stale {short_duration(digest.tick.at - gpu.taken_at)}"
