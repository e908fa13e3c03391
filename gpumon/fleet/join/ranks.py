"""Which rank of which world a process is, from the variables its launcher gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.missing import Reason
from gpumon.model.records.cluster import Rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.model.records.cluster import Process


class Place(NamedTuple):
    """A process's place in its world."""

    world_id: str | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    why: str | None
    """Why the rank is unknown, None where it is known."""


class Launcher(NamedTuple):
    """How one kind of launcher tells a process its place."""

    rank: str
    local_ranks: tuple[str, ...]
    sizes: tuple[str, ...]


MPI: Final = (
    Launcher("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_LOCAL_RANK",), ("OMPI_COMM_WORLD_SIZE",)),
    Launcher("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_LOCAL_RANK",), ("MV2_COMM_WORLD_SIZE",)),
    Launcher("PMI_RANK", ("PMI_LOCAL_RANK", "MPI_LOCALRANKID"), ("PMI_SIZE",)),
    Launcher("PMIX_RANK", ("MPI_LOCALRANKID",), ()),
)
"""Open MPI, MVAPICH2, MPICH and Intel MPI, PMIx, in the order in which they count."""

WHY: Final = {
    Reason.NO_PERMISSION: "no permission to read its environment",
    Reason.NO_PROCESS: "the process was gone before it could be read",
}

NO_RANK: Final = "its environment names no rank"
SEVERAL: Final = "several processes of one task use different GPUs, and no variable numbers them"

LOOPBACK: Final = ("localhost", "127.", "::1", "[::1]", "0.0.0.0", "ip6-localhost")  # noqa: S104
"""How addresses begin that mean another machine on every node."""


def place(process: Process) -> Place:
    """Place of a process in its world, by its own variables alone.

    A launcher that sits inside a Slurm task wins over Slurm: torchrun starts many ranks in one
    task, and its RANK is the one that NCCL uses. `SLURM_PROCID` counts only in a numbered step,
    because the batch script and everything it starts inherit a `SLURM_PROCID` of 0.
    """
    variables = process.rank_vars
    rank = _number(variables, "RANK")
    if rank is not None and ("TORCHELASTIC_RUN_ID" in variables or "MASTER_ADDR" in variables):
        return Place(
            world_id=_rendezvous(variables, process.node),
            rank=rank,
            local_rank=_number(variables, "LOCAL_RANK"),
            world_size=_number(variables, "WORLD_SIZE"),
            why=None,
        )
    step = process.step or variables.get("SLURM_STEP_ID", "")
    world_id = f"{process.job_id}.{step}" if step else process.job_id
    by_slurm = _by_slurm(process, step, world_id)
    namespace = variables.get("PMIX_NAMESPACE", "")
    is_srun = not namespace or namespace.startswith("slurm.")
    for launcher in MPI:
        rank = _number(variables, launcher.rank)
        if rank is None:
            continue
        local_rank = _first(variables, launcher.local_ranks)
        size = _first(variables, launcher.sizes)
        if by_slurm is not None and by_slurm.rank == rank and is_srun:
            # srun started this MPI itself: where MPI says less, Slurm's numbers are the same.
            local_rank = by_slurm.local_rank if local_rank is None else local_rank
            size = by_slurm.world_size if size is None else size
        return Place(
            world_id=world_id if is_srun else namespace,
            rank=rank,
            local_rank=local_rank,
            world_size=size,
            why=None,
        )
    if by_slurm is not None:
        return by_slurm
    if process.why is not None:
        return Place(
            world_id=None,
            rank=None,
            local_rank=None,
            world_size=None,
            why=WHY.get(process.why, process.why.value),
        )
    return Place(world_id=None, rank=None, local_rank=None, world_size=None, why=NO_RANK)


