"""What a finding costs: the books' figure since its onset, the same in every view of one tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.fleet.ledger.charging import is_suspected
from gpumon.model.finding_classes import Loss, class_of
from gpumon.model.records.ledger import Charged

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


def _is_without_queue(tick: Tick, finding: Finding) -> bool:
    """Whether it is about a GPU that no queue gives to jobs: the books are those of jobs."""
    kind, _, uuid = finding.subject.partition(":")
    gpu = tick.gpus.get(uuid) if kind == "gpu" else None
    node = None if gpu is None else tick.nodes.get(gpu.node)
    return node is not None and node.state is None
