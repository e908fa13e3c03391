"""The kinds of job in the fleet: how they behave, how they are launched, what is true of them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.label import HEALTHY
from gpumon.simulate.physics import inference, services, training
from gpumon.simulate.physics.training import Shape

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from gpumon.simulate.physics.board import Board
    from gpumon.simulate.physics.program import Program


class Holds(StrEnum):
    """When the truth about a job holds, by its program."""

    ALWAYS = "always"
    HEAD = "head"
    """Until what comes first is done."""
    AFTER_HEAD = "after head"
    """From then on."""


class Workload(NamedTuple):
    """One kind of job."""

    kind: str
    truth: str
    """Class that its label carries."""
    build: Callable[[Board, Shape, Random, int], Program]
    lanes: str
    """By what ranks of one job differ: `pace` (silicon), `stage` (pipeline), `rank` or `none`."""
    launcher: str
    """`torchrun` (one task a node), `srun` (one task a GPU), `process` (one for all GPUs)."""
    program: str
    """Base name of the processes."""
    names: tuple[str, ...]
    shapes: tuple[tuple[Shape, int], ...]
    """Sizes with weights."""
    hours: tuple[float, float]
    """Shortest and longest run."""
    weight: int
    """How common it is among new jobs."""
    used_share: float = 1.0
    """Share of the GPUs of each node that the job uses at all."""
    is_interactive: bool = False
    holds: Holds = Holds.ALWAYS
    """When its label does."""
    loaders: int = 4
    """Processes that load data for one rank."""
    partitions: tuple[str, ...] = ()
    """Where alone it makes sense; empty: everywhere."""
    least_nodes: int = 1
    least_world: int = 1
    """What its truth takes: a smaller job of the kind is healthy."""
    limit_times: float = 1.1
    """Time limit that is asked for, over the run."""
    host_growth_bytes_per_s: float = 0.0
    """How fast the host memory of one rank grows."""
    is_far: bool = False
    """Whether each rank is bound to CPUs of the other socket."""
    has_one_port: bool = False
    """Whether all ranks of a node talk through the port of the first one's GPU."""


def sizes(*weighted: tuple[int, int, int]) -> tuple[tuple[Shape, int], ...]:
    """Sizes of a kind of job, from nodes, GPUs of each, and weight."""
    return tuple((Shape(nodes, gpus), weight) for nodes, gpus, weight in weighted)


