"""How the GPUs of a node reach each other and its ports, as far as the node tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.columns import EMPTY_CELL, Cell, Column, Tone
from gpumon.report.gpu_cells import index_text
from gpumon.report.rows import block_rows

if TYPE_CHECKING:
    from gpumon.model.cluster import Gpu, Node
    from gpumon.report.digest import Digest
    from gpumon.report.rows import BlockRow

_ACTIVE: Final = 1
"""Value of `link_state` of a link that works."""


def _bus(text: str | None) -> str:
    """A PCI address with a domain of four digits, as the kernel writes it: NVML writes eight."""
    domain, _, rest = (text or "").lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else ""


def nvlinks(digest: Digest, gpus: tuple[Gpu, ...]) -> dict[tuple[str, str], int]:
    """Active NVLinks between two GPUs, by their UUIDs; through switches the fewer of the two.

    Only links whose other end is known count.
    """
    by_bus = {_bus(gpu.label("pci_bus_id")): gpu.uuid for gpu in gpus}
    found: dict[tuple[str, str], int] = {}
    switched: dict[str, int] = {}
    for gpu in gpus:
        for link in digest.entities(gpu, "link"):
            if link.value("link_state") != _ACTIVE:
                continue
            other = by_bus.get(_bus(link.label("remote")))
            if link.label("remote_type") == "switch":
                switched[gpu.uuid] = switched.get(gpu.uuid, 0) + 1
            elif other is not None:
                found[gpu.uuid, other] = found.get((gpu.uuid, other), 0) + 1
    for one, count in switched.items():
        for other, others in switched.items():
            if one != other:
                found[one, other] = min(count, others)
    return found


def ancestors(gpu: Gpu) -> dict[str, str]:
    """What a GPU shares on PCIe with each other one, by UUID: `PIX`, `SYS`; empty: not told."""
    pairs = (part.partition("=") for part in (gpu.label("common_ancestors") or "").split(","))
    return {uuid: word[:5] for uuid, _, word in pairs if uuid and word}


def topology_columns(digest: Digest, node: Node) -> tuple[Column[Gpu], ...]:
    """A matrix of the node's GPUs against each other and its ports; none where nothing is told."""
    gpus = tuple(g for uuid in node.gpu_uuids if (g := digest.tick.gpus.get(uuid)) is not None)
    links = nvlinks(digest, gpus)
    ports = [row for row in block_rows(node, "nic") if row.label("nearest_gpus")]
    if not links and not ports and not any(ancestors(gpu) for gpu in gpus):
        return ()
    columns: list[Column[Gpu]] = [
        Column(
            "gpu",
            "GPU",
            3,
            "right",
            0,
            lambda _d, gpu: Cell(index_text(gpu)),
            None,
            "NVML's index of the GPU.",
        )
    ]
    near = {gpu.uuid: ancestors(gpu) for gpu in gpus}
    if links or any(near.values()):
        columns += [_gpu_column(gpu, links, near) for gpu in gpus]
    return (*columns, *(_port_column(row) for row in ports))


def _gpu_column(
    other: Gpu, links: dict[tuple[str, str], int], near: dict[str, dict[str, str]]
) -> Column[Gpu]:
    def cell(_digest: Digest, gpu: Gpu) -> Cell:
        if gpu.uuid == other.uuid:
            return Cell("X", Tone.DIM)
        count = links.get((gpu.uuid, other.uuid))
        if count:
            return Cell(f"NV{count}")
        shared = near.get(gpu.uuid, {}).get(other.uuid)
        return Cell(shared) if shared else Cell("·", Tone.DIM)

    return Column(
        other.uuid,
        index_text(other),
        4,
        "right",
        0,
        cell,
        None,
        "What joins the two GPUs: NV12 twelve NVLinks, else what they share on PCIe in the words "
        "of nvidia-smi topo; a dot: nothing is known.",
    )


def _port_column(port: BlockRow) -> Column[Gpu]:
    nearest = frozenset((port.label("nearest_gpus") or "").split(","))
    how = port.label("nearest_by") or "near"

    def cell(_digest: Digest, gpu: Gpu) -> Cell:
        return Cell(how) if gpu.uuid in nearest else EMPTY_CELL

    name = port.key.partition("/")[0]
    return Column(
        port.key,
        name,
        max(len(how), min(8, len(name))),
        "left",
        1,
        cell,
        None,
        "What the port's adapter shares with the GPUs that are nearest to it.",
        10,
    )
