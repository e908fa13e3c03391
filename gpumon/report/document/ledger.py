"""The books as plain data: what became of GPU time, in the JSON document and in `gpumon report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpumon.report.facts.entities import moment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.records.ledger import Total
    from gpumon.model.records.tick import Tick

GROUPED_BY: Final = ("user", "account", "partition", "gpu")
"""What the document's totals are made by; a job's own stand with the job."""


_OF_OBSERVED: Final = ("useful", "wasted", "suspected", "unexplained")


def ledger_part(tick: Tick) -> dict[str, Any]:
    """The document's `ledger`, null where nobody keeps the books."""
    books = tick.ledger
    if books is None:
        return {"ledger": None}
    return {
        "ledger": {
            "since": moment(books.since),
            "kept_in": books.kept_in,
            "note": books.note or None,
            "currency": books.prices.currency or None,
            "total": line(books.total()),
            **{f"by_{name}": lines(books.by(name)) for name in GROUPED_BY},
        }
    }


def job_lines(tick: Tick) -> dict[str, dict[str, Any]]:
    """The line of each job that the books know by itself."""
    if tick.ledger is None:
        return {}
    return {job_id: line(total) for job_id, total in tick.ledger.by("job").items()}


def lines(totals: Mapping[str, Total]) -> list[dict[str, Any]]:
    """A line per name, in the order given."""
    return [{"name": name, **line(total)} for name, total in totals.items()]


def line(total: Total) -> dict[str, Any]:
    """One line of the books; shares are of what was observed, `unobserved_share` of all."""
    shares = {
        "useful": total.useful_s,
        "wasted": total.waste_s,
        "suspected": total.suspicion_s,
        "unobserved": total.unobserved_s,
        "unexplained": total.unexplained_s,
    }
    return {
        "allocated_gpu_seconds": _amount(total.allocated_s),
        **{f"{name}_gpu_seconds": _amount(seconds) for name, seconds in shares.items()},
        **{f"{name}_share": _share(total.of_observed(shares[name])) for name in _OF_OBSERVED},
        "unobserved_share": _share(total.unobserved_share),
        "waste": {key: _amount(seconds) for key, seconds in total.wasted_s.items()},
        "suspected": {key: _amount(seconds) for key, seconds in total.suspected_s.items()},
        "began_at": _moment(total.began_at),
        "observed_since": _moment(total.observed_since),
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


def _moment(at: float | None) -> str | None:
    return None if at is None else moment(at)
