"""Nodes from Slurm's JSON (slurmrestd, `scontrol show node --json`), from v0.0.36 on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumon.model.hostlist import is_host_name
from gpumon.model.records.cluster import SlurmNode
from gpumon.sources.slurm.json.values import flags, harmless, instant, text, texts, whole
from gpumon.sources.slurm.text.gres import gpus_listed, types_listed
from gpumon.sources.slurm.text.job_values import bytes_of_mib
from gpumon.sources.slurm.text.nodes import NodeList, joined_state, words

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_nodes(found: Sequence[object]) -> NodeList:
    """Every node of the list, in its order; one that cannot be read is counted, not fatal."""
    nodes: list[SlurmNode] = []
    unreadable = 0
    for record in found:
        try:
            nodes.append(_node(record))
        except ValueError:
            unreadable += 1
    return NodeList(tuple(nodes), unreadable)


def _node(record: object) -> SlurmNode:
    """One node; its device files are not known from here.

    Raises:
        ValueError: its name or state cannot be read.
    """
    if not isinstance(record, dict):
        raise ValueError("no object")
    name = text(record.get("name"))
    if not is_host_name(name):
        raise ValueError("no node name")
    states = flags(record.get("state")) + flags(record.get("state_flags"))
    if not states:
        raise ValueError("no state")
    gres, used = record.get("gres"), record.get("gres_used")
    mem_bytes, mem_used_bytes, mem_kept_bytes = (
        bytes_of_mib(whole(record.get(key)))
        for key in ("real_memory", "alloc_memory", "specialized_memory")
    )
    return SlurmNode(
        name=name,
        host_name=_operand(record, "hostname", name),
        address=_operand(record, "address", name),
        state=joined_state([word.lower() for word in states]),
        gpu_count=gpus_listed(gres) if isinstance(gres, str) else None,
        reason=harmless(record, "reason"),
        reason_at=instant(record.get("reason_changed_at")),
        reason_user=harmless(record, "reason_set_by_user"),
        partitions=_words(record.get("partitions")),
        features=_words(record.get("active_features")),
        cpu_count=whole(record.get("cpus")),
        cpus_used=whole(record.get("alloc_cpus")),
        mem_bytes=mem_bytes,
        gpus_used=gpus_listed(used) if isinstance(used, str) else None,
        reservation=harmless(record, "reservation"),
        boot_at=instant(record.get("boot_time")),
        gpu_types=types_listed(text(gres)),
        gpu_types_used=types_listed(text(used)),
        mem_used_bytes=mem_used_bytes,
        cpus_usable=whole(record.get("effective_cpus")),
        mem_kept_bytes=mem_kept_bytes or None,
    )


def _words(value: object) -> tuple[str, ...]:
    """Words of a list, or of one text that joins them by commas as v0.0.39 and older do."""
    return words(",".join(texts(value)))


def _operand(record: dict[str, Any], key: str, name: str) -> str:
    """A host name or address as Slurm has it, the node's name where it has none."""
    found = text(record.get(key))
    return found if is_host_name(found) else name
