"""Puts claims beside labels: what was found, what was missed, what was said without ground."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.label import HEALTHY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumon.evaluation.witness import Account, Claim, Hold
    from gpumon.model.records.label import Label

_MOSTLY: Final = 0.5
"""Share of the looks at which nobody could judge a subject, from which on it counts as unseen."""


class Found(NamedTuple):
    """One label of a fault, and what was said of it."""

    label: Label
    group: str
    """What it is drawn together with: its job, or its subject."""
    claims: tuple[Claim, ...]
    """Of its class about one of its subjects, or a part or whole of one, while it held."""
    is_named: bool
    """Whether one of them is about exactly one of its subjects, and is no guess."""
    is_looked_for: bool
    """Whether any detector knows the class."""
    is_unseen: bool
    """Whether the fields that its detectors need were missing most of the time."""

    def found_at(self, rank: int) -> float:
        """Unix time since when it was told as sure as a step, or surer; infinity: never."""
        return min((claim.reached[rank] for claim in self.claims), default=inf)


class Judged(NamedTuple):
    """One claim, and whether it is true."""

    claim: Claim
    """Of several classes that it may be it keeps the one that it counts as."""
    group: str
    is_true: bool | None
    """None: nothing is known of its subject."""
    is_of_benign: bool
    """Whether it accuses a job of which only good is known."""
    truths: tuple[str, ...]
    """Classes that were true of its subject meanwhile, whatever was claimed."""


class Events(NamedTuple):
    """Claims and labels of one recording."""

    found: tuple[Found, ...]
    judged: tuple[Judged, ...]
    benign: frozenset[str]
    """Jobs that are labelled healthy and nothing else, whoever uses their GPUs and nodes."""


class Matcher:
    """Knows which subjects are parts of others in one recording."""

    def __init__(
        self, account: Account, labels: Sequence[Label], claimable: Mapping[str, frozenset[str]]
    ) -> None:
        """Takes both sides.

        Args:
            account: What was said.
            labels: What is true.
            claimable: Classes by the name of the detector that claims them.
        """
        self._account = account
        self._faults = [label for label in labels if label.finding_class != HEALTHY]
        self._labelled = {label.finding_class for label in self._faults}
        self._known = {job for label in labels for job in self._jobs_named(label.subjects)}
        faulty = {job for label in self._faults for job in self._jobs_named(label.subjects)}
        self._benign = frozenset(self._known - faulty)
        self._claimable = claimable
        self._holders: dict[str, list[Hold]] = {}
        """By GPU and node, as subjects, the jobs that ever held them."""
        for hold in account.holds.values():
            for held in (*(f"gpu:{u}" for u in hold.gpus), *(f"node:{n}" for n in hold.nodes)):
                self._holders.setdefault(held, []).append(hold)
        self._claims_near = self._by_place([(claim.subject,) for claim in account.claims])
        self._faults_near = self._by_place([label.subjects for label in self._faults])

    def events(self) -> Events:
        """Every label and every claim, judged."""
        found = tuple(map(self._found, self._faults))
        # Of several classes that a claim may be it counts as the first that is true.
        true: dict[int, str] = {}
        for one in found:
            for claim in one.claims:
                true.setdefault(id(claim), one.label.finding_class)
        judged = tuple(self._judged(claim, true.get(id(claim))) for claim in self._account.claims)
        return Events(found, judged, self._benign)

    def _by_place(self, named: Sequence[Iterable[str]]) -> dict[str, list[int]]:
        """Where each of some claims or labels is to be found, by everything that it is near to."""
        found: dict[str, list[int]] = {}
        for number, subjects in enumerate(named):
            for place in {place for subject in subjects for place in self._places(subject)}:
                found.setdefault(place, []).append(number)
        return found

    def _places(self, subject: str) -> list[str]:
        """What a subject shares with every other that it is a part or a whole of."""
        kind, _, name = subject.partition(":")
        if kind == "job":
            return [subject.partition("/")[0]]
        places = [subject, *(f"job:{hold.job_id}" for hold in self._holders.get(subject, ()))]
        if kind == "gpu" and name in self._account.node_of:
            places.append(f"node:{self._account.node_of[name]}")
        return places

    def _near(self, index: Mapping[str, list[int]], subjects: Iterable[str]) -> list[int]:
        """Numbers of those that may be related to a subject: each one looked at would be slow."""
        places = {place for subject in subjects for place in self._places(subject)}
        return sorted({number for place in places for number in index.get(place, ())})

    def _found(self, label: Label) -> Found:
        near = map(self._account.claims.__getitem__, self._near(self._claims_near, label.subjects))
        claims = tuple(
            claim
            for claim in near
            if label.finding_class in claim.classes and self._meet(label, claim)
        )
        named = any(claim.subject in label.subjects and claim.rank > 0 for claim in claims)
        detectors = [n for n, known in self._claimable.items() if label.finding_class in known]
        is_unseen = bool(detectors) and self._is_unseen(label, detectors)
        group = self._group(label.subject, label.start, label.end)
        return Found(
            label=label,
            group=group,
            claims=claims,
            is_named=named,
            is_looked_for=bool(detectors),
            is_unseen=is_unseen,
        )

    def _judged(self, claim: Claim, true_class: str | None) -> Judged:
        is_true = true_class is not None
        near = map(self._faults.__getitem__, self._near(self._faults_near, (claim.subject,)))
        truths = tuple(dict.fromkeys(one.finding_class for one in near if self._meet(one, claim)))
        concerned = self._concerned(claim)
        if claim.others:
            claim = claim._replace(finding_class=true_class or self._meant(claim), others=())
        # Of machines the labels say all; of a job, and of what it uses, only where they name it.
        is_known = is_true or bool(truths) or concerned <= self._known
        return Judged(
            claim=claim,
            group=self._group(claim.subject, claim.onset, claim.end),
            is_true=is_true if is_known else None,
            is_of_benign=not is_true and bool(concerned & self._benign),
            truths=truths,
        )

    def _meant(self, claim: Claim) -> str:
        """What a false claim counts as: of its classes the first that is labelled at all.

        So it lowers the precision of a class that has a score.
        """
        return next((key for key in claim.classes if key in self._labelled), claim.finding_class)

    def _meet(self, label: Label, claim: Claim) -> bool:
        overlaps = claim.onset <= label.end and label.start <= claim.end
        return overlaps and any(self._are_related(claim.subject, own) for own in label.subjects)

    def _are_related(self, one: str, other: str) -> bool:
        return one == other or self._covers(one, other) or self._covers(other, one)

    def _covers(self, whole: str, part: str) -> bool:
        """Whether one subject is a part of another: a rank, GPU or node of a job, a node's GPU."""
        kind, _, name = whole.partition(":")
        part_kind, _, part_name = part.partition(":")
        if kind == "job":
            if part.startswith(f"{whole}/rank:"):
                return True
            hold = self._account.holds.get(name)
            held = {"gpu": hold.gpus, "node": hold.nodes} if hold else {}
            return part_name in held.get(part_kind, ())
        return (
            kind == "node" and part_kind == "gpu" and self._account.node_of.get(part_name) == name
        )

    def _jobs_named(self, subjects: Iterable[str]) -> set[str]:
        """Jobs that subjects are, or are ranks of."""
        return {subject[4:].partition("/")[0] for subject in subjects if subject.startswith("job:")}

    def _concerned(self, claim: Claim) -> set[str]:
        """Jobs that a claim says something about."""
        named = self._jobs_named((claim.subject,))
        if named:
            return named
        return {
            hold.job_id
            for hold in self._holders.get(claim.subject, ())
            if hold.start <= claim.end and claim.onset <= hold.end
        }

    def _group(self, subject: str, start: float, end: float) -> str:
        """The job of a subject, or the one that holds it longest meanwhile; else the subject."""
        named = self._jobs_named((subject,))
        holders = self._holders.get(subject, ())
        longest = max(
            holders,
            key=lambda hold: (min(end, hold.end) - max(start, hold.start), hold.end - hold.start),
            default=None,
        )
        return next(iter(named), longest.job_id if longest else subject)

    def _is_unseen(self, label: Label, detectors: Sequence[str]) -> bool:
        evaluations = [
            blind for at, blind in self._account.evaluations if label.start <= at <= label.end
        ]
        if not evaluations:
            return False
        dark = sum(
            all(self._is_dark(label, blind.get(name, frozenset())) for name in detectors)
            for blind in evaluations
        )
        return dark > _MOSTLY * len(evaluations)

    def _is_dark(self, label: Label, blind: frozenset[str]) -> bool:
        return any(subject in blind for subject in label.subjects) or (
            bool(blind) and any(self._are_related(own, s) for own in label.subjects for s in blind)
        )
