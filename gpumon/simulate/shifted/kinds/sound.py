"""Healthy training, and what of it resembles waste."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.model.units import GIB
from gpumon.simulate.shifted.kinds.steps import (
    STEP,
    begin,
    exchange,
    healthy_save,
    lockstep,
    recipe,
    train,
)
from gpumon.simulate.shifted.signals import SW_POWER_CAP, Phase
from gpumon.simulate.shifted.story import Kind, Mark

if TYPE_CHECKING:
    from gpumon.simulate.shifted.story import Story

APPLICATION_CLOCKS: Final = 0x02
"""A user's clocks apply (nvml.h: nvmlClocksEventReasonApplicationsClocksSetting)."""


def training(story: Story) -> None:
    """Nothing special."""
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    train(story, tape, story.life.length_s, of, *healthy_save(story))


def evaluations(story: Story) -> None:
    """Every now and then the model is tried on other data, on one GPU of the job or on all."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    every_s, test_s = draw.of("eval_every_s"), draw.of("eval_s")
    others = story.branch() if life.gpus > 1 and draw.happens(0.5) else None
    if others is not None:
        story.tape_of = [min(gpu, 1) for gpu in range(life.gpus)]
    while tape.length_s < life.length_s:
        table = story.steps(every_s, of.step_s, of.cov)[:, None] * of.shares[None, :]
        tape.loop(STEP, table).then("load", 6.0).then("evaluate", test_s)
        if others is not None:
            others.loop(STEP, table).then("wait", 6.0 + test_s)


def long_compile(story: Story) -> None:
    """Graphs are compiled for some minutes, once."""
    of, tape = recipe(story), story.tape()
    story.phases["compile"] = Phase(cores=6.0 / story.life.gpus, load=0.02)
    begin(story, tape, 40.0)
    compile_s = min(story.draw.of("compile_s"), 0.08 * story.life.length_s)
    tape.then("compile", compile_s)
    train(story, tape, story.life.length_s, of, *healthy_save(story))


def curriculum(story: Story) -> None:
    """Sequences get longer by design: steps take longer, and the GPUs are as busy."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    seconds = life.length_s - tape.length_s
    for part in np.linspace(1.0, draw.of("longer_steps"), draw.whole(3, 6)):
        train_s = seconds / 4
        step = of._replace(step_s=of.step_s * float(part))
        tape.loop(STEP, story.steps(train_s, step.step_s, of.cov)[:, None] * of.shares[None, :])
    train(story, tape, life.length_s, of)


def zero_offload(story: Story) -> None:
    """The optimiser is in host memory: gradients go out and parameters come back, as planned."""
    draw, life = story.draw, story.life
    of, tape = recipe(story, draw.of("offload_mem_ratio")), story.tape()
    begin(story, tape)
    share = draw.of("offload_ratio")
    link = 0.8 * life.board.pcie_bytes_per_s
    story.phases["offload"] = Phase(
        util=0.7, sm=0.3, tensor=0.1, dram=0.15, load=0.3, to_gpu=link, from_gpu=link, cores=6.0
    )
    parts = np.concatenate(([share], of.shares * (1.0 - share)))
    story.host_bytes = [(0.0, GIB), (400.0, 40 * GIB * life.gpus_per_node)]
    train(story, tape, life.length_s, of, phases=("offload", *STEP), shares=parts)


def experts(story: Story) -> None:
    """Tokens go to experts on other GPUs: much is exchanged by design."""
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    moe = of._replace(comm=story.draw.of("moe_ratio"))
    story.phases["comm"] = exchange(story, story.phases["wait"], story.draw.of("port_ratio"))
    train(story, tape, story.life.length_s, moe, *healthy_save(story))


