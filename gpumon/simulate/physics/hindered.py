"""Training that waits: for storage, copies, compilers and its own checkpoints; and what appears so.

Each is the dense model with one thing changed, so that what the change costs is known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpumon.model.units import MINUTE_S
from gpumon.simulate.physics.phase import Work, run_on
from gpumon.simulate.physics.program import Loop, Program
from gpumon.simulate.physics.services import rest
from gpumon.simulate.physics.training import (
    STORAGE_BYTES_PER_S,
    checkpoint,
    dense_model,
    dense_program,
    dense_step,
    in_turn,
    start_up,
    step_loops,
)

if TYPE_CHECKING:
    from random import Random

    from gpumon.simulate.physics.board import Board
    from gpumon.simulate.physics.training import Model, Shape


HEALTHY_DUTY: Final = 0.05
"""Share of the time that saving takes where no one complains of it (below .08 in all of them)."""


def storage_bound(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Each step waits for samples that the filesystem does not bring in time."""
    model = dense_model(board, shape, chance)
    step = dense_step(board, shape, model, lane)
    wait_s = model.compute_s * chance.uniform(0.6, 1.8)
    served = chance.uniform(0.8, 0.98) * STORAGE_BYTES_PER_S
    step[0] = Work(
        wait_s, cpu_cores=0.4, read_bytes=served * wait_s, mem_bytes=model.mem_bytes,
        lost=1.0 - model.input_wait_s / wait_s,
    )  # fmt: skip
    return dense_program(board, shape, model, step, chance)


