"""All that the accounting has of one ended job, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.tables.ended import exit_text
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Line, Tone, paragraph, some_names
from gpumon.report.wording.ended import ended_verdict, run_total
from gpumon.report.wording.ledger_words import ledger_lines
from gpumon.report.wording.paragraphs import facts
from gpumon.report.wording.verdict_words import state_cell

if TYPE_CHECKING:
    from gpumon.model.records.accounting import EndedJob, StepUsage
    from gpumon.report.facts.tick_index import Digest


_JOBSTATS_WORDS: Final = {
    "gpu_util_ratio": "GPU use",
    "gpu_mem_bytes": "GPU memory",
    "cpu_used_s": "CPU use",
    "mem_used_bytes": "memory use",
}


def ended_lines(digest: Digest | None, ended: EndedJob, width: int) -> list[list[Line]]:
    """Facts of the job, its use, then one entry per step."""
    job = ended.job
    ago = ""
    if digest is not None and job.end_at is not None:
        ago = f", {units.short_duration(max(0.0, digest.tick.at - job.end_at))} ago"
    state = f"{state_cell(job.state).text} {job.state.lower().replace('_', ' ')}"
    known: list[Line] = facts(
        (
            ("state", state),
            ("exit", "" if exit_text(ended) == units.MISSING else exit_text(ended)),
            ("cancelled by", ended.cancelled_by),
            ("began", _clock(job.start_at)),
            ("ended", f"{_clock(job.end_at)}{ago}"),
            ("ran", _known(units.slurm_duration(ended.elapsed_s))),
            ("of", _known(units.slurm_duration(job.time_limit_s))),
            ("user", job.user),
            ("account", job.account),
            ("partition", job.partition),
            ("QOS", job.qos),
            ("nodes", some_names(job.nodes)),
        ),
        width,
    )
    used: list[Line] = facts(
        (
            ("GPUs", "" if job.gpu_count is None else str(job.gpu_count)),
            ("held", _known(units.gpu_time(ended.gpu_seconds))),
            ("GPU use", _ratio(ended.gpu_util_ratio)),
            ("without a kernel", _known(units.gpu_time(ended.gpu_idle_seconds))),
            ("CPUs", "" if job.cpu_count is None else str(job.cpu_count)),
            ("CPU use", _ratio(ended.cpu_used_ratio)),
            ("host memory", "" if job.mem_bytes is None else units.size(job.mem_bytes)),
            ("memory use", _ratio(ended.mem_used_ratio)),
            ("largest task", _memory(ended.max_rss_bytes)),
            ("energy", _known(units.quantity(ended.energy_j, "J"))),
        ),
        width,
    )
    head: Line = (Cell(job.name or job.label, Tone.STRONG),)
    entries: list[list[Line]] = [[head, *known, ()]]
    if digest is not None:
        entries.append([*_became(digest, ended, width), ()])
    entries.append([(Cell("Use", Tone.STRONG),), *used, ()])
    if ended.gpu_util_ratio is None:
        text = "GPU use is not known: this cluster's accounting does not gather it"
        entries.append([*paragraph(text, width, Tone.DIM, f"{units.MISSING} ", "  "), ()])
    if ended.jobstats_fields:
        fields = ", ".join(_JOBSTATS_WORDS[field] for field in ended.jobstats_fields)
        text = f"from Jobstats' summary, as Slurm recorded none: {fields}"
        entries.append([*paragraph(text, width, Tone.DIM, "", "  "), ()])
    if ended.steps:
        entries.append([(Cell("Steps", Tone.STRONG),)])
        entries += [_step(step, width) for step in ended.steps]
    return entries


def _became(digest: Digest, ended: EndedJob, width: int) -> list[Line]:
    """The verdict, then the shares of its GPU time by the ledger."""
    title = (Cell("What became of its GPU time", Tone.STRONG),)
    shares = ledger_lines(digest, run_total(digest.tick, ended), width)
    if not shares and ended.gpu_util_ratio is None and ended.job.gpu_count != 0:
        text = "not watched: gpumon stored no ledger while it ran, or no longer has it"
        return [title, *paragraph(text, width, Tone.DIM, f"{units.MISSING} ", "  ")]
    return [title, (ended_verdict(digest.tick, ended),), *shares]


def _step(step: StepUsage, width: int) -> list[Line]:
    return facts(
        (
            ("step", f"{step.step} {step.name}".strip()),
            ("state", step.state.lower().replace("_", " ")),
            ("exit", step.exit_code),
            ("ran", _known(units.slurm_duration(step.elapsed_s))),
            ("tasks", "" if step.task_count is None else str(step.task_count)),
            ("CPU", _known(units.slurm_duration(step.cpu_used_s))),
            ("largest task", _memory(step.max_rss_bytes)),
        ),
        width,
    )


def _known(text: str) -> str:
    """The text, empty for what is not known, so that it is left out."""
    return "" if text == units.MISSING else text


def _clock(at: float | None) -> str:
    return _known(units.clock_time(at))


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{units.percent(value)} %"


def _memory(size_bytes: float | None) -> str:
    return "" if size_bytes is None else f"{units.gib(size_bytes)} GiB"
