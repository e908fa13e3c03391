"""Who uses the fleet, and the request for one job of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.label import HEALTHY
from gpumon.simulate.cluster.workloads import (
    NOTEBOOK,
    SWEEP,
    WORKLOADS,
    Workload,
    gpus_used,
)
from gpumon.simulate.physics.training import Shape

if TYPE_CHECKING:
    from random import Random

    from gpumon.simulate.cluster.job_faults import Trouble

YOU: Final = "you"
"""The user who opens the demo: only this user's processes show their environment."""

ACCOUNTS: Final = {
    YOU: "vision",
    "amina": "nlp",
    "bjorn": "climate",
    "chiara": "vision",
    "dmitri": "nlp",
    "eunji": "biology",
    "farid": "robotics",
    "greta": "climate",
    "hiro": "speech",
    "ines": "biology",
    "jomo": "robotics",
    "kavya": "speech",
    "luca": "vision",
}
"""Slurm account of each user."""

UIDS: Final = {user: 20_001 + number for number, user in enumerate(ACCOUNTS)}
"""Numbers of the users. Our choice: far above those of a system's own (login.defs: below 1000)."""

FIRST_PARTITION: Final = "h100"
OLD_PARTITION: Final = "a100"

_LIMIT_HOURS: Final = (1, 2, 4, 8, 12, 24, 48)
"""Time limits that users ask for. Our choice: round hours up to the limit of a partition."""


class Request(NamedTuple):
    """One job as it is submitted."""

    workload: Workload
    name: str
    user: str
    partition: str
    shape: Shape
    run_s: float
    """How long it will run."""
    limit_s: float
    """Time limit that its user asked for."""
    variant: int
    """Which draw of its kind's parameters it uses."""
    array_tasks: int = 1
    """Tasks of a job array; 1: no array."""
    array_throttle: int = 1
    """Array tasks that may run at once."""
    trouble: Trouble | None = None
    """What befalls it while it runs."""

    @property
    def account(self) -> str:
        """Slurm account that pays."""
        return ACCOUNTS[self.user]

    @property
    def truth(self) -> str:
        """Class that the job's label carries."""
        workload, shape = self.workload, self.shape
        is_partial = workload.used_share < 1.0
        is_whole = is_partial and gpus_used(workload, shape.gpus) == shape.gpus
        is_small = shape.nodes < workload.least_nodes or shape.world < workload.least_world
        return HEALTHY if is_whole or is_small else workload.truth


def limit_for(run_s: float, times: float = 1.1) -> float:
    """The usual time limit for a run of this length, or so many times that, seconds."""
    fitting = (hours * 3600.0 for hours in _LIMIT_HOURS if hours * 3600.0 >= times * run_s)
    return next(fitting, 48 * 3600.0)


def draw_request(chance: Random, nodes: dict[str, int], gpus: int) -> Request:
    """A job like the fleet's others.

    Args:
        chance: Where the draw comes from.
        nodes: Usable nodes per partition.
        gpus: GPUs per node: no job asks for more of one node.
    """
    workload = chance.choices(
        list(WORKLOADS.values()), [workload.weight for workload in WORKLOADS.values()]
    )[0]
    is_old = nodes.get(OLD_PARTITION, 0) > 0 and (
        workload is NOTEBOOK or chance.random() < nodes[OLD_PARTITION] / sum(nodes.values())
    )
    partition = OLD_PARTITION if is_old else FIRST_PARTITION
    shapes, weights = zip(*workload.shapes, strict=True)
    wanted = chance.choices(shapes, weights)[0]
    # No user gets more than half of a partition.
    shape = Shape(min(wanted.nodes, max(1, nodes[partition] // 2)), min(wanted.gpus, gpus))
    run_s = 3600.0 * chance.uniform(*workload.hours)
    user = chance.choice([user for user in ACCOUNTS if user != YOU])
    is_array = workload is SWEEP
    return Request(
        workload=workload,
        name=chance.choice(workload.names),
        user=user,
        partition=partition,
        shape=shape,
        run_s=run_s,
        limit_s=limit_for(run_s),
        variant=chance.randrange(6),
        array_tasks=chance.choice((6, 8, 12)) if is_array else 1,
        array_throttle=3 if is_array else 1,
    )
