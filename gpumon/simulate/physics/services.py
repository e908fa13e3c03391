"""What is not a step loop: serving in bursts, notebooks, held and unused GPUs."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.units import HOUR_S
from gpumon.simulate.physics.phase import Work, run_on
from gpumon.simulate.physics.program import Loop, Program
from gpumon.simulate.physics.training import dense_model, dense_step, start_up, step_loops

if TYPE_CHECKING:
    from random import Random

    from gpumon.simulate.physics.board import Board
    from gpumon.simulate.physics.training import Shape


def unused(board: Board) -> Program:
    """A GPU that no process has opened."""
    return Program([], [rest(board, HOUR_S, 0.0)], board.idle_w)


class Lengths(NamedTuple):
    """Lengths that are drawn log-normally."""

    median_min: float
    spread: float
    """Of the logarithm."""
    longest_min: float

    def seconds(self, chance: Random) -> float:
        """One of them."""
        drawn = self.median_min * exp(self.spread * chance.gauss(0.0, 1.0))
        return 60.0 * min(self.longest_min, drawn)


BURSTS: Final = Lengths(1.9, 1.178, 21.9)
GAPS: Final = Lengths(1.9, 1.575, 61.8)
"""With the published medians and upper tenths of real serving windows: 1.9 and 8.6 minutes of work,
1.9 and 14.3 minutes without."""


def serving(
    board: Board,
    shape: Shape,
    chance: Random,
    lane: int,
    bursts: Lengths = BURSTS,
    gaps: Lengths = GAPS,
) -> Program:
    """A language-model server: prefill and decode while requests come, idle in between."""
    held = 0.9 * board.mem_total_bytes
    weights = chance.uniform(0.35, 0.6) * board.mem_total_bytes
    links = 0.0 if shape.gpus == 1 else 1.0
    tensor = chance.uniform(0.4, 0.55)
    batch = chance.uniform(0.55, 0.95)
    request = [
        Work(
            seconds=0.16, kernel=1.0, sm=0.9, occupancy=0.34, tensor=tensor, dram=0.4,
            nvlink_bytes=links * 6e9, cpu_cores=2.0,
            pcie_rx_bytes=4e5, mem_bytes=held,
        ),
        Work(
            seconds=1.7, kernel=0.94, sm=0.72 * batch, occupancy=0.3 * batch, tensor=0.12 * batch,
            dram=0.74,
            nvlink_bytes=links * 9e9, pcie_tx_bytes=2e5, cpu_cores=2.0, mem_bytes=held,
        ),
        Work(0.12 + 0.02 * lane, cpu_cores=1.0, mem_bytes=held),
    ]  # fmt: skip
    lap: list[Loop] = []
    for _ in range(24):
        busy_s, quiet_s = bursts.seconds(chance), gaps.seconds(chance)
        lap += step_loops(board, request, busy_s, chance, loops=1)
        lap.append(rest(board, max(2.0, quiet_s), held))
    return with_start(board, weights, held, chance, lap)


def notebook(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """A user at a keyboard: seconds of work between minutes of reading and typing."""
    held = chance.uniform(0.06, 0.2) * board.mem_total_bytes
    cell = [
        Work(
            seconds=0.35,
            kernel=1.0,
            sm=0.55,
            occupancy=0.22,
            tensor=0.15,
            dram=0.3,
            pcie_rx_bytes=2e8,
            cpu_cores=1.0,
            mem_bytes=held,
        ),
        Work(0.25, cpu_cores=1.0, mem_bytes=held),
    ]
    lap: list[Loop] = []
    for _ in range(12):
        lap += step_loops(board, cell, chance.uniform(10.0, 55.0), chance, loops=1)
        lap.append(rest(board, chance.uniform(4 * 60.0, 22 * 60.0), held, lost=1.0))
    return with_start(board, held * 0.6, held, chance, lap)


def idle_held(board: Board, shape: Shape, chance: Random, _lane: int) -> Program:
    """Worked for a while, then nothing ever again, its memory still held."""
    model = dense_model(board, shape, chance)
    held = model.mem_bytes
    step = [
        Work(
            seconds=model.compute_s,
            kernel=1.0,
            sm=0.9,
            occupancy=0.3,
            tensor=model.tensor,
            dram=0.35,
            cpu_cores=2.0,
            mem_bytes=held,
        ),
        Work(0.02, cpu_cores=2.0, mem_bytes=held),
    ]
    head = [
        *(Loop([run_on(board, w)]) for w in start_up(model.weights_bytes, held, chance)),
        *step_loops(board, step, chance.uniform(900.0, 1800.0), chance),
    ]
    return Program(head, [rest(board, HOUR_S, held, lost=1.0)], board.idle_w)


def rest(
    board: Board, seconds: float, held: float, lost: float = 0.0, cores: float | None = None
) -> Loop:
    """Nothing on the GPU, with or without memory held."""
    cores = cores if cores is not None else 0.02 if held else 0.0
    work = Work(seconds, cpu_cores=cores, mem_bytes=held, lost=lost)
    return Loop([run_on(board, work)])


def with_start(
    board: Board, weights: float, held: float, chance: Random, lap: list[Loop]
) -> Program:
    """The usual start-up, then what repeats."""
    head = start_up(weights, held, chance)
    return Program([Loop([run_on(board, work)]) for work in head], lap, board.idle_w)


def never_started(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """A script that waits for something, and no process ever opens the GPU."""
    return Program([], [rest(board, HOUR_S, 0.0, 1.0, chance.uniform(0.005, 0.1))], board.idle_w)


def cpu_only(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """A solver, or a conversion of data, that fills its CPUs and knows no GPU."""
    cores = chance.uniform(0.75, 0.98) * board.cores_per_gpu
    return Program([], [rest(board, HOUR_S, 0.0, 1.0, cores)], board.idle_w)


def idle_tail(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Trained, and ended; the script sleeps on, or waits for a service that it had started."""
    model = dense_model(board, shape, chance)
    step = dense_step(board, shape, model, lane)
    head = [
        *(Loop([run_on(board, w)]) for w in start_up(model.weights_bytes, model.mem_bytes, chance)),
        *step_loops(board, step, chance.uniform(1500.0, 5400.0), chance),
    ]
    return Program(head, [rest(board, HOUR_S, 0.0, 1.0, 0.01)], board.idle_w)


