"""A node lists fewer GPUs than before, and than Slurm gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity, Window
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.gpu_symptoms import VITAL
from gpumon_detectors.evidence.phrases import clock_time, counted, span
from gpumon_detectors.evidence.symptom import observed_since
from gpumon_detectors.hardware.telemetry_lost import HEARD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, NodeFacts, View

_SPAN_S: Final = 3600.0
"""A GPU is missing if it had values within the last hour: what left earlier was taken out on
purpose (our choice)."""

_REASON: Final = "a GPU is gone from the list of the driver"


class _Loss(NamedTuple):
    """What vanished from the fleet while it was watched."""

    onset: float
    window: Window
    """Since the onset, or since the last gap in the sampling."""
    names: tuple[str, ...]
    """UUIDs that are on no node any more."""
    is_sure: bool
    """Whether as many vanished as are short."""


class GpuMissing(Detector):
    """Claims that a GPU is gone from a node that still reports.

    The driver lists fewer GPUs than Slurm's configuration gives the node, and a GPU that was seen
    within the last hour is no longer on any node. That is how a GPU that fell off the bus looks
    once the driver, or the node, was started again.

    *Supported* after 1 minute, *established* after 5: a driver that is being reloaded lists its
    GPUs again by then.

    What looks alike: a silent node (`telemetry_lost`); slices (MIG), because Slurm counts more of
    them than there are GPUs; a probe that is only shown the GPUs of one job, and a node that was
    short of a GPU before gpumon started, so no GPU was seen to vanish. Where more GPUs are short
    than have vanished, which node lost one is not known, and the claim stays a *hypothesis*.

    No sample has the GPU any more, so its loss is not counted here.
    """

    name = "gpu_missing"
    version = "1"
    finding_classes = ("gpu_fault",)
    needs = HEARD
    supported_after_s = 60.0
    established_after_s = 300.0
    subjects = "node"

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per node that lost a GPU while it was watched."""
        names = view.node_layout.names
        lists_fewer = (names[place] for place in np.flatnonzero(view.per_node(_unlisted) > 0))
        short = {name: _shortfall(view.nodes[name], view) for name in lists_fewer}
        total = sum(short.values())
        if not total:
            return
        gone = [uuid for uuid in view.history.entities() if uuid not in view.gpus]
        past = view.past(gone, VITAL, _SPAN_S)
        is_reported = np.any([np.isfinite(column) for column in past.columns.values()], axis=0)
        seen = np.flatnonzero(is_reported.any(axis=0)) if len(past.times) else np.zeros(0, np.intp)
        if not len(seen):
            return
        lasts = sorted(int(np.flatnonzero(is_reported[:, place])[-1]) for place in seen)
        # Of more than are short the first may have left with a node of theirs.
        first = lasts[-min(total, len(lasts))] + 1
        if first >= len(past.times):
            return
        onset = float(past.times[first])
        times = past.times[past.times >= observed_since(view, onset)]
        window = Window(float(times[0]), float(times[-1]), len(times))
        names = tuple(gone[place] for place in seen)
        loss = _Loss(onset, window, names, total <= len(names))
        for name, count in short.items():
            if count:
                yield self._finding(view, view.nodes[name], loss)

    def _finding(self, view: View, node: NodeFacts, loss: _Loss) -> Finding:
        listed, given = len(node.gpu_uuids), node.slurm.gpu_count if node.slurm else None
        jobs = view.jobs_on(node.name)
        under = f" under job {', '.join(job.job.label for job in jobs[:8])}" if jobs else ""
        # Of a node that was short before, no more can be gone than vanished anywhere.
        count = counted(min(_shortfall(node, view), len(loss.names)), "GPU")
        perhaps = "" if loss.is_sure else "perhaps "
        for_s = span(loss.window.end - loss.onset)
        most = Confidence.ESTABLISHED if loss.is_sure else Confidence.HYPOTHESIS
        is_reported = commands.is_sure_enough(view, self, loss.window, most)
        text = f"the driver lists {counted(listed, 'GPU')}, Slurm gives the node {given}"
        return view.finding(
            self,
            subject=node.subject,
            severity=Severity.CRITICAL,
            summary=f"{node.name}: {perhaps}{count} gone since {clock_time(loss.onset)} "
            f"({for_s}){under}",
            window=loss.window,
            onset=loss.onset,
            evidence=(
                Evidence("gpu_count", node.subject, text, float(listed)),
                *(
                    Evidence(VITAL[0], node.subject, f"no longer on any node: {uuid}")
                    for uuid in loss.names[:8]
                ),
            ),
            advice=(
                *(commands.leave_out(view, node.name) if is_reported else ()),
                *commands.ask_node(view, node.name),
                *commands.report_to_admins(view, node.name),
            ),
            machine_advice=(
                "Look in the node's kernel log for Xid 79, then power-cycle it: dmesg.",
                *(commands.drain(view, node.name, _REASON) if is_reported else ()),
            ),
            at_most=most,
        )


def _unlisted(node: NodeFacts) -> float:
    """GPUs that Slurm gives a talking node and its driver does not list."""
    given = node.slurm.gpu_count if node.slurm else None
    if given is None or node.is_stale or not node.has_telemetry:
        return 0.0
    return given - len(node.gpu_uuids)


def _shortfall(node: NodeFacts, view: View) -> int:
    """The same, and 0 where nobody can say: a GPU that is cut counts as several."""
    short = int(_unlisted(node))
    gpus = (view.gpus[uuid] for uuid in node.gpu_uuids if uuid in view.gpus)
    return 0 if short <= 0 or any(gpu.value("mig_mode") for gpu in gpus) else short