def staging(story: Story) -> None:
    """Data are copied to the node's disk for some minutes before the GPUs work."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    story.phases["stage"] = Phase(
        cores=0.7, read=draw.of("stage_bytes_per_s") / life.gpus, io_wait=0.4,
        disk=draw.of("stage_bytes_per_s") / life.gpus,
    )  # fmt: skip
    tape.then("stage", min(draw.of("stage_s"), 0.07 * life.length_s))
    begin(story, tape, 50.0)
    train(story, tape, life.length_s, of, *healthy_save(story))


def power_capped(story: Story) -> None:
    """The site caps the power of all boards, or of those of one stage."""
    draw, life = story.draw, story.life
    training(story)
    cap = draw.of("cap_ratio")
    some = range(life.gpus) if draw.happens(0.5) else range(max(1, life.gpus // 2))
    for gpu in some:
        story.marks += [
            Mark(gpu, "power_limit_w", cap * life.board.limit_w),
            Mark(gpu, "clock_event_reasons", SW_POWER_CAP),
            Mark(gpu, "sm_clock_mhz", 0.55 + 0.45 * cap, is_factor=True),
            Mark(gpu, "power_w", cap * 0.98, is_factor=True),
        ]


def locked_clocks(story: Story) -> None:
    """A user set the application clocks, for measurements that repeat."""
    training(story)
    share = story.draw.of("locked_clock_ratio")
    for gpu in range(story.life.gpus):
        story.marks += [
            Mark(gpu, "sm_clock_mhz", share, is_factor=True),
            Mark(gpu, "clock_event_reasons", APPLICATION_CLOCKS),
        ]


def host_cache(story: Story) -> None:
    """A dataset is read into host memory and stays; the page cache fills, too, then both rest."""
    draw, life = story.draw, story.life
    training(story)
    read = draw.of("cache_mem_ratio") * life.node_kind.mem_bytes * life.gpus_per_node
    full = read / life.node_kind.gpus
    speed = draw.of("cache_bytes_per_s")
    full_s = 300.0 + 0.5 * full / speed
    phase = story.phases["compute"]
    story.phases["compute"] = phase._replace(read=1.3 * speed / life.gpus_per_node)
    story.host_bytes = [(0.0, GIB), (300.0, 0.05 * full), (full_s, 0.5 * full)]
    story.cache_bytes = [(0.0, 0.0), (full_s, 0.4 * full)]


def pipeline_bubble(story: Story) -> None:
    """Equal stages that wait at the begin and the end of each batch, all alike."""
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    bubble = story.draw.of("bubble_ratio")
    parts = np.concatenate(([bubble], of.shares * (1.0 - bubble)))
    train(story, tape, story.life.length_s, of, phases=("wait", *STEP), shares=parts)


def rollouts(story: Story) -> None:
    """Reinforcement learning: answers are generated, judged on CPUs, then learnt from."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    story.phases["generate"] = Phase(
        util=1.0, sm=draw.of("serve_sm"), tensor=draw.of("serve_tensor"),
        dram=draw.of("serve_dram"), load=draw.of("serve_load"), cores=1.5,
    )  # fmt: skip
    story.phases["judge"] = story.phases["rest"]._replace(cores=8.0, cpu_wait=0.05)
    rounds = draw.of("round_s")
    count = int((life.length_s - tape.length_s) / rounds) + 1
    parts = np.array([draw.of("generate_ratio"), draw.of("judge_ratio"), draw.of("learn_ratio")])
    lengths = rounds * parts[None, :] * np.exp(0.15 * draw.normal(count, 3))
    lengths *= (life.length_s - tape.length_s) / lengths.sum()
    tape.loop(("generate", "judge", "compute"), lengths)
    tape.until("comm", tape.length_s + of.step_s)


def graph_learning(story: Story) -> None:
    """Memory-bound kernels: few tensor operations, much bandwidth."""
    draw = story.draw
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    story.phases["compute"] = story.phases["compute"]._replace(
        sm=draw.of("graph_sm"), tensor=draw.of("graph_tensor"), dram=draw.of("graph_dram")
    )
    train(story, tape, story.life.length_s, of, *healthy_save(story))


def growing_cache(story: Story) -> None:
    """The allocator's cache grows in jumps, then stays."""
    draw, life = story.draw, story.life
    training(story)
    points = story.memory[0][:-1]
    at, share = points[-1][0], points[-1][1] * 0.6
    for _ in range(draw.whole(3, 7)):
        at += draw.of("cache_jump_s")
        points += [(at, share), (at + 2.0, share + 0.05)]
        share += 0.05
    story.memory = [[*points, (life.length_s, share)]]


