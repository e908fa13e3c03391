"""What one GPU did for one job over time: stretches in one state, divided among claims."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.ledger import STATES, SUSPICION, UNOBSERVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumon.fleet.ledger.accounts import OpenAccount

MOST_STRETCHES: Final = 64
"""Stretches of a GPU that are kept apart; beyond, neighbours are made one, old and short first."""

SPARE_STRETCHES: Final = 16
"""So many more may come before the next time that neighbours are made one."""

FRESH_S: Final = 60.0
"""What is younger counts as so old when neighbours are made one."""


class Charge(NamedTuple):
    """What a claim says of a GPU's time."""

    claim: int
    """Number of the claim: a later charge of the same claim takes the place of an earlier one."""
    finding_class: str
    rank: tuple[int, int]
    """Precedence: the lowest takes its share first."""
    share: float
    """Part of each second that is lost, 0 to 1."""
    is_suspected: bool = False
    """Whether it is a hypothesis, which takes of what is left when the claims have taken."""
    takes_unobserved: bool = False
    """Whether the fault itself is why nothing was observed."""

    @property
    def key(self) -> str:
        """Where it is booked."""
        return SUSPICION + self.finding_class if self.is_suspected else self.finding_class

    @property
    def order(self) -> tuple[bool, tuple[int, int], str, float, int]:
        """Who takes first; of one class the largest share."""
        return self.is_suspected, self.rank, self.finding_class, -self.share, self.claim


class _Part(NamedTuple):
    """So much of a stretch is booked under one key."""

    key: str
    seconds: float
    charge: Charge | None


class _Stretch:
    """A piece of time of which the same is known and claimed throughout."""

    __slots__ = ("charged", "charges", "end", "shares", "start", "weight")

    def __init__(self, start: float, end: float, weight: float, shares: tuple[float, ...]) -> None:
        self.start = start
        self.end = end
        self.weight = weight
        self.shares = shares
        """Parts of it in each of `STATES`; more than one where neighbours were made one."""
        self.charges: tuple[Charge, ...] = ()
        """By precedence; nothing is charged to an open one, which has no end yet."""
        self.charged: tuple[_Part, ...] = ()

    @property
    def state(self) -> str:
        """The state that most of it is in: of one that was not made of several, the only one."""
        return STATES[self.shares.index(max(self.shares))]

    @property
    def seconds(self) -> float:
        return (self.end - self.start) * self.weight

    def continues(self, before: _Stretch) -> bool:
        """Whether it is the same as the stretch before it."""
        return before.shares == self.shares and self.can_join(before)

    def can_join(self, before: _Stretch) -> bool:
        """Whether it and the stretch before it differ in nothing but their states."""
        return (
            before.end == self.start
            and before.weight == self.weight
            and before.charges == self.charges
        )

    def rest_from(self, when: float) -> _Stretch:
        """The part of it after a Unix time."""
        rest = _Stretch(when, self.end, self.weight, self.shares)
        rest.charges = self.charges
        return rest

    def parts(self) -> Iterator[_Part]:
        """How its GPU-seconds are divided.

        What no claim takes is what it was seen to be.
        """
        unobserved_s = self.seconds * self.shares[STATES.index(UNOBSERVED)]
        observed_s = self.seconds - unobserved_s
        left_s, unseen_s = observed_s, unobserved_s
        for charge, share in taken_in_turn(self.charges):
            taken_s = left_s * share
            left_s -= taken_s
            if charge.takes_unobserved:
                taken_s += unseen_s * share
                unseen_s -= unseen_s * share
            yield _Part(charge.key, taken_s, charge)
        for state, share in zip(STATES, self.shares, strict=True):
            if state == UNOBSERVED:
                yield _Part(state, unseen_s, None)
            elif observed_s > 0:
                yield _Part(state, left_s * share * self.seconds / observed_s, None)


def taken_in_turn(charges: Iterable[Charge]) -> Iterator[tuple[Charge, float]]:
    """Each charge with its part of what those before it left, 0 to 1.

    Each claim takes its share of what graver ones left, then what is suspected likewise. Of claims
    of one class only the largest counts: they tell of the same loss. Where one of a class is
    claimed and more of it suspected, only the difference is.

    Args:
        charges: By precedence, as `Charge.order` puts them.
    """
    before = ""
    claimed: dict[str, float] = {}
    for charge in charges:
        if charge.key == before:
            continue
        before = charge.key
        share = _beyond(charge.share, claimed.get(charge.finding_class, 0.0))
        claimed[charge.finding_class] = charge.share
        yield charge, share


