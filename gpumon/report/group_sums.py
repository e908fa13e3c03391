"""What the jobs of one group come to, added up one job after the other."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

from gpumon.model.block import MISSING_INTEGER
from gpumon.report.array_tasks import asked_gpus, task_count
from gpumon.report.words import HOLDING_STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.block import Block
    from gpumon.model.cluster import JobView
    from gpumon.report.digest import Digest


class GroupSum:
    """Sums over the jobs of one user, account or partition."""

    __slots__ = (
        "activities", "findings", "gpus_pending", "gpus_running", "jobs_pending", "jobs_running",
        "oldest_submit_at",
    )  # fmt: skip

    def __init__(self) -> None:
        self.jobs_running = 0
        self.jobs_pending = 0
        """Arrays counted by task."""
        self.gpus_running = 0
        self.gpus_pending = 0
        """As far as Slurm says."""
        self.findings = 0
        self.oldest_submit_at: float | None = None
        """When the oldest job that waits was submitted; None: none waits, or not known."""
        self.activities: dict[str, float] = {}
        """SM activity by UUID, or the duty cycle where a GPU has no such counter; a GPU that
        several jobs share counts once, one of which nothing is known not at all."""

    def add(self, digest: Digest, view: JobView) -> None:
        """Count one more job in."""
        job = view.job
        self.findings += len(digest.findings_by_job.get(job.job_id, ()))
        if job.state in HOLDING_STATES:
            self.jobs_running += 1
            self.gpus_running += len(view.gpu_uuids) if job.gpu_count is None else job.gpu_count
            self._add_activities(digest, view.gpu_uuids)
        elif job.state == "PENDING":
            self.jobs_pending += task_count(job)
            self.gpus_pending += asked_gpus(job) or 0
            since = job.submit_at
            if since is not None:
                oldest = self.oldest_submit_at
                self.oldest_submit_at = since if oldest is None else min(oldest, since)

    def _add_activities(self, digest: Digest, uuids: Sequence[str]) -> None:
        # Without a call for each GPU: all groups together ask for those of the whole fleet.
        known, found = digest.tick.gpus, self.activities
        block: Block | None = None
        active: Sequence[float] | None = None
        duty: Sequence[float] | None = None
        for uuid in uuids:
            gpu = known.get(uuid)
            if gpu is None or gpu.is_stale:
                continue
            if gpu.block is not block:
                block = gpu.block
                active = block.columns.get("sm_active_ratio")
                duty = block.columns.get("gpu_util_ratio")
            value = nan if active is None else active[gpu.row]
            if value != value or value == MISSING_INTEGER:
                value = nan if duty is None else duty[gpu.row]
                if value != value or value == MISSING_INTEGER:
                    continue
            found[uuid] = value
