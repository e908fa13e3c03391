"""Users' processes keep a GPU busy that no job was given, and hardly use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.plugin import Detector, holds_of
from gpumon_detectors.evidence.gpu_use import is_named
from gpumon_detectors.work.no_tensor_cores import fp32_findings
from gpumon_detectors.work.small_batch import SmallBatch, small_findings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, View


class UsedByUser(Detector):
    """Claims that users run only small kernels, or only fp32, on a GPU without a queue.

    Where no queue lists a node, a GPU is held by the users whose processes have memory on it, as
    `held_by_user` has it; what they run is judged as `small_batch` and `no_tensor_cores` judge a
    job, one GPU at a time. CPU time is that of the processes.

    The GPU's purpose is unknown, so its users are given the time of a session: a *hypothesis* until
    then, *supported* after two hours (the taxonomy's window for sessions), *established* after
    four.

    What looks alike is the same as for those; a server stays a *hypothesis* by its bursts or its
    program's name. On a node that a queue lists nothing is claimed. The loss is in no job's ledger.
    """

    name = "used_by_user"
    version = "1"
    finding_classes = ("small_batch", "no_tensor_cores")
    needs = (*SmallBatch.needs, "compute_process_count")
    supported_after_s = 7200.0
    established_after_s = 14400.0
    subjects = "gpu"
    every_s = 60.0

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per GPU that its users keep busy and hardly use."""
        for hold in holds_of(view):
            if is_named(hold):
                yield from small_findings(self, view, hold)
                yield from fp32_findings(self, view, hold)
