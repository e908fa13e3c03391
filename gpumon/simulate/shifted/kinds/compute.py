"""Jobs that compute, but not well, and jobs that asked for more than they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.model.units import GIB
from gpumon.simulate.shifted.kinds.steps import STEP, begin, healthy_save, recipe, train
from gpumon.simulate.shifted.signals import Phase
from gpumon.simulate.shifted.story import Kind

if TYPE_CHECKING:
    from gpumon.simulate.shifted.story import Story


def memory_leak(story: Story) -> None:
    """Losses are added up with their graphs: memory of one or all GPUs grows step by step."""
    draw, life = story.draw, story.life
    of, tape = recipe(story, draw.of("leaking_mem_ratio")), story.tape()
    begin(story, tape)
    train(story, tape, life.length_s, of, *healthy_save(story))
    flat = story.memory[0]
    start_s = flat[-1][0]
    grows = draw.of("leak_share_per_h") / 3600.0
    # It would be full behind the recording's end at the earliest.
    grows = min(grows, 0.5 / max(1.0, life.length_s - start_s))
    half_at = max(start_s, life.seen_from_s)
    steps = np.linspace(start_s, life.length_s, 400)
    level = flat[-1][1] + grows * (steps - start_s) * draw.of("leak_pace")
    leaking = [*flat, *zip(steps.tolist(), np.minimum(0.99, level).tolist(), strict=True)]
    which = range(life.gpus) if draw.happens(0.5) else (draw.whole(0, life.gpus - 1),)
    story.memory = [leaking if gpu in which else flat for gpu in range(life.gpus)]
    story.blame("memory_leak", half_at, lost_gpu_s=0.0)


def host_leak(story: Story) -> None:
    """Loaders hold what they have read: host memory grows towards the job's limit."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    story.phases["compute"] = story.phases["compute"]._replace(read=2e5)
    train(story, tape, life.length_s, of, *healthy_save(story))
    rate = draw.of("host_leak_bytes_per_s") * life.gpus_per_node
    story.host_limit_bytes = rate * life.length_s * draw.of("host_limit_over_leak")
    base = 0.45 * story.host_limit_bytes
    end = min(0.97 * story.host_limit_bytes, base + rate * life.length_s * 0.7)
    story.host_bytes = [(0.0, 0.1 * GIB), (300.0, base), (life.length_s, end)]
    story.blame("memory_leak", max(300.0, life.seen_from_s), lost_gpu_s=0.0)


def memory_limited(story: Story) -> None:
    """The allocator frees and asks again in every step, and only tiny batches fit."""
    draw, life = story.draw, story.life
    of = recipe(story, draw.of("limited_mem_ratio"))
    tape = story.tape()
    begin(story, tape)
    wait = draw.of("limited_wait_ratio")
    story.phases["retry"] = Phase(load=draw.of("rest_load"), cores=1.2, lost=1.0)
    compute = story.phases["compute"]
    story.phases["compute"] = compute._replace(sm=0.6 * compute.sm, tensor=0.6 * compute.tensor)
    parts = np.concatenate(([wait], of.shares * (1.0 - wait)))
    train(
        story, tape, life.length_s, of._replace(cov=0.05), *healthy_save(story),
        phases=("retry", *STEP), shares=parts,
    )  # fmt: skip
    top = story.memory[0][-1][1]
    if draw.happens(0.4):
        dips = np.arange(700.0, life.length_s, draw.of("retry_every_s"))
        saw = [(float(at + gap), top - low) for at in dips for gap, low in ((0, 0), (2, 0.1))]
        story.memory = [[*story.memory[0], *((at, share) for at, share in saw)]]
    story.blame("memory_limited", story.process_from_s)


def no_tensor_cores(story: Story) -> None:
    """Dense layers in FP32, with TF32 switched off."""
    draw = story.draw
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    gain = draw.of("tensor_gain")
    story.phases["compute"] = story.phases["compute"]._replace(
        sm=draw.of("fp32_sm"), tensor=0.0, fp32=draw.of("fp32_active"),
        load=draw.of("fp32_load"), lost=1.0 - 1.0 / gain,
    )  # fmt: skip
    train(story, tape, story.life.length_s, of, *healthy_save(story))
    story.blame("no_tensor_cores", story.process_from_s)


def small_batch(story: Story) -> None:
    """Kernels of some microseconds, launched one by one."""
    draw = story.draw
    of, tape = recipe(story, draw.of("small_mem_ratio")), story.tape()
    begin(story, tape)
    story.phases["compute"] = story.phases["compute"]._replace(
        util=draw.of("small_util"), sm=draw.of("small_sm"), tensor=draw.of("small_tensor"),
        dram=0.08, load=draw.of("small_load"), lost=draw.of("small_loss"), cores=1.1,
    )  # fmt: skip
    train(story, tape, story.life.length_s, of, *healthy_save(story))
    story.blame("small_batch", story.process_from_s)


