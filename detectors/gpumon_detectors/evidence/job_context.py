"""What kind of job it is, which decides how long it may rest: interactive, serving, or neither.

Whether somebody sits before it is Slurm's word, or that of the site, which may name its portal's
sessions. What a job, a user or a program is called lowers a claim's confidence and does no more.

A rule that calls every GPU idle whose utilisation is 0 flags two thirds of real serving jobs after
two hours and a sixth of them after four, so no claim of idleness is made without this.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Evidence
from gpumon_detectors.evidence.gpu_use import FAINT_RATIO, PAST_S, PAUSE_S, busy_share
from gpumon_detectors.evidence.phrases import span

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.plugin import JobLook, Past

SERVING_BURSTS: Final = 3
"""Bursts of work within `SERVING_SPAN_S` from which a job is taken for serving."""
SERVING_SPAN_S: Final = 4 * 3600.0
"""Three bursts of work within four hours recognise 97 % of real serving windows."""

LONGEST_REST_S: Final = 258 * 60.0
"""The longest rest between two bursts in a published trace of a serving cluster."""


LONGEST_BURST_S: Final = 21.9 * 60.0
"""Bursts of work of a published trace of a serving cluster: ninety-nine in a hundred are shorter.
Training that pauses to evaluate works for longer."""

LONG_REST_S: Final = 61.8 * 60.0
"""Ninety-nine in a hundred rests between two bursts of that trace are shorter."""

CLEAR_REST_S: Final = 7200.0
"""After so long without work Princeton's Job Defense Shield cancels a job, whatever it is."""

_LONGEST_STEP_S: Final = 900.0
"""Samples further apart leave time of which nothing is known; the oldest rows are 5 min apart."""

_LEAST_REST_ROWS: Final = 3
"""So many samples without work make a rest: with fewer an input-bound run rests at every one."""

_UTIL: Final = "gpu_util_ratio"
_SM: Final = "sm_active_ratio"

_SOME_SM: Final = 0.03
"""SM activity of a sample, a mean over all of it, from which there was work in between: a server's
answers to readiness probes, every ten seconds or more, leave less (our choice)."""

_SESSION_NAMES: Final = re.compile(
    r"(?i)(?:^|[^a-z])(?:jupyter|jupyterlab|notebook|code-server|vscode|rstudio)(?:[^a-z]|$)"
)
_SESSION_PLACES: Final = re.compile(r"(?i)(?:^|[^a-z])(?:interactive|debug|dev|devel)(?:[^a-z]|$)")
_SERVING_NAMES: Final = re.compile(
    r"(?i)(?:^|[^a-z])(?:serve|server|serving|inference|endpoint|backend|api|vllm|sglang|triton"
    r"|tritonserver|ollama|llama-server|tgi|torchserve|text-generation-server|ray::serve\w*"
    r"|lmdeploy|uvicorn|gunicorn)(?:[^a-z]|$)"
)


class JobContext(NamedTuple):
    """What kind of job it is, as far as it can be told."""

    is_interactive: bool
    """Slurm says so, or the site that its name is its portal's."""
    is_serving: bool
    """It worked in bursts as servers do, or is named like one."""
    is_bursty: bool
    """It worked in bursts as servers do, whatever it is called."""
    is_settled: bool
    """Whether it was watched for four hours: before, a rest between requests is possible."""
    watched_s: float
    """Seconds for which its utilisation is known."""
    worked_s: float
    """Seconds in which any of its GPUs was seen to work."""
    why: str
    """What speaks for a server, in a few words; empty where nothing does."""
    sounds_interactive: bool
    """Whether its name is that of a notebook or an editor, or its partition's or QOS's is that of a
    place for trying things out: it is given the time of a session."""

    def rests_for_sure(self, rest_s: float) -> Confidence:
        """How sure it is that a rest of so long is none between two requests.

        It was watched for long enough to recognise a server, or it was seen to work and then
        rested for longer than servers do; else only the length of the rest speaks for it.
        """
        was_at_work = self.worked_s > PAUSE_S and rest_s >= LONG_REST_S
        if self.is_settled or was_at_work:
            return Confidence.ESTABLISHED
        return Confidence.SUPPORTED if rest_s >= CLEAR_REST_S else Confidence.HYPOTHESIS


def is_interactive(job: JobLook, portal_names: str = "") -> bool:
    """Whether somebody sits before it: no batch script runs it, or the site says so.

    Args:
        job: The job.
        portal_names: Exact names of jobs that the site's portal starts, separated by commas.
    """
    names = {name.strip() for name in portal_names.split(",")} - {""}
    return job.job.is_interactive or job.job.name in names


