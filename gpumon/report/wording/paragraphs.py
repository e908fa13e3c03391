"""Texts above and between the tables: facts of a job and of a GPU, findings, targets, errors."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.report.facts.array_tasks import asked_gpus, task_count
from gpumon.report.facts.losses import loss_of, mark_of
from gpumon.report.facts.reference_values import sheet_of
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Line, Tone, fit, paragraph, safe, some_names
from gpumon.report.text.field_names import spoken
from gpumon.report.text.units import index_text
from gpumon.report.wording.gpu_cells import model_name, nvlink_rate, unused_words
from gpumon.report.wording.loss_words import lost_since
from gpumon.report.wording.queue_reasons import meaning_of
from gpumon.report.wording.verdict_words import (
    SEVERITY_SIGNS,
    SEVERITY_TONES,
    class_words,
    left_since,
    left_words,
    machine_step,
    runs_jobs,
    state_cell,
    step_cell,
    verdict_cell,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.finding import Coverage, Finding
    from gpumon.model.records.cluster import Gpu, Job, JobView
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.tick_index import Digest

NAMED_DETECTORS: Final = 3
"""Detectors named on a job's page: with the words around them two lines of 80 cells."""

TARGET_OLD_S: Final = 90.0
"""A target whose newest answer is older is called stale: three periods of the job listing, which
is the rarest answer that a target may consist of."""

_NAMED: Final = 4
"""Values named of those that another origin reports of a GPU: about half a line."""

_MOST_REASONS: Final = 3
"""Reasons named of why a detector declines to judge: the most frequent ones."""

_CAUSES: Final = {
    "NodeDown": "a node failed",
    "SystemFailure": "a system failed",
    "JobLaunchFailure": "it could not be launched",
    "JobHoldMaxRequeue": "too often, it is held now",
}
"""Slurm's reasons of a waiting job that speak of its last run, as the page "Job Reason Codes" has
them. After most requeues Slurm only says BeginTime, and nothing of the cause."""

_FAILED_STATES: Final = frozenset({"down", "fail", "error", "not_responding"})

UNUSED_BYTES_PER_S: Final = 1e6
"""Below this a GPU exchanges nothing: an all-reduce of one small model moves more in a second."""


def nvlink_words(digest: Digest, view: JobView) -> str:
    """What the job's GPUs carry over NVLink now, beside what the data sheet promises.

    Returns:
        Mean of the busier direction over the GPUs that use theirs, and on how many these are;
        `unused` where none does, nothing where no GPU reports NVLink.
    """
    rates: list[float] = []
    peaks: set[float | None] = set()
    for gpu in digest.gpus(view):
        if (rate := nvlink_rate(gpu)) is not None:
            rates.append(rate)
            sheet = sheet_of(gpu)
            peak = None if sheet is None else sheet.nvlink_bytes_per_s
            peaks.add(None if peak is None else peak.value)
    if not rates:
        return ""
    used = [rate for rate in rates if rate >= UNUSED_BYTES_PER_S]
    (peak_bytes_per_s,) = peaks if len(peaks) == 1 else (None,)
    if not used:
        return "unused"
    mean = sum(used) / len(used)
    who = "" if len(used) == len(rates) else f" on {len(used)} of {len(rates)} GPUs"
    text = f"used, {units.rate(mean)} each way{who}"
    if peak_bytes_per_s is not None:
        share = units.percent(mean / peak_bytes_per_s)
        text += f", {share} % of {units.rate(peak_bytes_per_s)}"
    return text


def requeue_words(digest: Digest, view: JobView) -> str:
    """`once`, `2 times: a node failed`; empty for a job that was not requeued."""
    count = view.job.restart_count or 0
    if not count:
        return ""
    times = "once" if count == 1 else f"{count} times"
    cause = _cause(digest, view) if view.job.state == "PENDING" else ""
    return f"{times}: {cause}" if cause else times


