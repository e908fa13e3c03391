"""The headline: how many GPUs there are, what became of their time, what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.finding import Confidence
from gpumon.model.finding_classes import finding_class
from gpumon.model.records.ledger import SUSPICION
from gpumon.model.units import DAY_S
from gpumon.report.facts.losses import WEIGHTS, mark_of, price_an_hour
from gpumon.report.facts.tick_index import new_findings
from gpumon.report.headline.fleet_gpus import fleet_gpu_steps, fleet_gpus
from gpumon.report.text import units
from gpumon.report.text.cells import Cell, Tone, safe, text_width
from gpumon.report.wording.verdict_words import SEVERITY_SIGNS, SEVERITY_TONES, WATCHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumon.model.records.ledger import LedgerTotals, Total
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.headline.fleet_gpus import FleetGpus
    from gpumon.report.text.cells import Line

TALL: Final = 32
"""Rows of a terminal from which on the headline has three lines: below, they are the table's."""

_DOT: Final = Cell(" · ", Tone.DIM)
_LEAST_SHOWN_S: Final = 180.0
"""GPU-seconds of a twentieth of an hour."""

_LONGEST_FILL: Final = 40
"""Cells of a share of 100 %: longer ones show no more."""


def headline(digest: Digest, width: int, *, is_tall: bool) -> list[Line]:
    """The lines above a view of the whole fleet, none longer than `width`.

    Args:
        digest: The tick.
        width: Cells of a line.
        is_tall: Whether there is room for three lines; else one has the most important of them.
    """
    key = ("headline", f"{width} {is_tall}")
    return list(digest.remembered(key, lambda: _headline(digest, width, is_tall)))


def headline_steps(digest: Digest) -> Iterator[None]:
    """Count what the headline shows, step by step; then it is quick to word."""
    yield from fleet_gpu_steps(digest)
    ledger = digest.tick.ledger
    if ledger is not None:
        ledger.total()
        yield
        _price_now(digest, ledger)
        yield


def _headline(digest: Digest, width: int, is_tall: bool) -> list[Line]:
    fleet = fleet_gpus(digest)
    if not fleet.gpus:
        return []
    ledger = digest.tick.ledger
    whole = None if ledger is None else ledger.total()
    if ledger is None or whole is None or whole.allocated_s < 1:
        return [_fleet_line(digest, fleet, width)]
    now = _Now.of(digest, ledger)
    if not is_tall:
        return [_short_line(digest, fleet, now, whole, ledger, width)]
    return [
        _fleet_line(digest, fleet, width),
        _shares_line(whole, now, width),
        _causes_line(whole, ledger, bool(now.watching), width),
    ]


# The first line: GPUs, and what is new


def _fleet_line(digest: Digest, fleet: FleetGpus, width: int) -> Line:
    """All GPUs by what they are, and at the right end what is new."""
    gpus = units.gpus(fleet.gpus)
    if not fleet.parts:
        nodes = units.counted(fleet.nodes, "node")
        forms: list[Line] = [(Cell(gpus, Tone.STRONG), Cell(f" on {nodes}"))]
    else:
        parts = [Cell(f"{count:,} {part}") for part, count in fleet.parts]
        forms = [(Cell(f"{gpus}: ", Tone.STRONG), *_dotted(parts)), _held(fleet)]
    news = [(cell,) for cell in _news(digest)]
    for left in forms:
        for right in (*news, ()):
            if _width(left) + _width(right) + 2 * bool(right) <= width:
                return _spread(left, right, width)
    return ()


def _held(fleet: FleetGpus) -> Line:
    if not fleet.parts:
        return (Cell(units.gpus(fleet.gpus), Tone.STRONG),)
    return (Cell(f"{fleet.held:,} of {units.gpus(fleet.gpus)} held", Tone.STRONG),)


def _news(digest: Digest) -> tuple[Cell, ...]:
    """How much is new, the longest words first; empty where nothing is."""
    start = digest.news_since
    found = new_findings(digest.tick, start)
    if start is None or not found:
        return ()
    gravest = max((mark_of(digest.tick, one) for one in found), key=lambda mark: mark.rank)
    count, tone = f"{SEVERITY_SIGNS[gravest]} {len(found):,} new", SEVERITY_TONES[gravest]
    return Cell(f"{count} {_since(start, digest.tick.at)}", tone), Cell(count, tone)


# The second line: five shares, and what is lost now


def _price_now(digest: Digest, ledger: LedgerTotals) -> float | None:
    """Price of what is being wasted in an hour, worked out once for a tick."""
    return digest.remembered(("price an hour", ""), lambda: price_an_hour(ledger))


