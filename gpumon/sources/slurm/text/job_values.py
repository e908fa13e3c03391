"""Values of a job that its text and its JSON give in different words: one reading for both."""

from __future__ import annotations

import re
from typing import Final

from gpumon.model.hostlist import expand, is_host_name
from gpumon.model.units import MIB

_MEMORY: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGTP]?)")
_UNITS: Final = {"K": 2.0**10, "": MIB, "M": MIB, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}
"""A bare number of Slurm's is MiB (slurm.conf(5), RealMemory)."""

_MOST_BYTES: Final = 2.0**60
"""Memory of more than any cluster has: such a number is garbage."""

_SLUID: Final = re.compile(r"s[0-9A-HJKMNP-TV-Z]{13}")
"""Crockford's base 32 behind an `s`."""

_EXIT: Final = re.compile(r"[0-9]{1,3}:[0-9]{1,3}")
_UNENDED: Final = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "RESIZING", "SIGNALING", "STOPPED"}
)
"""States in which Slurm prints `0:0`, though there is no exit yet."""


def memory_of_tres(tres: str) -> float | None:
    """Bytes of `mem=` in a TRES string such as `cpu=4,mem=2000G,node=2`; None: it names none."""
    for item in tres.split(","):
        name, _, size = item.strip().partition("=")
        if name == "mem":
            match = _MEMORY.fullmatch(size)
            return _sane_bytes(float(match[1]) * _UNITS[match[2]]) if match else None
    return None


def bytes_of_mib(mib: int | None) -> float | None:
    """Bytes of so many MiB; None where that is not known, or more than can be."""
    return None if mib is None else _sane_bytes(mib * MIB)


def _sane_bytes(size: float) -> float | None:
    return size if size <= _MOST_BYTES else None


def cpus_of_tres(tres: str) -> int | None:
    """CPUs of `cpu=` in a TRES string; None: it names none."""
    return _count_in(tres, "cpu")


def nodes_of_tres(tres: str) -> int | None:
    """Nodes of `node=` in a TRES string; None: it names none."""
    return _count_in(tres, "node")


def _count_in(tres: str, key: str) -> int | None:
    named = (item.strip().partition("=") for item in tres.split(","))
    return next((count(number) for name, _, number in named if name == key), None)


def exit_text(text: str, state: str) -> str:
    """Exit status and signal, `3:0`, as text; empty while there is none or it can't be read."""
    return text if state not in _UNENDED and _EXIT.fullmatch(text) else ""


def exit_of_status(status: int | None) -> str:
    """`exit:signal` of what wait(2) returned; empty where nothing did."""
    if status is None or not 0 <= status <= 0xFFFF:
        return ""
    signal = status & 0x7F
    # 0x7F means stopped, not killed; a killed process has no exit status.
    return f"0:{signal}" if 0 < signal < 0x7F else f"{status >> 8}:0"


def count(text: str) -> int | None:
    """A whole number, the least of a range such as `1-4`; None for everything else."""
    low = text.partition("-")[0]
    return int(low) if low.isascii() and low.isdecimal() and len(low) <= 10 else None


def planned_nodes(hostlist: str) -> tuple[str, ...]:
    """Nodes of a plan; one that can't be read is none, because no allocation rests on it."""
    try:
        names = expand(hostlist)
    except ValueError:
        return ()
    return names if all(map(is_host_name, names)) else ()


def sluid(text: str) -> str:
    """Slurm's unique id of a job; empty where the text is none."""
    return text if _SLUID.fullmatch(text) else ""