def _beyond(share: float, claimed: float) -> float:
    """What a share is of what is left, where so much of the same loss is claimed already."""
    return max(0.0, (share - claimed) / (1.0 - claimed)) if claimed < 1.0 else 0.0


class Timeline:
    """Books every second from its start on; the last stretch is open until `end` is called.

    What it books goes to the job's account at once, what it takes back is taken from there.
    """

    __slots__ = ("_stretches", "account", "seconds", "start", "weight")

    def __init__(self, start: float, account: OpenAccount) -> None:
        """Open, unobserved, and the whole GPU the job's."""
        self.start = start
        self.account = account
        self.weight = 1.0
        self.seconds: dict[str, float] = {}
        """GPU-seconds of the stretches that are over, by state and class."""
        self._stretches = [_Stretch(start, inf, 1.0, _WHOLE[UNOBSERVED])]
        account.begin(UNOBSERVED, start, 1.0)

    @property
    def state(self) -> str:
        """What the newest stretch is, as far as nothing claims it."""
        return self._stretches[-1].state

    @property
    def is_open(self) -> bool:
        """Whether the job still holds the GPU."""
        return self._stretches[-1].end == inf

    @property
    def ended_at(self) -> float:
        """Unix time at which the job let go of it."""
        return self._stretches[-1].end

    def until(self, at: float) -> dict[str, float]:
        """GPU-seconds by state and class until a Unix time."""
        last = self._stretches[-1]
        found = dict(self.seconds)
        if last.end == inf:
            found[last.state] = found.get(last.state, 0.0) + (at - last.start) * last.weight
        return found

    def move(self, account: OpenAccount) -> None:
        """Everything that it booked is another account's."""
        last = self._stretches[-1]
        for key, seconds in self.seconds.items():
            self.account.add(key, -seconds)
            account.add(key, seconds)
        if last.end == inf:
            self.account.stop(last.state, last.start, last.weight)
            account.begin(last.state, last.start, last.weight)
        self.account = account

    def observe(self, when: float, state: str) -> None:
        """The GPU is in one of `STATES` from a Unix time on, as far as nothing claims it."""
        shares = _WHOLE[state]
        when = max(when, self._stretches[0].start)
        self._cut(when)
        position = len(self._stretches)
        while position and self._stretches[position - 1].start >= when:
            position -= 1
            stretch = self._stretches[position]
            if stretch.shares != shares:
                self._take_back(stretch)
                stretch.shares = shares
                self._charge_account(stretch)
        for later in range(len(self._stretches) - 1, position - 1, -1):
            self._join(later)
        if len(self._stretches) > MOST_STRETCHES + SPARE_STRETCHES:
            self._coarsen(when)

    def end(self, when: float) -> None:
        """The job no longer holds it since a Unix time, which may be past what was booked."""
        when = max(when, self.start)
        while len(self._stretches) > 1 and self._stretches[-1].start >= when:
            self._drop(len(self._stretches) - 1)
        last = self._stretches[-1]
        when = max(when, last.start)
        if last.end == inf:
            self._shut(when)
        elif last.end > when:
            self._split(len(self._stretches) - 1, when)
            self._drop(len(self._stretches) - 1)

    def weigh(self, weight: float, since: float) -> None:
        """Only such a part of the GPU is the job's since a Unix time."""
        self.weight = weight
        since = max(since, self._stretches[0].start)
        self._cut(since)
        for stretch in self._stretches:
            if stretch.start >= since and stretch.weight != weight:
                self._take_back(stretch)
                stretch.weight = weight
                self._charge_account(stretch)

    def charge(self, start: float, end: float, charge: Charge) -> None:
        """Charge what a claim says of the time between two Unix times, in place of what it said."""
        self._recharge(start, end, charge.claim, charge)

    def withdraw(self, start: float, end: float, claim: int) -> None:
        """A claim says nothing any more of the time between two Unix times."""
        self._recharge(start, end, claim, None)

    def _recharge(self, start: float, end: float, claim: int, charge: Charge | None) -> None:
        for position in range(len(self._stretches) - 1, -1, -1):
            stretch = self._stretches[position]
            if stretch.end <= start:
                break
            low, high = max(start, stretch.start), min(end, stretch.end)
            if high <= low:
                continue
            charges = _replaced(stretch.charges, claim, charge)
            if charges != stretch.charges:
                self._set(position, low, high, charges)

    def _set(self, position: int, low: float, high: float, charges: tuple[Charge, ...]) -> None:
        """Have a part of a stretch charged so."""
        if high < self._stretches[position].end:
            self._split(position, high)
        if low > self._stretches[position].start:
            self._split(position, low)
            position += 1
        stretch = self._stretches[position]
        self._take_back(stretch)
        stretch.charges = charges
        self._charge_account(stretch)
        if position + 1 < len(self._stretches):
            self._join(position + 1)
        self._join(position)

    def _join(self, position: int) -> None:
        """Make one of a stretch and the one before it where they are the same."""
        if 0 < position < len(self._stretches):
            stretch, before = self._stretches[position], self._stretches[position - 1]
            if stretch.continues(before):
                self._take_back(stretch)
                self._take_back(before)
                before.end = stretch.end
                self._charge_account(before)
                del self._stretches[position]

    def _coarsen(self, now: float) -> None:
        """Make one of neighbours that are claimed alike: the past grows coarse as it grows old.

        Which part was in which state stays right for each of them as a whole. A claim that begins
        or ends within one takes its part in proportion. Where no two are claimed alike, the oldest
        stretches keep for ever what they are charged with.
        """
        costs = [
            ((second.end - first.start) / max(FRESH_S, now - second.end), position)
            for position, (first, second) in enumerate(pairwise(self._stretches))
            if second.end != inf and second.can_join(first)
        ]
        wanted = len(self._stretches) - MOST_STRETCHES
        chosen: set[int] = set()
        for _, position in sorted(costs):
            if len(chosen) < wanted and position - 1 not in chosen and position + 1 not in chosen:
                chosen.add(position)
        for position in sorted(chosen, reverse=True):
            first, second = self._stretches[position], self._stretches[position + 1]
            self._take_back(first)
            self._take_back(second)
            first.shares = _mean(first, second)
            first.end = second.end
            self._charge_account(first)
            del self._stretches[position + 1]
        del self._stretches[: wanted - len(chosen)]

    def _cut(self, when: float) -> None:
        """Have a stretch begin at a Unix time."""
        for position, stretch in enumerate(self._stretches):
            if stretch.start < when < stretch.end:
                self._split(position, when)
                return

    def _split(self, position: int, when: float) -> None:
        stretch = self._stretches[position]
        rest = stretch.rest_from(when)
        self._take_back(stretch)
        stretch.end = when
        self._charge_account(stretch)
        self._charge_account(rest)
        self._stretches.insert(position + 1, rest)

    def _shut(self, when: float) -> None:
        """End the open stretch; one of no length is forgotten unless it is the only one."""
        last = self._stretches[-1]
        self._take_back(last)
        last.end = when
        self._charge_account(last)
        if last.end == last.start and len(self._stretches) > 1:
            self._stretches.pop()

    def _drop(self, position: int) -> None:
        self._take_back(self._stretches[position])
        del self._stretches[position]

    def _charge_account(self, stretch: _Stretch) -> None:
        if stretch.end == inf:
            self.account.begin(stretch.state, stretch.start, stretch.weight)
            return
        stretch.charged = tuple(stretch.parts())
        for part in stretch.charged:
            self._add(part.key, part.seconds, part.charge)

    def _take_back(self, stretch: _Stretch) -> None:
        if stretch.end == inf:
            self.account.stop(stretch.state, stretch.start, stretch.weight)
            return
        for part in stretch.charged:
            self._add(part.key, -part.seconds, part.charge)
        stretch.charged = ()

    def _add(self, key: str, seconds: float, charge: Charge | None) -> None:
        if seconds == 0:
            return
        self.seconds[key] = self.seconds.get(key, 0.0) + seconds
        self.account.add(key, seconds)
        if charge is not None:
            self.account.claims.add(charge.claim, seconds, is_suspected=charge.is_suspected)


_WHOLE: Final = {state: tuple(float(one == state) for one in STATES) for state in STATES}


def _mean(first: _Stretch, second: _Stretch) -> tuple[float, ...]:
    """Parts in each state of two neighbours together."""
    length = second.end - first.start
    part = (second.end - second.start) / length if length > 0 else 0.0
    return tuple(
        a * (1 - part) + b * part for a, b in zip(first.shares, second.shares, strict=True)
    )


def _replaced(charges: tuple[Charge, ...], claim: int, charge: Charge | None) -> tuple[Charge, ...]:
    """The charges with another one, or none, of one claim."""
    if not charges:
        return (charge,) if charge else ()
    others = [one for one in charges if one.claim != claim]
    if charge is not None:
        others.append(charge)
    return tuple(sorted(others, key=lambda one: one.order))
