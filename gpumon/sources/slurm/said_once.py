"""One line for a slurmdbd that gives no answer, where both accounting and queue complain of it.

24.11's slurmrestd asks slurmdbd before it lists partitions, so the queue hears of it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.sources.slurm import accounting, failures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.fault import SourceError
    from gpumon.model.frame import Frame


class SaidOnce:
    """Moves what the queue says of slurmdbd into the accounting's line while there is one."""

    def __init__(self) -> None:
        """Nothing has been said."""
        self._queue: Frame | None = None
        self._ended: Frame | None = None
        self._moved: tuple[SourceError, ...] = ()

    def of(self, frames: Sequence[Frame]) -> list[Frame]:
        """The frames of a queue and its accounting as they are to be told.

        Where the errors of a frame that was told before read otherwise now, it comes once more.
        """
        for frame in frames:
            if frame.ended is not None:
                self._ended = frame
            else:
                self._queue = frame
        again: list[Frame] = []
        moved = self._to_move()
        if moved != self._moved:
            self._moved = moved
            standing = [frame for frame in (self._queue, self._ended) if frame is not None]
            again = [one for one in standing if not any(one is frame for frame in frames)]
        return [self._told(frame) for frame in (*again, *frames)]

    def _to_move(self) -> tuple[SourceError, ...]:
        """What the queue says of slurmdbd, where the accounting says it, too."""
        if self._queue is None or self._ended is None or self._ended.ended is None:
            return ()
        if not any(map(accounting.is_unreached, self._ended.ended.errors)):
            return ()
        return tuple(filter(failures.is_about_accounting, self._queue.errors))

    def _told(self, frame: Frame) -> Frame:
        if not self._moved:
            return frame
        if frame.ended is None:
            kept = tuple(one for one in frame.errors if not failures.is_about_accounting(one))
            return frame._replace(errors=kept)
        errors = tuple(map(self._with_moved, frame.ended.errors))
        return frame._replace(ended=frame.ended._replace(errors=errors))

    def _with_moved(self, error: SourceError) -> SourceError:
        if not accounting.is_unreached(error):
            return error
        said = [f"{one.where} say so, too{failures.told_of_accounting(one)}" for one in self._moved]
        return error._replace(message="; ".join([error.message, *said]))
