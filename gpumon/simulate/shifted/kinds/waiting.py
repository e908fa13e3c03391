"""Jobs whose GPUs wait for input, storage, copies, CPUs or the compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.simulate.shifted.kinds.steps import STEP, begin, healthy_save, recipe, train
from gpumon.simulate.shifted.signals import Phase
from gpumon.simulate.shifted.story import Kind

if TYPE_CHECKING:
    from gpumon.simulate.shifted.kinds.steps import Recipe
    from gpumon.simulate.shifted.signals import Tape
    from gpumon.simulate.shifted.story import Story


def _later(story: Story, of: Recipe, share_at_once: float = 0.5) -> tuple[Tape, float]:
    """A tape of a job that is sound at first, or from the start on not; and since when."""
    tape = story.tape()
    begin(story, tape)
    onset = 0.0
    if not story.draw.happens(share_at_once):
        onset = story.onset(4500)
        train(story, tape, onset, of, *healthy_save(story))
    return tape, onset


def _starve(story: Story, of: Recipe, tape: Tape, wait: float, name: str) -> None:
    """Steps of which a share is spent in a phase, until the job ends."""
    parts = of.shares * (1.0 - wait)
    table = story.steps(story.life.length_s - tape.length_s, of.step_s / (1.0 - wait), 0.12)
    spread = np.maximum(0.05, 1.0 + 0.45 * story.draw.normal(len(table)))
    lengths = table[:, None] * np.concatenate(([wait], parts))[None, :]
    lengths[:, 0] *= spread
    lengths *= table.sum() / lengths.sum()
    tape.loop((name, *STEP), lengths)


def input_bound(story: Story) -> None:
    """Too few workers decode for what the GPUs take; all CPUs of the job are busy."""
    draw, life = story.draw, story.life
    of = recipe(story)
    story.cpus_per_node = max(2, round(draw.of("few_cpus")) * life.gpus_per_node)
    cores = story.cpus_per_node * life.nodes / life.gpus * draw.of("busy_cpu_ratio")
    wait = draw.of("wait_ratio")
    tape, onset = _later(story, of, 0.7)
    story.phases["starve"] = Phase(
        load=draw.of("rest_load"), cores=cores, cpu_wait=draw.of("cpu_pressure") * 0.6, lost=1.0,
        read=draw.of("read_bytes_per_s"),
    )  # fmt: skip
    for name in ("compute", "copy"):
        story.phases[name] = story.phases[name]._replace(cores=cores)
    _starve(story, of, tape, wait, "starve")
    story.blame("input_bound", onset)


def storage_bound(story: Story) -> None:
    """The file server is slow for a while, or many small files ask too much of it."""
    draw = story.draw
    of = recipe(story)
    tape, onset = _later(story, of)
    slow = draw.of("slow_request_s")
    story.phases["starve"] = Phase(
        load=draw.of("rest_load"), cores=0.25, lost=1.0, io_wait=draw.of("io_pressure"),
        read=draw.of("starved_read_bytes_per_s"), request_s=slow,
    )  # fmt: skip
    _starve(story, of, tape, draw.of("wait_ratio"), "starve")
    story.blame("storage_bound", onset)


def checkpoint_stall(story: Story) -> None:
    """Every few minutes all ranks stop and one after the other writes its part."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    every_s = draw.of("stall_every_s")
    save_s = every_s * draw.of("stall_ckpt_duty")
    story.phases["save"] = story.phases["save"]._replace(lost=1.0, io_wait=0.6)
    begin(story, tape)
    if draw.happens(0.35):
        story.phases["save"] = story.phases["save"]._replace(util=0.06, sm=0.01, load=0.06)
    train(story, tape, life.length_s, of, every_s, save_s)
    story.blame("checkpoint_stall", story.process_from_s)


def cpu_oversubscribed(story: Story) -> None:
    """Every worker opens a pool of as many threads as the node has CPUs."""
    draw, life = story.draw, story.life
    of = recipe(story)
    story.cpus_per_node = max(4, round(draw.of("some_cpus")) * life.gpus_per_node)
    story.threads = round(draw.of("threads_a_cpu")) * story.cpus_per_node
    cores = 0.985 * story.cpus_per_node / life.gpus_per_node
    pressure = draw.of("cpu_pressure")
    tape = story.tape()
    begin(story, tape)
    starve = Phase(load=draw.of("rest_load"), cores=cores, cpu_wait=pressure, lost=1.0)
    story.phases["starve"] = starve
    for name in ("compute", "copy", "comm"):
        phase = story.phases.get(name, Phase())
        story.phases[name] = phase._replace(cores=cores, cpu_wait=pressure)
    _starve(story, of._replace(cov=0.1), tape, 0.6 * draw.of("wait_ratio"), "starve")
    story.blame("cpu_oversubscribed", story.process_from_s)


