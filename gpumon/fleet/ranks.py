"""Which rank of which world a process is, from the variables its launcher gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.missing import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.cluster import Process


class Place(NamedTuple):
    """A process's place in its world."""

    world_id: str | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    why: str | None
    """Why the rank is unknown, None where it is known."""


MPI: Final = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_LOCAL_RANK", "PMI_SIZE"),
)
"""Rank, local rank and size of Open MPI, MVAPICH and PMI launchers."""

WHY: Final = {
    Reason.NO_PERMISSION: "no permission to read its environment",
    Reason.NO_PROCESS: "the process was gone before it could be read",
}


def place(process: Process) -> Place:
    """Place of a process in its world.

    A launcher that sits inside a Slurm task wins over Slurm: torchrun starts many ranks in one
    task, and its RANK is the one that NCCL uses. `SLURM_PROCID` counts only in a numbered step,
    because the batch script and everything it starts inherit a `SLURM_PROCID` of 0.
    """
    variables = process.rank_vars
    rank = _number(variables, "RANK")
    if rank is not None and ("TORCHELASTIC_RUN_ID" in variables or "MASTER_ADDR" in variables):
        return Place(
            _rendezvous(variables),
            rank,
            _number(variables, "LOCAL_RANK"),
            _number(variables, "WORLD_SIZE"),
            None,
        )
    world_id = f"{process.job_id}.{process.step}" if process.step else process.job_id
    for rank_key, local_key, size_key in MPI:
        rank = _number(variables, rank_key)
        if rank is not None:
            size = _number(variables, size_key)
            return Place(world_id, rank, _number(variables, local_key), size, None)
    rank = _number(variables, "SLURM_PROCID")
    step = process.step or variables.get("SLURM_STEP_ID", "")
    if rank is not None and step.isdecimal():
        size = _number(variables, "SLURM_STEP_NUM_TASKS")
        size = _number(variables, "SLURM_NTASKS") if size is None else size
        return Place(world_id, rank, _number(variables, "SLURM_LOCALID"), size, None)
    if process.why is not None:
        why = WHY.get(process.why, process.why.value)
    else:
        why = "its environment names no rank"
    return Place(None, None, None, None, why)


def _rendezvous(variables: Mapping[str, str]) -> str:
    """What the ranks of one process group share: the store's address, else torchrun's id."""
    address, port = variables.get("MASTER_ADDR"), variables.get("MASTER_PORT")
    if address and port:
        return f"{address}:{port}"
    return variables.get("TORCHELASTIC_RUN_ID") or address or "?"


def _number(variables: Mapping[str, str], key: str) -> int | None:
    text = variables.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None
