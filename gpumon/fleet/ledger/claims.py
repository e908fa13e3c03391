"""Which time of which GPUs the findings claim, and which part of it nobody has booked yet."""

from __future__ import annotations

from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.ledger.timeline import Charge
from gpumon.model.finding import Confidence
from gpumon.model.finding_classes import CLASSES, Category, Loss, finding_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.model.finding import Finding
    from gpumon.model.records.tick import Tick

_ORDER: Final = {key: position for position, key in enumerate(CLASSES)}


class Claim(NamedTuple):
    """So much of a GPU's time is charged to a class."""

    job_id: str | None
    """The job whose time it is; None: whoever held the GPU then."""
    uuid: str
    start: float
    end: float
    charge: Charge


class _Told(NamedTuple):
    """What a finding has claimed so far."""

    last_seen: float
    until: dict[str, float]
    """Unix time up to which each GPU's time was claimed."""


class Claims:
    """Turns findings into claims, each second of a GPU once per finding.

    Only what is *supported* or better claims anything. The first claim reaches back to the onset;
    later ones begin where the one before ended. A GPU that a finding names later than others is
    claimed from the start of the window in which it did.
    """

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, str], _Told] = {}
        self._last: tuple[tuple[Finding, ...], ...] = ()

    def new(self, tick: Tick) -> Iterator[Claim]:
        """Claims that the findings of a tick add to those of the ticks before it."""
        told = (tick.findings, tick.cleared, tick.muted)
        if len(self._last) == len(told) and all(map(is_, self._last, told)):
            return
        self._last = told
        holders = _Holders(tick)
        named: set[tuple[str, str, str]] = set()
        for finding in chain.from_iterable(told):
            if finding.confidence is Confidence.HYPOTHESIS:
                continue
            named.add(finding.identity)
            yield from self._of(finding, holders)
        for identity in self._told.keys() - named:
            del self._told[identity]

    def forget(self) -> None:
        """The clock was set back: what was claimed was claimed of another time."""
        self._told.clear()

    def _of(self, finding: Finding, holders: _Holders) -> Iterator[Claim]:
        told = self._told.get(finding.identity)
        end = min(finding.last_seen, holders.at)
        if told is not None and told.last_seen >= end:
            return
        until = dict(told.until) if told else {}
        job_id, uuids = holders.gpus(finding)
        charge = charge_of(finding, len(uuids))
        if charge is None:
            return
        for uuid in uuids:
            start = _start(finding, told, uuid)
            until[uuid] = end
            if end > start:
                yield Claim(job_id, uuid, start, end, charge)
        self._told[finding.identity] = _Told(end, until)


def _start(finding: Finding, told: _Told | None, uuid: str) -> float:
    """Unix time from which on a GPU's time is claimed anew."""
    if told is None:
        return finding.began_at
    claimed = told.until.get(uuid)
    if claimed is None:
        return finding.window.start
    since = finding.began_at if claimed == told.last_seen else finding.window.start
    return max(claimed, since)


def charge_of(finding: Finding, gpu_count: int) -> Charge | None:
    """What a finding charges each second of its GPUs with; None: nothing.

    The share is the GPU-seconds that it says were lost of those within its window. A class that
    loses all of the time needs no number for that, a class that loses a part of it does.
    """
    known = finding_class(finding.finding_class, {finding.finding_class: finding.category})
    if known.loss is Loss.NONE or known.category is Category.REQUEST or gpu_count == 0:
        return None
    window_s = finding.window.end - finding.window.start
    if finding.gpu_seconds is not None and window_s > 0:
        share = min(1.0, max(0.0, finding.gpu_seconds / (window_s * gpu_count)))
    elif known.loss is Loss.WHOLE:
        share = 1.0
    else:
        return None
    rank = (known.category.rank, _ORDER.get(known.key, len(_ORDER)))
    return Charge(known.key, rank, share, known.category is Category.HARDWARE)


class _Holders:
    """Finds the GPUs that a finding speaks of in a tick."""

    def __init__(self, tick: Tick) -> None:
        self.at = tick.at
        self._nodes = tick.nodes
        self._views = {view.job.job_id: view for view in tick.jobs}

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