def serving_name(job: JobLook) -> str | None:
    """Name of the job or of a program on its GPUs that names a server, None without one."""
    names = [job.job.name, *(process.name or "" for process in job.processes)]
    return next((name for name in names if _SERVING_NAMES.search(name)), None)


def context_of(job: JobLook, portal_names: str = "") -> JobContext:
    """The context of a job, from Slurm's record and from up to a day of its utilisation."""
    bursts, watched_s, worked_s = _bursts(job)
    is_settled = watched_s >= SERVING_SPAN_S
    name = serving_name(job)
    why = ""
    if bursts >= SERVING_BURSTS:
        why = f"{bursts} bursts of work within 4 hours"
    elif name is not None:
        why = f"named {name}"
    return JobContext(
        is_interactive=is_interactive(job, portal_names),
        is_serving=bool(why),
        is_bursty=bursts >= SERVING_BURSTS,
        is_settled=is_settled,
        watched_s=watched_s,
        worked_s=worked_s,
        why=why,
        sounds_interactive=sounds_interactive(job),
    )


def server_doubt(job: JobLook, context: JobContext) -> Evidence | None:
    """Why a rest may be one between two requests, None where nothing says so."""
    if context.is_serving:
        return Evidence("job", job.subject, f"may be a server: {context.why}")
    if context.is_settled or context.is_interactive:
        return None
    text = (
        f"watched for {span(context.watched_s)} of the {span(SERVING_SPAN_S)} after which a "
        "server between two requests can be ruled out"
    )
    return Evidence("job", job.subject, text, context.watched_s)


def sounds_interactive(job: JobLook) -> bool:
    """Whether its name, partition or QOS speaks of a session: a ground to be less sure."""
    places = (job.job.partition, job.job.qos)
    is_place = any(_SESSION_PLACES.search(place) for place in places)
    return is_place or _SESSION_NAMES.search(job.job.name) is not None


def _bursts(job: JobLook) -> tuple[int, float, float]:
    """Most bursts that began within any four hours, seconds watched, seconds of work."""
    found = _bursts_in(job.past((_UTIL,), PAST_S, 1))
    if found[0] < SERVING_BURSTS:
        return found
    # Glances may miss the work between them for long enough to look like rests.
    return _bursts_in(job.past((_UTIL, _SM), PAST_S, 2))


def _bursts_in(past: Past) -> tuple[int, float, float]:
    util, peaks = past.columns[_UTIL], past.peaks[_UTIL]
    sm = past.peaks.get(_SM, np.zeros_like(peaks))
    most, watched_s, worked_s = 0, float("inf"), 0.0
    for column in range(util.shape[1]):
        is_known = np.isfinite(util[:, column])
        times = past.times[is_known]
        if not len(times):
            return 0, 0.0, 0.0
        steps = np.diff(times)
        watched_s = min(watched_s, float(steps[steps <= _LONGEST_STEP_S].sum()))
        is_busy = peaks[is_known, column] > FAINT_RATIO
        with np.errstate(invalid="ignore"):
            is_busy |= sm[is_known, column] > _SOME_SM
        worked = past.seconds * busy_share(util[:, column], peaks[:, column], FAINT_RATIO)
        worked_s = max(worked_s, float(worked.sum()))
        is_single = times == past.begins[is_known]
        begins = burst_begins(times, is_busy, np.where(is_single, _LEAST_REST_ROWS, 1))
        ahead = begins.searchsorted(begins + SERVING_SPAN_S, "right")
        most = max(most, int((ahead - np.arange(len(begins))).max(initial=0)))
    return most, watched_s if util.shape[1] else 0.0, worked_s


def burst_begins(
    times: NDArray[np.float64], is_busy: NDArray[np.bool_], least_rows: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Times at which work began after a rest longer than a checkpoint's pause.

    Work that went on for longer than servers' bursts do is none of these.

    Args:
        times: Unix times of the rows.
        is_busy: Whether there was work.
        least_rows: How many rows without work make a rest before this row.
    """
    busy = np.flatnonzero(is_busy)
    if not len(busy):
        return np.empty(0)
    rested = np.diff(times[busy], prepend=times[0]) > PAUSE_S
    rows = np.diff(busy, prepend=-1)
    is_begin = rested & (rows > least_rows[busy])
    edges = np.flatnonzero(is_begin)
    last = np.append(edges[1:], len(busy)) - 1
    is_short = times[busy[last]] - times[busy[edges]] <= LONGEST_BURST_S
    begins: NDArray[np.float64] = times[busy[edges[is_short]]]
    return begins
