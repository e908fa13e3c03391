"""Whose work it is, and of what kind, where that lowers how sure a claim about it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.plugin import Confidence, Evidence, UserHold
from gpumon_detectors.evidence.job_context import context_of
from gpumon_detectors.evidence.watched import mean_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.plugin import JobLook
    from gpumon_detectors.evidence.host_use import HostUse

_PRESSURE: Final = "job_io_pressure_some_ratio"
_MOST_PRESSURE: Final = 0.1
"""Share of the time in which some processes wait for a device that is worth a word (our choice)."""

_FULL_CPUS: Final = 0.85
"""Share of its CPUs from which a job is bound by these (the taxonomy's class 10)."""


def doubts_of_kind(job: JobLook, portal_names: str) -> tuple[Evidence, ...]:
    """Why a claim is a hypothesis: servers wait to be asked, sessions for what is typed.

    What users run without a queue nobody has called a session; it takes longer to be claimed.
    """
    context = context_of(job, portal_names)
    if context.is_serving:
        return (Evidence("job", job.subject, f"may be a server: {context.why}"),)
    if isinstance(job, UserHold):
        return ()
    if context.is_interactive:
        return (Evidence("job", job.subject, "a session: a person is using it"),)
    if context.sounds_interactive:
        text = "may be a session, by the name of the job or of its partition"
        return (Evidence("job", job.subject, text),)
    return ()


def surest_with(doubts: Sequence[Evidence]) -> Confidence:
    """How sure a claim may be beside these doubts."""
    return Confidence.HYPOTHESIS if doubts else Confidence.ESTABLISHED


def owners_of(job: JobLook) -> tuple[int, ...]:
    """Uids of those who hold a GPU without a queue; none for a job, whose user Slurm names."""
    return job.owners if isinstance(job, UserHold) else ()


def whose(job: JobLook) -> str:
    """What a summary begins with: nothing for a job, else the GPU and who is on it."""
    if not isinstance(job, UserHold):
        return ""
    users = ", ".join(job.owner_names) or "a hidden user"
    return f"{job.gpu.place}, of {users}: "


def own_words(job: JobLook) -> str:
    """What the CPU time is of."""
    return "its processes" if isinstance(job, UserHold) else "the job"


def is_at_cpu_limit(job: JobLook, host: HostUse, since: float) -> bool:
    """Whether a job's CPUs are busy to the limit, so that it waits for these."""
    limit = _FULL_CPUS * (job.cores or 0)
    return host.is_own and 0.0 < limit <= host.mean_cores(since)


def waits_for_files(job: JobLook, seconds: float) -> Iterator[Evidence]:
    """That some of a job's processes wait for a device; nothing where nobody tells."""
    if isinstance(job, UserHold):
        return
    past = job.cgroup_past((_PRESSURE,), seconds)
    if not len(past.times):
        return
    most = float(np.fmax.reduce(mean_of(past, _PRESSURE), initial=0.0))
    if most > _MOST_PRESSURE:
        text = f"its processes wait for files in {100 * most:.0f} % of the time"
        yield Evidence(_PRESSURE, job.subject, text, most)
