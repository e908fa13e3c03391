"""What became of allocated GPU time: a ledger whose sums balance, and since when there is one.

Every GPU-second of an allocation is divided among five shares, which sum to the allocation:

- *wasted*: findings that are supported or better claim it, each its part of what graver ones left;
- *suspected*: of what is left, what hypotheses would claim, the gravest first;
- *useful*: of the rest, what was measured above the floor of `gpumon.model.work_floor`;
- *unexplained*: what was observed and is none of these;
- *unobserved*: nothing saw what the GPU did.
"""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.units import HOUR_S, KWH_J

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

USEFUL: Final = "useful"
UNEXPLAINED: Final = "unexplained"
UNOBSERVED: Final = "unobserved"

STATES: Final = (USEFUL, UNEXPLAINED, UNOBSERVED)
"""What a second can be that nothing claims."""

SUSPICION: Final = "~"
"""Before a class it makes the key of what is suspected of it; no class begins with it."""

NO_SECONDS: Final[Mapping[str, float]] = MappingProxyType({})


class Prices(NamedTuple):
    """What GPU time and energy cost; nothing where no price is set."""

    gpu_hour: Mapping[str, float] = NO_SECONDS
    """By name of the GPU or a part of it; `default` for all others."""
    kwh: float = 0.0
    currency: str = ""

    def of_gpu_hour(self, name: str) -> float | None:
        """Price of an hour of the named GPU: of the longest part that fits; None: not set."""
        wanted = name.lower()
        fitting = [key for key in self.gpu_hour if key != "default" and key.lower() in wanted]
        return self.gpu_hour.get(max(fitting, key=len) if fitting else "default")


NO_PRICES: Final = Prices()


class Open(NamedTuple):
    """Stretches that go on: so many GPUs, and the sum of the times at which they began."""

    gpus: float = 0.0
    """GPUs; a GPU that several jobs hold counts in parts."""
    begun_s: float = 0.0
    """Sum of their beginnings, in seconds after the ledger was opened."""

    def until(self, offset_s: float) -> float:
        """GPU-seconds until so long after the ledger was opened."""
        return self.gpus * offset_s - self.begun_s


NOTHING_OPEN: Final = Open()


class Account(NamedTuple):
    """The GPU time of one run of a job on GPUs of one name; never changes, grows by itself."""

    job_id: str
    user: str
    account: str
    partition: str
    gpu: str
    """Product name; empty: telemetry has not named it."""
    began_at: float
    """Unix time from which on its time is charged."""
    observed_since: float | None
    """Unix time of the first value that was seen of one of its GPUs; None: none yet."""
    seconds: Mapping[str, float]
    """GPU-seconds of stretches that are over: by state, class, or `SUSPICION` and class."""
    open: tuple[Open, Open, Open] = (NOTHING_OPEN, NOTHING_OPEN, NOTHING_OPEN)
    """What goes on, in the order of `STATES`."""
    energy_j: float = 0.0
    energy_s: float = 0.0
    """GPU-seconds over which the energy was measured."""

    def seconds_at(self, offset_s: float) -> dict[str, float]:
        """GPU-seconds by state and class until so long after the ledger was opened."""
        found = dict.fromkeys(STATES, 0.0) | dict(self.seconds)
        for state, going in zip(STATES, self.open, strict=True):
            found[state] += going.until(offset_s)
        return {key: max(0.0, seconds) for key, seconds in found.items()}


class Charged(NamedTuple):
    """What one finding was charged since its onset."""

    wasted_s: float = 0.0
    """GPU-seconds that are wasted by it."""
    suspected_s: float = 0.0
    """GPU-seconds that are suspected of it."""


class Losing(NamedTuple):
    """How many GPUs' time is being lost: GPU-hours an hour."""

    wasted_gpus: float = 0.0
    suspected_gpus: float = 0.0

    def plus(self, other: Losing) -> Losing:
        """Both together."""
        return Losing(
            self.wasted_gpus + other.wasted_gpus, self.suspected_gpus + other.suspected_gpus
        )


NOT_LOSING: Final = Losing()


class LosingNow(NamedTuple):
    """What is lost while things go on as they are, divided as the ledger divides what was lost."""

    by_finding: Mapping[tuple[str, str, str], Losing]
    """By the identity of a finding that is not cleared."""
    by_job: Mapping[str, Losing]

    def total(self) -> Losing:
        """The whole fleet."""
        return Losing(
            sum(one.wasted_gpus for one in self.by_job.values()),
            sum(one.suspected_gpus for one in self.by_job.values()),
        )


NOTHING_LOSING: Final = LosingNow(MappingProxyType({}), MappingProxyType({}))


