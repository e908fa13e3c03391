"""Where GPU time went in a week, beside the week before, as a text for a screen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from gpumon.model.finding_classes import finding_class
from gpumon.model.records.ledger import NOTHING, SUSPICION
from gpumon.report.pages.ledger_table import class_lines
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone, laid_out, paragraph, safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.model.records.ledger import Compared, LedgerTotals, Total
    from gpumon.report.text.cells import Line


_CHANGED_SHARE: Final = 0.002
"""A share of the observed time that changed by less is as before (our choice)."""

_SHOWN_S: Final = 18.0
"""GPU-seconds of a cause from which on its hours are more than 0.00."""

_PARTS: Final = frozenset({"useful", "unexplained", "unobserved"})
_MOST_OF_IT: Final = "most of it"

_NAMED: Final = 3
"""Causes that are named in one sentence."""

_MOST_NAMES: Final = 12
"""Users that are listed: those who lose most."""


def week_entries(weeks: Compared, width: int) -> list[list[Line]]:
    """What got better and what worse, then a line for each cause and for those who lose most."""
    days = units.span(weeks.span_s)
    head = f"GPU time of the last {days}, from the ledger on disk; before: the {days} before."
    entries: list[list[Line]] = [paragraph(head, width)]
    now, before = weeks.newest.whole, weeks.before.whole
    entries.append([*_observed_lines(now, width), ()])
    if before.observed_s > 0:
        entries.append([*_changes(now, before, days, width), ()])
    else:
        text = f"Nothing was observed in the {days} before: there is nothing to compare with."
        entries.append([*paragraph(text, width, Tone.DIM), ()])
    entries.append([*_causes(now, before), ()])
    entries.append([*_users(weeks.newest.by_name, weeks.before.by_name), ()])
    left = len(weeks.newest.by_name) - _MOST_NAMES
    if left > 0:
        entries.append(
            paragraph(f"{left} more users: gpumon report --since 7days", width, Tone.DIM)
        )
    return entries


def session_entries(ledger: LedgerTotals | None, width: int) -> list[list[Line]]:
    """The same of the time since gpumon began, where no ledger is stored on disk."""
    text = "No ledger is stored on disk here; with [ledger] is_kept = true weeks can be compared."
    found: list[list[Line]] = [[*paragraph(text, width, Tone.DIM), ()]]
    if ledger is None:
        return found
    total = ledger.total()
    found.append([*_observed_lines(total, width), ()])
    found.append([*_causes(total, None), ()])
    found.append(_users(ledger.by("user"), None))
    return found


def _causes(now: Total, before: Total | None) -> list[Line]:
    """A line for each part of the ledger that anything went to."""
    title = () if before is None else ("before",)
    rows: list[tuple[str, ...]] = [("cause", "GPU-h", "share", *title)]
    for name, seconds, share, was in class_lines(now, before or NOTHING):
        is_class = name not in _PARTS
        if is_class and max(seconds, (was or 0.0) * now.observed_s) < _SHOWN_S:
            continue
        mark = SUSPICION if name.startswith(SUSPICION) else ""
        shown = mark + finding_class(name.removeprefix(SUSPICION)).title if is_class else name
        earlier = () if before is None else (_percent(was),)
        rows.append((safe(shown), units.gpu_hours(seconds), _percent(share), *earlier))
    rows.append(("total", units.gpu_hours(now.allocated_s), *[units.MISSING] * (1 + len(title))))
    return _lines(laid_out(rows))


def _users(now: Mapping[str, Total], before: Mapping[str, Total] | None) -> list[Line]:
    """A line for each of those who lose most."""
    title = () if before is None else ("before",)
    rows: list[tuple[str, ...]] = [("user", "GPU-h", "lost", "share", *title, _MOST_OF_IT)]
    for name, total in list(now.items())[:_MOST_NAMES]:
        was = before.get(name) if before is not None else None
        earlier = () if before is None else (_wasted(was),)
        cause = next(iter(total.wasted_s), "")
        rows.append(
            (
                safe(name) or units.MISSING,
                units.gpu_hours(total.allocated_s),
                units.gpu_hours(total.waste_s),
                _wasted(total),
                *earlier,
                safe(finding_class(cause).title) if cause else units.MISSING,
            )
        )
    return _lines(laid_out(rows, words=(_MOST_OF_IT,)))


def _wasted(total: Total | None) -> str:
    return _percent(None if total is None else total.of_observed(total.waste_s))


def _percent(share: float | None) -> str:
    return units.MISSING if share is None else f"{units.fine_percent(share)} %"


def _observed_lines(total: Total, width: int) -> list[Line]:
    """Since when anything of it was seen."""
    if total.observed_since is None:
        return paragraph("Nothing was observed yet.", width, Tone.DIM)
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(total.observed_since))
    return paragraph(f"Observed since {at}; shares are of what was observed.", width, Tone.DIM)


def _changes(now: Total, before: Total, days: str, width: int) -> list[Line]:
    """Which causes take less than before, and which more: those that changed most come first."""
    changes = []
    for key in {*now.wasted_s, *before.wasted_s}:
        was, became = (
            total.of_observed(total.wasted_s.get(key, 0.0)) or 0.0 for total in (before, now)
        )
        if abs(became - was) >= _CHANGED_SHARE:
            changes.append((became - was, key, was, became))
    better = sorted(change for change in changes if change[0] < 0)
    worse = sorted((change for change in changes if change[0] > 0), reverse=True)
    if not changes:
        return paragraph(f"No cause takes more or less than in the {days} before.", width)
    lines: list[Line] = []
    for word, some, tone in (("Better", better, Tone.GOOD), ("Worse", worse, Tone.WARN)):
        if some:
            text = f"{word} than before: {_some((key, a, b) for _, key, a, b in some)}"
            lines += paragraph(text, width, tone)
    return lines


def _some(changes: Iterable[tuple[str, float, float]]) -> str:
    listed = [
        safe(finding_class(key).title)
        + f" {units.fine_percent(was)} → {units.fine_percent(became)} %"
        for key, was, became in changes
    ]
    more = len(listed) - _NAMED
    return ", ".join(listed[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _lines(text: str) -> list[Line]:
    first, *rest = text.splitlines()
    return [(Cell(first, Tone.STRONG),), *((Cell(line),) for line in rest)]
