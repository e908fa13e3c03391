"""Which way leads to each node of the jobs in view: ssh, a step of the user's own job, or none.

The ways are tried in the order that the target names; the next one counts where one is refused.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.fault import SourceError
from gpumon.model.hostlist import is_job_id
from gpumon.model.records.frame import Frame
from gpumon.sources.probes.road import in_slurm
from gpumon.sources.probes.ssh import is_refusal, login
from gpumon.sources.slurm.poll import srun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.records.cluster import Job
    from gpumon.model.records.frame import QueueRecords
    from gpumon.sources.address import Hop
    from gpumon.sources.probes.road import Road
    from gpumon.sources.probes.stream import Endpoint

MOST_NAMED: Final = 4
"""Jobs that the note about steps names; more are counted."""


class _Step(NamedTuple):
    """The one step of a job, started or about to be."""

    label: str
    endpoint: Endpoint


class Reach:
    """Chooses the probes to run, from what the queue lists and what the nodes have answered."""

    def __init__(
        self,
        url: str,
        ways: Sequence[str],
        user: str,
        hop: Hop | None = None,
        cluster: str = "",
    ) -> None:
        """Nothing is known of any node yet.

        Args:
            url: The target.
            ways: `ssh`, `srun`, `none`, in the order in which they are to be tried.
            user: Name of the user, in whose jobs alone a step may be started.
            hop: Login node in front of the nodes; None: none.
            cluster: In which steps are started; empty: that of the commands themselves.
        """
        self._url = url
        self._cluster = cluster
        self._ways = tuple(ways)
        self._user = user
        self._hop = hop
        self._here = socket.gethostname()
        self._refused: dict[str, set[str]] = {}
        """Ways that did not work, by node."""
        self._heard: set[str] = set()
        """Nodes that ssh has brought a report or a failure of."""
        self._roads: dict[str, Road] = {}
        """To the nodes that Slurm lists; a job may name any other in a forged record."""
        self._jobs: dict[str, tuple[Job, tuple[str, ...]]] = {}
        """Running jobs in view with their nodes with GPUs, by a key that a requeue changes."""
        self._steps: dict[str, _Step] = {}
        self._parts: dict[str, dict[str, Endpoint]] = {}
        """Steps for single nodes that fell silent in the step of their job, by job and node."""
        self._remarks: list[Frame] = []
        self._reported_labels: tuple[str, ...] = ()
        self.has_news = False
        """Whether what was learnt may change the probes to run."""

    def learn(self, queue: QueueRecords) -> None:
        """Take what the queue lists now; steps of jobs that have ended are forgotten."""
        found = ((node.name, in_slurm(node, self._hop, self._here)) for node in queue.nodes)
        self._roads = {name: road for name, road in found if road is not None}
        self._jobs = {}
        for job in queue.jobs:
            nodes = tuple(dict.fromkeys(n for n in _nodes_with_gpus(job) if n in self._roads))
            if nodes:
                self._jobs[f"{job.job_id}@{job.start_at}"] = (job, nodes)
        self.has_news = True
        for key in self._steps.keys() - self._jobs.keys():
            step = self._steps.pop(key).endpoint
            self._parts.pop(key, None)
            over = Frame(origin=step.origin, node="", taken_at=0.0)
            self._remarks += [
                over._replace(node=node, is_left=not self._is_held(node)) for node in step.nodes
            ]
            for node in step.nodes:
                self._refused.get(node, set()).discard("srun")

    def take(self, frame: Frame) -> Frame:
        """Learn from a probe's frame; its errors go where another way is tried now."""
        if not frame.node:
            # Of nodes that wait, not of a way to one of them.
            return frame
        if frame.is_left:
            # A probe also ends where another way to the node takes its place.
            return frame._replace(is_left=not self._is_held(frame.node))
        way = "ssh" if frame.origin == self._url else "srun"
        if way == "srun" and frame.errors and not frame.blocks:
            self._mend(frame)
        if way == "ssh" and frame.node not in self._heard:
            self._heard.add(frame.node)
            self.has_news = True
        is_refused = way == "srun" or any(is_refusal(error.message) for error in frame.errors)
        if frame.blocks or not frame.errors or not is_refused:
            return frame
        refused = self._refused.get(frame.node, set()) | {way}
        if self._way(frame.node, refused) is None:
            return frame
        self._refused[frame.node] = refused
        self.has_news = True
        return frame._replace(errors=())

    def endpoints(self) -> list[Endpoint]:
        """The probes to run now."""
        self.has_news = False
        ways: dict[str, str | None] = {
            node: self._way(node, self._refused.get(node, set()))
            for _, nodes in self._jobs.values()
            for node in nodes
        }
        found: list[Endpoint] = []
        by_step: set[str] = set()
        for key, (job, nodes) in self._jobs.items():
            mine = tuple(node for node in nodes if ways[node] == "srun")
            if not mine or not self._is_own(job):
                continue
            is_ready = all(
                ways[n] != "ssh" or n in self._heard or self._roads[n].is_here for n in nodes
            )
            if key not in self._steps and is_ready:
                self._steps[key] = _Step(job.label, self._step(job, mine))
            if key in self._steps:
                found.append(self._steps[key].endpoint)
                found += self._parts.get(key, {}).values()
                by_step.update(self._steps[key].endpoint.nodes)
        for node in sorted(ways):
            # Where a step must wait until all nodes of its job have answered, ssh goes on.
            waits = ways[node] == "srun" and node not in by_step and "ssh" in self._ways
            if ways[node] == "ssh" or waits:
                found.append(self._roads[node].endpoint(node))
        return found

    def remarks(self, now: float) -> list[Frame]:
        """What is reported beside the probes' frames: which jobs hold a step, what is over."""
        labels = tuple(
            label
            for label, step in self._steps.values()
            if any("srun" not in self._refused.get(node, ()) for node in step.nodes)
        )
        if labels != self._reported_labels:
            self._reported_labels = labels
            note = (_note(labels),) if labels else ()
            self._remarks.append(
                Frame(origin=f"{self._url}#srun", node="", taken_at=now, errors=note)
            )
        frames = [frame._replace(taken_at=now) for frame in self._remarks]
        self._remarks.clear()
        return frames

    def _mend(self, frame: Frame) -> None:
        """Give a node that fell silent in a step, while others go on, a step of its own.

        The pool names the node where it alone is silent, and else the step, which it starts again.
        """
        for key, (_, step) in self._steps.items():
            where = {error.where for error in frame.errors}
            if step.origin != frame.origin or key not in self._jobs:
                continue
            parts = self._parts.setdefault(key, {})
            if step.node in where and parts:
                parts.clear()
                self.has_news = True
            elif frame.node in where and frame.node not in parts and len(step.nodes) > 1:
                parts[frame.node] = self._step(self._jobs[key][0], (frame.node,), is_part=True)
                self.has_news = True

    def _way(self, node: str, refused: set[str]) -> str | None:
        """The first way that may work; None: every one was refused."""
        for way in self._ways:
            if way not in refused and (way != "srun" or self._may_step(node)):
                return way
        return None

    def _is_held(self, node: str) -> bool:
        """Whether a running job in view has GPUs there."""
        return any(node in nodes for _, nodes in self._jobs.values())

    def _may_step(self, node: str) -> bool:
        """Whether a job of the user's own there has a step that reaches the node, or none yet."""
        for key, (job, nodes) in self._jobs.items():
            if node in nodes and self._is_own(job):
                step = self._steps.get(key)
                if step is None or node in step.endpoint.nodes:
                    return True
        return False

    def _is_own(self, job: Job) -> bool:
        is_plain = is_job_id(job.job_id) and job.job_id.isdecimal()
        return (
            is_plain and is_job_id(job.label) and job.user == self._user and job.state == "RUNNING"
        )

    def _step(self, job: Job, nodes: tuple[str, ...], *, is_part: bool = False) -> Endpoint:
        prefix = login(*self._hop) if self._hop else ()
        return srun.endpoint(
            job.job_id,
            job.label,
            nodes,
            self._url,
            prefix=prefix,
            is_part=is_part,
            cluster=self._cluster,
        )


def _note(labels: tuple[str, ...]) -> SourceError:
    named = ("job " if len(labels) == 1 else "jobs ") + ", ".join(labels[:MOST_NAMED])
    more = f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else ""
    return SourceError(
        "srun",
        f"reads GPUs through a step named {srun.STEP_NAME} in {named}{more}, "
        "which stays in the accounting",
        "?nodes=ssh or ?nodes=none does without",
    )


def _nodes_with_gpus(job: Job) -> list[str]:
    if job.state not in ("RUNNING", "SUSPENDED"):
        return []
    return [allocation.node for allocation in job.allocations if allocation.gpu_count]