def _cause(digest: Digest, view: JobView) -> str:
    """What Slurm's reason says, or which node of the run before is down."""
    if view.job.reason in _CAUSES:
        return _CAUSES[view.job.reason]
    nodes = [digest.tick.nodes.get(name) for name in dict.fromkeys(r.node for r in view.ranks)]
    failed = tuple(
        node.name for node in nodes if node and set((node.state or "").split("+")) & _FAILED_STATES
    )
    if not failed:
        return ""
    return f"{some_names(failed)}, where it ran, {'is' if len(failed) == 1 else 'are'} down"


def facts(pairs: Sequence[tuple[str, str]], width: int) -> list[Line]:
    """Name and value pairs, as many on a line as fit; pairs without a value are left out."""
    lines: list[Line] = []
    line: list[Cell] = []
    taken = 0
    for name, value in pairs:
        value = safe(value)
        if not value:
            continue
        size = len(name) + len(value) + 3
        if line and taken + size > width:
            lines.append(tuple(line))
            line, taken = [], 0
        line += [Cell(f"{name} ", Tone.DIM), Cell(f"{value}  ")]
        taken += size
    return [*lines, tuple(line)] if line else lines


def job_facts(digest: Digest, view: JobView, width: int) -> list[Line]:
    """What Slurm says of a job."""
    job, at = view.job, digest.tick.at
    state = f"{state_cell(job.state).text} {job.state.lower()}"
    if job.is_labelled:
        state = "unknown: only the label of an exporter names the job"
    used = units.slurm_duration(None if job.start_at is None else at - job.start_at)
    limit = "unlimited or unknown"
    if job.time_limit_s is not None:
        limit = units.slurm_duration(job.time_limit_s)
    waits = "" if job.submit_at is None else units.short_duration(at - job.submit_at)
    pending = job.state == "PENDING"
    head: Line = (Cell(f"{job.name}", Tone.STRONG),)
    return [
        head,
        *facts(
            (
                ("state", f"{state}, {job.reason}" if job.reason else state),
                ("waits" if pending else "time", waits if pending else f"{used} of {limit}"),
                ("requeued", requeue_words(digest, view)),
                ("user", job.user),
                ("NVLink", nvlink_words(digest, view)),
                ("account", job.account),
                ("partition", job.partition),
                ("GPUs", _gpus_of(job)),
                (
                    units.counted(len(job.nodes), "node"),
                    some_names(job.nodes),
                ),
            ),
            width,
        ),
    ]


def _gpus_of(job: Job) -> str:
    """GPUs held or asked for; `21, 1 for each of 21 tasks` of an array that waits."""
    asked, tasks = asked_gpus(job), task_count(job)
    if asked is None:
        return units.MISSING
    return f"{asked}, {job.gpu_count} for each of {tasks} tasks" if tasks > 1 else str(asked)


def unknown_gpus(digest: Digest, view: JobView, width: int) -> list[Line]:
    """How many GPUs of the job no telemetry names, and why as far as known."""
    if not view.gpus_unknown:
        return []
    silent: list[str] = []
    for name in view.job.nodes:
        node = digest.tick.nodes.get(name)
        if node is None or node.taken_at is None:
            errors = node.errors if node else ()
            silent.append(f"{name} ({errors[0].message})" if errors else name)
    count = view.gpus_unknown
    text = f"{units.gpus(count)} unknown: "
    text += (
        f"no telemetry from {some_names(tuple(silent))}"
        if silent
        else "Slurm does not say which GPUs these are, and no process shows it"
    )
    return paragraph(text, width, Tone.WARN, "? ", "  ")


def finding_lines(
    tick: Tick, finding: Finding, width: int, is_full: bool = True, whom: str = ""
) -> list[Line]:
    """A finding with its evidence and advice; in short only what it says and one first step.

    `whom` names its subject where the view shows others beside it, as `rank 11`.
    """
    lines = [line for part in _about(tick, finding, width, whom) for line in part]
    if is_full:
        for evidence in finding.evidence:
            lines += paragraph(evidence.text, width, Tone.DIM, "  · ", "    ")
        about = f"subject {finding.subject}, detector {finding.detector}, "
        about += f"{finding.window.samples} samples, "
        about += f"first seen {units.clock_time(finding.first_seen)}"
        lines += paragraph(about, width, Tone.DIM, "  · ", "    ")
    for step in _steps(tick, finding, width, is_full=is_full):
        lines += step
    return lines


