"""Jobs that are well, most of which appear as if they were not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from gpumon.model.records.label import HEALTHY
from gpumon.simulate.cluster.workloads import Workload, sizes
from gpumon.simulate.physics import hindered, inference, services, training, uneven

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from gpumon.simulate.physics.board import Board
    from gpumon.simulate.physics.program import Program
    from gpumon.simulate.physics.training import Shape

    Build = Callable[[Board, Shape, Random, int], Program]

# Nodes, GPUs of each, weight. Our choice, so that sizes come out as published (see `sites`).
_TRAINED: Final = sizes((1, 1, 3), (1, 2, 4), (1, 4, 4), (1, 8, 2), (2, 8, 1))
_ALONE: Final = sizes((1, 1, 2), (1, 2, 3), (1, 4, 3), (1, 8, 1))
_TOGETHER: Final = sizes((1, 4, 2), (1, 8, 4), (2, 8, 2))


_SERVING: Final = partial(
    services.serving,
    bursts=services.Lengths(0.55, 1.25, 21.9),
    gaps=services.Lengths(1.3, 1.6, 258.0),
)
"""Sampled every 57 s, as the published trace was, bursts and gaps have its quantiles: what is
shorter than a sample is merged."""


def _training(kind: str, build: Build, *names: str, least_world: int = 1) -> Workload:
    shapes = _TOGETHER if least_world > 1 else _TRAINED
    return Workload(
        kind=kind, truth=HEALTHY, build=build, lanes="pace", launcher="torchrun", program="python3",
        names=names, shapes=shapes, hours=(1.5, 14.0), weight=1,
        least_world=least_world,
    )  # fmt: skip


def _service(kind: str, build: Build, program: str, *names: str) -> Workload:
    return Workload(
        kind=kind,
        truth=HEALTHY,
        build=build,
        lanes="none",
        launcher="process",
        program=program,
        names=names,
        shapes=_ALONE,
        hours=(3.0, 30.0),
        weight=1,
        loaders=0,
    )


BENIGN: Final = (
    # From these come the stragglers, hangs, narrow slots and crashes, too.
    _training("dense", training.data_parallel, "llama-sft", "vit-pretrain", "whisper-ft")._replace(
        weight=5
    ),
    Workload(
        "pipeline", HEALTHY, training.model_parallel, "stage", launcher="srun", program="python",
        names=("pretrain-34b", "longctx"), shapes=sizes((2, 8, 3), (4, 8, 1)), hours=(3.0, 20.0),
        weight=1,
        loaders=2, least_nodes=2,
    ),
    _training("mixture", uneven.mixture, "moe-8x7b", "switch-xl", least_world=4),
    _training("offloaded", hindered.offloaded, "zero3-70b", "qlora-cpu"),
    _training("saving_often", hindered.saving_often, "diffusion-ckpt", "gnn-long"),
    _training("compiled_first", hindered.compiled_first, "jax-palm", "trt-build"),
    _training("staged", hindered.staged, "imagenet-local", "nvme-cache"),
    _training("trials", hindered.trials, "hpo", "optuna-lr"),
    _training("evaluating", hindered.evaluating, "sft-eval", "instruct"),
    _training("curriculum", uneven.curriculum, "longctx-ramp", "seq-warmup"),
    _training("rollouts", inference.rollouts, "grpo-math", "ppo-code", least_world=2),
    _training("recommending", inference.recommending, "dlrm", "two-tower", least_world=2),
    _training("solving", inference.solving, "nek-cavity", "lbm-wing", least_world=2),
    _service("token_server", inference.token_server, "vllm", "chat-api", "summarise"),
    _service("serving", _SERVING, "sglang", "llm-serve", "embed"),
    _service("standby", inference.standby, "tritonserver", "replica-b", "fallback"),
    _service("batch_inference", inference.batch_inference, "python3", "label-web", "embed-all"),
    _service("transcoding", inference.transcoding, "ffmpeg", "videos", "proxies"),
    _service("rendering", inference.rendering, "isaac-sim", "robots", "synth-data"),
    _service("folding", inference.folding, "gmx", "md-npt", "binding"),
    _service("active_session", services.active_session, "python3.11", "jupyter", "lab")._replace(
        is_interactive=True, shapes=sizes((1, 1, 1))
    ),
)  # fmt: skip
"""Training of all kinds, servers, video, rendering, solvers, people at work."""
