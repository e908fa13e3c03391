"""The one place that reads gpumon's books: seconds of a job by class of waste."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.records.ledger import LedgerTotals


def wasted_s(totals: LedgerTotals, job_id: str) -> Mapping[str, float] | None:
    """GPU-seconds of a job that are charged, by class; None: it is not, or no longer, booked."""
    total = totals.job(job_id)
    return None if total is None else dict(total.wasted_s)


def booked_s(totals: LedgerTotals, job_id: str) -> tuple[float, float] | None:
    """All GPU-seconds of a job, whatever became of them, and since when; None: not booked."""
    total = totals.job(job_id)
    if total is None or total.began_at is None:
        return None
    claimed_s = sum(total.wasted_s.values()) + sum(total.suspected_s.values())
    added_s = total.useful_s + total.unexplained_s + claimed_s + total.unobserved_s
    return added_s, total.began_at
