"""How full a node's own file systems are, in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.catalogue.host import SHARED_MEMORY
from gpumon.report.facts.rows import block_rows
from gpumon.report.text import units
from gpumon.report.text.cells import safe

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Node
    from gpumon.report.facts.rows import BlockRow


NEARLY_FULL: Final = 0.9
"""Share from which on other local file systems are shown (our choice)."""

_MOST_FULL: Final = 4
"""Of these so many are named in a line."""

_LONGEST_PATH: Final = 24
"""Characters of a path in a cell (our choice): its end tells mounts apart."""


def fullness(row: BlockRow) -> float | None:
    """Share of a local file system that is taken, of what users may fill; 0 to 1."""
    used, free = row.value("used_bytes"), row.value("free_bytes")
    if used is None or free is None or used + free <= 0:
        return None
    return used / (used + free)


def space_facts(node: Node) -> list[tuple[str, str]]:
    """Shared memory, and which other local file systems are nearly full, the fullest first."""
    if node.is_stale:
        return []
    known = [(row, full) for row in block_rows(node, "local_filesystem")
             if (full := fullness(row)) is not None]  # fmt: skip
    shared = [(SHARED_MEMORY, _taken(row)) for row, _ in known if row.key == SHARED_MEMORY]
    near = sorted(
        ((full, row) for row, full in known if full >= NEARLY_FULL and row.key != SHARED_MEMORY),
        key=lambda one: (-one[0], one[1].key),
    )
    nearly_full = [
        (_short(row.key), f"{_taken(row)}, {units.percent(full)} % full") for full, row in near
    ]
    left = len(nearly_full) - _MOST_FULL
    more = [("also nearly full", f"{left} more")] if left > 0 else []
    return [*shared, *nearly_full[:_MOST_FULL], *more]


def _taken(row: BlockRow) -> str:
    """`12/64 GiB`; of less than one, as a container has it, `3/64 MiB`."""
    used, size = row.value("used_bytes") or 0.0, row.value("size_bytes")
    if size is not None and size < 2**30:
        return f"{units.mib(used)}/{units.mib(size)} MiB"
    return f"{units.memory(used, size)} GiB"


def _short(path: str) -> str:
    """A mount point of any length, cut at the front, as its end tells it apart."""
    path = safe(path)
    return path if len(path) <= _LONGEST_PATH else "…" + path[1 - _LONGEST_PATH :]