def places(processes: Iterable[Process]) -> list[tuple[Process, Place]]:
    """The ranks of one job: its processes without the children of ranks, each with its place.

    Children inherit every variable of their rank. Of the processes that claim one and the same
    place on a node, the rank is the one that no other of them started, else the one with the lowest
    PID; others are its children when they use no GPU that it does not use. Where they do use other
    GPUs, they are programs side by side that nobody numbered, and none of them is called a rank.
    """
    claims: dict[tuple[str, Place], list[Process]] = {}
    found: list[tuple[Process, Place]] = []
    for process in processes:
        where = place(process)
        if where.rank is None:
            found.append((process, where))
        else:
            claims.setdefault((process.node, where), []).append(process)
    for (_, where), claimants in claims.items():
        pids = {process.pid for process in claimants}
        first = min(claimants, key=lambda p: (p.parent_pid in pids, p.pid))
        used = set(first.gpu_uuids)
        if all(used.issuperset(process.gpu_uuids) for process in claimants):
            found.append((first, where))
        else:
            nowhere = Place(world_id=None, rank=None, local_rank=None, world_size=None, why=SEVERAL)
            found += [(process, nowhere) for process in claimants]
    return found


def ranks_of(processes: Iterable[Process]) -> tuple[Rank, ...]:
    """The ranks of one job, by world and number, those without a number last."""
    found = [
        Rank(
            step=process.step,
            world_id=where.world_id,
            rank=where.rank,
            local_rank=where.local_rank,
            world_size=where.world_size,
            node=process.node,
            pid=process.pid,
            gpu_uuids=process.gpu_uuids,
            why=where.why,
            program=process.name,
        )
        for process, where in places(processes)
    ]
    return tuple(
        sorted(found, key=lambda r: (r.world_id or "~", r.rank is None, r.rank or 0, r.node, r.pid))
    )


class KnownRanks:
    """The ranks of all jobs, of which those stay whose processes are as they were."""

    def __init__(self) -> None:
        """No job is known."""
        self._before: dict[str, tuple[tuple[Process, ...], tuple[Rank, ...]]] = {}
        self._now: dict[str, tuple[tuple[Process, ...], tuple[Rank, ...]]] = {}

    def begin(self) -> None:
        """Begin a tick: what is not asked for in it is forgotten with the next one."""
        self._before, self._now = self._now, {}

    def of(self, job_id: str, processes: tuple[Process, ...]) -> tuple[Rank, ...]:
        """The ranks of one job, as `ranks_of` tells them.

        Args:
            job_id: The job.
            processes: Its processes, in any order, the same one each time.
        """
        if not processes:
            return ()
        known = self._before.get(job_id)
        # Most are the very same objects, which are equal without a look at them.
        if known is None or known[0] != processes:
            known = processes, ranks_of(processes)
        self._now[job_id] = known
        return known[1]


def _by_slurm(process: Process, step: str, world_id: str | None) -> Place | None:
    """Place as a task of a numbered Slurm step, None for what is none."""
    variables = process.rank_vars
    rank = _number(variables, "SLURM_PROCID")
    if rank is None or not step.isdecimal():
        return None
    size = _first(variables, ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"))
    return Place(
        world_id=world_id,
        rank=rank,
        local_rank=_number(variables, "SLURM_LOCALID"),
        world_size=size,
        why=None,
    )


def _rendezvous(variables: Mapping[str, str], node: str) -> str:
    """What the ranks of one process group share: the store's address, else torchrun's id.

    An address of the machine itself is another one on every node, so it goes with the node's name.
    """
    address, port = variables.get("MASTER_ADDR"), variables.get("MASTER_PORT")
    if address and port:
        shared = f"{address}:{port}"
        return f"{node}/{shared}" if address.lower().startswith(LOOPBACK) else shared
    return variables.get("TORCHELASTIC_RUN_ID") or address or "?"


def _first(variables: Mapping[str, str], keys: tuple[str, ...]) -> int | None:
    """The first number among these variables."""
    numbers = (_number(variables, key) for key in keys)
    return next((number for number in numbers if number is not None), None)


def _number(variables: Mapping[str, str], key: str) -> int | None:
    text = variables.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None
