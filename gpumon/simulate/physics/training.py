"""Training jobs as step loops: data-parallel, tensor- and pipeline-parallel, fp32, input-bound.

Durations follow from work over rates: FLOPs over the reached share of the tensor peak, gradient
bytes over links, optimizer bytes over memory bandwidth. Step lengths vary by a few per cent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.simulate.physics.board import CORES_PER_GPU
from gpumon.simulate.physics.phase import Work, run_on
from gpumon.simulate.physics.program import Loop, Program

if TYPE_CHECKING:
    from random import Random

    from gpumon.simulate.physics.board import Board

LANE_PACE: Final = (1.0, 0.985, 0.97)
"""Compute time of the kinds of rank in one job, over the slowest: silicon differs by per cents."""

SPIN_SM: Final = 0.12
"""Share of SMs that a communication kernel occupies: 16 of 132."""

PACKED: Final = 0.2
"""Bytes of a batch on storage over its bytes on the GPU: samples lie there compressed."""

STORAGE_BYTES_PER_S: Final = 3e9
"""What one rank reads from or writes to the filesystem."""

_SLOWER: Final = 1.8
"""Steps of a model in fp32 over those in bf16, where it does not fit the tensor cores well."""


class Shape(NamedTuple):
    """GPUs of a job that work together."""

    nodes: int
    gpus: int
    """Per node."""

    @property
    def world(self) -> int:
        """Ranks, one per GPU."""
        return self.nodes * self.gpus


@dataclass(frozen=True, slots=True)
class Model:
    """What is trained, as one rank sees it."""

    weights_bytes: float
    """Weights and optimizer state held by one rank."""
    activation_bytes: float
    compute_s: float
    """Forward and backward of one step at full clock on the slowest rank."""
    tensor: float
    """Tensor activity while computing: the reached share of the peak."""
    gradient_bytes: float
    batch_bytes: float
    input_wait_s: float
    """Time per step in which the GPU waits for its batch."""
    cpu_cores: float
    checkpoint_every_s: float
    wait_lost: float = 0.0
    """Share of the wait for input that is beyond the usual."""
    compute_lost: float = 0.0
    """Share of the computation that other ways to compute would spare."""

    @property
    def mem_bytes(self) -> float:
        """Plateau of device memory: context, weights and the allocator's high-water mark."""
        return 0.6e9 + self.weights_bytes + self.activation_bytes


def dense_model(board: Board, shape: Shape, chance: Random) -> Model:
    """A transformer trained in bf16, sized to the board and the number of ranks."""
    weights = chance.uniform(0.22, 0.4) * board.mem_total_bytes
    return Model(
        weights_bytes=weights,
        activation_bytes=chance.uniform(0.25, 0.45) * board.mem_total_bytes,
        compute_s=chance.uniform(0.35, 1.1) * board.step_times,
        tensor=chance.uniform(0.48, 0.62),
        gradient_bytes=0.0 if shape.world == 1 else 2.0 * weights / 16.0 * min(4, shape.world),
        batch_bytes=chance.uniform(5e6, 4e7) * board.step_times,
        input_wait_s=chance.uniform(0.004, 0.02),
        cpu_cores=chance.uniform(2.0, 4.0),
        checkpoint_every_s=chance.uniform(900.0, 2400.0),
    )


