"""A node with everything that a node can report, for tests of screens and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for
from gpumon.model.records.cluster import Node
from tests.worlds.tick import AT, BUSY, GIB, gpu, job_with_gpus, process, tick, uuid_of

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick

WHOLE: dict[str, float | int | None] = {
    **BUSY,
    "tensor_hmma_active_ratio": 0.45,
    "fp32_active_ratio": 0.12,
    "fp64_active_ratio": 0.0,
    "power_average_w": 604.0,
    "power_limit_default_w": 700.0,
    "power_limit_min_w": 200.0,
    "power_limit_max_w": 700.0,
    "temp_slowdown_c": 87.0,
    "temp_shutdown_c": 92.0,
    "temp_margin_c": 23.0,
    "mem_temp_c": 71.0,
    "sw_power_cap_ratio": 0.31,
    "hw_thermal_ratio": 0.0,
    "pcie_replay_count": 0,
    "pcie_fatal_error_count": 0,
    "ecc_corrected_volatile_count": 4,
    "ecc_uncorrected_volatile_count": 0,
    "remap_pending": 0,
    "recovery_action": 0,
    "mig_mode": 0,
    "ecc_mode": 1,
}


def block(
    name: str,
    rows: dict[str, dict[str, float | int | None]],
    labels: dict[str, tuple[str | None, ...]] | None = None,
) -> Block:
    """A block of these rows; a value of None is not offered."""
    keys = tuple(rows)
    fields = dict.fromkeys(field for row in rows.values() for field in row)
    assert all(CATALOGUE[field].block == name for field in fields)
    columns = {
        field: column_for(
            CATALOGUE[field].kind.is_integer, [row.get(field) for row in rows.values()]
        )
        for field in fields
    }
    missing = {
        (field, at): Reason.NOT_SUPPORTED
        for at, row in enumerate(rows.values())
        for field, value in row.items()
        if value is None
    }
    return Block(keys, columns, labels or {}, missing)


def links(uuid: str, count: int = 3, down: int = 0) -> Block:
    """A GPU's NVLinks to a switch, the last `down` inactive."""
    rows: dict[str, dict[str, float | int | None]] = {
        f"{uuid}/{number}": {
            "link_state": 0 if number >= count - down else 1,
            "link_speed_bytes_per_s": 25e9,
            "link_tx_bytes_per_s": 8.4e9,
            "link_rx_bytes_per_s": 8.3e9,
            "link_replay_count": 7 if number == 0 else 0,
            "link_crc_count": 0,
        }
        for number in range(count)
    }
    return block(
        "link", rows, {"remote_type": ("switch",) * count, "remote": ("0000:85:00.0",) * count}
    )


def event(uuid: str, number: int, age_s: float = 3.0) -> Block:
    """One Xid of a GPU."""
    row = {"xid": number, "event_type": 0x8, "event_age_s": age_s}
    return block("event", {f"{uuid}/{number}/1": row})


def host(name: str) -> Block:
    """The values of a node itself, which has no swap."""
    values: dict[str, float | int | None] = {
        "cpu_count": 64.0,
        "cpu_busy_ratio": 0.37,
        "load_1m": 21.5,
        "load_5m": 20.0,
        "load_15m": 18.0,
        "host_mem_total_bytes": 1024.0 * GIB,
        "host_mem_available_bytes": 700.0 * GIB,
        "io_pressure_some_ratio": 0.08,
        "io_pressure_full_ratio": 0.02,
        "d_state_process_count": 2.0,
        "host_swap_total_bytes": None,
        "host_swap_free_bytes": None,
    }
    labels = {"driver_version": ("550.54.15",), "nvml_version": ("12.550.54.15",)}
    return block("node", {name: values}, labels)


def ports(name: str) -> Block:
    """A port that works, nearest to GPU 0, and one that is down."""
    works: dict[str, float | int | None] = {
        "nic_speed_gbps": 400.0,
        "nic_tx_bytes_per_s": 12.1e9,
        "nic_rx_bytes_per_s": 12.0e9,
        "nic_symbol_error": 0,
        "nic_link_downed": 3,
    }
    return block(
        "nic",
        {"mlx5_0/1": works, "mlx5_1/1": {"nic_speed_gbps": 400.0, "nic_symbol_error": 0}},
        {
            "state": ("ACTIVE", "DOWN"),
            "phys_state": ("LinkUp", "Polling"),
            "nearest_by": ("switch", None),
            "nearest_gpus": (uuid_of(name, 0), None),
        },
    )


def mounts() -> Block:
    """One NFS mount that is read."""
    values: dict[str, float | int | None] = {
        "fs_read_bytes_per_s": 2.3e9,
        "fs_write_bytes_per_s": 0.0,
        "fs_read_exec_s": 0.0042,
        "fs_retransmits": 0,
    }
    labels = {"fstype": ("nfs4",), "device": ("filer:/data",)}
    return block("filesystem", {"/data": values}, labels)


def spaces() -> Block:
    """Shared memory that is half full, and a disk that is nearly full; another has not answered."""
    values: dict[str, dict[str, float | int | None]] = {
        "/dev/shm": {"size_bytes": 64 * GIB, "used_bytes": 32 * GIB, "free_bytes": 32 * GIB},
        "/": {"size_bytes": 447 * GIB, "used_bytes": 402 * GIB, "free_bytes": 22 * GIB},
        "/local": {"size_bytes": None, "used_bytes": None, "free_bytes": None},
    }
    return block("local_filesystem", values, {"type": ("tmpfs", "ext4", "xfs")})


def job_use(job_id: str) -> Block:
    """What one job uses of the host."""
    values: dict[str, float | int | None] = {
        "job_cpu_cores_used": 11.4,
        "job_cpu_count": 16.0,
        "job_mem_used_bytes": 61.0 * GIB,
        "job_mem_limit_bytes": 128.0 * GIB,
        "job_oom_kills": 1,
    }
    return block("cgroup", {job_id: values})


def host_blocks(name: str) -> dict[str, Block]:
    """The blocks of a node around its GPUs."""
    return {
        "node": host(name),
        "nic": ports(name),
        "filesystem": mounts(),
        "local_filesystem": spaces(),
        "cgroup": job_use("7"),
    }


def without_gpus(name: str) -> Tick:
    """A tick of one node whose GPUs cannot be read, and of no queue."""
    node = Node(name, (), AT, False, None, (), 0.01, None, host_blocks(name))
    return tick((), (), queue_at=None)._replace(nodes={name: node})


def machine(
    values: dict[str, float | int | None] = WHOLE,
    more: dict[str, Block] | None = None,
    **changes: Any,
):
    """A tick of one node `n1` with two GPUs, whose job 7 holds the first."""
    view, _ = job_with_gpus("7", {"n1": 1}, name="train", user="ada")
    first = gpu("n1", 0, values, (process("n1", 0, 4000, "7", 0),))
    second = gpu("n1", 1, WHOLE)
    made = tick((view,), [first, second], **changes)
    blocks = {**host_blocks("n1"), "link": links(first.uuid), **(more or {})}
    blocks["context"] = block("context", {f"4000/{first.uuid}": {"context_sm_util_ratio": 0.83}})
    node = Node(
        "n1",
        (first.uuid, second.uuid),
        AT - 0.3,
        False,
        "mixed",
        (),
        0.01,
        blocks["node"],
        blocks,
    )
    return made._replace(nodes={"n1": node})
