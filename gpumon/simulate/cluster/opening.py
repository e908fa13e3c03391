"""The jobs with which a demonstration begins: one of each kind, among them the known fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.units import HOUR_S
from gpumon.simulate.cluster.job_faults import HANG, STRAGGLER, Trouble
from gpumon.simulate.cluster.people import FIRST_PARTITION, OLD_PARTITION, YOU, Request, limit_for
from gpumon.simulate.cluster.workloads import (
    DATA_PARALLEL,
    FULL_PRECISION,
    IDLE_HELD,
    INPUT_BOUND,
    MODEL_PARALLEL,
    NOTEBOOK,
    OVERSIZED,
    PARTIAL,
    SERVING,
    SWEEP,
    Workload,
)
from gpumon.simulate.physics.training import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Opening(NamedTuple):
    workload: Workload
    name: str
    user: str
    partition: str
    shape: Shape
    age_h: float
    left_h: float
    variant: int = 0
    trouble: Trouble | None = None


# Our choice: a job of each kind, at ages at which its detectors have decided.
_SEATED: Final = (
    _Opening(
        PARTIAL, "vit-finetune", YOU, FIRST_PARTITION, shape=Shape(1, 8), age_h=2.3, left_h=13.6
    ),
    _Opening(
        MODEL_PARALLEL,
        "pretrain-34b",
        YOU,
        FIRST_PARTITION,
        shape=Shape(2, 8),
        age_h=9.4,
        left_h=31.0,
    ),
    _Opening(
        DATA_PARALLEL,
        "llama-8b-sft",
        "amina",
        FIRST_PARTITION,
        shape=Shape(1, 4),
        age_h=1.2,
        left_h=4.4,
        variant=1,
    ),
    _Opening(
        SERVING, "llm-serve", "hiro", FIRST_PARTITION, shape=Shape(1, 2), age_h=20.1, left_h=20.0
    ),
    _Opening(
        FULL_PRECISION,
        "unet-seg",
        "ines",
        FIRST_PARTITION,
        shape=Shape(1, 1),
        age_h=3.1,
        left_h=1.3,
    ),
    _Opening(
        INPUT_BOUND,
        "resnet50-jpeg",
        "farid",
        FIRST_PARTITION,
        shape=Shape(1, 1),
        age_h=5.2,
        left_h=2.1,
    ),
    _Opening(NOTEBOOK, "jupyter", YOU, OLD_PARTITION, shape=Shape(1, 1), age_h=1.6, left_h=5.9),
    _Opening(
        IDLE_HELD, "eval-suite", "bjorn", OLD_PARTITION, shape=Shape(1, 2), age_h=3.4, left_h=6.3
    ),
    _Opening(
        INPUT_BOUND,
        "histopath-tiles",
        "chiara",
        OLD_PARTITION,
        shape=Shape(1, 2),
        age_h=0.9,
        left_h=3.7,
        variant=2,
    ),
)

_BESIDE: Final = (
    _Opening(
        OVERSIZED, "tabular-embed", "jomo", OLD_PARTITION, shape=Shape(1, 1), age_h=4.4, left_h=10.2
    ),
)
"""What an older node has room for besides; seated last, so that the other numbers stay."""

_ROOMY: Final = 8
"""GPUs of a node from which on there is room for it."""

_OLD_FROM: Final = 5
"""Nodes from which on one is older."""

_LONGEST_H: Final = 47.0
"""Most that a job in trouble runs in all: less than the limit of 48 hours of its partition."""

_FULL_WITHOUT_TROUBLE: Final = 6
"""Nodes up to which the 37 GPUs of `_SEATED` count as a full fleet (our choice)."""

_TROUBLED_FROM: Final = 10
"""Nodes from which on there is room for jobs that span several and go wrong."""

_TROUBLED: Final = (
    _Opening(
        DATA_PARALLEL, "dinov2-giant", YOU, FIRST_PARTITION, shape=Shape(2, 8), age_h=5.6,
        left_h=13.0, variant=3,
        trouble=Trouble(STRAGGLER, 1, 3, 2400.0),
    ),
    _Opening(
        DATA_PARALLEL, "sam2-video", YOU, FIRST_PARTITION, shape=Shape(2, 8), age_h=3.3, left_h=9.5,
        variant=4,
        trouble=Trouble(HANG, 0, 6, 720.0),
    ),
)  # fmt: skip
"""Our choice: the two faults of one rank that each need several nodes to be seen."""

# Our choice: jobs of all sizes wait, with how many tasks each array has and how many run at once.
_WAITING: Final = (
    (
        _Opening(
            MODEL_PARALLEL,
            "moe-8x7b",
            "kavya",
            FIRST_PARTITION,
            shape=Shape(2, 8),
            age_h=3.9,
            left_h=11.0,
        ),
        1,
        1,
    ),
    (
        _Opening(
            DATA_PARALLEL,
            "esm2-650m",
            "eunji",
            FIRST_PARTITION,
            shape=Shape(1, 8),
            age_h=1.9,
            left_h=9.0,
        ),
        1,
        1,
    ),
    (
        _Opening(
            SWEEP, "hpo-sweep", "greta", OLD_PARTITION, shape=Shape(1, 1), age_h=0.8, left_h=0.25
        ),
        24,
        2,
    ),
    (
        _Opening(
            PARTIAL, "sd-lora", "luca", FIRST_PARTITION, shape=Shape(1, 4), age_h=0.6, left_h=5.0
        ),
        1,
        1,
    ),
    (
        _Opening(
            DATA_PARALLEL,
            "whisper-ft",
            "hiro",
            FIRST_PARTITION,
            shape=Shape(1, 2),
            age_h=0.4,
            left_h=2.5,
        ),
        1,
        1,
    ),
    (
        _Opening(
            FULL_PRECISION,
            "gnn-qm9",
            YOU,
            FIRST_PARTITION,
            shape=Shape(1, 1),
            age_h=0.1,
            left_h=3.0,
        ),
        1,
        1,
    ),
)


def is_full(nodes: int) -> bool:
    """Whether the opening jobs alone fill a fleet of so many nodes."""
    return nodes <= _FULL_WITHOUT_TROUBLE or nodes == _TROUBLED_FROM


def seated_requests(
    nodes: int, gpus_per_node: int, opened_s: float
) -> Iterator[tuple[Request, float, float]]:
    """Requests that run already, each with its age and what is left of it, seconds.

    Args:
        nodes: Nodes of the fleet.
        gpus_per_node: GPUs of each.
        opened_s: How much later the fleet is opened: jobs in trouble still run then.
    """
    for opening in _SEATED:
        request = _request(opening, nodes, gpus_per_node)
        yield request, opening.age_h * HOUR_S, opening.left_h * HOUR_S
    has_room = nodes >= _TROUBLED_FROM and gpus_per_node > 1
    for opening in _TROUBLED if has_room else ():
        left_h = min(opening.left_h + opened_s / HOUR_S, _LONGEST_H - opening.age_h)
        request = _request(opening._replace(left_h=left_h), nodes, gpus_per_node)
        yield request, opening.age_h * HOUR_S, left_h * HOUR_S
    for opening in _BESIDE if nodes >= _OLD_FROM and gpus_per_node >= _ROOMY else ():
        request = _request(opening, nodes, gpus_per_node)
        yield request, opening.age_h * HOUR_S, opening.left_h * HOUR_S


def waiting_requests(nodes: int, gpus_per_node: int) -> list[tuple[Request, float]]:
    """Requests that wait, each with the seconds for which it has."""
    return [
        (
            _request(opening, nodes, gpus_per_node)._replace(
                run_s=opening.left_h * HOUR_S, array_tasks=tasks, array_throttle=throttle
            ),
            opening.age_h * HOUR_S,
        )
        for opening, tasks, throttle in _WAITING
    ]


def _request(opening: _Opening, nodes: int, gpus_per_node: int) -> Request:
    wanted = opening.shape
    run_s = (opening.age_h + opening.left_h) * HOUR_S
    shape = Shape(min(wanted.nodes, max(1, nodes // 2)), min(wanted.gpus, gpus_per_node))
    trouble = opening.trouble
    if trouble is not None:
        trouble = trouble._replace(local=min(trouble.local, shape.gpus - 1))
    return Request(
        workload=opening.workload,
        name=opening.name,
        user=opening.user,
        partition=opening.partition if nodes >= _OLD_FROM else FIRST_PARTITION,
        shape=shape,
        run_s=run_s,
        limit_s=limit_for(run_s),
        variant=opening.variant,
        trouble=trouble,
    )
