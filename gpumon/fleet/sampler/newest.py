"""The newest that every source has said, kept while a node is silent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.fleet.join.disputes import Disputes
from gpumon.model.fault import DRIVER
from gpumon.model.records.frame import merged_queues
from gpumon.model.records.tick import TargetState
from gpumon.sources.address import target_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.model.fault import SourceError
    from gpumon.model.records.accounting import EndedJobs, EndedReport, RunningUse
    from gpumon.model.records.frame import Frame, QueueRecords

FORGET_AFTER_S: Final = 3600.0
"""A node that has not been heard for this long is no longer shown, unless the queue lists it."""


class Newest:
    """Last frame with values per origin and node, last answer of the queue, standing errors."""

    def __init__(self) -> None:
        """Nothing heard yet."""
        self._frames: dict[tuple[str, str], Frame] = {}
        self._errors: dict[tuple[str, str], tuple[SourceError, ...]] = {}
        self._silent: set[str] = set()
        """Origins whose last word of no single node said nothing."""
        self._left: dict[tuple[str, str], float] = {}
        self._queues: dict[str, QueueRecords] = {}
        self._ended: dict[str, EndedReport] = {}
        self.first_at: float | None = None
        self.disputes = Disputes()
        """GPUs that two nodes of one target claim."""
        self._ahead: set[tuple[str, str]] = set()
        """Whose frame is from before the clock was set back: its time says nothing any more."""

    def take(self, frames: Iterable[Frame]) -> None:
        """Keep what the frames say; an error stands until its node speaks without one.

        Values that were held back on their way and come behind newer ones are passed over.
        """
        for frame in frames:
            key = (frame.origin, frame.node)
            if self.first_at is None:
                self.first_at = frame.taken_at
            if frame.ended is not None:
                # It speaks of the accounting alone: what the queue has said stands beside it.
                self._ended[frame.origin] = frame.ended
                continue
            if self._is_late(key, frame):
                continue
            if frame.blocks:
                self._frames[key] = frame
                self.disputes.take(frame)
            elif frame.over_at is not None:
                self._end(frame)
            if frame.queue is not None:
                self._queues[frame.origin] = frame.queue
            is_empty = not frame.blocks and frame.queue is None
            if frame.is_left and key in self._frames:
                self._left[key] = frame.taken_at
            elif frame.blocks or frame.errors:
                self._left.pop(key, None)
            if not frame.node:
                (self._silent.add if is_empty else self._silent.discard)(frame.origin)
            if frame.errors:
                self._errors[key] = frame.errors
            else:
                self._errors.pop(key, None)
            url = target_of(frame.origin)
            if url not in self._queues and not is_empty:
                # A child whose node was unknown while it failed has told its name.
                self._errors.pop((url, ""), None)
                self._silent.discard(url)

    def _end(self, failure: Frame) -> None:
        """Note when what was said before a failure is over."""
        origin = failure.origin
        keys = [(origin, failure.node)]
        if not failure.node:
            keys = [key for key in self._frames if origin in (key[0], target_of(key[0]))]
        for key in keys:
            if key in self._frames:
                self._frames[key] = self._frames[key]._replace(over_at=failure.over_at)

    def _is_late(self, key: tuple[str, str], frame: Frame) -> bool:
        """Whether its values are older than those that are kept."""
        known = self._frames.get(key)
        has_values = bool(frame.blocks) and frame.queue is None
        if not has_values or known is None or key in self._ahead:
            return False
        return frame.taken_at < known.taken_at

    def forget(self, now: float) -> None:
        """Drop nodes that have been silent for too long."""
        self._ahead = {key for key, frame in self._frames.items() if frame.taken_at > now}
        for key in [k for k, f in self._frames.items() if now - f.taken_at > FORGET_AFTER_S]:
            del self._frames[key]
            self.disputes.forget(*key)
            self._errors.pop(key, None)
            self._left.pop(key, None)

    @property
    def left(self) -> dict[tuple[str, str], float]:
        """Since when a source looks at a node no more, by origin and node: Unix time."""
        return self._left

    @property
    def frames(self) -> list[Frame]:
        """Newest frame with values of every node and origin."""
        return list(self._frames.values())

    @property
    def queue(self) -> QueueRecords | None:
        """Last answers of every queue as one, None where no target is a queue."""
        return merged_queues(list(self._queues.values()))

    @property
    def ended(self) -> EndedJobs | None:
        """Last answers of every accounting as one, None where there is none."""
        answers = [report.records for report in self._ended.values() if report.records]
        if not answers:
            return None
        merged = answers[0]
        for other in answers[1:]:
            merged = merged._replace(
                jobs=merged.jobs + other.jobs,
                since=max(merged.since, other.since),
                at=min(merged.at, other.at),
                unreadable=merged.unreadable + other.unreadable,
                has_last_runs_only=merged.has_last_runs_only or other.has_last_runs_only,
            )
        return merged

    @property
    def running_use(self) -> RunningUse | None:
        """Last answers about running steps as one, None where there is none."""
        answers = [report.running for report in self._ended.values() if report.running]
        if not answers:
            return None
        from gpumon.model.records.accounting import RunningUse

        steps = {job: steps for answer in answers for job, steps in answer.steps.items()}
        return RunningUse(steps, min(answer.at for answer in answers))

    @property
    def node_errors(self) -> dict[str, tuple[SourceError, ...]]:
        """Standing errors by the node's name as its source uses it; empty: of no single node."""
        by_node: dict[str, tuple[SourceError, ...]] = {}
        for (_, node), errors in self._errors.items():
            by_node[node] = by_node.get(node, ()) + errors
        for (_, node), error in self.disputes.errors().items():
            by_node[node] = (*by_node.get(node, ()), error)
        return by_node

    @property
    def errors(self) -> tuple[SourceError, ...]:
        """Every standing error once."""
        standing = [
            *self._errors.values(),
            tuple(self.disputes.errors().values()),
            *(report.errors for report in self._ended.values()),
        ]
        return tuple(dict.fromkeys(e for errors in standing for e in errors))

    def target(self, url: str, now: float) -> TargetState:
        """How one target fares: ok while anything of it answers without an error of its own.

        A node that answers while its driver does not is none: nothing of what is asked is known.
        """
        own = [frame for key, frame in self._frames.items() if target_of(key[0]) == url]
        ages = [now - frame.taken_at for frame in own]
        if url in self._queues:
            ages.append(now - self._queues[url].jobs_at)
        standing = [
            error
            for key, errors in self._errors.items()
            if target_of(key[0]) == url
            for error in errors
        ]
        dead = [error for error in standing if error.where.endswith(DRIVER)]
        has_gpus = any(frame.block("gpu").keys for frame in own)
        is_dead = bool(dead) and not has_gpus and url not in self._queues
        return TargetState(
            url,
            bool(ages) and url not in self._silent and not is_dead,
            next(iter(dead if is_dead else standing), None),
            min(ages) if ages else None,
        )
