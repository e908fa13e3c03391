"""A machine without a queue, and processes of several users on its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gpumon.model.records.tick import TargetState, Tick
from tests.worlds.node import block
from tests.worlds.tick import GIB, gpu, process, tick, uuid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST = "desk"
UPTIME_S = 200_000.0


class Seat(NamedTuple):
    """One process, and the GPUs that it is on."""

    pid: int
    gpus: tuple[int, ...] = (0,)
    user: str | None = "ada"
    uid: int | None = 1000
    program: str | None = "python"
    start_s: float | None = UPTIME_S - 3600.0
    mem_gib: float = 4.0
    sm: float | None = 0.5
    cores: float | None = 1.5
    kind: str = "C"
    node: str = HOST
    tree_cores: float | None = None
    tree_gib: float | None = None


SEATS = (
    Seat(4242, mem_gib=12.0, sm=0.31),
    Seat(4243, (1,), "grace", 1001, "train", mem_gib=20.0, sm=0.9, cores=7.25),
    Seat(900, (0, 1), "gdm", 42, "Xorg", None, 0.25, None, None, "G"),
)


def workstation(seats: Sequence[Seat] = SEATS, **changes: Any) -> Tick:
    """A tick of these processes; of another node than `HOST` also that one."""
    gpus = []
    for name in dict.fromkeys([HOST, *(seat.node for seat in seats)]):
        here = [seat for seat in seats if seat.node == name]
        for index in range(max((n for seat in here for n in seat.gpus), default=0) + 1):
            mine = [seat for seat in here if index in seat.gpus]
            gpus.append(gpu(name, index, processes=tuple(_process(seat) for seat in mine)))
    made = tick((), gpus, queue_at=None, targets=(TargetState("local", True, None, 0.1),))
    nodes = {
        name: node._replace(
            state=None,
            blocks={
                "process": block(
                    "process", {str(s.pid): _uses(s) for s in seats if s.node == name}
                ),
                "context": block("context", _contexts(name, seats)),
            },
            block=block("node", {name: {"uptime_s": UPTIME_S}}),
        )
        for name, node in made.nodes.items()
    }
    return made._replace(nodes=nodes, history=None)._replace(**changes)


def _process(seat: Seat) -> Any:
    uuids = tuple(uuid_of(seat.node, index) for index in seat.gpus)
    return process(seat.node, 0, seat.pid, None, None)._replace(
        name=seat.program,
        uid=seat.uid,
        user=seat.user,
        step=None,
        gpu_uuids=uuids,
        mem_used_bytes=dict.fromkeys(uuids, seat.mem_gib * GIB),
        start_time_s=seat.start_s,
        types=dict.fromkeys(uuids, seat.kind),
    )


def _uses(seat: Seat) -> dict[str, float | int | None]:
    return {
        "process_cpu_cores_used": seat.cores,
        "process_rss_bytes": 2.0 * GIB,
        "process_tree_cpu_cores_used": seat.tree_cores,
        "process_tree_rss_bytes": None if seat.tree_gib is None else seat.tree_gib * GIB,
    }


def _contexts(name: str, seats: Sequence[Seat]) -> dict[str, dict[str, float | int | None]]:
    return {
        f"{seat.pid}/{uuid_of(name, index)}": {"context_sm_util_ratio": seat.sm}
        for seat in seats
        if seat.node == name
        for index in seat.gpus
    }