def claim_lines(tick: Tick, finding: Finding, width: int, most: int) -> list[Line]:
    """A finding in short in at most so many lines, from three on with what to do.

    Where not everything has room, a step to mend it goes before one to look closer, and what it
    says is cut.
    """
    title, says = _about(tick, finding, width)
    steps = _steps(tick, finding, width, is_full=False)
    while len(steps) > 1 and len(title) + len(says) + sum(map(len, steps)) > most:
        del steps[0]
    below = [line for step in steps for line in step]
    above = most - len(title) - len(below)
    return first_lines([*title, *first_lines(says, max(1, above), width), *below], most, width)


def _about(
    tick: Tick, finding: Finding, width: int, whom: str = ""
) -> tuple[list[Line], list[Line]]:
    """A finding's title with how sure it is and what it loses, and what it says."""
    mark = mark_of(tick, finding)
    sign, tone = SEVERITY_SIGNS[mark], SEVERITY_TONES[mark]
    # What `--exit-status` counts is shown where the mark does not.
    grave = "" if mark is finding.severity else f"{finding.severity.value}, "
    window = finding.window
    seen = f"{units.short_duration(window.end - window.start)} until {units.clock_time(window.end)}"
    claim = lost_since(loss_of(tick, finding), finding.began_at) or f"seen for {seen}"
    about = f"{whom}, " if whom else ""
    title = f"{class_words(finding)}: {about}{grave}{finding.confidence.value}, {claim}"
    return (
        paragraph(title, width, tone, f"{sign} ", "  "),
        paragraph(finding.summary, width, Tone.PLAIN, "  ", "  "),
    )


def _steps(tick: Tick, finding: Finding, width: int, *, is_full: bool) -> list[list[Line]]:
    """What to do next; in short the first step, and who has a machine alone is the one for both."""
    steps = [*finding.advice, *(machine_step(tick, step) for step in finding.machine_advice)]
    if not is_full:
        own = not runs_jobs(tick) and finding.advice
        steps = [*finding.advice[:1], *finding.machine_advice[:1]] if own else steps[:1]
    return [paragraph(step, width, Tone.INFO, "  → ", "    ") for step in steps]


def first_lines(lines: Sequence[Line], most: int, width: int) -> list[Line]:
    """At most so many lines; the last one says with `…` that there are more."""
    if len(lines) <= most:
        return list(lines)
    *whole, last = lines[:most]
    text = "".join(cell.text for cell in last)
    return [*whole, (Cell(fit(f"{text} …", min(width, len(text) + 2)), last[0].tone),)]


