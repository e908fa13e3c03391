"""The block of a node's network filesystems: what jobs load and save, and what no user may read."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.catalogue.host import SHARED_MEMORY
from gpumon.model.missing import Reason
from gpumon.model.records.block import MISSING_INTEGER, Block
from gpumon.simulate.blocks.columns import code_of
from gpumon.simulate.cluster.timeline import READ_AT, WRITE_AT
from gpumon.simulate.physics.phase import READ, WRITE

if TYPE_CHECKING:
    from gpumon.simulate.blocks.columns import Columns, Missing
    from gpumon.simulate.blocks.environment import HostSample
    from gpumon.simulate.cluster.layout import SimNode

DATA: Final = "/data"
"""Where jobs read their samples and write their checkpoints."""

_MOUNTS: Final[tuple[tuple[str, str, str], ...]] = (
    ("/home", "nfs4", "nfs-home:/export/home"),
    (DATA, "nfs4", "data-vip:/datasets"),
    ("/lustre/archive", "lustre", "10.20.0.11@o2ib:10.20.0.12@o2ib:/archive"),
)
_LABELS: Final = {
    "fstype": tuple(kind for _, kind, _ in _MOUNTS),
    "device": tuple(device for _, _, device in _MOUNTS),
}

_CODES: Final = {
    key: code_of(key) for key, field in CATALOGUE.items() if field.block == "filesystem"
}

_HOME_BYTES_PER_S: Final = 24e3
"""What shells, logs and scripts read of home directories. Our choice: a trifle beside the data."""

_SMALL_BYTES: Final = 16_384
"""Bytes of one request in home directories. Our choice: small files."""

_LARGE_BYTES: Final = 1_048_576
"""Bytes of one request of loaders and checkpoints: the most that a Linux server of NFS grants
(nfs(5), `rsize` and `wsize`)."""


class _Way(NamedTuple):
    """One direction of one mount."""

    bytes_: int
    per_s: float
    request_bytes: int
    rtt_us: int
    """Time of one request between client and server."""
    queue_us: int
    """What it waits before that."""

    def values(self, way: str) -> dict[str, float | None]:
        """By key; a mean time only where requests were made."""
        ops = self.bytes_ // self.request_bytes
        whole_us = self.rtt_us + self.queue_us
        is_used = self.per_s > 0.0
        return {
            f"fs_{way}_bytes": self.bytes_,
            f"fs_{way}_bytes_per_s": self.per_s,
            f"fs_{way}_ops": ops,
            f"fs_{way}_ops_per_s": self.per_s / self.request_bytes,
            f"fs_{way}_rtt_us": ops * self.rtt_us,
            f"fs_{way}_exec_us": ops * whole_us,
            f"fs_{way}_rtt_s": self.rtt_us * 1e-6 if is_used else None,
            f"fs_{way}_exec_s": whole_us * 1e-6 if is_used else None,
        }


def mount_block(node: SimNode, sample: HostSample, origin: float) -> Block:
    """The mounts of a node at its last host sample."""
    up_s = node.up_s + sample.at - origin
    home = int(_HOME_BYTES_PER_S * up_s)
    rates = [reading.means for reading in sample.readings]
    counts = [reading.totals.counted for reading in sample.readings]
    # Older nodes reach their storage over slower ports.
    slow = 400.0 / node.board.port_gbps
    ways = {
        ("/home", "read"): _Way(
            bytes_=home,
            per_s=_HOME_BYTES_PER_S,
            request_bytes=_SMALL_BYTES,
            rtt_us=410,
            queue_us=20,
        ),
        ("/home", "write"): _Way(
            bytes_=home // 2,
            per_s=_HOME_BYTES_PER_S / 2,
            request_bytes=_SMALL_BYTES,
            rtt_us=620,
            queue_us=20,
        ),
        (DATA, "read"): _Way(
            bytes_=int(sum(count[READ_AT] for count in counts)),
            per_s=max(0.0, sum(rate[READ] for rate in rates)),
            request_bytes=_LARGE_BYTES,
            rtt_us=int(730 * slow),
            queue_us=90,
        ),
        (DATA, "write"): _Way(
            bytes_=int(sum(count[WRITE_AT] for count in counts)),
            per_s=max(0.0, sum(rate[WRITE] for rate in rates)),
            request_bytes=_LARGE_BYTES,
            rtt_us=int(1240 * slow),
            queue_us=260,
        ),
    }
    rows: list[dict[str, float | None]] = []
    for point, kind, _ in _MOUNTS:
        row: dict[str, float | None] = {}
        if kind == "nfs4":
            row = {"fs_retransmits": 0, "fs_timeouts": 0}
            for way in ("read", "write"):
                row |= ways[point, way].values(way)
        rows.append(row)
    return _block(rows)


def space_block(node: SimNode, *, is_full: bool = False) -> Block:
    """Memory and disks of a node: half of the memory may be shared, and disks fill up slowly.

    Args:
        node: The node.
        is_full: Whether nothing more fits into its shared memory.
    """
    part = node.number % 7 / 10
    rows = (
        (
            SHARED_MEMORY,
            "tmpfs",
            node.host_mem_bytes // 2,
            1.0 if is_full else 0.002 + 0.02 * part,
        ),
        ("/", "xfs", 480_000_000_000, 0.31 + 0.2 * part),
        ("/local", "xfs", 7_600_000_000_000, 0.12 + part),
    )
    used = [float(int(size * share)) for _, _, size, share in rows]
    sizes = [float(size) for _, _, size, _ in rows]
    return Block(
        tuple(point for point, *_ in rows),
        {
            "size_bytes": array("d", sizes),
            "used_bytes": array("d", used),
            "free_bytes": array("d", [a - b for a, b in zip(sizes, used, strict=True)]),
        },
        {"type": tuple(kind for _, kind, *_ in rows)},
        {},
    )


def _block(rows: list[dict[str, float | None]]) -> Block:
    columns: Columns = {}
    missing: Missing = {}
    for key, code in _CODES.items():
        values = [row.get(key) for row in rows]
        if code == "q":
            columns[key] = array("q", [MISSING_INTEGER if v is None else int(v) for v in values])
        else:
            columns[key] = array("d", [float("nan") if v is None else v for v in values])
        for place, value in enumerate(values):
            if value is None:
                # Counters of a Lustre client are the administrator's to read.
                is_lustre = _MOUNTS[place][1] == "lustre"
                reason = Reason.NO_PERMISSION if is_lustre else Reason.NOT_SAMPLED
                missing[key, place] = reason
    return Block(tuple(point for point, _, _ in _MOUNTS), columns, _LABELS, missing)
