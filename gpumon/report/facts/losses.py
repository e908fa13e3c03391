"""What a finding costs since its onset and costs now, by the ledger: the same in every view."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.fleet.ledger.charging import is_suspected
from gpumon.model.finding import Confidence, Severity
from gpumon.model.finding_classes import Category, Loss, class_of
from gpumon.model.records.ledger import NOT_LOSING, Charged, Losing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.model.finding import Finding
    from gpumon.model.records.ledger import LedgerTotals
    from gpumon.model.records.tick import Tick


def loss_of(tick: Tick, finding: Finding) -> Charged | None:
    """GPU-seconds that are wasted and suspected by a finding.

    Where there is no ledger, or no queue lists the node of its GPU, what the finding says of its
    window. None: its class takes no GPU time, or nothing is known of how much.
    """
    if class_of(finding).loss is Loss.NONE:
        return None
    if tick.ledger is not None and not _is_without_queue(tick, finding):
        charged = tick.ledger.charged.get(finding.identity)
        if charged is None or (finding.gpu_seconds is None and not sum(charged)):
            return None
        return charged
    if finding.gpu_seconds is None:
        return None
    if is_suspected(finding):
        return Charged(0.0, finding.gpu_seconds)
    return Charged(finding.gpu_seconds)


def loss_s(tick: Tick, finding: Finding) -> float:
    """Wasted and suspected GPU-seconds together, to put findings in order by; 0: none known."""
    return sum(loss_of(tick, finding) or ())


WEIGHTS: Final = {
    Confidence.HYPOTHESIS: 0.4,
    Confidence.SUPPORTED: 0.8,
    Confidence.ESTABLISHED: 1.0,
}
"""How much a loss counts by how sure it is, when findings are put in order: of two
guesses at one size about one is right (our choice)."""


def losing_of(tick: Tick, finding: Finding) -> Losing | None:
    """How many GPUs' time a finding loses now, as the ledger divides it; None: none is known.

    Where there is no ledger, or no queue lists the node of its GPU, the mean of its window.
    """
    if tick.ledger is not None and not _is_without_queue(tick, finding):
        return tick.ledger.losing.by_finding.get(finding.identity)
    window_s = finding.window.end - finding.window.start
    is_current = finding.is_open and finding.unknown_since is None
    if class_of(finding).loss is Loss.NONE or not finding.gpu_seconds or not is_current:
        return None
    gpus = finding.gpu_seconds / window_s if window_s > 0 else 0.0
    return Losing(0.0, gpus) if is_suspected(finding) else Losing(gpus)


def urgency(tick: Tick, finding: Finding) -> float:
    """GPU-hours that a finding loses an hour now, weighed by how sure it is."""
    losing = losing_of(tick, finding)
    return 0.0 if losing is None else sum(losing) * WEIGHTS[finding.confidence]


def price_an_hour(ledger: LedgerTotals) -> float | None:
    """Price of the GPU time that is being wasted, by the mean price of each job's GPUs.

    None: nothing is wasted, or nothing of it has a price.
    """
    losing = {job: one.wasted_gpus for job, one in ledger.losing.by_job.items() if one.wasted_gpus}
    if not losing or not ledger.prices.gpu_hour:
        return None
    prices = {name: ledger.prices.of_gpu_hour(name) for name in {a.gpu for a in ledger.accounts}}
    if len(set(prices.values())) == 1:
        (price,) = set(prices.values())
        return None if price is None else price * sum(losing.values())
    gpus: defaultdict[str, float] = defaultdict(float)
    costs: defaultdict[str, float] = defaultdict(float)
    for account in ledger.accounts:
        price = prices[account.gpu]
        if account.job_id in losing and price is not None:
            held = sum(going.gpus for going in account.open)
            gpus[account.job_id] += held
            costs[account.job_id] += held * price
    priced = {job: costs[job] / held for job, held in gpus.items() if held > 0}
    return sum(losing[job] * price for job, price in priced.items()) if priced else None


_STOPS_WORK: Final = (Category.HARDWARE, Category.HANG)
"""What stops work or may corrupt it, also where it costs nothing now."""


def mark_of(tick: Tick, finding: Finding) -> Severity:
    """How grave a finding is marked: ‼ only what stops or may corrupt work, or costs GPU time now.

    Any other critical one, as a port that is down while nothing waits for it, is marked like a
    warning. It stays critical in documents and for `--exit-status`.
    """
    severity = finding.severity
    if severity is not Severity.CRITICAL or class_of(finding).category in _STOPS_WORK:
        return severity
    losing = losing_of(tick, finding)
    return severity if losing is not None and any(losing) else Severity.WARNING


class Stake(NamedTuple):
    """What all that is found about something costs, now and so far.

    The one order in which everything is listed: by `key`, the largest on top.
    """

    urgency: float = 0.0
    """GPU-hours lost an hour now, each finding's weighed by how sure it is."""
    losing: Losing = NOT_LOSING
    """The same unweighed."""
    lost_s: float = 0.0
    """GPU-seconds wasted and suspected since the onsets."""
    severity_rank: int = -1
    """Of the gravest finding as it is marked; -1: there is none."""
    confidence_rank: int = -1
    """Of the gravest findings the surest."""

    @property
    def key(self) -> tuple[float, ...]:
        """Grows with what comes first.

        Rates are judged again every few seconds: what differs by less than a tenth of a GPU stays
        in one order, by what was lost so far.
        """
        return (round(self.urgency, 1), self.lost_s, self.severity_rank, self.confidence_rank)

    @property
    def first(self) -> tuple[float, ...]:
        """Sorts the largest key first."""
        return tuple(-part for part in self.key)

    def plus(self, other: Stake) -> Stake:
        """Both together, as grave as the graver one."""
        gravest = max(self[3:], other[3:])
        return Stake(
            self.urgency + other.urgency,
            self.losing.plus(other.losing),
            self.lost_s + other.lost_s,
            *gravest,
        )

    def part(self, share: float) -> Stake:
        """What one of several has of it."""
        return self._replace(
            urgency=self.urgency * share,
            losing=Losing(*(gpus * share for gpus in self.losing)),
            lost_s=self.lost_s * share,
        )


NO_STAKE: Final = Stake()


def stake_of(tick: Tick, finding: Finding) -> Stake:
    """What a finding costs."""
    return Stake(
        urgency=urgency(tick, finding),
        losing=losing_of(tick, finding) or NOT_LOSING,
        lost_s=loss_s(tick, finding),
        severity_rank=mark_of(tick, finding).rank,
        confidence_rank=finding.confidence.rank,
    )


def muted_stake(tick: Tick, finding: Finding) -> Stake:
    """What a muted finding costs: sums hold it, nothing is raised by it."""
    return Stake(0.0, losing_of(tick, finding) or NOT_LOSING, loss_s(tick, finding))


def stake_together(stakes: Iterable[Stake]) -> Stake:
    """All of them."""
    whole = NO_STAKE
    for stake in stakes:
        whole = whole.plus(stake)
    return whole


def _is_without_queue(tick: Tick, finding: Finding) -> bool:
    """Whether it is about a GPU that no queue gives to jobs: the ledger is that of jobs."""
    kind, _, uuid = finding.subject.partition(":")
    gpu = tick.gpus.get(uuid) if kind == "gpu" else None
    node = None if gpu is None else tick.nodes.get(gpu.node)
    return node is not None and node.state is None
