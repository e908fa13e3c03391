"""How the GPUs of a node reach each other and its ports, and how much goes there now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report.facts.columns import Column
from gpumon.report.facts.rows import block_rows
from gpumon.report.text import units
from gpumon.report.text.cells import EMPTY_CELL, Cell, Tone
from gpumon.report.text.units import index_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumon.model.records.cluster import Gpu, Node
    from gpumon.report.facts.rows import BlockRow
    from gpumon.report.facts.tick_index import Digest

_SHORT: Final = {"switch": "sw"}
"""Short words, before a rate, for what a port shares with a GPU."""

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


def pair_rates(digest: Digest, gpus: tuple[Gpu, ...]) -> dict[tuple[str, str], float]:
    """Payload per second from one GPU to another over NVLinks that join the two directly.

    A switch does not count by destination: then only what a GPU sends in all is known.
    """
    by_bus = {_bus(gpu.label("pci_bus_id")): gpu.uuid for gpu in gpus}
    found: dict[tuple[str, str], float] = {}
    for gpu in gpus:
        for link in digest.entities(gpu, "link"):
            other, rate = by_bus.get(_bus(link.label("remote"))), link.value("link_tx_bytes_per_s")
            if other is not None and rate is not None:
                found[gpu.uuid, other] = found.get((gpu.uuid, other), 0.0) + rate
    return found


def ancestors(gpu: Gpu) -> dict[str, str]:
    """What a GPU shares on PCIe with each other one, by UUID: `PIX`, `SYS`; empty: not reported."""
    pairs = (part.partition("=") for part in (gpu.label("common_ancestors") or "").split(","))
    return {uuid: word[:5] for uuid, _, word in pairs if uuid and word}


def topology_columns(digest: Digest, node: Node) -> tuple[Column[Gpu], ...]:
    """A matrix of the node's GPUs against each other and its ports; empty: none is reported."""
    gpus = tuple(g for uuid in node.gpu_uuids if (g := digest.tick.gpus.get(uuid)) is not None)
    links, rates = nvlinks(digest, gpus), pair_rates(digest, gpus)
    ports = [row for row in block_rows(node, "nic") if row.label("nearest_gpus")]
    if not links and not ports and not any(ancestors(gpu) for gpu in gpus):
        return ()
    columns: list[Column[Gpu]] = [
        Column(
            key="gpu",
            title="GPU",
            width=3,
            align="right",
            priority=0,
            cell=lambda _d, gpu: Cell(index_text(gpu)),
            order=None,
            doc="NVML's index of the GPU.",
        )
    ]
    near = {gpu.uuid: ancestors(gpu) for gpu in gpus}
    if links or any(near.values()):
        columns += [_gpu_column(gpu, links, near, rates) for gpu in gpus]
    return (*columns, *(_port_column(row) for row in ports))


def rate_words(node: Node, gpus: Sequence[Gpu]) -> str:
    """What the rates in the matrix are; empty where there are none."""
    parts = []
    if any(gpu.value("nvlink_tx_bytes_per_s") is not None for gpu in gpus):
        parts.append("diagonal: sent over all NVLinks of the GPU")
    if any(_port_rate(row) is not None for row in block_rows(node, "nic")):
        parts.append("ports: sent or received, whichever is more; sw: behind the same PCIe switch")
    return f"{'; '.join(parts)}; bytes per second now" if parts else ""


def _port_rate(port: BlockRow) -> float | None:
    ways = (port.value(f"nic_{way}_bytes_per_s") for way in ("tx", "rx"))
    return max((rate for rate in ways if rate is not None), default=None)


def _gpu_column(
    other: Gpu,
    links: dict[tuple[str, str], int],
    near: dict[str, dict[str, str]],
    rates: dict[tuple[str, str], float],
) -> Column[Gpu]:
    def cell(_digest: Digest, gpu: Gpu) -> Cell:
        if gpu.uuid == other.uuid:
            sent = gpu.value("nvlink_tx_bytes_per_s")
            return Cell("X", Tone.DIM) if sent is None else Cell(units.short_rate(sent), Tone.INFO)
        count = links.get((gpu.uuid, other.uuid))
        if count:
            rate = rates.get((gpu.uuid, other.uuid))
            return Cell(f"NV{count}" if rate is None else f"NV{count} {units.short_rate(rate)}")
        shared = near.get(gpu.uuid, {}).get(other.uuid)
        return Cell(shared) if shared else Cell("·", Tone.DIM)

    return Column(
        key=other.uuid,
        title=index_text(other),
        width=9 if rates else 4,
        align="right",
        priority=0,
        cell=cell,
        order=None,
        doc="What joins the two GPUs: NV12 twelve NVLinks, with what the first sends the other "
        "where no switch is between, else what they share on PCIe in the words of nvidia-smi topo; "
        "a dot: nothing is known. On the diagonal what the GPU sends over all its NVLinks now.",
    )


def _port_column(port: BlockRow) -> Column[Gpu]:
    nearest = frozenset((port.label("nearest_gpus") or "").split(","))
    how = port.label("nearest_by") or "near"

    def cell(_digest: Digest, gpu: Gpu) -> Cell:
        return Cell(f"{how}{now}") if gpu.uuid in nearest else EMPTY_CELL

    name = port.key.partition("/")[0]
    rate = _port_rate(port)
    now = "" if rate is None else f" {units.short_rate(rate)}"
    # All nine ports of a DGX fit into 120 columns so.
    how = _SHORT.get(how, how) if now else how
    return Column(
        key=port.key,
        title=name,
        width=max(len(how) + len(now), min(8, len(name))),
        align="left",
        priority=1,
        cell=cell,
        order=None,
        doc="What the port's adapter shares with the GPUs that are nearest to it, and what goes "
        "through it now: sent or received, whichever is more.",
        max_width=12,
    )