def gentle_spread(story: Story) -> None:
    """Ranks that differ by a few per cent from step to step, as all do."""
    draw, life = story.draw, story.life
    of = recipe(story)
    begin(story, story.tape())
    for _ in range(life.gpus - 1):
        story.branch()
    story.tape_of = list(range(life.gpus))
    seconds = life.length_s - story.tapes[0].length_s
    lengths = story.steps(seconds, of.step_s, of.cov)
    own = np.repeat(lengths[None, :, None] * of.shares[None, None, :3], life.gpus, axis=0)
    own[:, :, 2] *= np.exp(0.012 * draw.normal(*own.shape[:2]))
    lockstep(story, own, lengths * of.shares[4], life.length_s, "wait")


def mixed_products(story: Story) -> None:
    """Boards of two products in one job: the faster ones wait, and nothing is wrong with any."""
    draw, life = story.draw, story.life
    of = recipe(story)
    begin(story, story.tape())
    story.branch()
    half = life.gpus_per_node
    story.tape_of = [gpu // half for gpu in range(life.gpus)]
    seconds = life.length_s - story.tapes[0].length_s
    lengths = story.steps(seconds, of.step_s, of.cov)
    own = np.repeat(lengths[None, :, None] * of.shares[None, None, :3], 2, axis=0)
    own[0, :, 2] *= draw.of("product_ratio")
    lockstep(story, own, lengths * of.shares[4], life.length_s, "wait")


# Nodes and GPUs of each, one of which is drawn. Our choice: the sizes at which the kinds occur.
_ANY: Final = ((1, 1), (1, 2), (1, 4), (1, 3), (1, 8), (1, 6), (2, 4))
_SMALL: Final = ((1, 1), (1, 2), (1, 4))
_WORLDS: Final = ((1, 4), (1, 8), (2, 4), (1, 2), (1, 6), (2, 8))

KINDS: Final = (
    Kind("training", training, (), _ANY, hours=(1.0, 3.6), least_s=1200,
        names=("train", "llama-sft")),
    Kind("evaluations", evaluations, (), _ANY, hours=(1.4, 3.4), least_s=1600,
        names=("val-often", "cls")),
    Kind("long_compile", long_compile, (), _SMALL, hours=(1.8, 3.2), least_s=1600,
        names=("jit", "xla-job")),
    Kind("curriculum", curriculum, (), _ANY, hours=(1.8, 3.6), least_s=2700,
        names=("ctx-extend", "warm")),
    Kind("zero_offload", zero_offload, (), _SMALL, hours=(1.4, 3.2), least_s=1600, board="copies",
         names=("zero3", "offload13b")),
    Kind("experts", experts, (), _WORLDS, hours=(1.4, 3.2), least_s=1600, board="profiled",
        names=("moe8x", "ep")),
    Kind("staging", staging, (), _SMALL, hours=(1.8, 3.2), least_s=1600,
        names=("cp-then-train", "laion")),
    Kind("power_capped", power_capped, (), _WORLDS, hours=(1.4, 3.2), least_s=1600,
        names=("eco", "capped")),
    Kind("locked_clocks", locked_clocks, (), _SMALL, hours=(1.4, 3.0), least_s=1600,
        names=("bench", "timing")),
    Kind("host_cache", host_cache, (), _SMALL, hours=(2.0, 3.6), least_s=2700,
        names=("in-ram", "webds")),
    Kind("pipeline_bubble", pipeline_bubble, (), _WORLDS, hours=(1.4, 3.0), least_s=1600,
        board="profiled",
         names=("pp-1f1b", "gpipe")),
    Kind("rollouts", rollouts, (), _SMALL, hours=(1.4, 3.4), least_s=1600, names=("ppo", "grpo")),
    Kind("graph_learning", graph_learning, (), _SMALL, hours=(1.2, 3.0), least_s=1600,
        names=("gcn", "dlrm")),
    Kind("growing_cache", growing_cache, (), _SMALL, hours=(2.0, 3.4), least_s=2700,
        names=("dynamic", "tts")),
    Kind("mixed_products", mixed_products, (), ((2, 4),), hours=(1.4, 3.0), least_s=1600,
        names=("mix", "any2"),
         is_mixed=True),
    Kind("gentle_spread", gentle_spread, (), _WORLDS, hours=(1.4, 3.2), least_s=1600,
        names=("ddp-ok", "clip")),
)  # fmt: skip
