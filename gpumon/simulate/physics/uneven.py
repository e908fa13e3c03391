"""Ranks that wait for one another, steps that grow longer, and designs that appear so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpumon.model.units import MINUTE_S
from gpumon.simulate.physics.phase import Work, run_on
from gpumon.simulate.physics.program import Loop, Program
from gpumon.simulate.physics.training import (
    SPIN_SM,
    dense_model,
    dense_program,
    dense_step,
    in_turn,
    model_parallel,
    optimizer,
    spin,
    start_up,
    step_loops,
)

if TYPE_CHECKING:
    from random import Random

    from gpumon.simulate.physics.board import Board
    from gpumon.simulate.physics.training import Model, Shape


_BATCHES: Final = 14
"""Steps of data of uneven length before the same ones come again."""


def stage_imbalance(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """A pipeline whose last stage has the loss and the vocabulary on top of its layers."""
    heavier = chance.uniform(1.15, 1.7)
    return model_parallel(board, shape, chance, lane, heavier)


def data_imbalance(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Sequences of all lengths: in each step another rank has most to do; a lane is a rank."""
    model = dense_model(board, shape, chance)
    held, spread = model.mem_bytes, chance.uniform(0.06, 0.25)
    phases = []
    for _ in range(_BATCHES):
        paces = [max(0.4, chance.gauss(1.0, spread)) for _ in range(shape.world)]
        longest, mean = max(paces), sum(paces) / len(paces)
        own = paces[lane % shape.world]
        # Packed to one length, all would take the mean.
        lost = (longest - mean) / longest
        work = [
            Work(
                # Below the power limit, so that a step takes what it asks for on every rank.
                seconds=own * model.compute_s, kernel=1.0, sm=0.94, occupancy=0.35,
                tensor=0.75 * model.tensor, dram=0.3, cpu_cores=3.0,
                mem_bytes=held, lost=lost,
            ),
            *spin((longest - own) * model.compute_s, held, model.gradient_bytes, lost=lost),
            optimizer(board, model),
        ]  # fmt: skip
        phases += [run_on(board, part) for part in work]
    head = [in_turn(board, [w]) for w in start_up(model.weights_bytes, held, chance)]
    return Program(head, [Loop(phases, 100)], board.idle_w)


def comm_bound(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Gradients are exchanged after every small batch, and nothing hides them."""
    model = dense_model(board, shape, chance)
    step = dense_step(board, shape, replace(model, gradient_bytes=0.0), lane)
    wait_s = model.compute_s * chance.uniform(0.35, 1.8)
    links = 0.6 * board.peer_bytes_per_s * wait_s if shape.gpus > 1 else 0.0
    fabric = 0.8 * board.port_bytes_per_s * wait_s if shape.nodes > 1 else 0.0
    return dense_program(
        board, shape, model, [*step, *spin(wait_s, model.mem_bytes, links, fabric, 0.85)], chance
    )


def mixture(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Experts on all ranks: tokens travel to them and back in every layer, by design.

    They may travel as long as is computed, and longer: where experts lie on many nodes it is about
    1:1 (DeepSeek-V3 technical report, arXiv 2412.19437, section 3.2.1).
    """
    model = dense_model(board, shape, chance)
    held, layers = model.mem_bytes, 12
    piece_s = model.compute_s / layers
    moved_s = piece_s * chance.uniform(0.5, 1.6)
    moved = chance.uniform(0.5, 0.8) * board.peer_bytes_per_s * moved_s
    fabric = 0.5 * board.port_bytes_per_s * moved_s if shape.nodes > 1 else 0.0
    piece = [
        Work(
            seconds=piece_s * (1.0 + 0.01 * lane), kernel=1.0, sm=0.85, occupancy=0.3,
            tensor=0.8 * model.tensor, dram=0.4, cpu_cores=2.0,
            mem_bytes=held,
        ),
        Work(
            moved_s, 1.0, 2.0 * SPIN_SM, 0.08, dram=0.15, nvlink_bytes=moved, fabric_bytes=fabric,
            cpu_cores=1.5, mem_bytes=held,
        ),
    ]  # fmt: skip
    step = [*(piece * layers), optimizer(board, model)]
    return dense_program(board, shape, model, step, chance)


def scattered(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """A few GPUs on each of several nodes, so that what NVLink would carry crosses the network."""
    model = dense_model(board, shape, chance)
    step = dense_step(board, shape, replace(model, gradient_bytes=0.0), lane)
    wait_s = model.compute_s * chance.uniform(0.15, 0.5)
    fabric = 0.85 * board.port_bytes_per_s * wait_s
    return dense_program(
        board, shape, model, [*step, *spin(wait_s, model.mem_bytes, 0.0, fabric, 0.9)], chance
    )


def through_one_port(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """All ranks of a node exchange through one port, and the ports beside the others are silent."""
    model = dense_model(board, shape, chance)
    step = dense_step(board, shape, replace(model, gradient_bytes=0.0), lane)
    wait_s = model.compute_s * chance.uniform(0.5, 1.6)
    links = 0.15 * board.peer_bytes_per_s * wait_s if shape.gpus > 1 else 0.0
    fabric = chance.uniform(0.7, 0.9) * board.port_bytes_per_s * wait_s / shape.gpus
    # Through a port of its own each rank would be done so many times sooner.
    lost = 1.0 - 1.0 / max(2, shape.gpus)
    return dense_program(
        board, shape, model, [*step, *spin(wait_s, model.mem_bytes, links, fabric, lost)], chance
    )


def slow_drift(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """After a while each step takes longer than before, though nothing else has changed."""
    model = dense_model(board, shape, chance)
    usual = dense_step(board, shape, model, lane)
    more_s = chance.uniform(0.12, 0.4) * sum(work.seconds for work in usual)
    waiting = Work(more_s, cpu_cores=1.1, mem_bytes=model.mem_bytes, lost=1.0)
    return _changed(board, model, usual, [*usual, waiting], chance)


def curriculum(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Longer sequences from some step on, as planned: steps are longer, and as full."""
    model = dense_model(board, shape, chance)
    longer = replace(model, compute_s=model.compute_s * chance.uniform(1.2, 2.0))
    first, then = (dense_step(board, shape, one, lane) for one in (model, longer))
    return _changed(board, model, first, then, chance)


def _changed(
    board: Board, model: Model, first: list[Work], then: list[Work], chance: Random
) -> Program:
    """One kind of step for the better part of an hour, another ever after."""
    head = [in_turn(board, [w]) for w in start_up(model.weights_bytes, model.mem_bytes, chance)]
    head += step_loops(board, first, chance.uniform(25.0, 70.0) * MINUTE_S, chance)
    return Program(head, step_loops(board, then, 1800.0, chance), board.idle_w)
