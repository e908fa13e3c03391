"""Patterns in unexplained GPU time, as cards of plain text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from gpumon.detect.features.feature import feature_text
from gpumon.detect.features.table import COLUMN, FEATURES
from gpumon.detect.learning.novelty import ODD_FROM
from gpumon.report.text import units
from gpumon.report.text.cells import Tone, paragraph, safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.detect.learning.named import Named
    from gpumon.detect.learning.patterns import Found
    from gpumon.detect.learning.unexplained import Behaviour, Gathered
    from gpumon.model.records.pattern import PatternCard, Patterns, Trait
    from gpumon.report.text.cells import Line

_ODD_HEAD: Final = (
    "Jobs unlike anything usual here. This proves no waste; beside each value is that of the "
    "nearest jobs:"
)

_NAMED: Final = 3
"""Users and jobs that are named on a card."""


def patterns_text(gathered: Gathered, found: Found) -> str:
    """What there is, then a card each. Ends in a line break."""
    lines = [_head(gathered, found)]
    for number, pattern in enumerate(found.patterns, 1):
        lines += ["", *_card(number, pattern.card)]
    if found.single:
        hours = _hours(sum(job.gpu_seconds for job in found.single))
        lines += ["", f"{_lonely(len(found.single))}: {hours} ({_some(_ids(found.single))})"]
    if found.odd:
        lines += ["", _ODD_HEAD]
    for number, odd in enumerate(found.odd, len(found.patterns) + 1):
        lines += _odd_card(number, odd.card)
    return "\n".join(lines) + "\n"


def named_text(named: Sequence[Named]) -> str:
    """A card for each pattern that has a name. Ends in a line break."""
    if not named:
        return "no pattern has a name yet: gpumon patterns FILE --name NUMBER=NAME\n"
    lines = []
    for one in named:
        since = datetime.fromtimestamp(one.at, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        who = f"named by {safe(one.owner)} on {since}, version {one.version}"
        found = f"{units.counted(one.jobs, 'job')} ({_hours(one.gpu_seconds)})"
        lines += [
            f"{one.name}  {who}",
            f"    found in {found}, as in {safe(one.exemplar)}",
            *(f"    {_trait(trait)}" for trait in one.traits),
        ]
    return "\n".join(lines) + "\n"


def pattern_entries(found: Patterns | None, width: int) -> list[list[Line]]:
    """What was found since gpumon began, then a card each, for a screen of this width."""
    if found is None:
        text = "Patterns need 15 minutes of jobs with unexplained GPU time."
        return [paragraph(text, width, Tone.DIM)]
    entries: list[list[Line]] = []
    if found.allocated_s > 0.0:
        entries.append([*paragraph(_summary(found), width), ()])
    if found.trouble:
        entries.append([*paragraph(found.trouble, width, Tone.WARN, "! ", "  "), ()])
    for number, card in enumerate(found.cards, 1):
        entries.append(_entry(_card(number, card), width))
    if found.single:
        text = f"{_lonely(len(found.single))}: {_some(found.single)}"
        entries.append([*paragraph(text, width), ()])
    if found.odd:
        entries.append(paragraph(_ODD_HEAD, width))
    for number, card in enumerate(found.odd, len(found.cards) + 1):
        entries.append(_entry(_odd_card(number, card), width))
    if found.numbered:
        text = (
            ":name 1 some_name makes the first a class of its own, :unname some_name undoes that. "
            ":job NUMBER opens a job."
        )
        entries.append(paragraph(text, width, Tone.DIM))
    return entries


def _entry(card: Sequence[str], width: int) -> list[Line]:
    """A card on a screen, with an empty line behind it."""
    head, *rest = card
    lines = paragraph(head.strip(), width, Tone.STRONG, "", "    ")
    for line in rest:
        lines += paragraph(line.strip(), width, Tone.PLAIN, "    ", "      ")
    return [*lines, ()]


def _summary(found: Patterns) -> str:
    """How much of the time is unexplained, and how many patterns it has."""
    count = len(found.cards)
    made = "No three of these jobs behave alike"
    if count:
        made = f"Jobs that behave alike make {units.counted(count, 'pattern')}"
    hours = f"{_hours(found.unexplained_s)} of {_hours(found.allocated_s)}"
    return (
        f"{hours} since {units.clock_time(found.since)} are unexplained: neither useful nor "
        f"claimed by a detector. {made}."
    )


def _lonely(count: int) -> str:
    """How many jobs are on no card."""
    return f"{count} {'job resembles' if count == 1 else 'jobs resemble'} no other"


def _hours(gpu_seconds: float) -> str:
    return f"{units.gpu_hours(gpu_seconds)} GPU-h"


def _head(gathered: Gathered, found: Found) -> str:
    unclear = _hours(gathered.unexplained_s)
    whole = f"{unclear} of {_hours(gathered.allocated_s)} are unexplained"
    if not gathered.unexplained:
        return f"{whole}; no job has a quarter of an hour of it"
    count, cards = len(gathered.unexplained), len(found.patterns)
    listed = _hours(sum(job.gpu_seconds for job in gathered.unexplained))
    jobs = f"{units.counted(count, 'job')} {'has' if count == 1 else 'have'}"
    patterns = units.counted(cards, "pattern") if cards else "no pattern"
    return f"{whole}; {jobs} most of it ({listed}), in {patterns}"


def _card(number: int, card: PatternCard) -> list[str]:
    also = _some(job_id for job_id in card.jobs if job_id != card.exemplar)
    called = f"{', '.join(card.names)}: " if card.names else ""
    return [
        f"{number:>2}  {called}{_whose(card)}",
        f"    like job {safe(card.exemplar)}; also {also}",
        *([] if card.times is None else [f"    {_how_far(card.times)}"]),
        *(f"    {_trait(trait)}" for trait in card.traits),
    ]


def _odd_card(number: int, card: PatternCard) -> list[str]:
    """A card of one job, or a GPU without one, that is like nothing usual."""
    called = f"{', '.join(card.names)}: " if card.names else ""
    since = datetime.fromtimestamp(card.since, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    kind, _, uuid = card.exemplar.partition(":")
    if kind == "gpu":
        # The ledger does not count it.
        what, unclear = f"{safe(uuid)} without a job", ""
    else:
        what, unclear = f"job {safe(card.exemplar)}", f"; {_hours(card.gpu_seconds)} unexplained"
    return [
        f"{number:>2}  {called}{what} of {_some(card.users)}, since {since}{unclear}",
        *([] if card.times is None else [f"    {_how_far(card.times)}"]),
        *(f"    {_trait(trait)}" for trait in card.traits),
    ]


def _how_far(times: float) -> str:
    """How unlike the usual something is."""
    if times < ODD_FROM:
        return "no more unusual than other jobs here"
    return f"{times:.1f} times as far from all others as jobs here usually are"


def _whose(card: PatternCard) -> str:
    """How much of it there is, of how many jobs, whose they are, and since when."""
    people = len(card.users)
    users = units.counted(people, "user")
    since = datetime.fromtimestamp(card.since, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    hours = _hours(card.gpu_seconds)
    jobs = units.counted(len(card.jobs), "job")
    return f"{hours}  {jobs} of {users} ({_some(card.users)}), since {since}"


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
