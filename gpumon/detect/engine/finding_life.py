"""The life of findings from look to look: entered, standing, out of sight, cleared.

What a detector claims is shown once its evidence is five minutes long, faults at once: its
confidence is what its window allows, and no counting delays it. Counting decides what
remains. A hypothesis that was claimed on fewer than two
of three evaluations vanishes without a trace when it is claimed no more. Anything surer, or claimed
oftener, is *entered*: it leaves only after three looks in a row, over at least half a minute, that
saw its subject and did not claim it, and is then kept as cleared for an hour. A look that could not
see the subject neither clears nor confirms: the finding is unknown since then. Nor does a look
after a gap, until as much is observed again as the claim once needed. A look at a part of the jobs
that the subject is not in is none for it: of a large fleet three evaluations take three rounds.

A standing claim keeps its onset, and the confidence that it earned; whatever confirms it carries
its window on. It is contradicted by evidence of its detector that begins after it was last told,
though its subject was in sight all the time, or that names none of its GPUs: then the old one is
over, and a new one begins where that evidence does.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.detect.claims import LEAST_EVIDENCE_S
from gpumon.detect.facts.facts import is_in_part
from gpumon.model.finding import Confidence, Window
from gpumon.model.finding_classes import Category, class_of, is_fault

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

    from gpumon.detect.facts.facts import Part
    from gpumon.model.finding import Finding

    Identity = tuple[str, str, str]

ENTER_CLAIMS: Final = 2
"""Claims among the last `ENTER_OF` evaluations from which a hypothesis is entered."""

ENTER_OF: Final = 3
"""Evaluations that are remembered. A choice: two claims of three outlast one that saw nothing."""

LEAVE_MISSES: Final = 3
"""Evaluations in a row without the claim after which it is cleared: more than entering takes."""

LEAVE_S: Final = 30.0
"""Shortest time without the claim after which it is cleared, however short the period is."""

SIGHT_S: Final = 30.0
"""A subject that was out of sight for no longer was seen all the time, as far as windows go."""

SETTLE_S: Final = 60.0
"""After a gap so much more than its shortest window is left to a detector to claim again: what
is no GPU has a row every ten seconds or more, and some detectors rest between evaluations."""

CLEARED_SHOWN_S: Final = 3600.0
"""How long a cleared finding is shown as such: as far as history reaches."""

WATCHED_S: Final = 60.0
"""A subject that its detector looks at so often is in its sight between two looks. Where looks are
rarer, as in the largest fleets, only as far as the detector looks back."""

FORGET_S: Final = 86400.0
"""A finding that nobody could judge for a day is no longer told."""

MAX_CLEARED: Final = 10_000
"""Cleared findings that are kept at most; the oldest go first."""

LEAST_OF_HANG_S: Final = 180.0
"""The same for a hang of what was seen working before: no step of a training takes so long."""

MAX_NOTES: Final = 10_000
"""Of more that somebody said the oldest are forgotten: what ended unseen is never taken back."""

MAX_TEXT: Final = 512
"""Longer is no name of a detector, a class or a subject."""

_LATEST: Final = 2**53
"""No Unix time lies beyond."""


def notes_from(value: object) -> tuple[list[tuple[str, str, str]], list[Mute]]:
    """Acknowledged identities and mutes as they come back from a file.

    Nothing in it is believed: what is neither is left out.
    """
    given = value if isinstance(value, dict) else {}
    known = [_identity(row) for row in _rows(given.get("acknowledged"))]
    mutes = [_mute(row) for row in _rows(given.get("muted"))]
    return [one for one in known if one is not None], [one for one in mutes if one is not None]


def _rows(value: object) -> list[list[object]]:
    rows = value if isinstance(value, list | tuple) else []
    return [list(r) for r in rows[-MAX_NOTES:] if isinstance(r, list | tuple) and len(r) == 3]


def _identity(row: list[object]) -> tuple[str, str, str] | None:
    texts = [item for item in row if isinstance(item, str) and len(item) <= MAX_TEXT]
    return (texts[0], texts[1], texts[2]) if len(texts) == 3 else None


def _mute(row: list[object]) -> Mute | None:
    finding_class, subject, until = row
    if not isinstance(finding_class, str | None) or not isinstance(subject, str | None):
        return None
    if isinstance(until, bool) or not isinstance(until, int | float):
        return None
    # A whole number has no bound in JSON; -inf and inf are none of a person's either.
    if not abs(until) < _LATEST:
        return None
    return Mute(finding_class, subject, float(until))


class DetectorResult(NamedTuple):
    """What one detector did in one evaluation."""

    detector: str
    claims: tuple[Finding, ...]
    part: Part
    """Part of the ring of jobs that it had before it."""
    blind: Collection[str]
    """Those of them for which it lacked a field that it needs."""
    is_instant: bool = False

    def had(self, subject: str) -> bool:
        """Whether a subject was before it; GPUs and nodes always are."""
        kind, _, name = subject.partition("/")[0].partition(":")
        return kind != "job" or is_in_part(name, *self.part)


class Mute(NamedTuple):
    """What somebody does not want to be told for a while."""

    finding_class: str | None
    """None: every class."""
    subject: str | None
    """None: every subject."""
    until: float
    """Unix time."""

    def covers(self, finding: Finding, now: float) -> bool:
        """Whether a finding is not to be told now."""
        is_class = self.finding_class in (None, finding.finding_class)
        return now < self.until and is_class and self.subject in (None, finding.subject)


class _Case:
    """One finding over time."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        self.was_claimed: deque[bool] = deque(maxlen=ENTER_OF)
        self.misses = 0
        self.is_entered = False
        self._needs_s = float("inf")
        """Length of the shortest window in which it was claimed."""
        self._reach_s = 0.0
        """Length of the longest one: so far at least its detector looks back."""
        self._judged_at = finding.last_seen
        """Unix time of the last evaluation that had its subject before it."""
        self._seen_since = float("-inf")
        """Unix time since when its subject is seen without a gap, as far as it matters."""
        self._dark_since: float | None = None

    def claim(self, finding: Finding, *, is_instant: bool) -> None:
        """It is claimed again, or for the first time."""
        before = self.finding
        self.was_claimed.append(True)
        self.misses = 0
        is_sure = finding.confidence is not Confidence.HYPOTHESIS
        self.is_entered |= is_instant or is_sure or sum(self.was_claimed) >= ENTER_CLAIMS
        length_s = finding.window.end - finding.window.start
        self._needs_s = min(self._needs_s, length_s)
        self._reach_s = max(self._reach_s, length_s)
        self._judged_at = finding.last_seen
        self._seen_since = min(self._seen_since, finding.window.start)
        self._dark_since = None
        newest = _confirmed(before, finding) if self.is_surer_than(finding) else finding
        self.finding = newest._replace(
            first_seen=before.first_seen,
            last_seen=finding.last_seen,
            onset=before.began_at,
            unknown_since=None,
            is_acknowledged=before.is_acknowledged,
        )

    def is_surer_than(self, finding: Finding) -> bool:
        """Whether it has earned more confidence than a new claim has."""
        return self.finding.confidence.rank > finding.confidence.rank

    def is_contradicted_by(self, finding: Finding) -> bool:
        """Whether a new claim cannot go on from it: it tells of other GPUs, or of a later time.

        After a gap a window begins again, and nothing is known against what was before. Nor is it
        between two evaluations that lie further apart than any window that was claimed, unless one
        between them missed it.
        """
        before = self.finding
        if before.gpus and finding.gpus and set(before.gpus).isdisjoint(finding.gpus):
            return True
        rest_s = finding.last_seen - self._judged_at
        was_watched = bool(self.misses) or rest_s <= max(self._reach_s, WATCHED_S)
        was_in_sight = (
            was_watched
            and self._dark_since is None
            and before.unknown_since is None
            and self._seen_since <= before.last_seen
        )
        return was_in_sight and finding.window.start > before.last_seen

    def darken(self, since: float) -> None:
        """Its subject is out of sight."""
        if self._dark_since is None:
            self._dark_since = since

    def see(self, at: float) -> bool:
        """Its subject is in sight; returns whether for long enough that a claim would be made."""
        self._judged_at = at
        if self._dark_since is not None and at - self._dark_since > SIGHT_S:
            self._seen_since = at
        self._dark_since = None
        is_unbroken = self._seen_since == float("-inf")
        return is_unbroken or at - self._seen_since >= self._needs_s + SETTLE_S

    def interrupt(self, until: float) -> None:
        """Nothing at all was observed right before this time."""
        self._seen_since = max(self._seen_since, until)

    def miss(self) -> None:
        """Its subject was seen and it was not claimed."""
        self.was_claimed.append(False)
        self.misses += 1
        self.finding = self.finding._replace(unknown_since=None)


