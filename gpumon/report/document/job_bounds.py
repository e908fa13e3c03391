"""What bounds a job, as plain data: its ceilings, and how near it is to them.

Made of the same as the roofline's page, so that both say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.gpu.ceilings import half_of, keys_of, operations_per_s
from gpumon.report.facts.entities import moment, number
from gpumon.report.wording.what_bounds import PORT_KEYS, name_of, what_bounds

if TYPE_CHECKING:
    from gpumon.model.gpu.ceilings import Ceiling
    from gpumon.model.gpu.hardware import Sheet
    from gpumon.model.records.cluster import JobView
    from gpumon.report.document import forms
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.wording.what_bounds import UnknownCeiling, WhatBounds


def speed_of_light_part(digest: Digest, view: JobView) -> forms.SpeedOfLight:
    """What bounds a job, over as much of its past as the page shows by default."""
    found = what_bounds(digest, digest.gpus(view), view)
    sheet, past, nearest = found.sheet, found.past, found.nearest
    ceilings = [] if sheet is None else _ceilings(sheet, found)
    done, moved = _done(found), _moved(found)
    return {
        "bound_by": found.bound_by,
        "nearest": None if nearest is None else nearest.what,
        "nearest_ratio": None if nearest is None else _share(nearest),
        "is_estimate": None if nearest is None else _is_estimate(nearest.what, nearest.is_compute),
        "fields": [] if sheet is None or nearest is None else _fields(sheet, nearest.what),
        "summary": " ".join(filter(None, (found.verdict, found.clock))) or None,
        "why_unknown": found.why_unknown or None,
        "notes": [found.note] if found.note else [],
        "product": None if sheet is None else sheet.product,
        "gpu_count": found.gpu_count,
        "window": None if past is None else {"start": moment(past.start), "end": moment(past.end)},
        "operations_per_s": number(done),
        "memory_bytes_per_s": number(moved),
        "operations_per_byte": number(done / moved) if done is not None and moved else None,
        "ceilings": ceilings,
    }


def _done(found: WhatBounds) -> float | None:
    """Operations each second of all pipes; None where those of tensor cores are not known."""
    if found.sheet is None or half_of(found.sheet) not in {one.what for one in found.ceilings}:
        return None
    return operations_per_s(found.sheet, found.values)


def _moved(found: WhatBounds) -> float | None:
    return next((one.reached_per_s for one in found.ceilings if one.what == "memory"), None)


def _ceilings(sheet: Sheet, found: WhatBounds) -> list[forms.Ceiling]:
    known = [_known_ceiling(sheet, one, found.port) for one in found.ceilings]
    return known + [_unknown_ceiling(sheet, one) for one in found.unknown]


def _known_ceiling(sheet: Sheet, one: Ceiling, port: str) -> forms.Ceiling:
    # No data sheet has what a link was trained to.
    is_published = one.what not in ("pcie", "network")
    return {
        **_named(sheet, one.what, is_compute=one.is_compute),
        "ratio": _share(one),
        "reached_per_s": number(one.reached_per_s),
        "ceiling_per_s": number(one.per_s),
        "data_sheet_per_s": number(one.published_per_s) if is_published else None,
        "port": port if one.what == "network" else None,
        "why_unknown": None,
    }


def _unknown_ceiling(sheet: Sheet, one: UnknownCeiling) -> forms.Ceiling:
    return {
        **_named(sheet, one.what, is_compute=one.is_compute),
        "ratio": None,
        "reached_per_s": None,
        "ceiling_per_s": number(one.per_s),
        "data_sheet_per_s": number(one.published_per_s),
        "port": None,
        "why_unknown": one.why,
    }


def _named(sheet: Sheet, what: str, *, is_compute: bool) -> forms.CeilingName:
    return {
        "what": what,
        "name": name_of(what, sheet),
        "unit": "operations" if is_compute else "bytes",
        "is_estimate": _is_estimate(what, is_compute),
        "fields": _fields(sheet, what),
    }


def _fields(sheet: Sheet, what: str) -> list[str]:
    return list(PORT_KEYS if what == "network" else keys_of(sheet, what))


def _is_estimate(what: str, is_compute: bool) -> bool:
    """Whether what is reached is a share of the time times the data sheet; links count bytes."""
    return is_compute or what == "memory"


def _share(one: Ceiling) -> float | int | None:
    return number(min(1.0, one.ratio))
