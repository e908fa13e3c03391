"""What is no training: servers, batch inference, video, rendering, embeddings, solvers.

Lengths of requests and bursts follow from rates of arrival and of work where that is how they come
about, not from the lengths that windows of detectors were set by.
"""

from __future__ import annotations

from math import cos, exp, log, pi
from typing import TYPE_CHECKING, Final

from gpumon.model.units import HOUR_S, MINUTE_S
from gpumon.simulate.physics.phase import Work
from gpumon.simulate.physics.program import Loop, Program
from gpumon.simulate.physics.services import rest, with_start
from gpumon.simulate.physics.training import (
    dense_model,
    dense_step,
    in_turn,
    start_up,
    step_loops,
)

if TYPE_CHECKING:
    from random import Random

    from gpumon.simulate.physics.board import Board
    from gpumon.simulate.physics.training import Shape

_RUSH_PERIOD_S: Final = 12 * HOUR_S
"""Time from one rush of requests to the next. Our choice: half a day, so that a day has two."""

_REQUESTS: Final = 240
"""Busy periods of a server before its day begins again."""


def token_server(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """A server as a queue: requests arrive by chance, more of them by day, and decode together.

    It is busy while any request is in flight, so bursts and gaps follow from the rate of arrival,
    the tokens of an answer and the tokens a second.
    """
    held = 0.9 * board.mem_total_bytes
    per_hour, tokens_per_s = exp(chance.uniform(log(20.0), log(900.0))), chance.uniform(15.0, 60.0)
    batch = chance.uniform(0.4, 0.9)
    request = [
        Work(
            seconds=0.12,
            kernel=1.0,
            sm=0.88,
            occupancy=0.34,
            tensor=0.45,
            dram=0.4,
            cpu_cores=1.5,
            pcie_rx_bytes=3e5,
            mem_bytes=held,
        ),
        Work(
            seconds=1.1,
            kernel=0.96,
            sm=0.7 * batch,
            occupancy=0.3 * batch,
            tensor=0.1 * batch,
            dram=0.72,
            cpu_cores=1.5,
            mem_bytes=held,
        ),
    ]
    lap, at, free_at = list[Loop](), 0.0, 0.0
    for _ in range(_REQUESTS):
        rate = per_hour / HOUR_S * (1.0 - 0.7 * cos(2 * pi * at / _RUSH_PERIOD_S))
        at += chance.expovariate(rate)
        answer_s = max(3.0, chance.expovariate(1.0 / 400.0) / tokens_per_s)
        if at > free_at:
            if at - free_at > 1.0:
                lap.append(rest(board, at - free_at, held))
            free_at = at
        lap += step_loops(board, request, answer_s, chance, loops=1)
        free_at += lap[-1].seconds
    return with_start(board, 0.45 * board.mem_total_bytes, held, chance, lap)


def standby(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """A replica that waits for its sibling to fail, and is asked for a token now and then."""
    held = chance.uniform(0.7, 0.92) * board.mem_total_bytes
    every_s = chance.uniform(8.0, 45.0)
    probe = [
        Work(
            seconds=0.3,
            kernel=0.9,
            sm=0.3,
            occupancy=0.1,
            tensor=0.05,
            dram=0.4,
            cpu_cores=0.5,
            mem_bytes=held,
        ),
        Work(every_s, cpu_cores=0.05, mem_bytes=held),
    ]
    lap = step_loops(board, probe, HOUR_S, chance, loops=2)
    return with_start(board, 0.45 * board.mem_total_bytes, held, chance, lap)


def batch_inference(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """A long list in chunks: CPUs prepare one, then the GPU goes through it."""
    held = chance.uniform(0.3, 0.8) * board.mem_total_bytes
    step = [
        Work(
            seconds=0.4,
            kernel=1.0,
            sm=0.75,
            occupancy=0.3,
            tensor=0.3,
            dram=0.5,
            pcie_rx_bytes=3e8,
            cpu_cores=2.0,
            mem_bytes=held,
        ),
        Work(0.03, cpu_cores=2.0, mem_bytes=held),
    ]
    lap: list[Loop] = []
    for _ in range(8):
        lap += step_loops(board, step, chance.uniform(3.0, 11.0) * MINUTE_S, chance, loops=1)
        cores = chance.uniform(0.5, 0.9) * board.cores_per_gpu
        lap.append(rest(board, chance.uniform(0.5, 4.0) * MINUTE_S, held, cores=cores))
    return with_start(board, 0.5 * held, held, chance, lap)


def rollouts(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Reinforcement learning of a language model: minutes of decoding, then an update."""
    model = dense_model(board, shape, chance)
    held = model.mem_bytes
    decode = [
        Work(
            seconds=1.0,
            kernel=0.97,
            sm=0.5,
            occupancy=0.2,
            tensor=0.08,
            dram=0.66,
            cpu_cores=2.0,
            nvlink_bytes=2e9,
            mem_bytes=held,
        ),
        Work(0.05, cpu_cores=3.0, mem_bytes=held),
    ]
    judge_s = chance.uniform(5.0, 50.0)
    lap: list[Loop] = []
    for _ in range(6):
        lap += step_loops(board, decode, chance.uniform(2.0, 9.0) * MINUTE_S, chance, loops=1)
        lap.append(rest(board, judge_s, held, cores=0.4 * board.cores_per_gpu))
        step = dense_step(board, shape, model, lane)
        lap += step_loops(board, step, chance.uniform(1.0, 4.0) * MINUTE_S, chance, loops=1)
    return with_start(board, model.weights_bytes, held, chance, lap)


def transcoding(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """Video: the engines beside the SMs decode and encode, the SMs scale a little."""
    held = chance.uniform(0.02, 0.12) * board.mem_total_bytes
    work = Work(
        chance.uniform(20.0, 60.0) * MINUTE_S, 0.06, 0.1, 0.03, dram=0.08, pcie_rx_bytes=2e11,
        cpu_cores=2.0, mem_bytes=held, encoder=round(chance.uniform(0.3, 0.9), 2),
        decoder=round(chance.uniform(0.3, 0.95), 2),
    )  # fmt: skip
    return Program(_started(board, 1e9, held, chance), [in_turn(board, [work])], board.idle_w)


def rendering(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """Simulated robots: physics and cameras on the GPU, the policy in between."""
    held = chance.uniform(0.2, 0.5) * board.mem_total_bytes
    encoder = round(chance.uniform(0.0, 0.3), 2)
    step = [
        Work(
            seconds=0.25, kernel=1.0, sm=chance.uniform(0.4, 0.7), occupancy=0.3, tensor=0.02,
            dram=0.25, fma=0.35, cpu_cores=4.0,
            mem_bytes=held, encoder=encoder,
        ),
        Work(seconds=0.05, kernel=1.0, sm=0.7, occupancy=0.3, tensor=0.3, dram=0.3, cpu_cores=3.0,
            mem_bytes=held, encoder=encoder),
        Work(0.04, cpu_cores=5.0, mem_bytes=held, encoder=encoder),
    ]  # fmt: skip
    lap = step_loops(board, step, HOUR_S, chance)
    return with_start(board, 2e9, held, chance, lap)


def recommending(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Embeddings fill the memory and its bandwidth; rows that do not fit come from the host."""
    held = chance.uniform(0.75, 0.93) * board.mem_total_bytes
    peers = 0.3 * board.peer_bytes_per_s if shape.gpus > 1 else 0.0
    rows = chance.uniform(0.05, 0.15) * board.pcie_bytes_per_s
    step = [
        Work(
            seconds=0.12 + 0.001 * lane, kernel=1.0, sm=0.45, occupancy=0.4, tensor=0.04, dram=0.7,
            pcie_rx_bytes=0.12 * rows,
            nvlink_bytes=0.12 * peers, cpu_cores=4.0, mem_bytes=held,
        ),
        Work(seconds=0.03, kernel=1.0, sm=0.8, occupancy=0.3, tensor=0.35, dram=0.4, cpu_cores=3.0,
            mem_bytes=held),
    ]  # fmt: skip
    return with_start(board, 0.5 * held, held, chance, step_loops(board, step, HOUR_S, chance))


def solving(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """A flow solver in fp64: bound by memory, halos exchanged in each iteration."""
    held = chance.uniform(0.4, 0.9) * board.mem_total_bytes
    halo = 2e8 if shape.world > 1 else 0.0
    step = [
        Work(
            seconds=0.5 + 0.002 * lane, kernel=1.0, sm=0.7, occupancy=0.4, tensor=0.0, dram=0.68,
            nvlink_bytes=halo, fabric_bytes=halo / 4,
            cpu_cores=1.0, mem_bytes=held, fp64=chance.uniform(0.15, 0.4),
        ),
        Work(0.02, 0.5, 0.2, 0.1, dram=0.1, cpu_cores=1.0, mem_bytes=held),
    ]  # fmt: skip
    return with_start(board, 0.3 * held, held, chance, step_loops(board, step, HOUR_S, chance))


def folding(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """Molecular dynamics: little memory, SMs well used, no matrices."""
    held = chance.uniform(0.6, 3.0) * 2**30
    step = [
        Work(
            seconds=0.2, kernel=0.97, sm=chance.uniform(0.5, 0.85), occupancy=0.3, tensor=0.0,
            dram=0.2, fma=0.4, pcie_tx_bytes=3e7,
            pcie_rx_bytes=3e7, cpu_cores=2.0, mem_bytes=held,
        ),
        Work(0.01, cpu_cores=3.0, mem_bytes=held),
    ]  # fmt: skip
    return with_start(board, 0.3 * held, held, chance, step_loops(board, step, HOUR_S, chance))


def oversized(board: Board, _shape: Shape, chance: Random, _lane: int) -> Program:
    """A small model on a large GPU: a slice of it would do the same in the same time."""
    held = chance.uniform(0.012, 0.035) * board.mem_total_bytes
    busy = chance.uniform(0.05, 0.2)
    # A seventh of the GPU is the smallest slice; what the work fills is not lost.
    lost = 6.0 / 7.0
    step = [
        Work(
            seconds=busy,
            kernel=1.0,
            sm=0.3,
            occupancy=0.1,
            tensor=0.02,
            dram=0.1,
            cpu_cores=1.0,
            mem_bytes=held,
            lost=lost,
        ),
        Work(1.0 - busy, cpu_cores=1.2, mem_bytes=held, lost=lost),
    ]
    return with_start(board, 0.3 * held, held, chance, step_loops(board, step, HOUR_S, chance))


def _started(board: Board, weights: float, held: float, chance: Random) -> list[Loop]:
    return [in_turn(board, [work]) for work in start_up(weights, held, chance)]
