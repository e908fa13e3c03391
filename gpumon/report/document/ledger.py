"""The ledger as plain data: what became of GPU time, in the document and in `gpumon report`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.facts.entities import moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.records.ledger import Total
    from gpumon.model.records.tick import Tick
    from gpumon.report.document import forms


def ledger_part(tick: Tick) -> forms.Ledger | None:
    """The document's `ledger`, null where there is no ledger."""
    ledger = tick.ledger
    if ledger is None:
        return None
    return {
        "since": moment(ledger.since),
        "kept_in": ledger.kept_in,
        "note": ledger.note or None,
        "currency": ledger.prices.currency or None,
        "total": line(ledger.total()),
        # A job's own line is with the job.
        "by_user": lines(ledger.by("user")),
        "by_account": lines(ledger.by("account")),
        "by_partition": lines(ledger.by("partition")),
        "by_gpu": lines(ledger.by("gpu")),
    }


def job_lines(tick: Tick) -> dict[str, forms.LedgerLine]:
    """The line of each job that has an entry of its own."""
    if tick.ledger is None:
        return {}
    return {job_id: line(total) for job_id, total in tick.ledger.by("job").items()}


def lines(totals: Mapping[str, Total]) -> list[forms.LedgerNamedLine]:
    """A line per name, in the order given."""
    return [{"name": name, **line(total)} for name, total in totals.items()]


def line(total: Total) -> forms.LedgerLine:
    """One line of the ledger; shares are of what was observed, `unobserved_share` of all."""
    return {
        "allocated_gpu_seconds": _amount(total.allocated_s),
        "useful_gpu_seconds": _amount(total.useful_s),
        "wasted_gpu_seconds": _amount(total.waste_s),
        "suspected_gpu_seconds": _amount(total.suspicion_s),
        "unobserved_gpu_seconds": _amount(total.unobserved_s),
        "unexplained_gpu_seconds": _amount(total.unexplained_s),
        "useful_share": _share(total.of_observed(total.useful_s)),
        "wasted_share": _share(total.of_observed(total.waste_s)),
        "suspected_share": _share(total.of_observed(total.suspicion_s)),
        "unexplained_share": _share(total.of_observed(total.unexplained_s)),
        "unobserved_share": _share(total.unobserved_share),
        "waste": {key: _amount(seconds) for key, seconds in total.wasted_s.items()},
        "suspected": {key: _amount(seconds) for key, seconds in total.suspected_s.items()},
        "began_at": moment(total.began_at),
        "observed_since": moment(total.observed_since),
        "energy_j": None if total.energy_j is None else _amount(total.energy_j),
        "energy_gpu_seconds": _amount(total.energy_s),
        "cost": None if total.cost is None else round(total.cost, 4),
        "wasted_cost": _cost(total, total.wasted_cost),
        "suspected_cost": _cost(total, total.suspected_cost),
        "unpriced_gpu_seconds": _amount(total.unpriced_s),
    }


def _cost(total: Total, by_class: Mapping[str, float]) -> float | None:
    return None if total.cost is None else round(sum(by_class.values()), 4)


def _share(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _amount(value: float) -> float:
    """To the millisecond, and never -0."""
    return round(value, 3) + 0.0
