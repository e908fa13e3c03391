"""What a finding costs since its onset and costs now, by the books: the same in every view."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final

from gpumon.fleet.ledger.charging import is_suspected
from gpumon.model.finding import Confidence
from gpumon.model.finding_classes import Loss, class_of
from gpumon.model.records.ledger import Charged, Losing

if TYPE_CHECKING:
    from gpumon.model.finding import Finding
    from gpumon.model.records.tick import Tick


def loss_of(tick: Tick, finding: Finding) -> Charged | None:
    """GPU-seconds that are wasted and suspected by a finding.

    Where nobody keeps books, or no queue lists the node of its GPU, what the finding says of its
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
"""How much a loss counts by how sure it is, when what to look at first is put in order: of two
guesses at one size about one is right (our choice)."""


def losing_of(tick: Tick, finding: Finding) -> Losing | None:
    """How many GPUs' time a finding loses now, as the books divide it; None: none is known.

    Where nobody keeps books, or no queue lists the node of its GPU, the mean of its window.
    """
    if tick.ledger is not None and not _is_without_queue(tick, finding):
        return tick.ledger.losing.by_finding.get(finding.identity)
    window_s = finding.window.end - finding.window.start
    stands = finding.is_open and finding.unknown_since is None
    if class_of(finding).loss is Loss.NONE or not finding.gpu_seconds or not stands:
        return None
    gpus = finding.gpu_seconds / window_s if window_s > 0 else 0.0
    return Losing(0.0, gpus) if is_suspected(finding) else Losing(gpus)


def urgency(tick: Tick, finding: Finding) -> float:
    """GPU-hours that a finding loses an hour now, weighed by how sure it is.

    The one order in which everything that is found is listed.
    """
    losing = losing_of(tick, finding)
    return 0.0 if losing is None else sum(losing) * WEIGHTS[finding.confidence]


def round_urgency(urgent: float) -> int:
    """A rank of about equal losses, a fifth apart; 0 for less than a hundredth of a GPU."""
    return max(0, round(log(urgent / 0.01, 1.2)) + 1) if urgent >= 0.01 else 0


def _is_without_queue(tick: Tick, finding: Finding) -> bool:
    """Whether it is about a GPU that no queue gives to jobs: the books are those of jobs."""
    kind, _, uuid = finding.subject.partition(":")
    gpu = tick.gpus.get(uuid) if kind == "gpu" else None
    node = None if gpu is None else tick.nodes.get(gpu.node)
    return node is not None and node.state is None