def _confirmed(before: Finding, finding: Finding) -> Finding:
    """What a claim that earned more than a new one says once that confirms it.

    It keeps its confidence. Its window goes on, as the loss does; behind a gap nothing is known of
    the time in between, and it stays as it was. The words are those of the longer window.
    """
    old, new = before.window, finding.window
    if new.start > old.end:
        return before
    if new.end - new.start >= old.end - old.start:
        return finding._replace(confidence=before.confidence, severity=before.severity)
    if new.end <= old.end:
        return before
    lost_s = before.gpu_seconds
    if lost_s is not None and finding.gpu_seconds is not None:
        lost_s += finding.gpu_seconds * (new.end - old.end) / (new.end - new.start)
    window = Window(old.start, new.end, max(old.samples, new.samples))
    return before._replace(window=window, gpu_seconds=lost_s)


class Lives:
    """What became of every finding; pure, times are those of the ticks."""

    def __init__(self) -> None:
        self._open: dict[Identity, _Case] = {}
        self._cleared: dict[Identity, Finding] = {}
        self._mutes: list[Mute] = []
        self._known: dict[Identity, None] = {}
        """What somebody knows of, in the order in which it was said."""
        self._evaluated_at = float("-inf")

    def take(
        self,
        at: float,
        results: Iterable[DetectorResult],
        in_view: Container[str],
        resting: Container[str] = frozenset(),
        unbroken_since: float = float("-inf"),
        observed_since: float = float("-inf"),
    ) -> None:
        """Take in the results of one tick.

        Args:
            at: Unix time of the tick.
            results: One per detector that answered; of the others nothing new is known.
            in_view: Subjects that exist in the tick; jobs that do not have ended.
            resting: Detectors that were not asked on purpose: what they said still holds.
            unbroken_since: End of the last gap in which nobody observed anything.
            observed_since: Unix time of the first sample.
        """
        for standing in self._open.values():
            standing.interrupt(unbroken_since)
        answered = {result.detector: result for result in results}
        claimed: set[Identity] = set()
        for result in answered.values():
            for finding in result.claims:
                if self._claim(finding, observed_since, is_instant=result.is_instant):
                    claimed.add(finding.identity)
        for identity, case in list(self._open.items()):
            if identity not in claimed:
                self._unclaimed(at, case, answered.get(identity[0]), in_view, resting)
        self._evaluated_at = at
        self._forget(at)

    def _claim(self, finding: Finding, observed_since: float, *, is_instant: bool) -> bool:
        """Take in a claim; False: it says nothing yet, and the subject counts as not claimed."""
        is_long = is_long_enough(finding, observed_since)
        is_proven = is_long or is_instant or is_fault(class_of(finding))
        case = self._open.get(finding.identity)
        if case is not None and case.is_contradicted_by(finding):
            if not is_proven or (is_long and case.is_surer_than(finding)):
                return False
            if is_long:
                self._clear(case)
                case = None
        if case is None:
            if not is_proven:
                return False
            is_known = finding.identity in self._known
            case = _Case(finding._replace(is_acknowledged=is_known))
            self._open[finding.identity] = case
        case.claim(finding, is_instant=is_instant)
        self._cleared.pop(finding.identity, None)
        return True

    def _unclaimed(
        self,
        at: float,
        case: _Case,
        result: DetectorResult | None,
        in_view: Container[str],
        resting: Container[str],
    ) -> None:
        finding = case.finding
        subject = finding.subject
        if subject.partition("/")[0] not in in_view:
            if subject.startswith("job:"):
                self._clear(case)
            else:
                case.darken(self._evaluated_at)
                self._lose_sight(at, case)
        elif result is None:
            if finding.detector not in resting:
                self._lose_sight(at, case)
        elif subject in result.blind:
            case.darken(self._evaluated_at)
            self._lose_sight(at, case)
        elif not result.had(subject):
            return
        elif not case.see(at) and not result.is_instant:
            self._lose_sight(at, case)
        else:
            case.miss()
            is_over = case.misses >= LEAVE_MISSES and at - finding.last_seen >= LEAVE_S
            if not case.is_entered:
                del self._open[finding.identity]
            elif is_over or result.is_instant:
                self._clear(case)

    def _lose_sight(self, at: float, case: _Case) -> None:
        since = case.finding.unknown_since
        if since is None:
            since = max(case.finding.last_seen, min(self._evaluated_at, at))
            case.finding = case.finding._replace(unknown_since=since)
        if at - since > FORGET_S:
            del self._open[case.finding.identity]

    def _clear(self, case: _Case) -> None:
        """It is over since it was last seen, not since that was noticed."""
        finding = case.finding
        del self._open[finding.identity]
        self._known.pop(finding.identity, None)
        if case.is_entered:
            self._cleared[finding.identity] = finding._replace(
                cleared_at=finding.last_seen, unknown_since=None
            )

    def _forget(self, at: float) -> None:
        remaining = [
            (identity, finding)
            for identity, finding in self._cleared.items()
            if at - finding.last_seen <= CLEARED_SHOWN_S
        ]
        self._cleared = dict(remaining[-MAX_CLEARED:])
        self._mutes = [mute for mute in self._mutes if at < mute.until]

    def standing(self, now: float) -> tuple[Finding, ...]:
        """Findings that stand or are out of sight, without those that nobody wants to be told."""
        return self._unmuted((case.finding for case in self._open.values()), now)

    def cleared(self, now: float) -> tuple[Finding, ...]:
        """Findings that went away within the last hour."""
        return self._unmuted(self._cleared.values(), now)

    def muted(self, now: float) -> tuple[Finding, ...]:
        """Findings of both kinds that nobody wants to be told."""
        if not self._mutes:
            return ()
        known = (*(case.finding for case in self._open.values()), *self._cleared.values())
        return tuple(f for f in known if any(mute.covers(f, now) for mute in self._mutes))

    def acknowledge(self, identity: Identity, *, is_known: bool = True) -> bool:
        """Note that somebody knows of a finding, until it clears; False: there is none."""
        case = self._open.get(identity)
        if case is not None:
            case.finding = case.finding._replace(is_acknowledged=is_known)
            self._known.pop(identity, None)
            if is_known:
                self._known[identity] = None
        return case is not None

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        """Do not tell of a class, a subject, or a class about a subject before a Unix time."""
        self._mutes = [
            mute
            for mute in self._mutes
            if (mute.finding_class, mute.subject) != (finding_class, subject)
        ]
        self._mutes.append(Mute(finding_class, subject, until))

    def notes(self) -> dict[str, object]:
        """What somebody said, in JSON's types: to be kept over a restart."""
        return {
            "acknowledged": [list(identity) for identity in [*self._known][-MAX_NOTES:]],
            "muted": [list(mute) for mute in self._mutes[-MAX_NOTES:]],
        }

    def restore(self, acknowledged: Iterable[Identity], mutes: Iterable[Mute]) -> None:
        """Take up what was said before a restart; call it before the first tick."""
        self._known.update(dict.fromkeys(acknowledged))
        self._mutes += mutes

    def _unmuted(self, findings: Iterable[Finding], now: float) -> tuple[Finding, ...]:
        if not self._mutes:
            return tuple(findings)
        return tuple(f for f in findings if not any(m.covers(f, now) for m in self._mutes))


def is_long_enough(finding: Finding, observed_since: float) -> bool:
    """Whether a claim's evidence is so long that more than a fault may be told.

    Evidence from before gpumon came counts with its own span: the onset tells it.
    """
    is_hang = class_of(finding).category is Category.HANG
    was_working = is_hang and finding.began_at > observed_since
    least_s = LEAST_OF_HANG_S if was_working else LEAST_EVIDENCE_S
    return finding.window.end - finding.began_at >= least_s


def subjects_of(
    jobs: Container[str], gpus: Container[str], nodes: Container[str]
) -> Container[str]:
    """Subjects by the names that findings use; jobs may be named so already."""
    return _Subjects(jobs, gpus, nodes)


class _Subjects:
    """Looked up where they are: a set of 100,000 names took longer to make than to ask."""

    def __init__(self, jobs: Container[str], gpus: Container[str], nodes: Container[str]) -> None:
        self._of = {"job": jobs, "gpu": gpus, "node": nodes}

    def __contains__(self, subject: object) -> bool:
        kind, _, name = str(subject).partition(":")
        known = self._of.get(kind, ())
        return name in known or (kind == "job" and subject in known)
