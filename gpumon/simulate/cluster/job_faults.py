"""What befalls one rank of a job: it becomes slow, or stops, and all others wait for it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from math import exp, inf, log
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.units import HOUR_S
from gpumon.simulate.physics.phase import Work, run_on
from gpumon.simulate.physics.program import Program
from gpumon.simulate.physics.training import (
    SPIN_SM,
    checkpoint,
    dense_model,
    dense_step,
    in_turn,
    spin,
    step_loops,
)

if TYPE_CHECKING:
    from random import Random

    from gpumon.simulate.physics.board import Board
    from gpumon.simulate.physics.training import Shape

STRAGGLER: Final = "straggler"
HANG: Final = "hang"
THROTTLED: Final = "throttled"
NARROW: Final = "pcie_degraded"
CRASH: Final = "program_error"
STUCK: Final = "stuck_completing"

CLOCK_SHARE: Final = 0.66
"""What heat leaves of the slow rank's clock: steps take about a third longer."""

NARROW_LANES: Final = 4
"""What is left of the sixteen lanes of a GPU whose slot or riser failed."""

_HEAVY_BATCH_S: Final = 0.08
"""Copying of a batch through a whole slot, of a job that a narrow one slows."""

CRASH_XID: Final = 31
"""MMU fault: the program reached for memory that is not its own."""


FAIL_SLOW_S: Final = ((8, 600.0), (32, 1440.0), (512, 4320.0))
"""GPUs of a job and how long it stays slow, as Greyhound (ATC 2025) found on average: 10 minutes in
jobs of one node, 24 in those of four, 72 in those of 512 GPUs and more."""

_SPREAD: Final = (0.5, 1.5)
"""How much shorter or longer than that one fail-slow lasts: our choice, no paper gives it."""


class Trouble(NamedTuple):
    """What happens to one rank of a job."""

    finding_class: str
    """What befalls the job: `straggler`, `hang`, `pcie_degraded`, `program_error` or
    `stuck_completing`."""
    spot: int
    """Position of the rank's node in the job."""
    local: int
    """Position of its GPU among the job's GPUs there."""
    before_s: float = 0.0
    """How long before the demonstration opens, seconds."""
    age_s: float | None = None
    """How long after the job's start, where that is what is known."""
    is_hot: bool = True
    """Whether heat makes a straggler; else its own host does."""
    is_alike: bool = False
    """Whether all ranks of a hang wait alike, as for a collective that not all of them call."""
    lasts_s: float = inf
    """How long it holds, where it is over before its job is."""

    def begins_at(self, started_at: float, opened_at: float) -> float:
        """Unix time from which on it holds."""
        return opened_at - self.before_s if self.age_s is None else started_at + self.age_s

    def ends_at(self, started_at: float, opened_at: float) -> float:
        """Unix time from which on all is well again."""
        return self.begins_at(started_at, opened_at) + self.lasts_s

    def is_of(self, spot: int, local: int) -> bool:
        """Whether it is this rank that causes it."""
        return (spot, local) == (self.spot, self.local)


def fail_slow_s(shape: Shape, chance: Random) -> float:
    """How long a rank of a job of this size stays slow, seconds.

    Between the published sizes the length grows with a power of the size.
    """
    sizes, lengths = zip(*((log(size), log(long_s)) for size, long_s in FAIL_SLOW_S), strict=True)
    at = min(max(log(shape.world), sizes[0]), sizes[-1])
    place = min(bisect_left(sizes, at, 1), len(sizes) - 1)
    share = (at - sizes[place - 1]) / (sizes[place] - sizes[place - 1])
    usual_s = exp(lengths[place - 1] + share * (lengths[place] - lengths[place - 1]))
    return usual_s * chance.uniform(*_SPREAD)


