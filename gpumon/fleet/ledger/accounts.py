"""The account of one run of a job on GPUs of one name, and of many jobs, while they can change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.records.ledger import STATES, UNOBSERVED, Account, Charged, Open

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Job


class ClaimSums:
    """What each claim was charged, in all accounts."""

    def __init__(self) -> None:
        self._charged: dict[int, list[float]] = {}

    def add(self, claim: int, seconds: float, *, is_suspected: bool) -> None:
        """Book GPU-seconds that a claim has taken, or gives back."""
        self._charged.setdefault(claim, [0.0, 0.0])[is_suspected] += seconds

    def of(self, claim: int) -> Charged:
        """What a claim was charged so far."""
        return Charged(*(max(0.0, seconds) for seconds in self._charged.get(claim, (0.0, 0.0))))

    def forget(self, claim: int) -> None:
        """Nobody asks for a claim any more."""
        self._charged.pop(claim, None)


class OpenAccount:
    """Adds up what timelines book; its snapshot is remade only after a change."""

    __slots__ = (
        "_began_at",
        "_epoch",
        "_job",
        "_open",
        "_snapshot",
        "_sum",
        "claims",
        "energy_j",
        "energy_s",
        "gpu",
        "observed_since",
        "seconds",
    )

    def __init__(
        self,
        job: Job,
        gpu: str,
        began_at: float,
        epoch: float,
        claims: ClaimSums,
        sum_in: OpenAccount | None = None,
    ) -> None:
        """Empty.

        Args:
            job: Whose time it is.
            gpu: Product name, empty where telemetry has named none.
            began_at: Unix time from which on time is booked.
            epoch: Unix time at which the books were opened, from which open stretches count.
            claims: Where what claims take is booked by claim as well.
            sum_in: Account of many jobs, in which everything is booked as well.
        """
        if sum_in is not None:
            sum_in.reach(began_at)
        self._sum = sum_in
        self._job = job
        self._began_at = began_at
        self._epoch = epoch
        self.claims = claims
        self.gpu = gpu
        self.seconds: dict[str, float] = {}
        self.observed_since: float | None = None
        self.energy_j = 0.0
        self.energy_s = 0.0
        self._open = {state: [0, 0.0, 0.0] for state in STATES}
        self._snapshot: Account | None = None

    @property
    def job(self) -> Job:
        """The job as it was when the account was opened."""
        return self._job

    def reach(self, began_at: float) -> None:
        """It has time from a Unix time on, which may be earlier than that before."""
        if began_at < self._began_at:
            self._began_at = began_at
            self._snapshot = None

    def begin(self, state: str, start: float, weight: float) -> None:
        """A stretch goes on from a Unix time."""
        self._shift(state, 1, weight, (start - self._epoch) * weight)
        if state != UNOBSERVED:
            self.observed_since = min(start, self.observed_since or start)
        if self._sum is not None:
            self._sum.begin(state, start, weight)

    def stop(self, state: str, start: float, weight: float) -> None:
        """The stretch that began then no longer goes on."""
        self._shift(state, -1, -weight, -(start - self._epoch) * weight)
        if self._sum is not None:
            self._sum.stop(state, start, weight)

    def _shift(self, state: str, count: int, weight: float, begun_s: float) -> None:
        going = self._open[state]
        going[0] += count
        going[1] += weight
        going[2] += begun_s
        if going[0] == 0:
            # What rounding left over must not grow with time.
            going[1] = going[2] = 0.0
        self._snapshot = None

    def add(self, key: str, seconds: float) -> None:
        """Book GPU-seconds of a stretch that is over, or take them back."""
        self.seconds[key] = self.seconds.get(key, 0.0) + seconds
        self._snapshot = None
        if self._sum is not None:
            self._sum.add(key, seconds)

    def meter(self, energy_j: float, energy_s: float) -> None:
        """Book energy that was measured over so many GPU-seconds."""
        self.energy_j += energy_j
        self.energy_s += energy_s
        self._snapshot = None
        if self._sum is not None:
            self._sum.meter(energy_j, energy_s)

    def snapshot(self) -> Account:
        """The account as it is now, for whoever reads it later."""
        if self._snapshot is None:
            job, going = self._job, self._open
            self._snapshot = Account(
                job_id=job.job_id,
                user=job.user,
                account=job.account,
                partition=job.partition,
                gpu=self.gpu,
                began_at=self._began_at,
                observed_since=self.observed_since,
                seconds=dict(self.seconds),
                open=(_open(going[STATES[0]]), _open(going[STATES[1]]), _open(going[STATES[2]])),
                energy_j=self.energy_j,
                energy_s=self.energy_s,
            )
        return self._snapshot


def _open(going: list[float]) -> Open:
    return Open(going[1], going[2])


class Sums:
    """Accounts of all jobs of a user, account and partition on GPUs of one name."""

    def __init__(self, epoch: float) -> None:
        self._epoch = epoch
        self.claims = ClaimSums()
        self._accounts: dict[tuple[str, str, str, str], OpenAccount] = {}

    def of(self, job: Job, gpu: str, began_at: float) -> OpenAccount:
        """The one that a job's time counts in as well."""
        key = (job.user, job.account, job.partition, gpu)
        found = self._accounts.get(key)
        if found is None:
            anyone = job._replace(job_id="")
            found = self._accounts[key] = OpenAccount(
                anyone, gpu, began_at, self._epoch, self.claims
            )
        return found

    def snapshots(self) -> tuple[Account, ...]:
        """All of them as they are now."""
        return tuple(account.snapshot() for account in self._accounts.values())