class Total(NamedTuple):
    """One line of the ledger: five shares that sum to the allocation."""

    useful_s: float = 0.0
    unexplained_s: float = 0.0
    unobserved_s: float = 0.0
    wasted_s: Mapping[str, float] = NO_SECONDS
    """GPU-seconds by class, the largest first."""
    suspected_s: Mapping[str, float] = NO_SECONDS
    """GPU-seconds by class, the largest first."""
    observed_since: float | None = None
    """Unix time of the first value that was seen; None: nothing was."""
    began_at: float | None = None
    """Unix time of the earliest GPU-second."""
    energy_j: float | None = None
    """Energy of the time over which it was measured; None: it was not."""
    energy_s: float = 0.0
    """GPU-seconds over which energy was measured."""
    cost: float | None = None
    """Price of the allocation and its measured energy; None: nothing has a price."""
    wasted_cost: Mapping[str, float] = NO_SECONDS
    """Price of the GPU time that was wasted, by class."""
    suspected_cost: Mapping[str, float] = NO_SECONDS
    """Price of the GPU time that is suspected, by class."""
    unpriced_s: float = 0.0
    """GPU-seconds of GPUs without a price, which `cost` does not count."""

    @property
    def waste_s(self) -> float:
        """GPU-seconds wasted, of all classes."""
        return sum(self.wasted_s.values())

    @property
    def suspicion_s(self) -> float:
        """GPU-seconds suspected, of all classes."""
        return sum(self.suspected_s.values())

    @property
    def allocated_s(self) -> float:
        """GPU-seconds of the allocation."""
        return self.observed_s + self.unobserved_s

    @property
    def observed_s(self) -> float:
        """GPU-seconds of which is known what became of them."""
        return self.useful_s + self.unexplained_s + self.waste_s + self.suspicion_s

    def of_observed(self, seconds: float) -> float | None:
        """Share of the observed time; None: nothing was observed."""
        return seconds / self.observed_s if self.observed_s > 0 else None

    @property
    def unobserved_share(self) -> float | None:
        """Share of the allocation that nothing saw; None: nothing was allocated."""
        return self.unobserved_s / self.allocated_s if self.allocated_s > 0 else None


NOTHING: Final = Total()


class Added(NamedTuple):
    """What entries of the ledger came to."""

    whole: Total
    by_name: dict[str, Total]
    """The most wasteful first."""
    end: float | None
    """Unix time of the newest entry; None: there is none."""


class Compared(NamedTuple):
    """What became of a span of time, and of the one before it."""

    since: float
    """Unix time at which the newer one begins."""
    span_s: float
    """Length of each."""
    newest: Added
    before: Added


class _TotalsRecord(NamedTuple):
    at: float
    since: float
    """Unix time at which they were opened: what was before is unobserved."""
    accounts: tuple[Account, ...]
    """Running jobs' and recently ended ones', by job."""
    sums: tuple[Account, ...]
    """The same and all earlier ones', added up by user, account, partition and GPU."""
    prices: Prices = NO_PRICES
    kept_in: str | None = None
    """Folder that they are written to; None: they are not."""
    note: str = ""
    """Why they are not written though that was asked for."""
    charged: Mapping[tuple[str, str, str], Charged] = MappingProxyType({})
    """What each finding was charged that is open or was cleared lately, by its identity."""
    losing: LosingNow = NOTHING_LOSING
    """What is being lost at this instant."""
    closed: tuple[Account, ...] = ()
    """Of jobs that ended too long ago to be corrected, those that ended last."""
    earlier: tuple[Account, ...] = ()
    """What other processes charged to single runs before this one began; in no sum."""


class LedgerTotals(_TotalsRecord):
    """The ledger at one instant; what is asked of them is added up once."""

    def total(self) -> Total:
        """Everything."""
        return self._total

    def job(self, job_id: str) -> Total | None:
        """One job, with all its runs; None: it is not, or no longer, an entry of its own."""
        mine = self._by_job.get(job_id)
        return self._sum(mine) if mine else None

    def run(self, job_id: str, start_at: float | None, end_at: float | None) -> Total | None:
        """One run of a job that may have ended a while ago; None: it has no entry of its own.

        Args:
            job_id: The job.
            start_at: Unix time at which the run began; None: every run counts.
            end_at: Unix time at which it ended; None: unknown.
        """
        mine = [*self._by_job.get(job_id, ()), *self._closed_by_job.get(job_id, ())]
        # A process that goes on with a ledger begins at its end; another has charged the whole run.
        begun = {round(account.began_at) for account in mine}
        earlier = self._earlier_by_job.get(job_id, ())
        mine += [account for account in earlier if round(account.began_at) not in begun]
        mine = [
            account
            for account in mine
            if start_at is None or start_at - 1.0 <= account.began_at <= (end_at or self.at)
        ]
        return self._sum(mine) if mine else None

    @cached_property
    def _closed_by_job(self) -> dict[str, list[Account]]:
        return _jobs_of(self.closed)

    @cached_property
    def _earlier_by_job(self) -> dict[str, list[Account]]:
        return _jobs_of(self.earlier)

    @cached_property
    def lost_by_job(self) -> dict[str, Charged]:
        """What is wasted and what is suspected of each job that has an entry of its own."""
        found: dict[str, Charged] = {}
        for account in self.accounts:
            wasted_s, suspected_s = found.get(account.job_id, _UNCHARGED)
            for key, seconds in account.seconds.items():
                if key.startswith(SUSPICION):
                    suspected_s += max(0.0, seconds)
                elif key not in STATES:
                    wasted_s += max(0.0, seconds)
            found[account.job_id] = Charged(wasted_s, suspected_s)
        return found

    def by(self, dimension: str) -> Mapping[str, Total]:
        """Totals by job, user, account, partition or GPU, the most wasteful first."""
        if dimension not in self._tables:
            self._tables[dimension] = MappingProxyType(self._table(dimension))
        return self._tables[dimension]

    def _table(self, dimension: str) -> dict[str, Total]:
        groups: dict[str, list[Account]] = {}
        if dimension == "job":
            groups = self._by_job
        else:
            for account in self.sums:
                groups.setdefault(getattr(account, dimension), []).append(account)
        return in_order({key: self._sum(accounts) for key, accounts in groups.items()})

    @cached_property
    def _total(self) -> Total:
        return self._sum(self.sums)

    @cached_property
    def _tables(self) -> dict[str, Mapping[str, Total]]:
        return {}

    @cached_property
    def _by_job(self) -> dict[str, list[Account]]:
        return _jobs_of(self.accounts)

    def _sum(self, accounts: Iterable[Account]) -> Total:
        offset_s = self.at - self.since
        sums = Sums(self.prices)
        for account in accounts:
            sums.add(
                account.gpu,
                account.seconds_at(offset_s),
                account.began_at,
                account.observed_since,
                account.energy_j,
                account.energy_s,
            )
        return sums.total()


