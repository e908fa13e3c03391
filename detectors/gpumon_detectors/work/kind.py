"""What kind of job it is, where that lowers how sure a claim about its work may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.finding import Confidence, Evidence
from gpumon_detectors.evidence.job_context import context_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.detect.view import JobLook


def doubts_of_kind(job: JobLook, portal_names: str) -> tuple[Evidence, ...]:
    """Why a claim is a hypothesis: servers wait to be asked, sessions for what is typed."""
    context = context_of(job, portal_names)
    if context.is_serving:
        return (Evidence("job", job.subject, f"may be a server: {context.why}"),)
    if context.is_interactive:
        return (Evidence("job", job.subject, "a session: somebody sits before it"),)
    if context.sounds_interactive:
        text = "may be a session, by the name of the job or of its partition"
        return (Evidence("job", job.subject, text),)
    return ()


def surest_with(doubts: Sequence[Evidence]) -> Confidence:
    """How sure a claim may be beside these doubts."""
    return Confidence.HYPOTHESIS if doubts else Confidence.ESTABLISHED
