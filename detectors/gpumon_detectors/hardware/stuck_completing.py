"""A node is not given back although its job has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.plugin import Detector, Evidence, Severity, Window
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.phrases import clock_time, span
from gpumon_detectors.evidence.symptom import observed_since

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.plugin import Finding, Job, NodeFacts, View

_COMPLETING: Final = "COMPLETING"
_OFF: Final = ("down", "power")
"""Words in Slurm's states of nodes that give nothing back: what they wait for is the node."""

_UNHEARD: Final = "not_responding"
"""Slurm's word for a node whose slurmd does not answer."""

_LISTED: Final = 8
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""


class StuckCompleting(Detector):
    """Claims that Slurm cannot take a node back because something of an ended job is left there.

    At a job's end Slurm kills its processes, runs the epilog and takes the node back. Processes
    that do not obey are killed for good after `KillWait` (30 s), and a step that outlives even
    that for `UnkillableStepTimeout` (60 s) drains its node (the defaults of slurm.conf). A process
    that waits in the kernel, as for a file system or a driver that hangs, or an epilog that does
    keeps the job in COMPLETING.

    *Supported* after 5 minutes, *established* after 15: three times and ten times as long as
    Slurm's own limits together (our choice; epilogs that check GPUs take a minute or two).

    What looks alike: a node that answered neither Slurm nor gpumon when its job ended is
    `telemetry_lost`; a node that an administrator took down or that is powering off gives nothing
    back. Where only Slurm hears nothing, it is slurmd itself that hangs.

    The job is over, so it has no loss of its own; what waits for the node loses the time.
    """

    name = "stuck_completing"
    version = "1"
    finding_classes = ("stuck_completing",)
    needs = ()
    supported_after_s = 300.0
    established_after_s = 900.0
    subjects = "node"
    # Slurm alone says that it is so, and that it is over: no telemetry of the node is waited for,
    # which gpumon leaves with the job.
    is_instant = True

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per node on which an ended job has been completing for minutes."""
        by_node: dict[str, list[Job]] = {}
        for job in view.records:
            if job.state == _COMPLETING and job.end_at is not None:
                for name in job.nodes:
                    by_node.setdefault(name, []).append(job)
        for name, jobs in by_node.items():
            node = view.nodes.get(name)
            jobs.sort(key=lambda job: job.end_at or 0.0)
            if node is not None and not _is_away(node, jobs[0].end_at or 0.0):
                found = self._finding(view, node, jobs)
                if found is not None:
                    yield found

    def _finding(self, view: View, node: NodeFacts, jobs: Sequence[Job]) -> Finding | None:
        onset = jobs[0].end_at or view.now
        lasts_s = view.now - onset
        rows = view.history.rows(onset, view.now)
        is_seen = rows.times >= observed_since(view, onset)
        times = rows.times[is_seen]
        if lasts_s < self.supported_after_s / 3 or not len(times):
            return None
        window = Window(float(times[0]), float(times[-1]), int(rows.samples[is_seen].sum()))
        labels = ", ".join(job.label for job in jobs[:_LISTED])
        who = f"job {labels} is" if len(jobs) == 1 else f"jobs {labels} are"
        return view.finding(
            self,
            subject=node.subject,
            severity=Severity.WARNING,
            summary=f"{node.name} not given back since {clock_time(onset)} ({span(lasts_s)}): "
            f"{who} still completing",
            window=window,
            onset=onset,
            evidence=tuple(_evidence(node, jobs)),
            advice=(
                *commands.ask_node(view, node.name),
                *commands.report_to_admins(view, node.name),
            ),
            machine_advice=(
                *(("`systemctl status slurmd` there: it does not answer Slurm.",) * _hangs(node)),
                (
                    "See what does not end there: ps -eo pid,stat,wchan:32,user,cmd (D waits in "
                    "the kernel), the epilog, slurmd's log."
                ),
            ),
        )


def _state(node: NodeFacts) -> str:
    return (node.slurm.state if node.slurm else "").lower()


def _is_away(node: NodeFacts, end_at: float) -> bool:
    # gpumon leaves a node with its last job: what counts is whether it was heard until then.
    was_silent = node.silent_since is not None and node.silent_since < end_at
    is_lost = was_silent and _UNHEARD in _state(node)
    return is_lost or any(word in _state(node) for word in _OFF)


def _hangs(node: NodeFacts) -> bool:
    return _UNHEARD in _state(node)


def _evidence(node: NodeFacts, jobs: Sequence[Job]) -> Iterator[Evidence]:
    for job in jobs[:_LISTED]:
        text = f"job {job.label} of {job.user} ended at {clock_time(job.end_at or 0.0)}"
        yield Evidence("job", f"job:{job.job_id}", f"{text}, Slurm calls it {job.state}")
    if node.slurm is not None:
        yield Evidence("slurm_state", node.subject, f"Slurm calls {node.name} {node.slurm.state}")
    ids = {job.job_id for job in jobs}
    left = [process for process in node.processes if process.job_id in ids]
    if left and not node.is_stale:
        names = ", ".join(f"{one.pid} {one.name or '?'}" for one in left[:_LISTED])
        text = f"still on GPUs there: {names}"
        yield Evidence("process", node.subject, text, float(len(left)))
