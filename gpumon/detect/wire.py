"""Pictures as the monitor tells them to its worker: only what changed since the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.detect.fact_wire import FactSender
from gpumon.detect.facts import is_judged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.fleet.history_reader import HistoryReader
    from gpumon.model.cluster import Job, JobView
    from gpumon.model.tick import Interval, Tick


class Sender:
    """Remembers what one worker knows already."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[JobView, tuple[Interval, ...]]] = {}
        self._records: dict[str, Job] = {}
        self._facts = FactSender()
        self._entities: dict[int, int] = {}
        """How many entities of each chunk it knows."""

    def message(
        self, tick: Tick, history: HistoryReader, muted: Iterable[str]
    ) -> tuple[dict[str, object], list[int]]:
        """The request to judge a tick, and the descriptors of the chunks that are new to it."""
        jobs = {
            view.job.job_id: (view, history.intervals(view.job.job_id))
            for view in tick.jobs
            if is_judged(view)
        }
        # A waiting job's priority grows with its age, and no detector needs it.
        records = {
            view.job.job_id: view.job._replace(priority=None)
            for view in tick.jobs
            if not is_judged(view)
        }
        chunks = {chunk.shape.number: chunk for chunk, _ in history.chunks}
        entities = {
            number: tuple(chunk.entities[self._entities.get(number, 0) :])
            for number, chunk in chunks.items()
        }
        new_chunks = [chunk for number, chunk in chunks.items() if number not in self._entities]
        message: dict[str, object] = {
            "kind": "look",
            "at": tick.at,
            "observed_since": tick.observed_since,
            "muted": sorted(muted),
            "chunks": [chunk.shape for chunk in new_chunks],
            "rows": [(chunk.shape.number, rows) for chunk, rows in history.chunks],
            "entities": [(number, names) for number, names in entities.items() if names],
            "jobs": [entry for job_id, entry in jobs.items() if self._jobs.get(job_id) != entry],
            "jobs_gone": [job_id for job_id in self._jobs if job_id not in jobs],
            "records": [job for key, job in records.items() if self._records.get(key) != job],
            "records_gone": [job_id for job_id in self._records if job_id not in records],
            "facts": self._facts.changes(tick),
        }
        self._jobs, self._records = jobs, records
        self._entities = {
            number: self._entities.get(number, 0) + len(names) for number, names in entities.items()
        }
        return message, [chunk.fd for chunk in new_chunks]
