"""What befalls a job while it runs: one rank becomes slow, or stops, and all others wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.simulate.physics.phase import Work, run_on
from gpumon.simulate.physics.program import Program
from gpumon.simulate.physics.training import (
    SPIN_SM,
    checkpoint,
    dense_model,
    dense_step,
    in_turn,
    step_loops,
)

if TYPE_CHECKING:
    from random import Random

    from gpumon.simulate.physics.board import Board
    from gpumon.simulate.physics.training import Shape

STRAGGLER: Final = "straggler"
HANG: Final = "hang"
THROTTLED: Final = "throttled"

CLOCK_SHARE: Final = 0.66
"""What heat leaves of the slow rank's clock: steps take about a third longer."""

_HOUR: Final = 3600.0


class Trouble(NamedTuple):
    """What happens to one rank of a job, long after the job started."""

    finding_class: str
    """`straggler` or `hang`."""
    spot: int
    """Position of the rank's node in the job."""
    local: int
    """Position of its GPU among the job's GPUs there."""
    before_s: float
    """How long before the demonstration is first looked at, seconds."""

    def is_of(self, spot: int, local: int) -> bool:
        """Whether it is this rank that causes it."""
        return (spot, local) == (self.spot, self.local)


def after(
    trouble: Trouble, board: Board, shape: Shape, chance: Random, lane: int, *, is_cause: bool
) -> Program:
    """What a rank of a data-parallel job runs from the trouble on.

    Args:
        trouble: What happens.
        board: Kind of GPU.
        shape: GPUs of the job.
        chance: The stream that the rank's program was drawn from, anew.
        lane: Kind of rank.
        is_cause: Whether it is this rank that is slow or stuck.
    """
    if trouble.finding_class == HANG:
        return _stopped(board, shape, chance, is_stuck=is_cause)
    return _held_back(board, shape, chance, lane, is_slow=is_cause)


def _held_back(board: Board, shape: Shape, chance: Random, lane: int, *, is_slow: bool) -> Program:
    """Training of which one rank's clock is held down by heat; the others wait in every step."""
    model = dense_model(board, shape, chance)
    own = CLOCK_SHARE if is_slow else 1.0
    step = dense_step(board, shape, model, lane, slowest=CLOCK_SHARE, own=own)
    # The die stays hot through the waits, too.
    step, saving = (
        [work._replace(clock_share=own) for work in works]
        for works in (step, checkpoint(board, shape, model))
    )
    lap = step_loops(board, step, model.checkpoint_every_s, chance)
    return Program([], [*lap, in_turn(board, saving)], board.idle_w)


def slowed_share(board: Board, shape: Shape, chance: Random) -> float:
    """Share of all ranks' time that is lost to one slow rank.

    Args:
        board: Kind of GPU.
        shape: GPUs of the job.
        chance: The stream that the ranks' programs were drawn from, anew.
    """
    model = dense_model(board, shape, chance)
    usual_s, slow_s = (
        sum(run_on(board, work).seconds for work in dense_step(board, shape, model, 0, 0.0, clock))
        for clock in (1.0, CLOCK_SHARE)
    )
    return 1.0 - usual_s / slow_s


def _stopped(board: Board, shape: Shape, chance: Random, *, is_stuck: bool) -> Program:
    """No step any more: one rank is stuck on its host, the others spin in the collective."""
    held = dense_model(board, shape, chance).mem_bytes
    # A communication kernel that waits reads flags only; one thread of the host waits with it.
    spin = Work(_HOUR, 1.0, SPIN_SM, 0.05, dram=0.004, cpu_cores=1.0, mem_bytes=held)
    rest = Work(_HOUR, mem_bytes=held)
    return Program([], [in_turn(board, [rest if is_stuck else spin])], board.idle_w)
