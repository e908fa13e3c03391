"""What a job asked for, in the keys of scontrol; JSON's members are read by the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.sources.slurm.text.gres import MAX_GPUS, gpus_listed, types_asked
from gpumon.sources.slurm.text.job_values import count

if TYPE_CHECKING:
    from collections.abc import Mapping

PER: Final = {key: f"TresPer{key}" for key in ("Job", "Node", "Task", "Socket")}
"""The keys of what a job asked for, by what it asked it for each of."""


class GpuRequest(NamedTuple):
    """Which GPUs a job asked for, and how they are to lie."""

    types: tuple[str, ...] = ()
    """Slurm's types of them that it named, each once."""
    per_node: int | None = None
    """GPUs that it needs on each of its nodes; None where Slurm may spread them over several."""


def gpu_request(fields: Mapping[str, str], gpu_count: int | None) -> GpuRequest:
    """Which GPUs it asked for; nothing where that cannot be read, as no allocation rests on it.

    Args:
        fields: What it asked for, by key. `NumNodes` is `1-1` where it wants one node, and a bare
            number, the least that could do, where it did not say.
        gpu_count: GPUs on all nodes.
    """
    try:
        types = types_asked(fields.get(key, "") for key in PER.values())
        each = _gpus(fields)["Node"]
    except ValueError:
        return GpuRequest()
    _, _, most = fields.get("NumNodes", "").partition("-")
    all_on_one = gpu_count if most == "1" else None
    return GpuRequest(types, each or all_on_one or None)


def gpus_requested(fields: Mapping[str, str]) -> int | None:
    """GPUs by the request, for an accounting that leaves GPUs out of TRES; 0 where none."""
    per = _gpus(fields)
    if per["Job"]:
        return per["Job"]
    for key, number in (("Node", "NumNodes"), ("Task", "NumTasks")):
        if per[key]:
            # A pending job may span a range of nodes, `1-4`: the least is what it asks for.
            times = count(fields.get(number, ""))
            gpus = None if times is None else per[key] * times
            return gpus if gpus is not None and gpus <= MAX_GPUS else None
    return None if per["Socket"] else 0


def _gpus(fields: Mapping[str, str]) -> dict[str, int]:
    return {of: gpus_listed(fields.get(key, "")) for of, key in PER.items()}
