"""Which GPUs Slurm says a row has, and the place of its node in the network: hidden columns."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from gpumon.report.facts.columns import Column
from gpumon.report.facts.slurm_nodes import rooms
from gpumon.report.text.cells import EMPTY_CELL, Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpumon.model.records.cluster import SlurmNode
    from gpumon.report.facts.tick_index import Digest

R = TypeVar("R")


def place_columns(node_of: Callable[[R], str]) -> tuple[Column[R], ...]:
    """Leaf switch and block of a row's node, by its name; both hidden."""
    return (
        _column(
            "leaf_switch",
            "SWITCH",
            "Leaf switch of the node by Slurm's topology; shown where chosen with c.",
            node_of,
            lambda node: node.leaf_switch,
        ),
        _column(
            "block",
            "BLOCK",
            "Block of the node by Slurm's topology; shown where chosen with c.",
            node_of,
            lambda node: node.block,
        ),
    )


def types_column(types_of: Callable[[Digest, R], Iterable[str]]) -> Column[R]:
    """Slurm's types of a row's GPUs, each with its count where more than one is reported."""

    def words(digest: Digest, row: R) -> str:
        counts = Counter(filter(None, types_of(digest, row)))
        return ",".join(f"{kind}:{n}" if n > 1 else kind for kind, n in counts.items())

    return Column(
        key="gpu_types",
        title="TYPES",
        width=8,
        align="left",
        priority=9,
        cell=lambda digest, row: Cell(words(digest, row)) if words(digest, row) else EMPTY_CELL,
        order=lambda digest, row: (words(digest, row),) if words(digest, row) else None,
        doc="Slurm's types of its GPUs, with their counts; shown where chosen with c.",
        max_width=24,
        is_hidden=True,
    )


def _column(
    key: str,
    title: str,
    doc: str,
    node_of: Callable[[R], str],
    place_of: Callable[[SlurmNode], str],
) -> Column[R]:
    def place(digest: Digest, row: R) -> str:
        room = rooms(digest).get(node_of(row))
        return place_of(room.node) if room else ""

    def cell(digest: Digest, row: R) -> Cell:
        name = place(digest, row)
        return Cell(name) if name else EMPTY_CELL

    def order(digest: Digest, row: R) -> tuple[str] | None:
        name = place(digest, row)
        return (name,) if name else None

    return Column(
        key=key,
        title=title,
        width=8,
        align="left",
        priority=9,
        cell=cell,
        order=order,
        doc=doc,
        max_width=16,
        is_hidden=True,
    )
