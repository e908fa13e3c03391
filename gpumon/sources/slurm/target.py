"""Target `slurm`: the queue by Slurm's commands, and a probe on the nodes of its jobs."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from gpumon.model.hostlist import is_host_name
from gpumon.sources.local import local_endpoint
from gpumon.sources.pool import ProbePool
from gpumon.sources.slurm.queue import SlurmQueue
from gpumon.sources.ssh import endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.cluster import Job
    from gpumon.model.frame import Frame, QueueRecords
    from gpumon.sources.source import Clock, Wish
    from gpumon.sources.stream import Endpoint
    from gpumon.sources.target import Look, Target


class SlurmSource:
    """Reads the queue, and the GPUs of the nodes on which the jobs in view run."""

    def __init__(self, target: Target, look: Look, clock: Clock) -> None:
        """Nothing runs before `start`."""
        self.url = target.url
        self._reaches_nodes = target.nodes_by != "none"
        self._keeps = look.keeps
        self._queue = SlurmQueue(target.url, clock=clock)
        self._pool = ProbePool(
            target.url, [], look.period_s, clock, look.is_single, look.probe_options
        )

    def start(self, wake: Callable[[], None]) -> None:
        """Ask the queue; the probes start when it has answered."""
        self._queue.start(wake)
        self._pool.start(wake)

    def poll(self) -> list[Frame]:
        """Frames of the queue and of the nodes since the last poll."""
        frames = []
        for frame in self._queue.poll():
            if frame.queue is None:
                frames.append(frame)
                continue
            wanted = tuple(job for job in frame.queue.jobs if self._keeps(job))
            seen = frame.queue._replace(jobs=wanted)
            frames.append(frame._replace(queue=seen))
            if self._reaches_nodes:
                self._pool.replace(self._endpoints(seen))
        return frames + self._pool.poll()

    def _endpoints(self, queue: QueueRecords) -> list[Endpoint]:
        hosts = {node.name: node.host_name or node.name for node in queue.nodes}
        here = socket.gethostname()
        endpoints = []
        for node in sorted({name for job in queue.jobs for name in _nodes_with_gpus(job)}):
            # A job may name any node in a forged record; only nodes that Slurm lists are reached.
            host = hosts.get(node, "")
            if host in (here, here.partition(".")[0]):
                endpoints.append(local_endpoint(node))
            elif is_host_name(host):
                endpoints.append(endpoint(host, node=node))
        return endpoints

    def pending(self) -> bool:
        """Whether the queue or a node has not answered for the first time."""
        return self._queue.pending() or self._pool.pending()

    def wish(self, wish: Wish) -> None:
        """Take a new period for the probes; the queue keeps its own, slower one."""
        self._pool.wish(wish)

    def close(self) -> None:
        """End the commands and the probes."""
        self._queue.close()
        self._pool.close()


def _nodes_with_gpus(job: Job) -> list[str]:
    if job.state not in ("RUNNING", "SUSPENDED"):
        return []
    return [allocation.node for allocation in job.allocations if allocation.gpu_count]
