"""Which time of which GPUs the findings claim, and what of it has changed since the last look."""

from __future__ import annotations

from itertools import chain
from math import inf
from operator import is_
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.join.membership import HOLDING_STATE
from gpumon.fleet.ledger.charging import is_suspected
from gpumon.fleet.ledger.timeline import Charge
from gpumon.model.finding import Confidence
from gpumon.model.finding_classes import CLASS_RANKS, Category, Loss, class_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.fleet.ledger.accounts import ClaimSums
    from gpumon.fleet.ledger.timeline import Timeline
    from gpumon.model.finding import Finding
    from gpumon.model.records.ledger import Charged
    from gpumon.model.records.tick import Tick

    Identity = tuple[str, str, str]

SAME_ONSET_S: Final = 330.0
"""Two judgements about one subject that begin no further apart are about the same time: a row of
the oldest past, in which one of them may begin, and the 30 s that windows bridge."""


class Claim(NamedTuple):
    """What a finding says now of a GPU's time, in place of what it said before."""

    job_id: str | None
    """The job whose time it is; None: whoever held the GPU then."""
    source_uuid: str
    """The GPU whose fault it is, where others wait for it; empty: each GPU's own."""
    uuid: str
    start: float
    end: float
    number: int
    charge: Charge | None
    """None: nothing any more."""

    def apply(self, timeline: Timeline) -> None:
        """Have a timeline of the GPU charged so."""
        if self.charge is None:
            timeline.withdraw(self.start, self.end, self.number)
        else:
            timeline.charge(self.start, self.end, self.charge)


class _Claimed:
    """What a finding has claimed so far, since it was told first."""

    def __init__(self, number: int, finding: Finding, job_id: str | None, source: str) -> None:
        self.number = number
        self.finding = finding
        self.job_id = job_id
        self.source = source
        self.spans: dict[str, tuple[float, float]] = {}
        """Start and end of what was claimed of each GPU."""
        self.until = -inf
        """Unix time up to which the newest look was taken in."""
        self.charge: Charge | None = None
        self.holders: frozenset[str] = frozenset()
        """Jobs that hold the GPU that it is about."""
        self.since = -inf
        """Unix time before which another claim of the same finding holds."""
        self.was_wrong = False
        """Whether another judgement took its place: what is cleared is never charged again then."""

    def claim(self, uuid: str, start: float, end: float, charge: Charge | None) -> Claim:
        source = "" if uuid == self.source else self.source
        return Claim(
            job_id=self.job_id,
            source_uuid=source,
            uuid=uuid,
            start=start,
            end=end,
            number=self.number,
            charge=charge,
        )

    def withdrawn(self) -> Iterator[Claim]:
        """It was wrong: it says nothing any more."""
        for uuid in self.spans:
            yield self.claim(uuid, -inf, inf, None)
        self.spans.clear()
        self.charge, self.was_wrong = None, True