def oversized_gpu(story: Story) -> None:
    """A small model on a large board, hours long."""
    draw = story.draw
    of = recipe(story, draw.of("tiny_mem_ratio"))
    tape = story.tape()
    begin(story, tape)
    busy = draw.of("tiny_util")
    story.phases["compute"] = story.phases["compute"]._replace(
        sm=draw.of("tiny_sm"), tensor=draw.of("small_tensor"), load=0.3, dram=0.1
    )
    cores = draw.of("tiny_cores")
    if draw.happens(0.5):
        # Kernels of milliseconds between which the program computes: any window shows both.
        mixed = story.phases["compute"]
        story.phases["compute"] = Phase(
            util=busy, sm=mixed.sm * busy, tensor=mixed.tensor * busy, dram=0.02, load=0.3 * busy,
            cores=cores, lost=0.7,
        )  # fmt: skip
        tape.until("compute", story.life.length_s)
    else:
        story.phases["prepare"] = story.phases["rest"]._replace(cores=cores, lost=0.75)
        parts = np.concatenate(([1.0 - busy], of.shares * busy))
        of = of._replace(step_s=draw.of("tiny_step_s"), cov=0.15)
        train(story, tape, story.life.length_s, of, phases=("prepare", *STEP), shares=parts)
    story.blame("oversized_gpu", story.process_from_s)


def overasked(story: Story) -> None:
    """One GPU, and most of the node's CPUs or memory."""
    draw, life = story.draw, story.life
    of, tape = recipe(story), story.tape()
    kind = life.node_kind
    if draw.happens(0.6):
        story.cpus_per_node = int(0.8 * kind.cpus)
    else:
        story.host_limit_bytes = draw.of("overasked_mem_ratio") * kind.mem_bytes
        story.host_bytes = [(0.0, GIB), (300.0, 0.03 * story.host_limit_bytes)]
        story.cache_bytes = [(0.0, 0.0), (life.length_s, 0.05 * story.host_limit_bytes)]
    begin(story, tape)
    train(story, tape, life.length_s, of, *healthy_save(story))
    story.blame("overasked", lost_gpu_s=0.0)


def overasked_time(story: Story) -> None:
    """A day or two asked for, over within the hour."""
    life = story.life
    of, tape = recipe(story), story.tape()
    begin(story, tape)
    train(story, tape, life.length_s, of)
    hours = max(24.0, 40.0 / life.gpus, 8.0 * life.length_s / 3600.0)
    story.limit_factor = hours * 3600.0 / life.length_s
    story.blame("overasked", life.length_s - 1.0, lost_gpu_s=0.0)


# Nodes and GPUs of each, one of which is drawn. Our choice: the sizes at which the kinds occur.
_SMALL: Final = ((1, 1), (1, 2), (1, 4), (1, 3))

KINDS: Final = (
    Kind("memory_leak", memory_leak, ("memory_leak",), _SMALL, hours=(3.0, 4.2), least_s=3600,
         names=("gan-losses", "eval_accum")),
    Kind("host_leak", host_leak, ("memory_leak",), _SMALL, hours=(3.0, 4.2), least_s=3600,
         names=("workers8", "dataset_list")),
    Kind("memory_limited", memory_limited, ("memory_limited",), _SMALL, hours=(1.5, 3.0),
        least_s=1500,
         board="profiled", names=("70b-one-node", "long-seq")),
    Kind("no_tensor_cores", no_tensor_cores, ("no_tensor_cores",), _SMALL, hours=(1.5, 3.0),
        least_s=1500,
         board="profiled", names=("fp32-legacy", "unet-old")),
    Kind("small_batch", small_batch, ("small_batch",), _SMALL, hours=(1.5, 3.0), least_s=1500,
        board="profiled",
         names=("rl-cartpole", "mlp")),
    Kind("oversized_gpu", oversized_gpu, ("oversized_gpu",), ((1, 1),), hours=(4.0, 5.0),
        least_s=7800, board="large",
         names=("bert-tiny", "embed")),
    Kind("overasked", overasked, ("overasked",), ((1, 1),), hours=(2.2, 3.6), least_s=4200,
        board="roomy",
         names=("big-mem", "all-cpus")),
    Kind("overasked_time", overasked_time, ("overasked",), ((1, 2), (1, 4)), hours=(0.6, 1.0),
        least_s=1800,
         names=("quick", "bench-2d"), is_whole=True, ends=True),
)  # fmt: skip
