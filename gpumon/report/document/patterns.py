"""Patterns in unexplained GPU time, as one JSON document."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any, Final

from gpumon.detect.features.table import COLUMN, FEATURES

if TYPE_CHECKING:
    from gpumon.detect.learning.patterns import Found, Pattern
    from gpumon.detect.learning.unexplained import Behaviour, Gathered
    from gpumon.model.records.pattern import Trait

SCHEMA: Final = "gpumon-patterns/1"


def patterns_document(gathered: Gathered, found: Found) -> dict[str, Any]:
    """Every pattern with its jobs, the jobs that resemble no other, and the odd ones."""
    return {
        "schema": SCHEMA,
        "allocated_gpu_seconds": round(gathered.allocated_s, 1),
        "unexplained_gpu_seconds": round(gathered.unexplained_s, 1),
        "patterns": [_pattern(one) for one in found.patterns],
        "single_jobs": [_job(one) for one in found.single],
        "odd_jobs": [_pattern(one) for one in found.odd],
    }


def _pattern(pattern: Pattern) -> dict[str, Any]:
    return {
        "gpu_seconds": round(pattern.gpu_seconds, 1),
        "since": pattern.since,
        "users": list(pattern.users),
        "exemplar": pattern.exemplar.job_id,
        "times_usual": None if isnan(pattern.times) else round(pattern.times, 3),
        "traits": [_trait(one) for one in pattern.traits],
        "jobs": [_job(one) for one in pattern.jobs],
    }


def _trait(trait: Trait) -> dict[str, Any]:
    feature = FEATURES[COLUMN[trait.key]]
    return {
        "feature": trait.key,
        "unit": feature.unit,
        "doc": feature.doc,
        "value": trait.value,
        "usual": trait.usual,
    }


def _job(job: Behaviour) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "user": job.user,
        "since": job.since,
        "until": job.until,
        "gpu_seconds": round(job.gpu_seconds, 1),
    }
