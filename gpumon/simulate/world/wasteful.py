"""Jobs that lose GPU time, or ask for what they do not use: a kind for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.simulate.cluster.workloads import OVERSIZED, Holds, Workload, sizes
from gpumon.simulate.physics import hindered, services, training, uneven

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from gpumon.simulate.physics.board import Board
    from gpumon.simulate.physics.program import Program
    from gpumon.simulate.physics.training import Shape

    Build = Callable[[Board, Shape, Random, int], Program]

# Nodes, GPUs of each, weight. Our choice, so that sizes come out as published (see `sites`).
_SOME: Final = sizes((1, 1, 3), (1, 2, 3), (1, 4, 3), (1, 8, 1))
_MANY: Final = sizes((1, 1, 2), (1, 2, 3), (1, 4, 4), (1, 8, 3))
_IDLE: Final = 4
"""Weight of what holds GPUs and uses none, over others: Philly's GPUs were at 0 in a quarter of all
minutes, PAI's instances in a third."""

_UNEVEN: Final = 2
"""Weight of jobs whose ranks wait for one another: ByteDance found S > 1.1 in 42.5 % of large
ones."""

_WITH_MIG: Final = ("h100", "h200", "b200", "a100", "a100-pcie")

# Sizes likewise: what runs on one GPU, and what needs several.
_ONE: Final = sizes((1, 1, 1))
_TOGETHER: Final = sizes((1, 4, 2), (1, 8, 4), (2, 8, 2))

LEAK_BYTES_PER_S: Final = 4.5e6
"""Host memory that a loader forgets to free: 16 GB an hour and rank."""


def _held(
    truth: str, build: Build, *names: str, holds: Holds = Holds.ALWAYS, program: str = "python3"
) -> Workload:
    return Workload(
        kind=truth,
        truth=truth,
        build=build,
        lanes="none",
        launcher="torchrun",
        program=program,
        names=names,
        shapes=_MANY,
        hours=(2.0, 18.0),
        weight=_IDLE,
        holds=holds,
    )


def _trained(
    truth: str,
    build: Build,
    *names: str,
    holds: Holds = Holds.ALWAYS,
    loaders: int = 4,
    least_world: int = 1,
) -> Workload:
    shapes = _TOGETHER if least_world > 1 else _SOME
    weight = _UNEVEN if least_world > 1 else 1
    return Workload(
        kind=truth, truth=truth, build=build, lanes="pace", launcher="torchrun", program="python3",
        names=names, shapes=shapes, hours=(1.5, 14.0), weight=weight,
        holds=holds, loaders=loaders, least_world=least_world,
    )  # fmt: skip


NUMA_MISPLACED: Final = _trained(
    "numa_misplaced", hindered.far_from_cpus, "taskset", "bind-test"
)._replace(is_far=True)
NIC_MISPLACED: Final = _trained(
    "nic_misplaced", uneven.through_one_port, "hca-0", "nccl-env", least_world=4
)._replace(least_nodes=2, has_one_port=True)

MISPLACED: Final = {"copy_bound": NUMA_MISPLACED, "comm_bound": NIC_MISPLACED}
"""What half of the jobs of a kind are instead: those of which the ranks are put to the wrong CPUs
or ports, which waits for copies and exchanges just as these do."""

OVERASKED: Final = _trained("overasked", training.data_parallel, "quick-check", "smoke")._replace(
    hours=(0.5, 1.2), limit_times=24.0
)

WASTEFUL: Final = (
    _held("never_started", services.never_started, "wait-data", "deploy"),
    _held("cpu_only", services.cpu_only, "tokenize", "solver-mpi", program="solver"),
    _held("idle_tail", services.idle_tail, "train-eval", "finetune", holds=Holds.AFTER_HEAD),
    _held("idle_held", services.idle_held, "eval-suite", "debug", holds=Holds.AFTER_HEAD),
    Workload(
        "partial_gpus_idle", "partial_gpus_idle", training.data_parallel, "pace",
        launcher="torchrun",
        program="python3.11", names=("ddp-baseline", "sd-lora"), shapes=sizes((1, 4, 1), (1, 8, 2)),
        hours=(1.5, 14.0), weight=_IDLE,
        used_share=0.625,
    ),
    Workload(
        "session_left", "interactive_idle", services.session_left, "none", launcher="process",
        program="python3.10",
        names=("jupyter", "bash"), shapes=_ONE, hours=(2.0, 9.0), weight=_IDLE, is_interactive=True,
        holds=Holds.AFTER_HEAD,
        loaders=0,
    ),
    Workload(
        "notebook", "interactive_idle", services.notebook, "none", launcher="process",
        program="python3.10",
        names=("jupyter", "lab"), shapes=_ONE, hours=(2.0, 9.0), weight=_IDLE, is_interactive=True,
        loaders=0,
    ),
    _trained("slow_startup", hindered.slow_start, "env-build", "from-source", holds=Holds.HEAD),
    _trained("checkpoint_stall", hindered.checkpoint_stall, "pretrain-safe", "save-all"),
    _trained("storage_bound", hindered.storage_bound, "small-files", "lmdb-nfs", loaders=8),
    _trained("input_bound", training.input_bound, "resnet-jpeg", "histopath", loaders=14),
    _trained("cpu_oversubscribed", hindered.oversubscribed, "omp-all", "dali-64", loaders=40),
    _trained("recompiling", hindered.recompiling, "dynamic-shapes", "compile-all"),
    _trained("copy_bound", hindered.copy_bound, "unpinned", "hostcache"),
    _trained("data_imbalance", uneven.data_imbalance, "varlen", "graphs", least_world=4)._replace(
        lanes="rank"
    ),
    _trained("comm_bound", uneven.comm_bound, "ddp-tiny-bucket", "sync-each", least_world=4),
    _trained("slow_drift", uneven.slow_drift, "replay-buffer", "logs", holds=Holds.AFTER_HEAD),
    _trained("memory_limited", hindered.memory_limited, "long-seq", "unet3d-full"),
    _trained("no_tensor_cores", training.full_precision, "unet-seg", "deeponet"),
    _trained("small_batch", hindered.small_batch, "bs1", "rnn-loop"),
    OVERSIZED._replace(partitions=_WITH_MIG),
    Workload(
        "stage_imbalance", "stage_imbalance", uneven.stage_imbalance, "stage", launcher="srun",
        program="python",
        names=("pp-vocab", "pp-4"), shapes=sizes((2, 8, 3), (4, 8, 1)), hours=(3.0, 20.0),
        weight=_UNEVEN, loaders=2,
        least_nodes=2,
    ),
    Workload(
        "fragmented", "fragmented", uneven.scattered, "pace", launcher="srun", program="python3",
        names=("spread", "leftovers"), shapes=sizes((2, 2, 2), (4, 2, 1), (2, 4, 1)),
        hours=(1.5, 14.0), weight=_UNEVEN,
        least_nodes=2,
    ),
    _trained("memory_leak", training.data_parallel, "cached-loader", "append")._replace(
        host_growth_bytes_per_s=LEAK_BYTES_PER_S, hours=(4.0, 14.0)
    ),
    OVERASKED,
)  # fmt: skip
"""A kind for each class that befalls a job as a whole."""