class _Now(NamedTuple):
    """What is lost now."""

    wasted_gpus: float
    suspected_gpus: float
    an_hour: float | None
    """Price of what is wasted in an hour; None: nothing of it has a price."""
    currency: str
    watching: str
    """How many detectors have judged, while some have not."""

    @classmethod
    def of(cls, digest: Digest, ledger: LedgerTotals) -> _Now:
        """What is lost now by the ledger, and how many detectors still wait."""
        wasted, suspected = ledger.losing.total()
        waiting = sum(one.state == "waiting" for one in digest.tick.coverage)
        every = len(digest.coverage_at_work)
        watching = f"{WATCHING} ({every - waiting} of {every})" if waiting else ""
        if not every:
            watching = WATCHING
        return cls(
            wasted_gpus=wasted,
            suspected_gpus=suspected,
            an_hour=_price_now(digest, ledger),
            currency=safe(ledger.prices.currency),
            watching=watching,
        )

    def cells(self, *, has_suspicion: bool = True, has_money: bool = True) -> Line:
        """`lost now 25 + ~3 GPUs ≈ 62 $/h`."""
        if not self.wasted_gpus and not self.suspected_gpus:
            return (Cell(self.watching or "nothing lost now", Tone.DIM),)
        counts = [units.gpus_lost(self.wasted_gpus)] if self.wasted_gpus else []
        if self.suspected_gpus and (has_suspicion or not counts):
            counts.append(SUSPICION + units.gpus_lost(self.suspected_gpus))
        noun = "GPU" if counts in (["1"], [f"{SUSPICION}1"]) else "GPUs"
        line = (Cell(f"lost now {' + '.join(counts)} {noun}", Tone.WARN),)
        if not has_money or self.an_hour is None:
            return line
        amount = units.tenths(self.an_hour)
        return (*line, Cell(f" ≈ {amount} {self.currency}".rstrip() + "/h", Tone.WARN))


def _shares_line(whole: Total, now: _Now, width: int) -> Line:
    """A bar of the five shares, each by its word and sign, and what is lost now."""
    lost = now.cells()
    for has_money in (True, False):
        if _width(lost) > width // 2:
            lost = now.cells(has_suspicion=False, has_money=has_money)
    shares = _shares(whole)
    while shares and _room(shares, lost, width) < len(shares):
        shares.pop()
    fills = _fills(shares, _room(shares, lost, width))
    left: list[Cell] = []
    for number, (share, cells) in enumerate(zip(shares, fills, strict=True)):
        sign = "" if number else " %"
        left += [
            Cell(f"{share.word} ", Tone.DIM),
            Cell(share.fill * cells, share.tone),
            Cell(f" {share.percent}{sign}   "),
        ]
    return _spread(tuple(left), lost, width)


class _Share(NamedTuple):
    """One of the five shares of GPU time."""

    word: str
    fill: str
    tone: Tone
    ratio: float

    @property
    def percent(self) -> str:
        return units.percent(self.ratio)


def _shares(whole: Total) -> list[_Share]:
    """The shares in the order of the ledger; of the last three only those that there are."""
    found = [
        _Share("useful", "█", Tone.GOOD, whole.of_observed(whole.useful_s) or 0.0),
        _Share("wasted", "▓", Tone.BAD, whole.of_observed(whole.waste_s) or 0.0),
    ]
    if not whole.observed_s:
        found = []
    more = (
        _Share("suspected", "▒", Tone.WARN, whole.of_observed(whole.suspicion_s) or 0.0),
        _Share("unexplained", "░", Tone.DIM, whole.of_observed(whole.unexplained_s) or 0.0),
        _Share("unobserved", "·", Tone.DIM, whole.unobserved_share or 0.0),
    )
    return found + [share for share in more if share.ratio > 0]


def _room(shares: list[_Share], lost: Line, width: int) -> int:
    """Cells that are left for the bars."""
    words = sum(len(f"{share.word}  {share.percent}   ") for share in shares) + len(" %")
    return width - _width(lost) - words


def _fills(shares: list[_Share], room: int) -> list[int]:
    """Cells of each share's bar, one at least, in all no more than there is room for."""
    most = sum(share.ratio for share in shares) or 1.0
    scale = min(_LONGEST_FILL, max(0, room - len(shares)) / most)
    return [max(1, int(share.ratio * scale)) for share in shares]


# The third line: what was lost, by cause


def _causes_line(whole: Total, ledger: LedgerTotals, is_watching: bool, width: int) -> Line:
    """What was lost since the ledger began, by cause, the largest first."""
    heads = _lost_heads(whole, ledger, is_watching)
    causes = _causes(whole)
    for head in heads:
        line: Line = (head,)
        shown = 0
        for number, cause in enumerate(causes):
            sign = Cell(": " if not number else " · ", Tone.DIM)
            rest = len(causes) - number - 1
            if _width((*line, sign, cause, *_more(rest))) > width:
                break
            line, shown = (*line, sign, cause), shown + 1
        if shown or not causes:
            return (*line, *_more(len(causes) - shown)) if _width(line) <= width else ()
    return next(((head,) for head in heads if _width((head,)) <= width), ())


