"""Several clusters in one tick: each job, node, partition and reservation names its cluster.

Every Slurm counts its jobs from one, and `gpu01` is a name in many of them. Where more than one
Slurm target is in view, what each reports is renamed on its way here, and each wish on its way
there, so that nothing above can mix them.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from gpumon.model.cluster_names import cluster_in, of_cluster, within_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpumon.model.records.accounting import EndedReport
    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Job, SlurmNode
    from gpumon.model.records.frame import Frame, QueueRecords
    from gpumon.sources.source import Source, Wish

_REMEMBERED: Final = 2**12
"""Texts of rank variables that are renamed once only: a process has its own for life."""


class SlurmTarget(Protocol):
    """A source that reads one cluster."""

    @property
    def cluster(self) -> str:
        """Slurm's name of the cluster; empty while it is not known."""
        ...


class Claims:
    """The names of the clusters in view, each that of one target alone."""

    def __init__(self) -> None:
        """No target has a name yet."""
        self._owner: dict[str, int] = {}

    def name(self, reported: str, owner: int) -> str:
        """The name of a target's cluster, which has a number where others are called so."""
        number, name = 1, reported
        while self._owner.setdefault(name, owner) != owner:
            number += 1
            name = f"{reported}-{number}"
        return name


class OneOfSeveral:
    """One Slurm target beside others, as a source whose names are its own."""

    def __init__(self, number: int, place: str, claims: Claims) -> None:
        """Nothing is known of the cluster yet.

        Args:
            number: of the target.
            place: what its cluster is called where Slurm does not report a name.
            claims: the names of all targets.
        """
        self._number = number
        self._place = place
        self._claims = claims
        self._source: Source | None = None
        self._target: SlurmTarget | None = None
        self._cluster = ""

    def reads(self, source: Source, target: SlurmTarget) -> Source:
        """Stand before this source; returns itself."""
        self._source, self._target = source, target
        self.url = source.url
        return self

    def renaming(self, is_wanted: Callable[[Job], bool]) -> Callable[[Job], bool]:
        """Which jobs of the cluster are wanted, by the names under which they will be shown."""
        return lambda job: is_wanted(_job(job, self._name()))

    def _name(self) -> str:
        reported = self._target.cluster if self._target else ""
        if not self._cluster and reported:
            self._cluster = self._claims.name(reported, self._number)
        return self._cluster or self._claims.name(self._place, self._number)

    @property
    def _inner(self) -> Source:
        assert self._source is not None, "reads() comes first"
        return self._source

    def start(self, wake: Callable[[], None]) -> None:
        """Begin."""
        self._inner.start(wake)

    def poll(self) -> list[Frame]:
        """Its frames, renamed."""
        return [_frame(frame, self._name()) for frame in self._inner.poll()]

    def pending(self) -> bool:
        """Whether the first report of a part of it may still arrive."""
        return self._inner.pending()

    def wish(self, wish: Wish) -> None:
        """Pass on what is wished of this cluster, under its own names."""
        mine = self._name()
        use_of = within_cluster(wish.use_of) if cluster_in(wish.use_of) in ("", mine) else ""
        nodes = tuple(
            within_cluster(name) for name in wish.zoom_nodes if cluster_in(name) in ("", mine)
        )
        if wish.use_of and not use_of:
            return
        self._inner.wish(wish._replace(use_of=use_of, zoom_nodes=nodes))

    def close(self) -> None:
        """Free everything."""
        self._inner.close()


def _frame(frame: Frame, cluster: str) -> Frame:
    return frame._replace(
        node=of_cluster(frame.node, cluster),
        host_names=_all(frame.host_names, cluster),
        blocks={name: _block(name, block, cluster) for name, block in frame.blocks.items()},
        queue=frame.queue and _queue(frame.queue, cluster),
        ended=frame.ended and _ended(frame.ended, cluster),
    )


def _block(name: str, block: Block, cluster: str) -> Block:
    """A block with the jobs of its processes, or of its control groups, renamed."""
    if name == "cgroup":
        return block._replace(keys=_all(block.keys, cluster))
    changed = {
        label: tuple(None if one is None else rename(one, cluster) for one in block.labels[label])
        for label, rename in (("job_id", of_cluster), ("rank_vars", _variables))
        if label in block.labels
    }
    return block._replace(labels={**block.labels, **changed}) if changed else block


@lru_cache(_REMEMBERED)
def _variables(text: str, cluster: str) -> str:
    """Rank variables with the number of their job renamed."""
    try:
        variables = json.loads(text)
    except ValueError:
        return text
    job_id = variables.get("SLURM_JOB_ID") if isinstance(variables, dict) else None
    if not isinstance(job_id, str):
        return text
    return json.dumps({**variables, "SLURM_JOB_ID": of_cluster(job_id, cluster)})


def _queue(queue: QueueRecords, cluster: str) -> QueueRecords:
    return queue._replace(
        jobs=tuple(_job(job, cluster) for job in queue.jobs),
        nodes=tuple(_node(node, cluster) for node in queue.nodes),
        partitions=tuple(
            one._replace(name=of_cluster(one.name, cluster), nodes=_all(one.nodes, cluster))
            for one in queue.partitions
        ),
        reservations=tuple(
            one._replace(
                name=of_cluster(one.name, cluster),
                nodes=_all(one.nodes, cluster),
                partition=of_cluster(one.partition, cluster),
            )
            for one in queue.reservations
        ),
        cluster="",
    )


def _job(job: Job, cluster: str) -> Job:
    return job._replace(
        job_id=of_cluster(job.job_id, cluster),
        label=of_cluster(job.label, cluster),
        partition=",".join(_all(job.partition.split(","), cluster)),
        nodes=_all(job.nodes, cluster),
        allocations=tuple(
            one._replace(node=of_cluster(one.node, cluster)) for one in job.allocations
        ),
        reservation=of_cluster(job.reservation, cluster),
        expected_nodes=_all(job.expected_nodes, cluster),
        nodes_required=_all(job.nodes_required, cluster),
        nodes_excluded=_all(job.nodes_excluded, cluster),
    )


def _node(node: SlurmNode, cluster: str) -> SlurmNode:
    """A node; host name and address stay, by which other targets find it."""
    return node._replace(
        name=of_cluster(node.name, cluster),
        partitions=_all(node.partitions, cluster),
        reservation=of_cluster(node.reservation, cluster),
        leaf_switch=of_cluster(node.leaf_switch, cluster),
        block=of_cluster(node.block, cluster),
    )


def _ended(report: EndedReport, cluster: str) -> EndedReport:
    records, running = report.records, report.running
    if records is not None:
        jobs = tuple(
            ended._replace(
                job=_job(ended.job, cluster),
                steps=tuple(
                    step._replace(job_id=of_cluster(step.job_id, cluster)) for step in ended.steps
                ),
            )
            for ended in records.jobs
        )
        records = records._replace(jobs=jobs)
    if running is not None:
        steps = {
            of_cluster(job, cluster): tuple(
                step._replace(job_id=of_cluster(step.job_id, cluster)) for step in found
            )
            for job, found in running.steps.items()
        }
        running = running._replace(steps=steps)
    return report._replace(records=records, running=running)


def _all(names: Iterable[str], cluster: str) -> tuple[str, ...]:
    return tuple(of_cluster(name, cluster) for name in names)
