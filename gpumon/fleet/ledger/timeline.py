"""What one GPU did for one job over time: stretches that are observed or not, charged or not."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.ledger import PRODUCTIVE, UNOBSERVED

if TYPE_CHECKING:
    from gpumon.fleet.ledger.accounts import OpenAccount

MOST_STRETCHES: Final = 64
"""Stretches of a GPU that can still be charged; an older one keeps what was charged to it."""


class Charge(NamedTuple):
    """What a finding says of a GPU's time."""

    finding_class: str
    rank: tuple[int, int]
    """Precedence: the lowest takes over what others were charged with."""
    share: float
    """Part of each second that is lost, 0 to 1."""
    takes_unobserved: bool = False
    """Whether the fault itself is why nothing was observed."""


class _Stretch:
    """A piece of time in one state, of which `lost_s` are charged to one class."""

    __slots__ = ("charge", "end", "is_observed", "lost_s", "start", "weight")

    def __init__(self, start: float, end: float, weight: float, *, is_observed: bool) -> None:
        self.start = start
        self.end = end
        self.weight = weight
        self.is_observed = is_observed
        self.charge: Charge | None = None
        self.lost_s = 0.0

    @property
    def state(self) -> str:
        return PRODUCTIVE if self.is_observed else UNOBSERVED

    @property
    def seconds(self) -> float:
        """GPU-seconds; an open stretch has no end yet, and nothing is charged to it."""
        return (self.end - self.start) * self.weight

    def continues(self, before: _Stretch) -> bool:
        """Whether it is the same as the stretch before it."""
        mine, theirs = self.charge, before.charge
        return (
            before.end == self.start
            and before.is_observed == self.is_observed
            and before.weight == self.weight
            and (mine and mine.finding_class) == (theirs and theirs.finding_class)
            and (mine and mine.rank) == (theirs and theirs.rank)
        )


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
        self._stretches = [_Stretch(start, inf, 1.0, is_observed=False)]
        account.begin(UNOBSERVED, start, 1.0)

    @property
    def is_observed(self) -> bool:
        """Whether the newest stretch is."""
        return self._stretches[-1].is_observed

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

    def observe(self, when: float, *, is_observed: bool) -> None:
        """The GPU is observed from a Unix time on, or no longer is."""
        last = self._stretches[-1]
        when = max(when, last.start)
        self._shut(when)
        self._open(when, last.weight, is_observed=is_observed)

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
                stretch.lost_s *= weight / stretch.weight
                stretch.weight = weight
                self._book(stretch)

    def charge(self, start: float, end: float, charge: Charge) -> None:
        """Charge what a finding claims of the time between two Unix times, where it may."""
        for position in range(len(self._stretches) - 1, -1, -1):
            stretch = self._stretches[position]
            if stretch.end <= start:
                break
            low, high = max(start, stretch.start), min(end, stretch.end)
            if high > low and _may_take(stretch, charge):
                self._charge(position, low, high, charge)

    def _charge(self, position: int, low: float, high: float, charge: Charge) -> None:
        if high < self._stretches[position].end:
            self._split(position, high)
        if low > self._stretches[position].start:
            self._split(position, low)
            position += 1
        stretch = self._stretches[position]
        self._take_back(stretch)
        stretch.charge = charge
        stretch.lost_s = stretch.seconds * charge.share
        self._book(stretch)
        self._join(position)

    def _join(self, position: int) -> None:
        """Make one of a stretch and the same one before it; drop the oldest of too many."""
        if position > 0:
            stretch, before = self._stretches[position], self._stretches[position - 1]
            if stretch.continues(before):
                self._take_back(stretch)
                self._take_back(before)
                before.end = stretch.end
                before.lost_s += stretch.lost_s
                self._book(before)
                del self._stretches[position]
        if len(self._stretches) > MOST_STRETCHES:
            del self._stretches[0]

    def _cut(self, when: float) -> None:
        """Have a stretch begin at a Unix time."""
        for position, stretch in enumerate(self._stretches):
            if stretch.start < when < stretch.end:
                self._split(position, when)
                return

    def _split(self, position: int, when: float) -> None:
        stretch = self._stretches[position]
        rest = _Stretch(when, stretch.end, stretch.weight, is_observed=stretch.is_observed)
        self._take_back(stretch)
        if stretch.charge is not None:
            lost_s = stretch.lost_s * (rest.end - when) / (stretch.end - stretch.start)
            rest.charge, rest.lost_s = stretch.charge, lost_s
            stretch.lost_s -= lost_s
        stretch.end = when
        self._book(stretch)
        self._book(rest)
        self._stretches.insert(position + 1, rest)

    def _shut(self, when: float) -> None:
        """End the open stretch; one of no length is forgotten unless it is the only one."""
        last = self._stretches[-1]
        self._take_back(last)
        last.end = when
        self._book(last)
        if last.end == last.start and len(self._stretches) > 1:
            self._stretches.pop()

    def _open(self, when: float, weight: float, *, is_observed: bool) -> None:
        stretch = _Stretch(when, inf, weight, is_observed=is_observed)
        if self._stretches[-1].end == self._stretches[-1].start:
            self._stretches.pop()
        self._stretches.append(stretch)
        self._book(stretch)
        self._join(len(self._stretches) - 1)

    def _drop(self, position: int) -> None:
        self._take_back(self._stretches[position])
        del self._stretches[position]

    def _book(self, stretch: _Stretch) -> None:
        if stretch.end == inf:
            self.account.begin(stretch.state, stretch.start, stretch.weight)
            return
        self._add(stretch.state, stretch.seconds - stretch.lost_s)
        if stretch.charge is not None:
            self._add(stretch.charge.finding_class, stretch.lost_s)

    def _take_back(self, stretch: _Stretch) -> None:
        if stretch.end == inf:
            self.account.stop(stretch.state, stretch.start, stretch.weight)
            return
        self._add(stretch.state, stretch.lost_s - stretch.seconds)
        if stretch.charge is not None:
            self._add(stretch.charge.finding_class, -stretch.lost_s)

    def _add(self, key: str, seconds: float) -> None:
        self.seconds[key] = self.seconds.get(key, 0.0) + seconds
        self.account.add(key, seconds)


def _may_take(stretch: _Stretch, charge: Charge) -> bool:
    if not stretch.is_observed and not charge.takes_unobserved:
        return False
    return stretch.charge is None or charge.rank < stretch.charge.rank