def session_left(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """A shell in which a user tried something, ended it, and went home."""
    held = chance.uniform(0.03, 0.3) * board.mem_total_bytes
    cell = [
        Work(
            seconds=0.5,
            kernel=1.0,
            sm=0.6,
            occupancy=0.25,
            tensor=0.2,
            dram=0.3,
            pcie_rx_bytes=1e8,
            cpu_cores=1.0,
            mem_bytes=held,
        ),
        Work(0.2, cpu_cores=1.0, mem_bytes=held),
    ]
    head = step_loops(board, cell, chance.uniform(180.0, 900.0), chance, loops=1)
    return Program(head, [rest(board, HOUR_S, 0.0, lost=1.0)], board.idle_w)


def active_session(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """A user at work: cells of minutes, thought in between, a debugger that holds everything."""
    held = chance.uniform(0.1, 0.6) * board.mem_total_bytes
    cell = [
        Work(
            seconds=0.6,
            kernel=1.0,
            sm=0.7,
            occupancy=0.25,
            tensor=0.3,
            dram=0.35,
            pcie_rx_bytes=2e8,
            cpu_cores=2.0,
            mem_bytes=held,
        ),
        Work(0.15, cpu_cores=2.0, mem_bytes=held),
    ]
    lap: list[Loop] = []
    for _ in range(16):
        lap += step_loops(board, cell, 60.0 * exp(chance.gauss(1.1, 0.7)), chance, loops=1)
        lap.append(rest(board, min(600.0, 60.0 * exp(chance.gauss(0.7, 0.7))), held))
    return with_start(board, held * 0.6, held, chance, lap)