def oversubscribed(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Many more threads than cores: the batch comes late, though little is done to it."""
    rich = dense_model(board, shape, chance)
    wait_s = rich.compute_s * chance.uniform(0.5, 1.3)
    model = replace(
        rich,
        input_wait_s=wait_s,
        cpu_cores=chance.uniform(0.97, 1.0) * board.cores_per_gpu,
        wait_lost=1.0 - rich.input_wait_s / wait_s,
    )
    return dense_program(board, shape, model, dense_step(board, shape, model, lane), chance)


def copy_bound(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Tensors travel from pageable memory in every step, and nothing computes meanwhile."""
    model = dense_model(board, shape, chance)
    step = dense_step(board, shape, model, lane)
    rate = chance.uniform(0.3, 0.55) * board.pcie_bytes_per_s
    copy_s = model.compute_s * chance.uniform(0.9, 2.2)
    step[1] = Work(
        seconds=copy_s, kernel=0.12, sm=0.1, occupancy=0.03, tensor=0.0, dram=0.04,
        pcie_rx_bytes=rate * copy_s, pcie_tx_bytes=1e8,
        cpu_cores=2.0, mem_bytes=model.mem_bytes, lost=0.95,
    )  # fmt: skip
    return dense_program(board, shape, model, step, chance)


def far_from_cpus(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Ranks run at the other socket: batches cross it to reach the GPU, and kernels start late."""
    model = dense_model(board, shape, chance)
    step = dense_step(board, shape, model, lane)
    near_s = model.compute_s * chance.uniform(0.09, 0.2)
    # What one socket reads of the other's memory comes at half of the rate, as Linux's NUMA
    # tables and vendors' peer tests have it.
    far_s = 2.0 * near_s
    step[1] = Work(
        far_s, pcie_rx_bytes=0.8 * board.pcie_bytes_per_s * near_s, cpu_cores=model.cpu_cores,
        mem_bytes=model.mem_bytes, lost=1.0 - near_s / far_s,
    )  # fmt: skip
    late = Work(
        model.compute_s * chance.uniform(0.04, 0.12), 0.1, 0.2, 0.05, cpu_cores=model.cpu_cores,
        mem_bytes=model.mem_bytes, lost=1.0,
    )  # fmt: skip
    return dense_program(board, shape, model, [*step, late], chance)


def offloaded(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Optimizer state lives on the host by design: the model would not fit otherwise."""
    rich = dense_model(board, shape, chance)
    model = replace(rich, activation_bytes=0.9 * board.mem_total_bytes - rich.weights_bytes)
    step = dense_step(board, shape, model, lane)
    moved = 0.8 * rich.weights_bytes
    out_s = moved / (0.85 * board.pcie_bytes_per_s)
    back = Work(
        seconds=out_s, kernel=0.35, sm=0.2, occupancy=0.06, tensor=0.0, dram=0.08,
        pcie_rx_bytes=moved, cpu_cores=0.7 * board.cores_per_gpu,
        mem_bytes=model.mem_bytes,
    )  # fmt: skip
    out = back._replace(pcie_rx_bytes=0.0, pcie_tx_bytes=moved)
    return dense_program(board, shape, model, [*step, out, back], chance)


def checkpoint_stall(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """All ranks wait for a good part of the time, because saving is slow and frequent."""
    model = dense_model(board, shape, chance)
    every_s, duty = chance.uniform(3.0, 12.0) * MINUTE_S, chance.uniform(0.18, 0.55)
    saving_s = every_s * duty
    moved = chance.uniform(0.1, 0.6) * STORAGE_BYTES_PER_S * saving_s
    saving = Work(
        saving_s, write_bytes=moved, pcie_tx_bytes=0.5 * moved, cpu_cores=1.0,
        mem_bytes=model.mem_bytes, lost=1.0 - HEALTHY_DUTY / duty,
    )  # fmt: skip
    steps = step_loops(
        board, dense_step(board, shape, model, lane), every_s - saving_s, chance, loops=2
    )
    return Program(_head(board, model, chance), [*steps, in_turn(board, [saving])], board.idle_w)


def saving_often(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Checkpoints every few minutes, each of them short: a healthy share of the time."""
    model = dense_model(board, shape, chance)
    every_s = chance.uniform(4.0, 15.0) * MINUTE_S
    saving = Work(
        every_s * chance.uniform(0.02, 0.07), write_bytes=model.weights_bytes, cpu_cores=1.5,
        mem_bytes=model.mem_bytes,
    )  # fmt: skip
    steps = step_loops(board, dense_step(board, shape, model, lane), every_s, chance, loops=2)
    return Program(_head(board, model, chance), [*steps, in_turn(board, [saving])], board.idle_w)


def recompiling(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Shapes change, and with each new one the program is compiled once more."""
    model = dense_model(board, shape, chance)
    step, lap = dense_step(board, shape, model, lane), list[Loop]()
    for _ in range(9):
        lap += step_loops(board, step, chance.uniform(50.0, 280.0), chance, loops=1)
        compiling = Work(
            chance.uniform(25.0, 110.0), 0.01, 0.05, 0.01, cpu_cores=chance.uniform(1.0, 5.0),
            mem_bytes=model.mem_bytes, lost=1.0,
        )  # fmt: skip
        lap.append(in_turn(board, [compiling]))
    return Program(_head(board, model, chance), lap, board.idle_w)


def slow_start(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Packages are installed, or built, for most of an hour before anything opens a GPU."""
    first = rest(board, chance.uniform(26.0, 80.0) * MINUTE_S, 0.0, 1.0, chance.uniform(0.5, 1.4))
    return _after(first, board, shape, chance, lane)


def compiled_first(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """One long compilation at the start, as XLA and TensorRT need for large models."""
    held = 0.5 * board.mem_total_bytes
    cores = chance.uniform(0.2, 0.7) * board.cores_per_gpu
    work = Work(
        chance.uniform(6.0, 14.0) * MINUTE_S, 0.05, 0.2, 0.05, cpu_cores=cores, mem_bytes=held
    )
    return _after(in_turn(board, [work]), board, shape, chance, lane)


def staged(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """The data set is copied to local disks first; no process opens a GPU until it is there."""
    seconds = chance.uniform(6.0, 24.0) * MINUTE_S
    moved = chance.uniform(0.3, 0.9) * STORAGE_BYTES_PER_S * seconds
    work = Work(seconds, cpu_cores=chance.uniform(0.8, 2.0), read_bytes=moved)
    return _after(in_turn(board, [work]), board, shape, chance, lane)


def trials(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """One trial of a sweep after the other in one job; results go up before the next begins."""
    lap: list[Loop] = []
    for _ in range(5):
        model = dense_model(board, shape, chance)
        lap += [Loop([run_on(board, w)]) for w in start_up(model.weights_bytes, 1e9, chance)]
        step = dense_step(board, shape, model, lane)
        lap += step_loops(board, step, chance.uniform(9.0, 45.0) * MINUTE_S, chance, loops=2)
        lap.append(rest(board, chance.uniform(1.0, 7.0) * MINUTE_S, 0.0, cores=0.3))
    return Program([], lap, board.idle_w)


def evaluating(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Training that stops now and then to see how good it has become."""
    model = dense_model(board, shape, chance)
    step = dense_step(board, shape, model, lane)
    steps = step_loops(board, step, chance.uniform(25.0, 55.0) * MINUTE_S, chance, loops=3)
    scoring = [
        Work(
            seconds=0.5,
            kernel=1.0,
            sm=0.35,
            occupancy=0.15,
            tensor=0.06,
            dram=0.5,
            cpu_cores=2.0,
            mem_bytes=model.mem_bytes,
        ),
        Work(0.4, cpu_cores=3.0, mem_bytes=model.mem_bytes),
    ]
    scores = step_loops(board, scoring, chance.uniform(2.0, 9.0) * MINUTE_S, chance, loops=1)
    return Program(_head(board, model, chance), [*steps, *scores], board.idle_w)


def memory_limited(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Memory is full to the brim: pieces are small, recomputed, and the allocator waits."""
    rich = dense_model(board, shape, chance)
    model = replace(
        rich,
        activation_bytes=0.93 * board.mem_total_bytes - rich.weights_bytes,
        compute_s=0.12 * rich.compute_s,
        tensor=0.5 * rich.tensor,
        gradient_bytes=0.05 * rich.gradient_bytes,
    )
    step = dense_step(board, shape, model, lane)
    step = [work._replace(sm=0.6 * work.sm, lost=0.4) if work.tensor else work for work in step]
    waiting = Work(
        model.compute_s * chance.uniform(1.0, 1.8),
        cpu_cores=1.2,
        mem_bytes=model.mem_bytes,
        lost=1.0,
    )
    return dense_program(board, shape, model, [*step, waiting], chance)


def small_batch(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Kernels of microseconds, one after the other: busy by the clock, empty by the SMs."""
    rich = dense_model(board, shape, chance)
    faster = chance.uniform(1.6, 4.0)
    held = chance.uniform(0.1, 0.42) * board.mem_total_bytes
    step = [
        Work(
            seconds=0.08 + 0.001 * lane, kernel=chance.uniform(0.6, 0.95),
            sm=chance.uniform(0.1, 0.28), occupancy=0.06,
            tensor=chance.uniform(0.01, 0.05), dram=chance.uniform(0.03, 0.12), cpu_cores=1.3,
            pcie_rx_bytes=2e6, mem_bytes=held, lost=1.0 - 1.0 / faster,
        ),
        Work(0.006, cpu_cores=1.3, mem_bytes=held, lost=1.0 - 1.0 / faster),
    ]  # fmt: skip
    model = replace(rich, weights_bytes=0.3 * held, activation_bytes=0.6 * held)
    return dense_program(board, shape, model, step, chance)


def _head(board: Board, model: Model, chance: Random) -> list[Loop]:
    works = start_up(model.weights_bytes, model.mem_bytes, chance)
    return [in_turn(board, [work]) for work in works]


def _after(first: Loop, board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Dense training behind something that comes first; that alone is the program's head."""
    model = dense_model(board, shape, chance)
    steps = step_loops(
        board, dense_step(board, shape, model, lane), model.checkpoint_every_s, chance
    )
    lap = [*steps, in_turn(board, checkpoint(board, shape, model))]
    return Program([first], lap, board.idle_w)
