"""Text where nothing can be shown, or only what is old: since when, why, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.fleet.sampler.need import is_held
from gpumon.model.job_name import job_name
from gpumon.model.job_states import ENDED_STATES
from gpumon.report.text.cells import Cell, Tone, paragraph, some_names
from gpumon.report.text.units import index_text
from gpumon.report.wording.paragraphs import all_errors, error_lines, silence_lines
from gpumon.report.wording.pending import wait_words
from gpumon.report.wording.verdict_words import left_since

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.records.cluster import Gpu, JobView
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

MOST_ERRORS: Final = 5
"""Errors shown below the words; the page of errors has them all."""

MOST_ABOVE: Final = 2
"""Errors shown above a table."""

PROCESSES_NOT_REPORTED: Final = "Exporters do not report which processes are on GPUs."
"""Said where no source of the GPUs in view knows of processes, which is not that there is none."""


def no_process_words(gpus: Collection[Gpu], which: str) -> str:
    """That no process is on some GPUs; of those that cannot be read it is not known.

    Args:
        gpus: One at least, on none of which a process is seen.
        which: What they are called together.
    """
    if not any(gpu.reports_processes for gpu in gpus):
        return PROCESSES_NOT_REPORTED
    unread = [gpu for gpu in gpus if gpu.value("process_count") is None]
    if not unread:
        return f"No process is on {which}."
    if len(unread) == len(gpus) > 1:
        return f"Which processes are on {which} is not known."
    has_one_node = len({gpu.node for gpu in gpus}) == 1
    names = (f"{'' if has_one_node else f'{gpu.node}:'}{index_text(gpu)}" for gpu in unread)
    others = "" if len(unread) == len(gpus) else "; none is on the others"
    return f"Which processes are on GPU {some_names(tuple(names))} is not known{others}."


def nothing_lines(
    digest: Digest,
    words: tuple[str, ...],
    width: int,
    errors: Sequence[SourceError] | None = None,
) -> list[Line]:
    """Why there is nothing, what to try, and what failed: it may be the reason.

    `errors` are those that may be; None: all of the tick.
    """
    first, *rest = words
    lines: list[Line] = [(), *_indented(paragraph(first, width, Tone.STRONG))]
    for text in rest:
        lines += _indented(paragraph(text, width, Tone.PLAIN, "→ ", "  "))
    errors = all_errors(digest.tick) if errors is None else errors
    if errors:
        lines += [(), *_indented(error_lines(errors, width, most=MOST_ERRORS))]
    return lines


def resting_words(tick: Tick) -> tuple[str, ...]:
    """That detectors had no need to report yet; empty where they should have."""
    if not tick.gpus or is_held(tick):
        return ()
    return (
        "Nothing holds a GPU, so the detectors rest.",
        "They look at the machine every half hour, and at once when something does.",
    )


def _indented(lines: list[Line]) -> list[Line]:
    return [(Cell(" "), *line) for line in lines]


def gone_job_words(digest: Digest, label: str, job_id: str) -> tuple[str, ...]:
    """Why a job is not shown: it is not in the queue, or the queue is unknown."""
    if digest.tick.queue_at is None:
        text = f"The queue could not be read: whether job {label} is in it is not known."
        return (text, "Esc goes back.")
    text = f"Job {label} is not in the queue at this instant."
    name = job_name(job_id, label)
    # Tasks that waited together have started by now, or were cancelled: sacct has no form for them.
    is_known = name is not None and not name.waits_together
    ended = (f"sacct -j {name.label} shows how it ended.",) if name and is_known else ()
    return (text, *ended, "Esc goes back.")


def no_gpus_words(digest: Digest, view: JobView) -> tuple[str, ...]:
    """Why a job in the queue shows no GPU: it waits, holds none any more, or none is known yet."""
    if view.job.state == "PENDING":
        return wait_words(digest, view)
    if view.job.gpu_count == 0:
        return ("The job holds no GPUs.",)
    if view.job.state in ENDED_STATES:
        return ("The job has ended: it holds no GPU any more.", "x shows how it ended.")
    return (
        "No telemetry names the job's GPUs yet, and no process of it was seen.",
        "e shows what its nodes report.",
    )


def job_errors(digest: Digest, view: JobView) -> tuple[SourceError, ...]:
    """What could not be read of a job's own nodes, each once."""
    nodes = map(digest.tick.nodes.get, view.job.nodes)
    return tuple(dict.fromkeys(error for node in nodes if node for error in node.errors))


def silent_s(tick: Tick) -> float | None:
    """Seconds since a node was heard last, once none of them answers any more; else None.

    Nodes that were left on purpose are not expected to answer.
    """
    if any(not node.is_stale and node.taken_at is not None for node in tick.nodes.values()):
        # Mostly the first one answers, and ten thousand need not be read.
        return None
    watched = [node for node in tick.nodes.values() if not node.is_stale or node.is_silent]
    if not all(node.is_silent or node.taken_at is None for node in watched):
        return None
    heard = [node.taken_at for node in watched if node.taken_at is not None]
    return tick.at - max(heard) if heard else None


def silent_lines(tick: Tick, width: int) -> list[Line]:
    """That no node answers any more; nothing as long as one does."""
    age_s = silent_s(tick)
    return [] if age_s is None else silence_lines(age_s, "no node answers any more", None, width)


def silent_nodes_lines(tick: Tick, width: int) -> list[Line]:
    """Which nodes no longer answer while others do; `silent_lines` is for the case where none does.

    Where nodes are all there is, what failed with the way out: a column clips it.
    """
    if has_only_nodes(tick):
        return error_lines(all_errors(tick), width, most=MOST_ABOVE)
    # Of ten thousand nodes few are stale: the others are not asked for more.
    silent = tuple([n.name for n in tick.nodes.values() if n.is_stale and n.is_silent])
    if not silent or silent_s(tick) is not None:
        return []
    count = len(silent)
    amount = f"{count} nodes no longer answer" if count > 1 else "1 node no longer answers"
    return paragraph(f"stale: {amount}: {some_names(silent)}", width, Tone.WARN, "! ", "  ")


def has_only_nodes(tick: Tick) -> bool:
    """Whether nodes are all there is: a table's head says what failed there."""
    return bool(tick.nodes) and not tick.gpus


def stale_job_lines(digest: Digest, view: JobView, width: int) -> list[Line]:
    """That none of a job's nodes answers any more; nothing as long as one does."""
    age_s = digest.stale_age_s(view)
    if age_s is None:
        return []
    left = [left_since(digest, gpu) for gpu in digest.gpus(view)]
    known = [left_at for left_at in left if left_at is not None]
    left_at = max(known) if len(known) == len(left) else None
    return silence_lines(age_s, "none of its nodes answers any more", left_at, width)


def stale_subject_lines(digest: Digest, subject: str, width: int) -> list[Line]:
    """The same of a `job:ID`, `gpu:UUID` or `node:NAME`."""
    kind, _, name = subject.partition(":")
    tick = digest.tick
    if kind == "job":
        view = tick.job(name)
        return [] if view is None else stale_job_lines(digest, view, width)
    gpu = tick.gpus.get(name) if kind == "gpu" else None
    node = tick.nodes.get(gpu.node if gpu else name)
    found = gpu or node
    if found is None or not found.is_stale or found.taken_at is None:
        return []
    left_at = node.left_at if node else None
    return silence_lines(tick.at - found.taken_at, "the node no longer answers", left_at, width)
