"""What one detector said of parts of the jobs, as one look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.detect.worker.validation import MAX_FINDINGS, RubbishError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.detect.engine.finding_life import Look
    from gpumon.model.finding import Coverage


def whole_of(answers: Sequence[tuple[Look, Coverage]]) -> tuple[Look, Coverage]:
    """The answers about one part, or about every part, of the jobs as one look and its coverage.

    Raises:
        RubbishError: They are parts of different wholes, some parts are missing, something is
            claimed twice, or it is too much.
    """
    looks, coverages = zip(*answers, strict=True)
    last, coverage = looks[-1], coverages[-1]
    count = last.part[1]
    if len(looks) > 1 and sorted(look.part for look in looks) != [(n, count) for n in range(count)]:
        raise RubbishError("a look at some parts of the jobs, others left out")
    claims = tuple(claim for look in looks for claim in look.claims)
    if len(claims) > MAX_FINDINGS:
        raise RubbishError(f"not a list of at most {MAX_FINDINGS} findings")
    if len({claim.identity for claim in claims}) != len(claims):
        raise RubbishError("two findings of one class about one subject")
    if len(looks) == 1:
        return last, coverage
    blind = frozenset().union(*(seen.blind_subjects for seen in coverages))
    whole = last._replace(claims=claims, part=(0, 1), blind=blind)
    return whole, coverage._replace(
        subjects_seen=sum(seen.subjects_seen for seen in coverages),
        subjects_blind=sum(seen.subjects_blind for seen in coverages),
        missing_fields=tuple(dict.fromkeys(k for seen in coverages for k in seen.missing_fields)),
        blind_subjects=blind,
    )
