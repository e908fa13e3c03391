"""The block of MIG instances: one idle GPU of the drained node is cut into three."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from gpumon.model.missing import Reason
from gpumon.model.records.block import EMPTY_BLOCK, Block
from gpumon.simulate.blocks.columns import column, same
from gpumon.simulate.physics.random_streams import stream

if TYPE_CHECKING:
    from gpumon.simulate.blocks.columns import Columns
    from gpumon.simulate.cluster.layout import SimNode

_FEWEST_GPUS: Final = 4
"""GPUs of a node from which on one is cut. Our choice: a smaller node has too few."""

_GIB: Final = 1 << 30
"""Bytes of a GiB, the unit of the memory of a slice."""


class _Slice(NamedTuple):
    gpu_instance: int
    compute_instance: int
    profile: str
    gib: int


_SLICES: Final = (
    _Slice(1, 0, "3g.40gb", 40),
    _Slice(5, 0, "1c.2g.20gb", 20),
    _Slice(5, 1, "1c.2g.20gb", 20),
)
"""Two compute instances share the memory of one GPU instance."""

_RESTING: Final = {
    "mig_mem_used_bytes": 0.0,
    "mig_sm_active_ratio": 0.0,
    "mig_sm_occupancy_ratio": 0.0,
    "mig_tensor_active_ratio": 0.0,
    "mig_dram_active_ratio": 0.0,
}
"""What an instance shows without a process: no simulated job asks for a part of a GPU."""

_USE_KEYS: Final = (
    "gpu_util_ratio",
    "mem_activity_ratio",
    "encoder_util_ratio",
    "decoder_util_ratio",
    "sm_active_ratio",
    "sm_occupancy_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "graphics_active_ratio",
    "int_active_ratio",
    "fp32_active_ratio",
    "tensor_hmma_active_ratio",
    "tensor_dfma_active_ratio",
    "tensor_dmma_active_ratio",
    "tensor_imma_active_ratio",
    "fp64_active_ratio",
    "fp16_active_ratio",
)
"""What a GPU that is cut does not report of itself as a whole."""


def cut_gpu(node: SimNode, is_chosen: bool) -> int | None:
    """Position of the GPU that is cut into instances; None: none of the node is."""
    gpus = len(node.gpus)
    return gpus - 1 if is_chosen and node.board.has_gpm and gpus >= _FEWEST_GPUS else None


def mig_block(seed: int, node: SimNode, cut: int | None) -> Block:
    """The instances of the node's cut GPU, in which nothing runs."""
    if cut is None:
        return EMPTY_BLOCK
    chance = stream(seed, "mig", node.number)
    rows = len(_SLICES)
    return Block(
        tuple(f"MIG-{UUID(int=chance.getrandbits(128), version=4)}" for _ in _SLICES),
        {
            **same(_RESTING, rows),
            "mig_gpu_instance": column("mig_gpu_instance", [s.gpu_instance for s in _SLICES]),
            "mig_compute_instance": column(
                "mig_compute_instance", [s.compute_instance for s in _SLICES]
            ),
            "mig_mem_total_bytes": column("mig_mem_total_bytes", [s.gib * _GIB for s in _SLICES]),
        },
        {
            "parent": (node.gpus[cut].uuid,) * rows,
            "profile": tuple(piece.profile for piece in _SLICES),
        },
        {},
    )


def mark_cut(gpus: Block, cut: int | None) -> Block:
    """The block of a node's GPUs, one of which is cut: its instances report what it does."""
    if cut is None:
        return gpus
    columns: Columns = dict(gpus.columns)
    for key in _USE_KEYS:
        values = array("d", columns[key])
        values[cut] = float("nan")
        columns[key] = values
    columns["mig_mode"] = array("q", [int(row == cut) for row in range(len(gpus.keys))])
    only = {(key, cut): Reason.NOT_SUPPORTED for key in _USE_KEYS}
    return gpus._replace(columns=columns, missing={**gpus.missing, **only})