DATA_PARALLEL: Final = Workload(
    "data_parallel",
    HEALTHY,
    training.data_parallel,
    "pace",
    launcher="torchrun",
    program="python3.11",
    names=("llama-8b-sft", "vit-l-pretrain", "whisper-ft", "esm2-650m", "clip-b16", "reward-model"),
    shapes=sizes((1, 1, 3), (1, 2, 4), (1, 4, 6), (1, 8, 7), (2, 8, 3), (4, 8, 1)),
    hours=(1.5, 20.0),
    weight=30,
)
MODEL_PARALLEL: Final = Workload(
    "model_parallel",
    HEALTHY,
    training.model_parallel,
    "stage",
    launcher="srun",
    program="python",
    names=("pretrain-34b", "moe-8x7b", "pretrain-70b", "longctx-34b"),
    shapes=sizes((2, 8, 6), (4, 8, 4), (8, 8, 2), (16, 8, 1)),
    hours=(8.0, 40.0),
    weight=5,
    loaders=2,
)
FULL_PRECISION: Final = Workload(
    "full_precision",
    "no_tensor_cores",
    training.full_precision,
    "pace",
    launcher="torchrun",
    program="python3",
    names=("unet-seg", "gnn-qm9", "deeponet", "sr-gan"),
    shapes=sizes((1, 1, 6), (1, 2, 3), (1, 4, 1)),
    hours=(2.0, 16.0),
    weight=8,
)
INPUT_BOUND: Final = Workload(
    "input_bound",
    "input_bound",
    training.input_bound,
    "pace",
    launcher="torchrun",
    program="python3",
    names=("resnet50-jpeg", "video-mae", "histopath-tiles"),
    shapes=sizes((1, 1, 4), (1, 2, 4), (1, 4, 4), (1, 8, 2)),
    hours=(3.0, 18.0),
    weight=10,
    loaders=14,
)
SERVING: Final = Workload(
    "serving",
    HEALTHY,
    services.serving,
    "none",
    launcher="process",
    program="sglang",
    names=("llm-serve", "chat-backend", "embed-api"),
    shapes=sizes((1, 1, 2), (1, 2, 5), (1, 4, 3)),
    hours=(12.0, 44.0),
    weight=8,
    loaders=0,
)
OVERSIZED: Final = Workload(
    "oversized_gpu",
    "oversized_gpu",
    inference.oversized,
    "none",
    launcher="process",
    program="python3",
    names=("tabular", "small-cnn"),
    shapes=sizes((1, 1, 1)),
    hours=(2.0, 14.0),
    weight=1,
)
NOTEBOOK: Final = Workload(
    "notebook",
    "interactive_idle",
    services.notebook,
    "none",
    launcher="process",
    program="python3.10",
    names=("jupyter", "ood-lab", "bash"),
    shapes=sizes((1, 1, 1)),
    hours=(2.0, 8.0),
    weight=9,
    is_interactive=True,
    loaders=0,
)
IDLE_HELD: Final = Workload(
    "idle_held",
    "idle_held",
    services.idle_held,
    "none",
    launcher="torchrun",
    program="python3",
    names=("eval-suite", "rl-sweep", "debug-run"),
    shapes=sizes((1, 1, 4), (1, 2, 2), (1, 4, 1)),
    hours=(3.0, 12.0),
    weight=6,
    holds=Holds.AFTER_HEAD,
)
PARTIAL: Final = Workload(
    "partial_gpus_idle",
    "partial_gpus_idle",
    training.data_parallel,
    "pace",
    launcher="torchrun",
    program="python3.11",
    names=("vit-finetune", "ddp-baseline", "sd-lora"),
    shapes=sizes((1, 4, 1), (1, 8, 2)),
    hours=(4.0, 20.0),
    weight=4,
    used_share=0.625,
)
SWEEP: Final = Workload(
    "sweep",
    HEALTHY,
    training.data_parallel,
    "none",
    launcher="torchrun",
    program="python3",
    names=("hpo-sweep", "ablation", "seed-grid"),
    shapes=sizes((1, 1, 1)),
    hours=(0.4, 1.4),
    weight=4,
)
WORKLOADS: Final = {
    workload.kind: workload
    for workload in (
        DATA_PARALLEL,
        MODEL_PARALLEL,
        FULL_PRECISION,
        INPUT_BOUND,
        SERVING,
        NOTEBOOK,
        IDLE_HELD,
        PARTIAL,
        SWEEP,
    )
}
"""Every kind by its name."""


def gpus_used(workload: Workload, gpus_per_node: int) -> int:
    """GPUs of one node that the job's processes open, at least one."""
    return max(1, round(workload.used_share * gpus_per_node))


def lane_of(workload: Workload, shape: Shape, node: int, local: int) -> int | None:
    """Which of the job's programs a GPU runs; None: no process ever opens it.

    Args:
        workload: Kind of the job.
        shape: Its size.
        node: Position of the node in the job.
        local: Position of the GPU among the job's GPUs there.
    """
    if local >= gpus_used(workload, shape.gpus):
        return None
    if workload.lanes == "stage":
        return min(3, node * min(shape.nodes, 4) // shape.nodes)
    if workload.lanes == "rank":
        return node * gpus_used(workload, shape.gpus) + local
    # Spread unevenly, so that neighbours differ: slow silicon is the rarer kind.
    return (0, 1, 1, 2, 1, 2, 0, 2)[(node * 3 + local) % 8] if workload.lanes == "pace" else 0