class Claims:
    """Turns findings into claims: what each says of its time from the onset to its window's end.

    The newest look is believed about its window; what was said of the time before it stays. A GPU
    that a finding names later than others is claimed from the window in which it is named. A
    hypothesis that became more is so from the window on that made it so. A hypothesis that stands
    and vanishes while its subject is in view was wrong; so was what gave way to another judgement
    about the same subject since the same onset, which names another reason for all of the loss.

    A fault of a GPU outlasts jobs. When the GPU changes hands the finding speaks of what the next
    job loses, or nobody: what it said of the job before stays.
    """

    def __init__(self, held_by: Callable[[str], frozenset[str]] = lambda _: frozenset()) -> None:
        """Nothing is claimed yet.

        Args:
            held_by: Tells the jobs that hold a GPU now.
        """
        self._held_by = held_by
        self._claimed: dict[Identity, _Claimed] = {}
        self._last: tuple[tuple[Finding, ...], ...] = ()
        self._numbers = 0
        self._over: list[int] = []

    def new(self, tick: Tick) -> Iterator[Claim]:
        """What the findings of a tick change in what those of the ticks before it said."""
        judged = (tick.findings, tick.cleared, tick.muted)
        if len(self._last) == len(judged) and all(map(is_, self._last, judged)):
            return
        self._last = judged
        holders = Holders(tick)
        named: set[Identity] = set()
        for finding in chain.from_iterable(judged):
            if finding.identity not in named:
                named.add(finding.identity)
                yield from self._of(finding, holders)
        for identity in self._claimed.keys() - named:
            gone = self._claimed.pop(identity)
            # What was cleared was told to the end; it is only not shown any more.
            was_guess = gone.finding.is_open and gone.finding.confidence is Confidence.HYPOTHESIS
            if was_guess and holders.has(gone.finding):
                yield from gone.withdrawn()
            self._over.append(gone.number)
        yield from self._replaced(chain(tick.findings, tick.muted))

    def over(self) -> list[int]:
        """Numbers of claims that are told no more, once."""
        over, self._over = self._over, []
        return over

    def forget(self) -> None:
        """The clock was set: what was claimed was claimed of another time."""
        self._over += [claimed.number for claimed in self._claimed.values()]
        self._claimed.clear()

    def charged(self, sums: ClaimSums) -> dict[Identity, Charged]:
        """What each finding that is told was charged."""
        return {identity: sums.of(claimed.number) for identity, claimed in self._claimed.items()}

    def _of(self, finding: Finding, holders: Holders) -> Iterator[Claim]:
        claimed = self._claimed.get(finding.identity)
        end = min(finding.window.end, holders.at)
        if claimed is not None and claimed.finding is finding and claimed.until >= end:
            return
        job_id, uuids = holders.gpus(finding)
        if claimed is not None and claimed.was_wrong:
            if not finding.is_open:
                return
            claimed = None
        if not uuids:
            # Its job has ended or its node is out of view: what was said of them stays.
            return
        if claimed is None or finding.began_at >= claimed.finding.window.end:
            claimed = self._opened(finding, job_id)
        elif claimed.source and claimed.holders != self._held_by(claimed.source):
            until = claimed.until
            claimed = self._opened(finding, job_id)
            claimed.since = until
        charge = charge_of(finding, len(uuids), claimed.number)
        if charge == claimed.charge:
            charge = claimed.charge
        start = max(finding.began_at, claimed.since)
        is_whole = finding.window.start <= start
        for uuid in claimed.spans.keys() - (set(uuids) if charge else set()):
            yield from _cut(claimed, uuid, -inf if is_whole else finding.window.start, inf)
        is_first = not claimed.spans
        if charge is not None:
            for uuid in uuids:
                begin = (
                    start if is_first or uuid in claimed.spans else max(start, finding.window.start)
                )
                yield from _extended(claimed, finding, uuid, (begin, end), charge)
        claimed.finding, claimed.charge, claimed.until = finding, charge, end

    def _opened(self, finding: Finding, job_id: str | None) -> _Claimed:
        before = self._claimed.get(finding.identity)
        if before is not None:
            self._over.append(before.number)
        self._numbers += 1
        kind, _, name = finding.subject.partition(":")
        claimed = _Claimed(self._numbers, finding, job_id, name if kind == "gpu" else "")
        claimed.holders = self._held_by(claimed.source) if claimed.source else frozenset()
        self._claimed[finding.identity] = claimed
        return claimed

    def _replaced(self, standing: Iterator[Finding]) -> Iterator[Claim]:
        """Withdraw what is cleared and judged otherwise now."""
        gone = [t for t in self._claimed.values() if t.spans and not t.finding.is_open]
        if not gone:
            return
        by_subject: dict[str, list[Finding]] = {}
        for finding in standing:
            if finding.is_open:
                by_subject.setdefault(finding.subject, []).append(finding)
        for claimed in gone:
            rivals = by_subject.get(claimed.finding.subject, ())
            if any(_gives_way(claimed.finding, rival) for rival in rivals):
                yield from claimed.withdrawn()


