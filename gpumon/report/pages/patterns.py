"""Patterns in unexplained GPU time, as cards of plain text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from gpumon.detect.features.feature import feature_text
from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.report.text import units
from gpumon.report.text.cells import safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.detect.learning.named import Named, Trait
    from gpumon.detect.learning.patterns import Found, Pattern
    from gpumon.detect.learning.unexplained import Behaviour, Gathered

_NAMED: Final = 3
"""Users and jobs that are named on a card."""


def patterns_text(gathered: Gathered, found: Found) -> str:
    """What there is, then a card each. Ends in a line break."""
    lines = [_head(gathered, found)]
    for number, pattern in enumerate(found.patterns, 1):
        lines += ["", *_card(number, pattern)]
    if found.single:
        hours = _hours(sum(job.gpu_seconds for job in found.single))
        count = len(found.single)
        whose = "job resembles" if count == 1 else "jobs resemble"
        lines += ["", f"{count} {whose} no other: {hours} ({_some(_ids(found.single))})"]
    return "\n".join(lines) + "\n"


def named_text(named: Sequence[Named]) -> str:
    """A card for each pattern that has a name. Ends in a line break."""
    if not named:
        return "no pattern has a name yet: gpumon patterns FILE --name NUMBER=NAME\n"
    lines = []
    for one in named:
        since = datetime.fromtimestamp(one.at, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        who = f"named by {safe(one.owner)} on {since}, version {one.version}"
        lines += [
            f"{one.name}  {who}",
            f"    found in {one.jobs} jobs ({_hours(one.gpu_seconds)}), as in {safe(one.exemplar)}",
            *(f"    {_trait(trait)}" for trait in one.traits),
        ]
    return "\n".join(lines) + "\n"


def _hours(gpu_seconds: float) -> str:
    return f"{units.gpu_hours(gpu_seconds)} GPU-h"


def _head(gathered: Gathered, found: Found) -> str:
    unclear = _hours(gathered.unexplained_s)
    told = f"{unclear} of {_hours(gathered.allocated_s)} are unexplained"
    if not gathered.unexplained:
        return f"{told}; no job has a quarter of an hour of it"
    count, cards = len(gathered.unexplained), len(found.patterns)
    listed = _hours(sum(job.gpu_seconds for job in gathered.unexplained))
    jobs = "1 job has" if count == 1 else f"{count} jobs have"
    patterns = f"{cards} patterns" if cards > 1 else "1 pattern" if cards else "no pattern"
    return f"{told}; {jobs} most of it ({listed}), in {patterns}"


def _card(number: int, pattern: Pattern) -> list[str]:
    count, people = len(pattern.jobs), len(pattern.users)
    whose = "1 user" if people == 1 else f"{people} users"
    since = datetime.fromtimestamp(pattern.since, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    hours = _hours(pattern.gpu_seconds)
    return [
        f"{number:>2}  {hours}  {count} jobs of {whose} ({_some(pattern.users)}), since {since}",
        f"    like job {safe(pattern.exemplar.job_id)}; also {_others(pattern)}",
        *(f"    {_trait(trait)}" for trait in pattern.traits),
    ]


def _others(pattern: Pattern) -> str:
    return _some(job_id for job_id in _ids(pattern.jobs) if job_id != pattern.exemplar.job_id)


def _ids(jobs: Iterable[Behaviour]) -> list[str]:
    return list(dict.fromkeys(job.job_id for job in jobs))


def _some(names: Iterable[str]) -> str:
    """The first few of some names, and how many more there are."""
    listed = [safe(name) for name in names]
    more = len(listed) - _NAMED
    return ", ".join(listed[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _trait(trait: Trait) -> str:
    feature = FEATURES[COLUMN[trait.key]]
    value, usual = (feature_text(number, feature) for number in (trait.value, trait.usual))
    return f"{feature.doc.rstrip('.')}: {value}, usually {usual}"
