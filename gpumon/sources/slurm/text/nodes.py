"""Nodes from the text of `scontrol show node -d`, of every version that prints it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.hostlist import is_host_name
from gpumon.model.records.cluster import SlurmNode
from gpumon.model.text import plain
from gpumon.sources.slurm.text.gres import gpus_listed, types_listed
from gpumon.sources.slurm.text.job_values import bytes_of_mib, count
from gpumon.sources.slurm.text.records import announced, keyed_lines, pairs, split_records
from gpumon.sources.slurm.text.times import instant

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARKS: Final = {
    "*": "not_responding",
    "~": "powered_down",
    "#": "powering_up",
    "!": "power_down",
    "%": "powering_down",
    "$": "maintenance",
    "@": "reboot_requested",
    "^": "reboot_issued",
    "-": "planned",
}
"""Marks behind a state (sinfo(1), NODE STATE CODES) and the flags they mean."""

_STATE: Final = re.compile(r"([A-Z_]{1,32})([*~#!%$@^-]?)")
_BY_WHOM: Final = re.compile(r" \[([^\[\]@]*)@([^\[\]]*)\]$")

_PLAIN_LINES: Final = frozenset(
    {
        "NodeAddr",
        "State",
        "CPUAlloc",
        "RealMemory",
        "CoreSpecCount",
        "CPUSpecList",
        "MemSpecLimit",
        "Partitions",
        "BootTime",
        "ReservationName",
    }
)
"""First keys of the lines that are read pair by pair."""


class NodeList(NamedTuple):
    """Nodes that were read, and how many records were not."""

    nodes: tuple[SlurmNode, ...]
    unreadable: int
    announced: int | None = None
    """Records that scontrol announced, where it did."""


def parse_nodes(text: str) -> NodeList:
    """Every node of the text, in its order; a record that cannot be read is counted, not fatal."""
    nodes: list[SlurmNode] = []
    unreadable = 0
    for lines in split_records(text, "NodeName"):
        try:
            nodes.append(_node(lines))
        except ValueError:
            unreadable += 1
    return NodeList(tuple(nodes), unreadable, announced(text, "NodeName"))


def _node(lines: Sequence[str]) -> SlurmNode:
    """One node; its device files are not known from here.

    Raises:
        ValueError: its name or state cannot be read.
    """
    name = pairs(lines[0]).get("NodeName", "")
    if not is_host_name(name):
        raise ValueError("no node name")
    fields: dict[str, str] = {}
    gres: str | None = None
    reason = ""
    by_whom: re.Match[str] | None = None
    for key, line in keyed_lines(list(lines[1:])):
        if key == "Gres":
            gres = line.partition("=")[2]
        elif key in ("GresUsed", "ActiveFeatures"):
            fields.setdefault(key, line.partition("=")[2])
        elif key in _PLAIN_LINES:
            fields = {**pairs(line), **fields}
        elif key == "Reason" and not reason:
            reason = line.partition("=")[2]
            by_whom = _BY_WHOM.search(reason)
    mem_bytes, mem_used_bytes, mem_kept_bytes = (
        bytes_of_mib(count(fields.get(key, "")))
        for key in ("RealMemory", "AllocMem", "MemSpecLimit")
    )
    return SlurmNode(
        name=name,
        host_name=_operand(fields.get("NodeHostName", ""), name),
        address=_operand(fields.get("NodeAddr", ""), name),
        state=_state(fields.get("State", "")),
        gpu_count=None if gres is None else gpus_listed(gres),
        reason=plain(reason[: by_whom.start()] if by_whom else reason),
        reason_at=instant(by_whom[2]) if by_whom else None,
        reason_user=plain(by_whom[1]) if by_whom else "",
        partitions=words(fields.get("Partitions", "")),
        features=words(fields.get("ActiveFeatures", "")),
        cpu_count=count(fields.get("CPUTot", "")),
        cpus_used=count(fields.get("CPUAlloc", "")),
        mem_bytes=mem_bytes,
        gpus_used=gpus_listed(fields["GresUsed"]) if "GresUsed" in fields else None,
        reservation=plain(fields.get("ReservationName", "")),
        boot_at=instant(fields.get("BootTime", "")),
        gpu_types=types_listed(gres or ""),
        gpu_types_used=types_listed(fields.get("GresUsed", "")),
        mem_used_bytes=mem_used_bytes,
        cpus_usable=count(fields.get("CPUEfctv", "")),
        mem_kept_bytes=mem_kept_bytes or None,
    )


def words(text: str) -> tuple[str, ...]:
    """Words of a comma list, harmless; none for `(null)`."""
    return tuple(plain(word) for word in text.strip().split(",") if word not in ("", "(null)"))


def _operand(text: str, name: str) -> str:
    """A host name or address as Slurm has it, the node's name where it has none."""
    return text if is_host_name(text) else name


def _state(text: str) -> str:
    """Base state and flags, lower case, marks spelled out."""
    words: list[str] = []
    for part in text.upper().split("+"):
        match = _STATE.fullmatch(part)
        if match is None:
            raise ValueError("no state")
        words.append(match[1].lower())
        if match[2]:
            words.append(_MARKS[match[2]])
    return joined_state(words)


def joined_state(words: Sequence[str]) -> str:
    """Base state, then the flags by the alphabet: their order differs between text and JSON."""
    return "+".join((*words[:1], *sorted(set(words[1:]) - {words[0]})))
