"""Pictures as the monitor tells them to its worker: only what changed since the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.detect.facts import facts_of, is_judged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.detect.facts import GpuFacts
    from gpumon.fleet.history_reader import HistoryReader
    from gpumon.model.cluster import JobView
    from gpumon.model.tick import Interval, Tick


class Sender:
    """Remembers what one worker knows already."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[JobView, tuple[Interval, ...]]] = {}
        self._gpus: dict[str, GpuFacts] = {}
        self._chunks: set[int] = set()

    def message(
        self, tick: Tick, history: HistoryReader, muted: Iterable[str]
    ) -> tuple[dict[str, object], list[int]]:
        """The request to judge a tick, and the descriptors of the chunks that are new to it."""
        jobs = {
            view.job.job_id: (view, history.intervals(view.job.job_id))
            for view in tick.jobs
            if is_judged(view)
        }
        gpus = facts_of(tick.gpus)
        chunks = {chunk.shape.number: chunk for chunk, _ in history.chunks}
        new_chunks = [chunk for number, chunk in chunks.items() if number not in self._chunks]
        message: dict[str, object] = {
            "kind": "look",
            "at": tick.at,
            "observed_since": tick.observed_since,
            "muted": sorted(muted),
            "chunks": [chunk.shape for chunk in new_chunks],
            "rows": [(chunk.shape.number, rows) for chunk, rows in history.chunks],
            "jobs": [entry for job_id, entry in jobs.items() if self._jobs.get(job_id) != entry],
            "jobs_gone": [job_id for job_id in self._jobs if job_id not in jobs],
            "gpus": [facts for uuid, facts in gpus.items() if self._gpus.get(uuid) != facts],
            "gpus_gone": [uuid for uuid in self._gpus if uuid not in gpus],
        }
        self._jobs, self._gpus, self._chunks = jobs, gpus, set(chunks)
        return message, [chunk.fd for chunk in new_chunks]