def data_parallel(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Dense bf16 training, gradients reduced while the backward pass still runs."""
    model = dense_model(board, shape, chance)
    return dense_program(board, shape, model, dense_step(board, shape, model, lane), chance)


def input_bound(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """The same, but the data loader needs longer than the GPU: each step starts with a wait."""
    rich = dense_model(board, shape, chance)
    model = replace(
        rich,
        weights_bytes=rich.weights_bytes * 0.5,
        activation_bytes=rich.activation_bytes * 0.6,
        gradient_bytes=rich.gradient_bytes * 0.5,
        compute_s=rich.compute_s * 0.5,
        tensor=rich.tensor * 0.8,
        batch_bytes=rich.batch_bytes * 12.0,
        input_wait_s=(wait_s := rich.compute_s * chance.uniform(0.7, 1.4)),
        cpu_cores=chance.uniform(12.5, 13.8) / CORES_PER_GPU * board.cores_per_gpu,
        wait_lost=1.0 - rich.input_wait_s / wait_s,
    )
    return dense_program(board, shape, model, dense_step(board, shape, model, lane), chance)


def full_precision(board: Board, shape: Shape, chance: Random, lane: int) -> Program:
    """Training that left everything in fp32: SMs busy, tensor cores unused."""
    rich = dense_model(board, shape, chance)
    model = replace(
        rich, compute_s=_SLOWER * rich.compute_s, tensor=0.0, compute_lost=1.0 - 1.0 / _SLOWER
    )
    step = dense_step(board, shape, model, lane, fma=0.78)
    return dense_program(board, shape, model, step, chance)


def model_parallel(
    board: Board, shape: Shape, chance: Random, lane: int, heavier: float = 1.0
) -> Program:
    """Tensor-parallel in the node, pipeline over nodes; a lane is a stage of the pipeline.

    Args:
        board: Kind of GPU.
        shape: GPUs of the job.
        chance: Where parameters are drawn from.
        lane: Stage of the pipeline.
        heavier: What the last stage computes over what the others do.
    """
    model = dense_model(board, shape, chance)
    micro_batches = 12
    held = model.mem_bytes
    stages = min(shape.nodes, 4)
    stage = min(lane, stages - 1)
    piece_s = model.compute_s * 2.2 / micro_batches
    reduce_bytes = chance.uniform(2.5e9, 4e9)
    reduce_s = reduce_bytes / (0.75 * board.peer_bytes_per_s) if shape.gpus > 1 else 0.0
    extra_s = (heavier - 1.0) * piece_s if stages > 1 else 0.0
    own_s = extra_s if stage == stages - 1 else 0.0
    piece = [
        Work(
            seconds=piece_s + own_s,
            kernel=1.0,
            sm=0.95,
            occupancy=0.33,
            tensor=model.tensor,
            dram=0.36,
            cpu_cores=2.0,
            mem_bytes=held,
        ),
        *spin(reduce_s, held, reduce_bytes),
        # Balanced, the heavy stage's surplus would be everybody's alike.
        *spin(extra_s - own_s, held, 0.0, lost=1.0 - 1.0 / stages),
    ]
    # Stage k waits for k micro-batches before its first and for the rest after its last.
    slot_s = piece_s + reduce_s
    gradients_s = model.gradient_bytes / board.port_bytes_per_s if shape.nodes > 1 else 0.0
    hidden = 0.7 * model.gradient_bytes if shape.nodes > 1 else 0.0
    # Gradients leave the node while the backward pass still runs; the rest shows at the end.
    piece[0] = piece[0]._replace(fabric_bytes=hidden / micro_batches)
    last_s = (stages - 1 - stage) * slot_s + 0.3 * gradients_s
    step = [
        Work(0.004, read_bytes=PACKED * model.batch_bytes, cpu_cores=3.0, mem_bytes=held),
        *spin(stage * slot_s, held, 0.0),
        *(piece * micro_batches),
        *spin(last_s, held, 0.0, hidden * 3.0 / 7.0),
        optimizer(board, model),
    ]
    return dense_program(board, shape, model, step, chance)


def start_up(weights_bytes: float, held: float, chance: Random) -> list[Work]:
    """Imports, context, weights from storage, and the first step with its compilation."""
    load_s = weights_bytes / STORAGE_BYTES_PER_S
    compile_s = chance.uniform(25.0, 70.0)
    return [
        Work(chance.uniform(12.0, 30.0), cpu_cores=1.2),
        Work(3.0, cpu_cores=1.0, mem_bytes=0.6e9),
        Work(
            load_s,
            pcie_rx_bytes=weights_bytes,
            read_bytes=weights_bytes,
            cpu_cores=1.5,
            mem_bytes=0.6e9 + weights_bytes / 2,
        ),
        Work(
            seconds=compile_s,
            kernel=0.12,
            sm=0.3,
            occupancy=0.1,
            tensor=0.08,
            dram=0.1,
            cpu_cores=6.0,
            mem_bytes=held,
        ),
    ]


def step_loops(
    board: Board, step: list[Work], seconds: float, chance: Random, loops: int = 4
) -> list[Loop]:
    """Steps for about `seconds`, in stretches whose batches take slightly different time."""
    stretches = []
    for _ in range(loops):
        pace = 1.0 + 0.02 * chance.random()
        phases = [run_on(board, work._replace(seconds=work.seconds * pace)) for work in step]
        length = sum(phase.seconds for phase in phases)
        stretches.append(Loop(phases, max(1, round(seconds / loops / length))))
    return stretches


def dense_step(
    board: Board,
    shape: Shape,
    model: Model,
    lane: int,
    fma: float = 0.0,
    slowest: float = 1.0,
    own: float = 1.0,
) -> list[Work]:
    """One step of dense training, as long on every rank.

    Args:
        board: Kind of GPU.
        shape: GPUs of the job.
        model: What is trained.
        lane: Kind of rank.
        fma: Share of cycles in which the fp32 pipes compute.
        slowest: What heat leaves of the clock of the rank that all wait for.
        own: What it leaves of this rank's.
    """
    held, cores = model.mem_bytes, model.cpu_cores
    pace = LANE_PACE[lane % len(LANE_PACE)] if own == 1.0 else 1.0
    forward = Work(
        seconds=model.compute_s / 3, kernel=1.0, sm=0.94, occupancy=0.36, tensor=model.tensor,
        dram=0.38, fma=fma,
        cpu_cores=cores, mem_bytes=held, lost=model.compute_lost,
    )  # fmt: skip
    backward = forward._replace(seconds=model.compute_s * 2 / 3, sm=0.96)
    mine = [_clocked(work, own, pace) for work in (forward, backward)]
    theirs = [_clocked(work, slowest, 1.0) for work in (forward, backward)]
    # A faster rank waits in the collective for the slowest: all steps take equally long.
    slack_s = _length(board, theirs) - _length(board, mine)
    links, fabric = _reduced_bytes(shape, model.gradient_bytes)
    reduce_s = max(links / (0.7 * board.peer_bytes_per_s), fabric / (0.7 * board.port_bytes_per_s))
    hidden_s = min(reduce_s, 0.55 * model.compute_s)
    hidden = hidden_s / reduce_s if reduce_s else 0.0
    mine[1] = mine[1]._replace(nvlink_bytes=hidden * links, fabric_bytes=hidden * fabric)
    copy_s = model.batch_bytes / (0.8 * board.pcie_bytes_per_s)
    exposed_s = reduce_s - hidden_s + (slack_s if shape.world > 1 else 0.0)
    shown = 1.0 - hidden
    step = [
        Work(model.input_wait_s, mem_bytes=held, lost=model.wait_lost),
        Work(copy_s, pcie_rx_bytes=model.batch_bytes, mem_bytes=held),
        *mine,
        *spin(exposed_s, held, shown * links, shown * fabric),
        optimizer(board, model),
    ]
    # The loader reads and decodes ahead, also while the GPU works.
    read_per_s = PACKED * model.batch_bytes / sum(work.seconds for work in step)
    return [work._replace(cpu_cores=cores, read_bytes=read_per_s * work.seconds) for work in step]


def _reduced_bytes(shape: Shape, gradient_bytes: float) -> tuple[float, float]:
    """Bytes per GPU and direction over NVLink and between nodes of one hierarchical all-reduce.

    `gradient_bytes` is what a ring within the node moves, twice (g-1)/g of the gradients' size.
    Each GPU then reduces its own g-th of them over its own port, again in a ring.
    """
    peers = shape.gpus - 1
    size = gradient_bytes * shape.gpus / (2.0 * peers) if peers else gradient_bytes / 2.0
    between = 2.0 * size / shape.gpus * (shape.nodes - 1) / shape.nodes
    return (gradient_bytes if peers else 0.0), between


def _clocked(work: Work, clock_share: float, pace: float) -> Work:
    """Computation at a part of the clock: it takes longer, and asks less of memory meanwhile."""
    return work._replace(
        seconds=work.seconds * pace / clock_share,
        dram=work.dram * clock_share,
        clock_share=clock_share,
    )


def _length(board: Board, step: list[Work]) -> float:
    return sum(run_on(board, work).seconds for work in step)


def spin(
    seconds: float, held: float, link_bytes: float, fabric_bytes: float = 0.0, lost: float = 0.0
) -> list[Work]:
    """A communication kernel that waits or copies: it runs, on few SMs."""
    if seconds <= 0.0:
        return []
    return [
        Work(
            seconds, 1.0, SPIN_SM, 0.05, dram=0.06, nvlink_bytes=link_bytes,
            fabric_bytes=fabric_bytes, cpu_cores=1.5, mem_bytes=held, lost=lost,
        )
    ]  # fmt: skip


def optimizer(board: Board, model: Model) -> Work:
    """Weights and moments are read and written once."""
    seconds = 2.0 * model.weights_bytes / (0.8 * board.dram_bytes_per_s)
    return Work(
        seconds=seconds,
        kernel=1.0,
        sm=0.85,
        occupancy=0.62,
        tensor=0.0,
        dram=0.8,
        cpu_cores=1.5,
        mem_bytes=model.mem_bytes,
    )


def dense_program(
    board: Board, shape: Shape, model: Model, step: list[Work], chance: Random
) -> Program:
    """Start-up, then steps for as long as the job lives, saved from time to time."""
    head = start_up(model.weights_bytes, model.mem_bytes, chance)
    lap = step_loops(board, step, model.checkpoint_every_s, chance)
    saving = in_turn(board, checkpoint(board, shape, model))
    return Program([in_turn(board, [work]) for work in head], [*lap, saving], board.idle_w)


def in_turn(board: Board, work: list[Work]) -> Loop:
    """Phases one after the other, once."""
    return Loop([run_on(board, part) for part in work])


def checkpoint(board: Board, shape: Shape, model: Model) -> list[Work]:
    """A rank's part of the model is copied to its host and written."""
    held = model.mem_bytes
    saved_bytes = model.weights_bytes / min(4, shape.world)
    return [
        Work(
            saved_bytes / (0.4 * board.pcie_bytes_per_s),
            pcie_tx_bytes=saved_bytes,
            cpu_cores=1.5,
            mem_bytes=held,
        ),
        Work(
            saved_bytes / STORAGE_BYTES_PER_S,
            write_bytes=saved_bytes,
            cpu_cores=1.0,
            mem_bytes=held,
        ),
    ]