def _more(count: int) -> Line:
    return (Cell(f" · {count} more", Tone.DIM),) if count else ()


def _lost_heads(whole: Total, ledger: LedgerTotals, is_watching: bool) -> list[Cell]:
    """`lost since 13:56: 18.3 + ~3.7 GPU-h of 142 seen (13 %)`, and shorter."""
    since = _since(ledger.since, ledger.at)
    if whole.observed_s < 1:
        return [
            Cell(f"nothing seen {since} of {units.gpu_hours(whole.allocated_s)} GPU-h", Tone.DIM)
        ]
    seen = units.gpu_hours(whole.observed_s)
    if not _lost_words(whole):
        words = "no loss found yet" if is_watching else "nothing lost"
        return [Cell(f"{words} {since} of {seen} GPU-h seen", Tone.DIM)]
    head = f"lost {since}: {_lost_words(whole)} GPU-h"
    share = units.percent(whole.of_observed(whole.waste_s))
    of_seen = f" of {seen} seen" + (f" ({share} %)" if whole.waste_s >= 1 else "")
    return [Cell(head + of_seen, Tone.WARN), Cell(head, Tone.WARN)]


def _lost_words(whole: Total, *, has_suspicion: bool = True) -> str:
    """GPU-hours that are wasted and, after `~`, suspected; empty where none are."""
    wasted_s, suspected_s = whole.waste_s, whole.suspicion_s
    counts = [units.gpu_hours(wasted_s)] if wasted_s >= 1 else []
    # Beside hours of waste a minute of guesses is none.
    if suspected_s >= (_LEAST_SHOWN_S if counts else 1) and (has_suspicion or not counts):
        counts.append(SUSPICION + units.gpu_hours(suspected_s))
    return " + ".join(counts)


def _causes(whole: Total) -> list[Cell]:
    """Classes with their GPU-hours; what is suspected counts as much less as in every order."""
    guess = WEIGHTS[Confidence.HYPOTHESIS]
    found = [(s, "", key, s) for key, s in whole.wasted_s.items() if s >= 1]
    found += [(guess * s, SUSPICION, key, s) for key, s in whole.suspected_s.items() if s >= 1]
    found.sort(key=lambda one: (-one[0], one[2]))
    return [
        Cell(f"{mark}{finding_class(key).title} {units.gpu_hours(s)}") for _, mark, key, s in found
    ]


def _since(start: float, at: float) -> str:
    """`since 13:56`; of more than a day `in 3d04h`, as a time of day would mislead."""
    if at - start >= DAY_S:
        return f"in {units.short_duration(at - start)}"
    return f"since {units.clock_time(start)}"


# One line for all


def _short_line(
    digest: Digest, fleet: FleetGpus, now: _Now, whole: Total, ledger: LedgerTotals, width: int
) -> Line:
    """The most important of all that fits, in the order of the three lines."""
    news = _news(digest)
    lost = [_lost_words(whole, has_suspicion=is_long) for is_long in (False, True)]
    since = _since(ledger.since, ledger.at)
    short, full = [(Cell(f"lost {one} GPU-h {since}", Tone.WARN),) if one else () for one in lost]
    parts: dict[str, Line] = {"held": _held(fleet)}
    # The most important first; a longer form of one takes the place of the shorter.
    for name, line in (
        ("now", now.cells(has_suspicion=False, has_money=False)),
        ("new", news[-1:]),
        ("now", now.cells(has_suspicion=False)),
        ("lost", short),
        ("now", now.cells()),
        ("lost", full),
        ("new", news[:1]),
    ):
        tried = {**parts, name: line}
        if line and _width(_joined(tried)) <= width:
            parts = tried
    return _joined(parts) if _width(_joined(parts)) <= width else ()


def _joined(parts: Mapping[str, Line]) -> Line:
    lines = [parts[name] for name in ("held", "now", "lost", "new") if name in parts]
    return tuple(cell for n, line in enumerate(lines) for cell in ((_DOT,) if n else ()) + line)


def _dotted(cells: list[Cell]) -> Line:
    return tuple(cell for n, one in enumerate(cells) for cell in ((_DOT,) if n else ()) + (one,))


def _width(line: Line) -> int:
    return sum(text_width(cell.text) for cell in line)


def _spread(left: Line, right: Line, width: int) -> Line:
    """Both ends of a line."""
    if not right:
        return left
    return (*left, Cell(" " * (width - _width(left) - _width(right))), *right)