def row_lines(digest: Digest, view: JobView, width: int, height: int) -> list[Line]:
    """A job's verdict and its next step as its row has them, not cut to columns."""
    verdict, step = verdict_cell(digest, view), step_cell(digest, view)
    if view.job.state == "PENDING" and digest.shown_finding(view) is None:
        meaning = meaning_of(view.job.reason)
        if meaning.words != view.job.reason:
            verdict = Cell(f"{verdict.text}: {meaning.words}", verdict.tone)
        step = Cell(meaning.advice, Tone.INFO)
    below: list[Line] = []
    if step.text and height > 1:
        below = first_lines(paragraph(step.text, width, step.tone, "→ ", "  "), height // 2, width)
    above = paragraph(verdict.text, width, verdict.tone, "", "   ")
    return first_lines(above, height - len(below), width) + below


def contradiction_lines(view: JobView, width: int) -> list[Line]:
    """Where Slurm and an observed process disagree."""
    lines: list[Line] = []
    for text in view.contradictions:
        lines += paragraph(text, width, Tone.WARN, "≠ ", "  ")
    return lines


def gpu_facts(
    digest: Digest, gpu: Gpu, width: int, more: tuple[tuple[str, str], ...] = ()
) -> list[Line]:
    """What a GPU is, and who holds it."""
    age_s = digest.tick.at - gpu.taken_at
    node = digest.tick.nodes.get(gpu.node)
    driver = node.block.label("driver_version", 0) if node and node.block else None
    head: Line = (Cell(model_name(gpu.label("name")) or "GPU of unknown model", Tone.STRONG),)
    lines = [
        head,
        *facts(
            (
                ("node", gpu.node),
                ("GPU", index_text(gpu)),
                ("bus", gpu.label("pci_bus_id") or ""),
                ("uuid", gpu.uuid),
                ("driver", driver or ""),
                ("from", f"{gpu.origin}, {units.short_duration(age_s)} ago"),
                *(("also from", text) for text in _borrowed(gpu)),
                *more,
            ),
            width,
        ),
    ]
    if gpu.is_stale:
        age_s = digest.tick.at - gpu.taken_at
        why = "the node no longer answers"
        lines += silence_lines(age_s, why, left_since(digest, gpu), width)
    view = digest.holder(gpu.uuid)
    if view is not None:
        whose = "" if view.job.is_labelled else f" of {view.job.user}, {view.job.name}"
        text = f"held by job {view.job.label}{whose} (Enter opens it)"
        lines += paragraph(text, width, Tone.INFO, "", "  ")
        unused = unused_words(gpu, view.job.job_id)
        if unused and not gpu.is_stale:
            lines += paragraph(f"{unused} holds a context on it", width, Tone.WARN, "! ", "  ")
    return lines


def _borrowed(gpu: Gpu) -> list[str]:
    """Per other origin the values that are taken from it."""
    titles: dict[str, list[str]] = {}
    for key, origin in gpu.borrowed.items():
        field = CATALOGUE.get(key)
        titles.setdefault(origin, []).append(
            key.replace("_", " ") if field is None else field.title
        )
    return [
        f"{origin}: {', '.join(names[:_NAMED])}"
        + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        for origin, names in titles.items()
    ]


def silence_lines(age_s: float, why: str, left_at: float | None, width: int) -> list[Line]:
    """That values are too old to be shown: a warning, unless it is not watched since `left_at`."""
    if left_at is None:
        text = f"stale {units.short_duration(age_s)}: {why}; values are not shown"
        return paragraph(text, width, Tone.WARN, "! ", "  ")
    text = f"{left_words(left_at)}: no job in view is there; values are not shown"
    return paragraph(text, width, Tone.DIM)


def error_lines(errors: Sequence[SourceError], width: int, most: int | None = None) -> list[Line]:
    """What could not be done, one entry each, with the way out."""
    lines: list[Line] = []
    for error in errors[:most]:
        lines += paragraph(f"{error.where}: {error.message}", width, Tone.BAD, "✗ ", "  ")
        if error.hint:
            lines += paragraph(error.hint, width, Tone.INFO, "  → ", "    ")
    if most is not None and len(errors) > most:
        lines += paragraph(f"and {len(errors) - most} more errors (e)", width, Tone.DIM, "  ")
    return lines


_errors_of: Final = attrgetter("errors")


def all_errors(tick: Tick) -> tuple[SourceError, ...]:
    """Errors of targets, nodes and the tick itself, each once."""
    found: dict[SourceError, None] = {}
    for target in tick.targets:
        if target.error is not None and not target.is_ok:
            found[target.error] = None
    found.update(dict.fromkeys(tick.errors))
    # Without a step for each of ten thousand nodes, of which hardly any has one.
    found.update(dict.fromkeys(chain.from_iterable(map(_errors_of, tick.nodes.values()))))
    return tuple(found)


def target_lines(tick: Tick, width: int) -> list[Line]:
    """Each target with its state."""
    lines: list[Line] = []
    for target in tick.targets:
        if target.is_ok and target.age_s is not None and target.age_s > TARGET_OLD_S:
            age = units.short_duration(target.age_s)
            lines += paragraph(f"{target.url}: stale {age}", width, Tone.WARN, "! ", "  ")
        elif target.is_ok:
            age = "" if target.age_s is None else f", {units.short_duration(target.age_s)} old"
            text = f"{target.url}: answers{age}"
            if target.error is None:
                lines += paragraph(text, width, Tone.GOOD, "✓ ", "  ")
            else:
                lines += paragraph(f"{text}, with errors", width, Tone.WARN, "! ", "  ")
        else:
            why = target.error.message if target.error else "no answer yet"
            lines += paragraph(f"{target.url}: {why}", width, Tone.BAD, "✗ ", "  ")
    return lines


def unjudged_lines(tick: Tick, width: int) -> list[Line]:
    """What is not looked for, as its detectors are at fault: it may be there without a finding."""
    names = ", ".join(one.detector for one in tick.coverage if one.state == "muted")
    text = f"not looked for: {names}; detectors at fault (f says why)"
    return paragraph(text, width, Tone.BAD, "✗ ", "  ") if names else []


def watching_lines(digest: Digest, view: JobView, width: int) -> list[Line]:
    """Which detectors have not watched a job for long enough: no finding is no praise then."""
    waiting = sorted(digest.unjudged(view), key=lambda one: (one.needs_s, one.detector))
    if not waiting:
        return []
    of = f"{len(waiting)} of {len(digest.coverage_at_work)} detectors need longer"
    watched = units.short_duration(digest.watched_s(view))
    names = _some_of([_with_need(one) for one in waiting])
    text = f"no finding yet: watched for {watched}, {of}: {names}"
    return paragraph(text, width, Tone.DIM, "· ", "  ")


def _with_need(coverage: Coverage) -> str:
    """A detector with the time that it needs, where it says so: `idle_held 30m`."""
    needs = f" {units.short_duration(coverage.needs_s)}" if coverage.needs_s else ""
    return f"{coverage.detector}{needs}"


def blind_lines(digest: Digest, view: JobView, width: int) -> list[Line]:
    """What is not looked for in a job: a value it takes is missing, or it is off by default."""
    names = [_with_reason(one, f"job:{view.job.job_id}") for one in digest.blind(view)]
    names += [f"{one.detector} ({what})" for one, what in digest.unseen(view)]
    names += [f"{one.detector} (off)" for one in digest.tick.coverage if one.state == "off"]
    if not names:
        return []
    return paragraph(f"not looked for: {_some_of(names)}", width, Tone.DIM, "· ", "  ")


def _with_reason(coverage: Coverage, subject: str) -> str:
    """A detector that could not judge, with what it lacks: `throttled (no SM clock)`."""
    if subject in coverage.blind_reasons:
        return f"{coverage.detector} ({coverage.blind_reasons[subject]})"
    if coverage.missing_fields:
        lacking = ", ".join(spoken(key) for key in coverage.missing_fields)
        return f"{coverage.detector} (no {lacking})"
    has_note = coverage.state == "ok" and coverage.note
    return f"{coverage.detector} ({coverage.note})" if has_note else coverage.detector


def _some_of(names: Sequence[str]) -> str:
    """The first names, and how many more the list of findings has."""
    if len(names) <= NAMED_DETECTORS + 1:
        return ", ".join(names)
    more = len(names) - NAMED_DETECTORS
    return f"{', '.join(names[:NAMED_DETECTORS])} and {more} more (f says which)"


def coverage_lines(tick: Tick, width: int) -> list[Line]:
    """What each detector could and could not see."""
    lines: list[Line] = []
    for coverage in tick.coverage:
        text = f"{coverage.detector}: {coverage.state}, judged {coverage.subjects_seen}"
        if coverage.subjects_blind:
            text += f", blind for {coverage.subjects_blind}"
        if coverage.missing_fields:
            text += f" (missing {', '.join(spoken(key) for key in coverage.missing_fields)})"
        for why, count in coverage.reasons[:_MOST_REASONS]:
            text += f"; not {count}: {why}"
        for what, names in coverage.unseen.items():
            text += f"; of {len(names)} not {what}"
        if coverage.note:
            text += f"; {coverage.note}"
        is_muted = coverage.state == "muted"
        lines += paragraph(
            text, width, Tone.BAD if is_muted else Tone.PLAIN, "✗ " if is_muted else "· ", "  "
        )
    return lines or paragraph("no detector has reported yet", width, Tone.DIM)
