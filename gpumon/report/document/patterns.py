"""Patterns in unexplained GPU time, and those that have a name, as JSON documents."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final, Literal

from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning.named import FORMAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.detect.learning.named import Named
    from gpumon.detect.learning.patterns import Found, Pattern
    from gpumon.detect.learning.unexplained import Behaviour, Gathered
    from gpumon.model.records.pattern import Trait
    from gpumon.report.document import command_forms

SCHEMA: Final[Literal["gpumon-patterns/1"]] = "gpumon-patterns/1"


def patterns_document(gathered: Gathered, found: Found) -> command_forms.Patterns:
    """Every pattern with its jobs, the jobs that resemble no other, and the odd ones."""
    return {
        "schema": SCHEMA,
        "allocated_gpu_seconds": round(gathered.allocated_s, 1),
        "unexplained_gpu_seconds": round(gathered.unexplained_s, 1),
        "patterns": [_pattern(one) for one in found.patterns],
        "single_jobs": [_job(one) for one in found.single],
        "odd_jobs": [_pattern(one) for one in found.odd],
    }


def named_document(versions: Sequence[Named]) -> command_forms.NamedPatterns:
    """Every pattern that has a name, as the user's own file says it."""
    return {"format": FORMAT, "patterns": [_named(one) for one in versions]}


def _named(one: Named) -> command_forms.NamedPattern:
    return {
        "name": one.name,
        "version": one.version,
        "owner": one.owner,
        "at": one.at,
        "traits": [{"key": t.key, "value": t.value, "usual": t.usual} for t in one.traits],
        "jobs": one.jobs,
        "gpu_seconds": one.gpu_seconds,
        "exemplar": one.exemplar,
    }


def _pattern(pattern: Pattern) -> command_forms.Pattern:
    return {
        "gpu_seconds": round(pattern.gpu_seconds, 1),
        "since": pattern.since,
        "users": list(pattern.users),
        "exemplar": pattern.exemplar.job_id,
        "times_usual": None if isnan(pattern.times) else round(pattern.times, 3),
        "traits": [_trait(one) for one in pattern.traits],
        "jobs": [_job(one) for one in pattern.jobs],
    }


def _trait(trait: Trait) -> command_forms.Trait:
    feature = FEATURES[COLUMN[trait.key]]
    return {
        "feature": trait.key,
        "unit": feature.unit,
        "doc": feature.doc,
        "value": trait.value,
        "usual": trait.usual,
    }


def _job(job: Behaviour) -> command_forms.PatternJob:
    return {
        "job_id": job.job_id,
        "user": job.user,
        "since": job.since,
        "until": job.until,
        "gpu_seconds": round(job.gpu_seconds, 1),
    }
