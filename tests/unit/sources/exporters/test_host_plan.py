"""What pages of node_exporter and of file systems' exporters become, and what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.sources.exporters.dcgm import PageReader, Reading
from gpumon.sources.exporters.host_names import PARTS, TEXTS, WHOLE
from gpumon.sources.exporters.strangers import PlanError
from tests.unit.sources.exporters.page_server import page

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.block import Block

NOW = 1_795_260_000.0

PAGE = """# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 8
node_boot_time_seconds 1.795794304e+09
node_cpu_seconds_total{cpu="0",mode="idle"} 100
node_cpu_seconds_total{cpu="0",mode="iowait"} 10
node_cpu_seconds_total{cpu="0",mode="system"} 20
node_cpu_seconds_total{cpu="0",mode="user"} 70
node_cpu_seconds_total{cpu="1",mode="idle"} 100
node_cpu_seconds_total{cpu="1",mode="user"} 100
node_disk_read_bytes_total{device="nvme0n1"} 1000
node_disk_read_bytes_total{device="nvme0n1p1"} 900
node_disk_read_bytes_total{device="sda"} 500
node_disk_read_bytes_total{device="dm-0"} 500
node_disk_written_bytes_total{device="sda"} 5
node_filesystem_avail_bytes{device="/dev/sda1",fstype="ext4",mountpoint="/"} 60
node_filesystem_avail_bytes{device="tmpfs",fstype="tmpfs",mountpoint="/run/lock"} 60
node_filesystem_avail_bytes{device="nfs:/home",fstype="nfs4",mountpoint="/home"} 60
node_filesystem_free_bytes{device="/dev/sda1",fstype="ext4",mountpoint="/"} 70
node_filesystem_size_bytes{device="/dev/sda1",fstype="ext4",mountpoint="/"} 100
node_filesystem_size_bytes{device="tmpfs",fstype="tmpfs",mountpoint="/dev/shm"} 100
node_infiniband_link_downed_total{device="mlx5_0",port="1"} 2
node_infiniband_physical_state_id{device="mlx5_0",port="1"} 5
node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"} 4000
node_infiniband_port_data_transmitted_bytes_total{device="mlx5_0",port="1"} 8000
node_infiniband_rate_bytes_per_second{device="mlx5_0",port="1"} 5e+10
node_infiniband_state_id{device="mlx5_0",port="1"} 4
node_load1 5.66
node_load15 5.8
node_load5 8.19
node_memory_MemAvailable_bytes 2.3147978752e+10
node_memory_MemTotal_bytes 2.5276502016e+10
node_memory_SwapFree_bytes 0
node_memory_SwapTotal_bytes 0
node_network_receive_bytes_total{device="bond0"} 70
node_network_receive_bytes_total{device="eno1np0"} 40
node_network_receive_bytes_total{device="enp3s0"} 30
node_network_receive_bytes_total{device="eth0.5"} 7
node_network_receive_bytes_total{device="lo"} 9
node_network_receive_bytes_total{device="veth12ab"} 9
node_network_transmit_bytes_total{device="eno1np0"} 4
node_processes_state{state="D"} 3
node_processes_state{state="R"} 6
node_time_seconds 1.795794404e+09
node_uname_info{machine="x86_64",nodename="gpu07",release="6.1",sysname="Linux"} 1
process_cpu_seconds_total 0.5
"""

NFS = """node_mountstats_nfs_total_read_bytes_total{HOME} 100
node_mountstats_nfs_total_write_bytes_total{HOME} 50
node_NFS_requests_total{HOME,operation="READ"} 7
node_NFS_requests_total{HOME,operation="GETATTR"} 3
node_NFS_transmissions_total{HOME,operation="READ"} 9
node_NFS_transmissions_total{HOME,operation="GETATTR"} 3
node_NFS_response_time_seconds_total{HOME,operation="READ"} 0.5
lustre_read_bytes_total{component="client",target="scratch-ffff8a4c5f3b2000"} 7000
lustre_read_samples_total{component="client",target="scratch-ffff8a4c5f3b2000"} 70
lustre_read_bytes_total{component="ost",target="scratch-OST0000"} 9
gpfs_perf_write_bytes_total{fs="project"} 74839282351
gpfs_perf_operations_total{fs="project",operation="writes"} 18874626
gpfs_perf_operations_total{fs="project",operation="opens"} 1
gpfs_perf_read_bytes{fs="old"} 3
"""
NFS = NFS.replace("HOME", 'export="nfs:/home",protocol="tcp",mountaddr="10.0.0.9"')
NFS = NFS.replace("NFS_", "mountstats_nfs_operations_")


def read(body: str, reader: PageReader | None = None, at: float = 10.0) -> Reading:
    (found,) = (reader or PageReader("gpu07")).read(body.encode(), NOW + at, at)
    return found


def values(block: Block, row: int = 0) -> dict[str, float | int | None]:
    return {
        key: block.value(key, row) for key in block.columns if block.value(key, row) is not None
    }


def test_a_page_of_node_exporter_tells_of_cpus_memory_disks_and_network() -> None:
    found = read(PAGE)
    assert found.host_name == "gpu07"
    node = found.blocks["node"]
    assert values(node) == {
        "cpu_count": 2.0,
        "cpu_busy_ticks": 19000,
        "cpu_iowait_ticks": 1000,
        "cpu_total_ticks": 40000,
        "load_1m": 5.66,
        "load_5m": 8.19,
        "load_15m": 5.8,
        "host_mem_total_bytes": 25276502016.0,
        "host_mem_available_bytes": 23147978752.0,
        "host_swap_total_bytes": 0.0,
        "host_swap_free_bytes": 0.0,
        "net_rx_bytes": 70,
        "net_tx_bytes": 4,
        "disk_read_bytes": 1500,
        "disk_write_bytes": 5,
        "d_state_process_count": 3.0,
        "uptime_s": 100.0,
    }
    assert node.label("host_name", 0) == "gpu07"
    assert node.reason("cpu_pressure_some_ratio", 0) is Reason.NOT_SHARED
    assert node.reason("boot_id", 0) is Reason.NOT_SHARED
    assert node.reason("cpu_busy_ratio", 0) is Reason.NOT_SAMPLED
    assert "gpu" not in found.blocks
    assert found.errors == ()


def test_ports_and_local_file_systems_have_rows_of_their_own() -> None:
    blocks = read(PAGE).blocks
    nic, local = blocks["nic"], blocks["local_filesystem"]
    assert nic.keys == ("mlx5_0/1",)
    assert values(nic) == {
        "nic_speed_gbps": 400.0,
        "nic_tx_bytes": 8000,
        "nic_rx_bytes": 4000,
        "nic_link_downed": 2,
    }
    assert (nic.label("state", 0), nic.label("phys_state", 0)) == ("ACTIVE", "LinkUp")
    assert nic.reason("nic_symbol_error", 0) is Reason.NOT_SHARED
    assert local.keys == ("/", "/dev/shm")
    assert values(local) == {"size_bytes": 100.0, "used_bytes": 30.0, "free_bytes": 60.0}
    # Where one half of a difference is missing there is none.
    assert values(local, 1) == {"size_bytes": 100.0}
    assert local.reason("used_bytes", 1) is Reason.NOT_SHARED
    assert local.label("type", 0) == "ext4"


def test_mounts_of_servers_are_read_by_export_or_name() -> None:
    mounts = read(NFS).blocks["filesystem"]
    found = {
        (key, mounts.label("fstype", row)): values(mounts, row)
        for row, key in enumerate(mounts.keys)
    }
    assert found == {
        ("nfs:/home", "nfs"): {
            "fs_read_bytes": 100,
            "fs_write_bytes": 50,
            "fs_read_ops": 7,
            "fs_read_rtt_us": 500000,
            "fs_retransmits": 2,
        },
        ("scratch", "lustre"): {"fs_read_bytes": 7000, "fs_read_ops": 70},
        ("project", "gpfs"): {"fs_write_bytes": 74839282351, "fs_write_ops": 18874626},
        ("old", "gpfs"): {"fs_read_bytes": 3},
    }


def test_counters_of_two_pages_make_rates() -> None:
    reader = PageReader("gpu07")
    read(PAGE, reader)
    again = PAGE.replace('mode="user"} 70', 'mode="user"} 75').replace(
        "go_goroutines 8", "go_goroutines 9"
    )
    again = again.replace('cpu="0",mode="idle"} 100', 'cpu="0",mode="idle"} 105')
    again = again.replace('device="sda"} 500', 'device="sda"} 1500')
    node = read(again, reader, at=20.0).blocks["node"]
    assert node.value("cpu_busy_ratio", 0) == 0.5
    assert node.value("disk_read_bytes_per_s", 0) == 100.0
    assert node.value("net_rx_bytes_per_s", 0) == 0.0


def test_gpus_and_host_on_one_page_are_one_node() -> None:
    body = page(1).decode() + PAGE
    found = read(body)
    assert found.blocks["gpu"].keys == ("GPU-0",)
    node = found.blocks["node"]
    assert node.keys == ("gpu01",)
    assert node.label("driver_version", 0) == "550.54.15"
    assert node.value("load_1m", 0) == 5.66


def test_a_host_on_a_page_of_several_nodes_is_nobodys() -> None:
    body = (page(1) + page(1, host="gpu02")).decode().replace("GPU-0", "GPU-1", 3) + PAGE
    found = PageReader("x").read(body.encode(), NOW, 10.0)
    assert [set(one.blocks) for one in found] == [{"gpu", "node"}] * 2
    assert {one.errors[-1].message for one in found} == {
        "describes several nodes, and hosts without naming them"
    }


def test_a_page_of_several_hosts_is_added_up_for_none(said: Callable[..., None]) -> None:
    body = 'node_load1{instance="a"} 1\nnode_load1{instance="b"} 2\n'
    with pytest.raises(PlanError) as caught:
        read(body)
    said(caught.value.message, caught.value.hint)
    assert caught.value.message == "mixes several hosts, whose values cannot be separated"


@pytest.mark.parametrize("value", ["-1", "+Inf", "1e30"])
def test_a_value_that_is_none_is_garbage(value: str) -> None:
    body = PAGE.replace("node_load1 5.66", f"node_load1 {value}")
    node = read(body).blocks["node"]
    assert node.reason("load_1m", 0) is Reason.GARBAGE
    assert node.value("load_5m", 0) == 8.19


def test_a_sum_without_one_of_its_parts_is_none() -> None:
    body = PAGE.replace('device="sda"} 500', 'device="sda"} NaN')
    assert read(body).blocks["node"].reason("disk_read_bytes", 0) is Reason.NOT_SAMPLED


def test_a_value_of_long_ago_is_not_of_the_present() -> None:
    old = int((NOW - 900.0) * 1000)
    body = PAGE.replace("node_load1 5.66", f"node_load1 5.66 {old}")
    assert read(body).blocks["node"].reason("load_1m", 0) is Reason.STALE


def test_more_ports_than_any_node_has_are_left_out_and_told() -> None:
    line = 'node_infiniband_state_id{{device="mlx5_{}",port="1"}} 4\n'
    found = read("".join(line.format(number) for number in range(300)))
    assert len(found.blocks["nic"].keys) == 256
    assert found.errors[0].message == "reports 300 rows of nic; 256 are read"


def test_each_part_is_a_field_of_its_block_or_a_text() -> None:
    for parts in PARTS.values():
        for part in parts:
            assert part.key in TEXTS or CATALOGUE[part.key].block == part.block
    assert all(key in CATALOGUE for key in WHOLE)