def numa_misplaced(story: Story) -> None:
    """CPUs and memory are at the other socket: copies and launches take longer."""
    draw = story.draw
    story.is_far = True
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    far = draw.of("far_ratio")
    copying = story.phases["copy"].to_gpu
    story.phases["far_copy"] = story.phases["copy"]._replace(to_gpu=0.45 * copying, lost=0.55)
    story.phases["far_launch"] = story.phases["rest"]._replace(cores=1.0, util=0.1, lost=1.0)
    shares = of._replace(copy=0.0).shares * (1.0 - far)
    parts = np.concatenate(([0.75 * far, 0.25 * far], shares))
    train(
        story, tape, story.life.length_s, of._replace(cov=0.04),
        phases=("far_copy", "far_launch", *STEP), shares=parts,
    )  # fmt: skip
    story.blame("numa_misplaced", story.process_from_s)


def recompiling(story: Story) -> None:
    """Shapes change, and each new one is compiled while the GPUs wait."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    story.phases["compile"] = Phase(
        load=draw.of("rest_load"), cores=draw.of("compile_cores"), lost=1.0, util=0.01
    )
    every_s = draw.of("recompile_every_s")
    count = max(4, int((life.length_s - tape.length_s) / every_s))
    works = draw.lognormal(every_s, 0.5, count)
    compiles = draw.lognormal(min(draw.of("recompile_s"), 0.6 * every_s), 0.45, count)
    for work_s, compile_s in zip(works, compiles, strict=True):
        if tape.length_s >= life.length_s:
            break
        tape.then("compile", compile_s)
        tape.loop(STEP, story.steps(work_s, of.step_s, of.cov)[:, None] * of.shares[None, :])
    tape.until("wait", life.length_s)
    story.blame("recompiling", story.process_from_s)


def copy_bound(story: Story) -> None:
    """Every batch goes to the GPU in one piece that is not pinned, and results come back."""
    draw = story.draw
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    copying = draw.of("h2d_ratio")
    is_pageable = draw.happens(0.5)
    ratio = draw.of("pageable_ratio" if is_pageable else "pcie_ratio")
    link = story.life.board.pcie_bytes_per_s
    story.phases["feed"] = Phase(
        to_gpu=ratio * link, dram=0.02, load=0.08, cores=1.05, lost=0.85,
        from_gpu=0.35 * ratio * link, util=0.04 if is_pageable else 0.0,
    )  # fmt: skip
    shares = of._replace(copy=0.0).shares * (1.0 - copying)
    train(
        story, tape, story.life.length_s, of, *healthy_save(story), phases=("feed", *STEP),
        shares=np.concatenate(([copying], shares)),
    )  # fmt: skip
    story.blame("copy_bound", story.process_from_s)


# Nodes and GPUs of each, one of which is drawn. Our choice: the sizes at which the kinds occur.
_SMALL: Final = ((1, 1), (1, 2), (1, 4), (1, 3))

KINDS: Final = (
    Kind("input_bound", input_bound, ("input_bound",), _SMALL, hours=(1.6, 3.4), least_s=1800,
         names=("resnet-jpeg", "videomae")),
    Kind("storage_bound", storage_bound, ("storage_bound",), _SMALL, hours=(1.8, 3.4), least_s=2000,
         names=("imagenet", "small-files")),
    Kind("checkpoint_stall", checkpoint_stall, ("checkpoint_stall",), (*_SMALL, (2, 4)),
         hours=(1.6, 3.2), least_s=3000, names=("sd-xl-train", "epochs")),
    Kind("cpu_oversubscribed", cpu_oversubscribed, ("cpu_oversubscribed",), _SMALL,
        hours=(1.5, 3.0),
         least_s=1500, names=("xgb-gpu", "dask-cuda")),
    Kind("numa_misplaced", numa_misplaced, ("numa_misplaced",), _SMALL, hours=(1.5, 3.0),
        least_s=1500, board="copies",
         names=("bind_test", "speech")),
    Kind("recompiling", recompiling, ("recompiling",), _SMALL, hours=(1.6, 3.2), least_s=1800,
         names=("jax-varlen", "compile-model")),
    Kind("copy_bound", copy_bound, ("copy_bound",), _SMALL, hours=(1.5, 3.0), least_s=1500,
        board="copies",
         names=("gnn-feats", "recsys")),
)  # fmt: skip