def well_again(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """What a rank runs when its job's trouble is over: the usual steps, without a start-up.

    Args:
        board: Kind of GPU.
        shape: GPUs of the job.
        chance: The stream that the rank's program was drawn from, once more.
        lane: Kind of rank.
    """
    model = dense_model(board, shape, chance)
    step = dense_step(board, shape, model, lane)
    lap = step_loops(board, step, model.checkpoint_every_s, chance)
    saving = in_turn(board, checkpoint(board, shape, model))
    return Program([], [*lap, saving], board.idle_w)


def after(
    trouble: Trouble, board: Board, shape: Shape, chance: Random, lane: int, *, is_cause: bool
) -> Program:
    """What a rank of a data-parallel job runs from the trouble on.

    Args:
        trouble: What happens.
        board: Kind of GPU.
        shape: GPUs of the job.
        chance: The stream that the rank's program was drawn from, once more.
        lane: Kind of rank.
        is_cause: Whether it is this rank that is slow or stuck.
    """
    if trouble.finding_class == HANG:
        return _stopped(board, shape, chance, is_stuck=is_cause and not trouble.is_alike)
    if trouble.finding_class == STUCK:
        # Its processes are gone; what is left waits in the kernel, or in the epilog.
        return Program([], [in_turn(board, [Work(HOUR_S)])], board.idle_w)
    if trouble.finding_class == CRASH:
        return Program([], [in_turn(board, [Work(HOUR_S, cpu_cores=0.05)])], board.idle_w)
    if trouble.finding_class == NARROW or not trouble.is_hot:
        steps = _waiting(trouble, board, shape, chance, lane)
        return Program([], [in_turn(board, steps[1 - is_cause])], board.idle_w)
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


def _waiting(
    trouble: Trouble, board: Board, shape: Shape, chance: Random, lane: int
) -> tuple[list[Work], list[Work], list[Work]]:
    """One step of the slow rank, of one that waits for it, and as it would be without trouble.

    The slow rank's host is late with each batch, or its slot is too narrow for it.
    """
    model = dense_model(board, shape, chance)
    if trouble.finding_class == STRAGGLER:
        usual = dense_step(board, shape, model, lane)
        late_s = chance.uniform(0.25, 0.9) * model.compute_s
        slow = [Work(late_s, cpu_cores=1.0, mem_bytes=model.mem_bytes)]
    else:
        copied_s = _HEAVY_BATCH_S * board.step_times
        batch_bytes = copied_s * 0.8 * board.pcie_bytes_per_s
        usual = dense_step(board, shape, replace(model, batch_bytes=batch_bytes), lane)
        late_s = copied_s * (board.pcie_width / NARROW_LANES - 1.0)
        # The one copy lasts longer: the same bytes, at what the lanes carry.
        copy = usual[1]
        slow = [copy._replace(seconds=copy.seconds + late_s)]
        return [*slow, usual[0], *usual[2:]], [*spin(late_s, model.mem_bytes, 0.0), *usual], usual
    return [*slow, *usual], [*spin(late_s, model.mem_bytes, 0.0), *usual], usual


def slowed_share(trouble: Trouble, board: Board, shape: Shape, chance: Random) -> float:
    """Share of all ranks' time that is lost to one slow rank.

    Args:
        trouble: What makes it slow.
        board: Kind of GPU.
        shape: GPUs of the job.
        chance: The stream that the ranks' programs were drawn from, once more.
    """
    if trouble.finding_class == NARROW or not trouble.is_hot:
        slow, _, usual = _waiting(trouble, board, shape, chance, 0)
        whole_s, part_s = (sum(run_on(board, w).seconds for w in step) for step in (slow, usual))
        return 1.0 - part_s / whole_s
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
    spin = Work(HOUR_S, 1.0, SPIN_SM, 0.05, dram=0.004, cpu_cores=1.0, mem_bytes=held)
    rest = Work(HOUR_S, mem_bytes=held)
    return Program([], [in_turn(board, [rest if is_stuck else spin])], board.idle_w)
