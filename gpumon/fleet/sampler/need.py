"""Whether a picture needs judging at all: where nothing holds a GPU no time of it is wasted.

The detectors take a process of their own, which is not started, or is given back, as long as only
an empty machine could be told of. What the driver says of its GPUs is shown without them.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from gpumon.model.gpu.conditions import wrong_with

if TYPE_CHECKING:
    from gpumon.model.finding import DetectionReport
    from gpumon.model.records.tick import Tick

LOADED_S: Final = 600.0
"""So long after the last need the detectors stay loaded: whoever works on a machine starts the
next program by then (our choice)."""

FIRST_ROUND_S: Final = 300.0
"""The first round over an empty machine: sooner no detector says anything but faults."""

ROUND_S: Final = 1800.0
"""Between two rounds: loading the detectors takes a second of CPU, so .06 % of a core."""

FEW_GPUS: Final = 128
"""Where more are watched, a worker is little beside the rest, and is always there."""


def is_held(tick: Tick) -> bool:
    """Whether a job or a process holds a GPU, or nobody can tell that none does."""
    if tick.jobs or tick.queue_at is not None or len(tick.gpus) > FEW_GPUS:
        return True
    return any(gpu.processes or gpu.value("process_count") != 0 for gpu in tick.gpus.values())


def is_troubled(tick: Tick) -> bool:
    """Whether a GPU is in a condition that is worth a word, or the driver told of an event."""
    return any(
        (events := node.blocks.get("event")) is not None and events.keys
        for node in tick.nodes.values()
    ) or any(wrong_with(gpu.value) for gpu in tick.gpus.values())


class Need:
    """Says of each picture whether detectors are needed for it.

    Where nothing holds a GPU, all the same a round is made now and then: shared memory that is
    full, a link that errs. What is found keeps them at work until it is cleared.
    """

    def __init__(self) -> None:
        """Nothing was needed yet."""
        self._rests_at = -inf
        self._round_at = inf
        self._before: DetectionReport | None = None
        """The newest report when the round began."""
        self._has_begun = False

    def is_there(self, tick: Tick, report: DetectionReport | None) -> bool:
        """Whether this picture is to be judged.

        Args:
            tick: The picture.
            report: The newest answer of the detectors.
        """
        now = tick.at if tick.steady_s is None else tick.steady_s
        if not self._has_begun:
            self._has_begun, self._round_at = True, now + FIRST_ROUND_S
        has_found = report is not None and bool(report.findings or report.muted)
        if is_held(tick) or has_found or is_troubled(tick):
            self._rests_at = now + LOADED_S
            self._round_at = self._rests_at + ROUND_S
            return True
        if now < self._rests_at:
            return True
        if now < self._round_at:
            self._before = report
            return False
        if report is self._before:
            return True
        self._round_at = now + ROUND_S
        return False
