"""What kind of job it is, which decides how long it may rest: interactive, serving, or neither.

A rule that calls every GPU idle whose utilisation is 0 flags two thirds of real serving jobs after
two hours and a sixth of them after four, so no claim of idleness is made without this.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon_detectors.evidence.gpu_use import PAUSE_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.detect.view import JobLook

SERVING_BURSTS: Final = 3
SERVING_SPAN_S: Final = 4 * 3600.0
"""Three bursts of work within four hours recognise 97 % of real serving windows."""

LONGEST_REST_S: Final = 258 * 60.0
"""The longest rest between two bursts in a published trace of a serving cluster."""

_PAST_S: Final = 24 * 3600.0

_LONGEST_STEP_S: Final = 900.0
"""Samples further apart leave time of which nothing is known; the oldest rows are 5 min apart."""

_INTERACTIVE_NAMES: Final = re.compile(
    r"(?i)(?:^|[^a-z])(?:jupyter|jupyterlab|notebook|interactive|bash|zsh|salloc|ood|code-server"
    r"|vscode|rstudio|desktop)(?:[^a-z]|$)"
)
_INTERACTIVE_PLACES: Final = re.compile(
    r"(?i)(?:^|[^a-z])(?:interactive|debug|dev|devel)(?:[^a-z]|$)"
)
_SERVING_NAMES: Final = re.compile(
    r"(?i)(?:^|[^a-z])(?:serve|server|serving|inference|endpoint|backend|api|vllm|sglang|triton"
    r"|tritonserver|ollama|llama-server|tgi|torchserve|text-generation-server|ray::serve\w*"
    r"|lmdeploy|uvicorn|gunicorn)(?:[^a-z]|$)"
)


class JobContext(NamedTuple):
    """What kind of job it is, as far as it can be told."""

    is_interactive: bool
    """Slurm says so, or its name, partition or QOS does."""
    is_serving: bool
    """It worked in bursts as servers do, or is named like one."""
    is_settled: bool
    """Whether it was watched for four hours: before, a rest between requests is possible."""
    watched_s: float
    """Seconds for which its utilisation is known."""
    why: str
    """What speaks for it, in a few words; empty where nothing does."""


def is_interactive(job: JobLook) -> bool:
    """Whether somebody sits before it, as far as Slurm's record and the job's name tell."""
    record = job.job
    return (
        record.is_interactive
        or _INTERACTIVE_NAMES.search(record.name) is not None
        or any(_INTERACTIVE_PLACES.search(place) for place in (record.partition, record.qos))
    )


def serving_name(job: JobLook) -> str | None:
    """Name of the job or of a program on its GPUs that names a server, None without one."""
    names = [job.job.name, *(process.name or "" for process in job.processes)]
    return next((name for name in names if _SERVING_NAMES.search(name)), None)


def context_of(job: JobLook) -> JobContext:
    """The context of a job, from its name and from up to a day of its utilisation."""
    bursts, watched_s = _bursts(job)
    is_settled = watched_s >= SERVING_SPAN_S
    name = serving_name(job)
    why = ""
    if bursts >= SERVING_BURSTS:
        why = f"{bursts} bursts of work within 4 hours"
    elif name is not None:
        why = f"named {name}"
    return JobContext(is_interactive(job), bool(why), is_settled, watched_s, why)


def _bursts(job: JobLook) -> tuple[int, float]:
    """Most bursts that began within any four hours, and seconds for which they would be known."""
    most, watched_s = 0, float("inf")
    for uuid in job.uuids:
        times, values = job.window(uuid, "gpu_util_ratio", _PAST_S)
        is_known = np.isfinite(values)
        times, values = times[is_known], values[is_known]
        if not len(times):
            return 0, 0.0
        steps = np.diff(times)
        watched_s = min(watched_s, float(steps[steps <= _LONGEST_STEP_S].sum()))
        begins = burst_begins(times, values > 0)
        ahead = begins.searchsorted(begins + SERVING_SPAN_S, "right")
        most = max(most, int((ahead - np.arange(len(begins))).max(initial=0)))
    return most, watched_s if job.uuids else 0.0


def burst_begins(times: NDArray[np.float64], is_busy: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Times at which work began after a rest longer than a checkpoint's pause."""
    busy = np.flatnonzero(is_busy)
    if not len(busy):
        return np.empty(0)
    rested = np.diff(times[busy], prepend=times[0]) > PAUSE_S
    is_neighbour = np.diff(busy, prepend=-1) <= 1
    return times[busy[rested & ~is_neighbour]]