_UNCHARGED: Final = Charged()


def _jobs_of(accounts: Iterable[Account]) -> dict[str, list[Account]]:
    found: dict[str, list[Account]] = {}
    for account in accounts:
        found.setdefault(account.job_id, []).append(account)
    return found


def in_order(totals: Mapping[str, Total]) -> dict[str, Total]:
    """Totals by name, the most wasteful first, then the most suspect."""
    order = sorted(
        totals.items(), key=lambda pair: (-pair[1].waste_s, -pair[1].suspicion_s, pair[0])
    )
    return dict(order)


class Sums:
    """Adds up GPU time, energy and money; what both the ledger and its pages on disk use."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._has_prices = bool(prices.gpu_hour or prices.kwh)
        self._by_gpu: dict[str, float | None] = {}
        self.seconds: dict[str, float] = {}
        self.cost = self.unpriced_s = self.energy_j = self.energy_s = 0.0
        self.class_cost: dict[str, float] = {}
        self.began: list[float] = []
        self.observed: list[float] = []

    def add(
        self,
        gpu: str,
        seconds: Mapping[str, float],
        began_at: float,
        observed_since: float | None,
        energy_j: float,
        energy_s: float,
    ) -> None:
        """Add GPU-seconds by state and class of GPUs of one name."""
        for key, amount in seconds.items():
            self.seconds[key] = self.seconds.get(key, 0.0) + amount
        self.began = [min((began_at, *self.began))]
        if observed_since is not None:
            self.observed = [min((observed_since, *self.observed))]
        self.energy_j += energy_j
        self.energy_s += energy_s
        if self._has_prices:
            self._price(gpu, seconds, energy_j)

    def _price(self, gpu: str, seconds: Mapping[str, float], energy_j: float) -> None:
        if gpu not in self._by_gpu:
            self._by_gpu[gpu] = self._prices.of_gpu_hour(gpu)
        price = self._by_gpu[gpu]
        self.cost += energy_j / KWH_J * self._prices.kwh
        if price is None:
            self.unpriced_s += sum(seconds.values())
            return
        self.cost += sum(seconds.values()) / HOUR_S * price
        for key, amount in seconds.items():
            if key not in STATES:
                self.class_cost[key] = self.class_cost.get(key, 0.0) + amount / HOUR_S * price

    def total(self) -> Total:
        """What was added."""
        largest_first = dict(sorted(self.seconds.items(), key=lambda pair: (-pair[1], pair[0])))
        wasted, suspected = _split({key: s for key, s in largest_first.items() if s > 0})
        wasted_cost, suspected_cost = _split(self.class_cost)
        return Total(
            useful_s=self.seconds.get(USEFUL, 0.0),
            unexplained_s=self.seconds.get(UNEXPLAINED, 0.0),
            unobserved_s=self.seconds.get(UNOBSERVED, 0.0),
            wasted_s=wasted,
            suspected_s=suspected,
            observed_since=self.observed[0] if self.observed else None,
            began_at=self.began[0] if self.began else None,
            energy_j=self.energy_j if self.energy_s > 0 else None,
            energy_s=self.energy_s,
            cost=self.cost if self._has_prices else None,
            wasted_cost=wasted_cost,
            suspected_cost=suspected_cost,
            unpriced_s=self.unpriced_s,
        )


def _split(amounts: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """What is wasted and what is suspected, by class."""
    mark = len(SUSPICION)
    wasted = {k: v for k, v in amounts.items() if k not in STATES and not k.startswith(SUSPICION)}
    return wasted, {k[mark:]: v for k, v in amounts.items() if k.startswith(SUSPICION)}