def _gives_way(cleared: Finding, standing: Finding) -> bool:
    """Whether a finding that stands is what one that was cleared is called now.

    Only of classes that lose all of the time: they say why the GPUs did nothing, and there is one
    reason at a time. Losses of a part stand beside each other.
    """
    are_whole = class_of(cleared).loss is class_of(standing).loss is Loss.WHOLE
    return (
        cleared.identity != standing.identity
        and are_whole
        and standing.began_at <= cleared.began_at + SAME_ONSET_S
        and standing.window.end >= cleared.window.end
        and standing.confidence.rank >= cleared.confidence.rank
    )


def _cut(claimed: _Claimed, uuid: str, start: float, end: float) -> Iterator[Claim]:
    """Withdraw a part of what was claimed of a GPU."""
    low, high = claimed.spans.pop(uuid)
    yield claimed.claim(uuid, start, end, None)
    if low < start:
        claimed.spans[uuid] = (low, min(high, start))


def _extended(
    claimed: _Claimed, finding: Finding, uuid: str, span: tuple[float, float], charge: Charge
) -> Iterator[Claim]:
    """Claim a GPU's time as the newest look says."""
    start, end = span
    low, high = claimed.spans.get(uuid, (inf, -inf))
    if start > low:
        yield claimed.claim(uuid, -inf, start, None)
    if end < high:
        yield claimed.claim(uuid, end, inf, None)
    if claimed.charge is None:
        since = start
    elif charge is claimed.charge:
        since = start if start < low else high
    else:
        since = start if start < low else max(start, min(high, finding.window.start))
    if end > since:
        yield claimed.claim(uuid, since, end, charge)
    claimed.spans[uuid] = (start, end)


def charge_of(finding: Finding, gpu_count: int, number: int) -> Charge | None:
    """What a finding charges each second of its GPUs with; None: nothing.

    The share is the GPU-seconds that it says were lost of those within its window. A class that
    loses all of the time needs no number for that, a class that loses a part of it does.

    Args:
        finding: The finding.
        gpu_count: How many GPUs it speaks of.
        number: The claim's.
    """
    known = class_of(finding)
    if known.loss is Loss.NONE or known.category is Category.REQUEST or gpu_count == 0:
        return None
    window_s = finding.window.end - finding.window.start
    if finding.gpu_seconds is not None and window_s > 0:
        share = min(1.0, max(0.0, finding.gpu_seconds / (window_s * gpu_count)))
    elif known.loss is Loss.WHOLE:
        share = 1.0
    else:
        return None
    rank = (known.category.rank, CLASS_RANKS.get(known.key, len(CLASS_RANKS)))
    is_hardware = known.category is Category.HARDWARE
    return Charge(
        claim=number,
        finding_class=known.key,
        rank=rank,
        share=share,
        is_suspected=is_suspected(finding),
        takes_unobserved=is_hardware,
    )


class Holders:
    """Finds the GPUs that a finding speaks of in a tick."""

    def __init__(self, tick: Tick) -> None:
        self.at = tick.at
        self._tick = tick
        self._nodes = tick.nodes
        self._views = {view.job.job_id: view for view in tick.jobs}

    def has(self, finding: Finding) -> bool:
        """Whether its subject is in view: of jobs, the run that it was about."""
        kind, _, name = finding.subject.partition("/")[0].partition(":")
        if kind == "gpu":
            return name in self._tick.gpus
        if kind == "node":
            return name in self._nodes
        view = self._views.get(name)
        if view is None or view.job.state != HOLDING_STATE:
            return False
        return view.job.start_at is None or view.job.start_at < finding.window.end

    def gpus(self, finding: Finding) -> tuple[str | None, tuple[str, ...]]:
        """The job whose time a finding counts, None for whoever holds the GPU; and the GPUs."""
        place, _, part = finding.subject.partition("/")
        kind, _, name = place.partition(":")
        if kind == "gpu":
            return None, finding.gpus or (name,)
        if kind == "node":
            node = self._nodes.get(name)
            return None, finding.gpus or (node.gpu_uuids if node else ())
        view = self._views.get(name)
        if finding.gpus or view is None:
            return name, finding.gpus
        if not part:
            return name, view.gpu_uuids
        number = part.removeprefix("rank:")
        ranks = (rank for rank in view.ranks if str(rank.rank) == number)
        return name, tuple(dict.fromkeys(uuid for rank in ranks for uuid in rank.gpu_uuids))
