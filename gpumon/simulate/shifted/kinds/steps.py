"""The training step: input, copy, kernels, exchange, and now and then a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpumon.simulate.shifted.signals import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.simulate.shifted.signals import Floats, Tape
    from gpumon.simulate.shifted.story import Story

STEP = ("load", "copy", "compute", "wait", "comm")
"""Phases of a step in their order; `wait` is for slower ranks."""


class Recipe(NamedTuple):
    """How a healthy step divides."""

    step_s: float
    load: float
    copy: float
    comm: float
    """Shares of the step; the rest is kernels."""
    cov: float

    @property
    def shares(self) -> Floats:
        """Share of the step of each phase of `STEP`."""
        compute = 1.0 - self.load - self.copy - self.comm
        return np.array([self.load, self.copy, compute, 0.0, self.comm])


def recipe(story: Story, mem_ratio: float = 0.0) -> Recipe:
    """Draw a healthy step and the phases that it goes through."""
    draw, life = story.draw, story.life
    kernels = Phase(
        util=1.0, sm=draw.of("compute_sm"), tensor=draw.of("compute_tensor"),
        dram=draw.of("compute_dram"), fp32=draw.of("compute_fp32"), load=draw.of("compute_load"),
        cores=draw.of("launch_cores") + draw.of("loader_cores"), read=draw.of("read_bytes_per_s"),
    )  # fmt: skip
    copying = life.board.pcie_bytes_per_s * draw.of("pcie_ratio")
    waiting = Phase(
        util=1.0, sm=draw.of("spin_sm"), dram=0.01, load=draw.of("spin_load"), cores=1.1
    )
    story.phases |= {
        "compute": kernels,
        "load": Phase(load=draw.of("rest_load"), cores=kernels.cores, read=kernels.read),
        "copy": Phase(to_gpu=copying, dram=0.02, load=0.08, cores=1.0),
        "comm": exchange(story, waiting, draw.of("port_ratio")),
        "wait": waiting,
        "save": Phase(
            load=draw.of("rest_load"), cores=1.0, write=draw.of("ckpt_bytes_per_s") / life.gpus,
            from_gpu=2e8, io_wait=0.3,
        ),
        "evaluate": kernels._replace(tensor=0.6 * kernels.tensor, load=0.8 * kernels.load),
        "rest": Phase(load=draw.of("rest_load"), cores=draw.of("idle_cores")),
        "nothing": Phase(cores=draw.of("idle_cores") / life.gpus),
        "start": Phase(cores=1.2, read=draw.of("start_read_bytes_per_s") / life.gpus),
    }  # fmt: skip
    ratio = mem_ratio or draw.of("train_mem_ratio")
    story.memory = [[(0.0, 0.0), (30.0, 0.3 * ratio), (150.0, 0.93 * ratio), (400.0, ratio)]]
    comm = draw.of("comm_ratio") if life.gpus > 1 else 0.0
    load, copy = draw.of("load_ratio"), draw.of("copy_ratio")
    return Recipe(
        step_s=draw.of("step_s"), load=load, copy=copy, comm=comm, cov=draw.of("step_cov")
    )


def exchange(story: Story, waiting: Phase, port_ratio: float) -> Phase:
    """A collective over all that joins the ranks: NVLink, PCIe, and ports between nodes."""
    life, draw = story.life, story.draw
    board, kind = life.board, life.node_kind
    within = life.gpus_per_node > 1
    pcie = 0.0 if board.links or not within else 0.3 * board.pcie_bytes_per_s
    port = 0.0
    if life.nodes > 1 and kind.ports:
        port = port_ratio * kind.port_bytes_per_s * kind.ports / kind.gpus
    return waiting._replace(
        sm=draw.of("comm_sm"), dram=draw.of("comm_dram"), load=draw.of("comm_load"),
        nvlink=draw.of("nvlink_ratio") * board.nvlink_bytes_per_s if within else 0.0,
        to_gpu=pcie, from_gpu=pcie, port=port,
    )  # fmt: skip


def begin(story: Story, tape: Tape, seconds: float = 0.0) -> None:
    """Imports, weights, first kernels; the processes appear on the GPUs within the first half."""
    seconds = seconds or story.draw.of("warmup_s")
    story.process_from_s = max(story.process_from_s, tape.length_s + 0.4 * seconds)
    shift = story.process_from_s
    story.memory = [[(at + shift, share) for at, share in points] for points in story.memory]
    tape.then("start", seconds)


def train(
    story: Story, tape: Tape, end_s: float, of: Recipe, save_every_s: float = 0.0,
    save_s: float = 0.0, phases: Sequence[str] = STEP, shares: Floats | None = None,
) -> None:  # fmt: skip
    """Steps until a time, all ranks alike, with a checkpoint now and then."""
    lengths = story.steps(max(0.0, end_s - tape.length_s), of.step_s, of.cov)
    parts = of.shares if shares is None else shares
    table = lengths[:, None] * parts[None, :]
    if save_every_s:
        saves = np.floor(np.cumsum(lengths) / (save_every_s + save_s))
        is_save = np.diff(saves, prepend=0.0) > 0
        table = np.concatenate((table, np.where(is_save, save_s, 0.0)[:, None]), axis=1)
        # The checkpoints take their time from the steps behind the last of them.
        fits = np.cumsum(table.sum(axis=1)) <= max(0.0, end_s - tape.length_s)
        table, phases = table[fits], (*phases, "save")
    tape.loop(phases, table)
    tape.until("rest" if end_s < story.life.length_s else "wait", end_s)


def lockstep(
    story: Story, own_s: Floats, comm_s: Floats, end_s: float, lost_to: str = "lag"
) -> None:
    """Ranks that wait for the slowest in every step until a time, appended to the story's tapes.

    Args:
        story: Gets its step phases; tapes by row of `own_s` must be there.
        own_s: How long each rank works in each step: rank, step, phase (load, copy, compute).
        comm_s: How long each exchange takes; both are stretched alike so that all ends in time.
        end_s: Seconds after the job's begin.
        lost_to: The phase in which a rank waits for a slower one.
    """
    slowest = own_s.sum(axis=2).max(axis=0)
    stretch = max(0.0, end_s - story.tapes[0].length_s) / float((slowest + comm_s).sum())
    waits = slowest[None, :] - own_s.sum(axis=2)
    for rank, tape in enumerate(story.tapes):
        parts = (own_s[rank], waits[rank][:, None], comm_s[:, None])
        table = np.concatenate(parts, axis=1) * stretch
        tape.loop(("load", "copy", "compute", lost_to, "comm"), table)


def healthy_save(story: Story) -> tuple[float, float]:
    """How often a checkpoint is written, and how long that takes, below 8 % of the time."""
    every_s = story.draw.of("ckpt_every_s")
    return every_s, every_s * story.draw.of("healthy_ckpt_duty")
