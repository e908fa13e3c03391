"""Every field of the node and of what surrounds its GPUs, of files that say two things in turn."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from tests.worlds.probe import Probe
from tests.worlds.probe_clock import Stepped
from tests.worlds.proc import stat_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

GAP_S = 50
FIRST_S = 1_000.0
SECOND_S = FIRST_S + GAP_S
PID = 4_001
LOADER = 4_002
JOB = "/system.slice/slurmstepd.scope/job_7"
PORT = "sys/class/infiniband/mlx5_0/ports/1/"
ERRORS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
ROCE = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
)


def words(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))


def pressure(some: int, full: int) -> str:
    return (
        f"some avg10={some}.00 avg60=99.00 avg300=98.00 total=9\n"
        f"full avg10={full}.00 avg60=97.00 avg300=96.00 total=8\n"
    )


def node_files(gone_s: int) -> dict[str, str]:
    """Files of the kernel `gone_s` after the first reading; what counts goes on, the rest stays."""
    cpu = [1_000 + 21 * gone_s, 10, 20 + 4 * gone_s, 8_000 + 70 * gone_s, 50 + 5 * gone_s, 1, 2, 3]
    eth = [1_000 + 11 * gone_s, 1, 0, 0, 0, 0, 0, 0, 2_000 + 13 * gone_s, 1, 0, 0, 0, 0, 0, 0]
    disk = [5, 0, 10 + 2 * gone_s, 3, 7, 0, 20 + 6 * gone_s, 4, 0, 1, 1]
    return {
        "proc/stat": f"cpu  {words(cpu)} 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
        "proc/loadavg": "3.25 2.50 1.75 1/234 5678\n",
        "proc/uptime": "5215.71 8448.63\n",
        "proc/meminfo": "MemTotal: 1000003 kB\nMemFree: 1 kB\nMemAvailable: 700001 kB\n"
        "SwapTotal: 80007 kB\nSwapFree: 60011 kB\n",
        "proc/sys/kernel/random/boot_id": "94ab5641-0b2b-4b26-9b32-3314fbba0e5e\n",
        "proc/net/dev": f"a|b\nc|d\n lo: {words([9] * 16)}\n eth0: {words(eth)}\n",
        "proc/diskstats": f" 259 0 nvme0n1 {words(disk)}\n 7 0 loop0 {words([9] * 11)}\n",
        "proc/pressure/cpu": pressure(11, 12),
        "proc/pressure/memory": pressure(13, 14),
        "proc/pressure/io": pressure(15, 16),
        "proc/77/stat": stat_line(77, "nfsd", state="D"),
        "proc/78/stat": stat_line(78, "a) D (b"),
        "sys/devices/system/cpu/online": "0-126,200\n",
        "sys/devices/system/node/node0/cpulist": "0-63\n",
        "sys/devices/system/node/node0/distance": "10 32\n",
        "sys/devices/system/node/node1/cpulist": "64-126,200\n",
        "sys/devices/system/node/node1/distance": "32 10\n",
        "sys/class/net/eth0/device/vendor": "1\n",
        "sys/class/net/lo/mtu": "1\n",
        "sys/block/nvme0n1/device/model": "disk\n",
        f"proc/{LOADER}/stat": stat_line(
            LOADER,
            parent=PID,
            cpu=7 + 100 * gone_s,
            waited=4 + 10 * gone_s,
            start=123_500,
            pages=45,
        ),
        "dev/kmsg": "4,1,990000000,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off\n",
    }


def port_files(gone_s: int) -> dict[str, str]:
    files = {
        "rate": "400 Gb/sec (4X NDR)",
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "link_layer": "InfiniBand",
        "counters/port_xmit_data": f"{1_000 + 17 * gone_s}",
        "counters/port_rcv_data": f"{3_000 + 19 * gone_s}",
        **{f"counters/{name}": str(31 + place) for place, name in enumerate(ERRORS)},
        **{f"hw_counters/{name}": str(51 + place) for place, name in enumerate(ROCE)},
    }
    return {PORT + name: f"{text}\n" for name, text in files.items()} | {
        "sys/class/infiniband/mlx5_0/device/numa_node": "3\n"
    }


def mount_files(gone_s: int) -> dict[str, str]:
    """NFS tells requests, retransmissions, time-outs, bytes, and milliseconds of RTT and in all."""
    reads, writes = 100 + 2 * gone_s, 300 + 4 * gone_s
    return {
        "proc/self/mountstats": "device filer:/home mounted on /home with fstype nfs4 v=1.1\n"
        f"\tbytes:\t1 2 3 4 {4_000 + 1_024 * gone_s} {8_000 + 2_048 * gone_s} 5 6\n"
        "\tper-op statistics\n"
        f"\tREAD: {reads} {reads + 5} 1 7 7 3 {500 + 6 * gone_s} {900 + 10 * gone_s} 0\n"
        f"\tWRITE: {writes} {writes + 4} 2 8 8 4 {700 + 20 * gone_s} {800 + 28 * gone_s} 0\n"
        "device gpfs0 mounted on /gpfs with fstype gpfs\n"
    }


def local_files() -> dict[str, str]:
    """Only / is asked: what lies below a network mount could wait for its server."""
    return {
        "proc/self/mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
        "30 27 0:9 / /data rw - nfs4 filer:/data rw\n"
        "31 30 8:1 / /data/local rw - xfs /dev/sda1 rw\n"
    }


def job_files(gone_s: int) -> dict[str, str]:
    files = {
        "cpu.stat": f"user_usec 1\nusage_usec {5_000_000 + 3_500_000 * gone_s}\n",
        "cpuset.cpus.effective": "0-7,16,20-21\n",
        "memory.current": "1001\n",
        "memory.peak": "2003\n",
        "memory.max": "3005\n",
        "memory.events": "low 8\noom 9\noom_kill 6\n",
        "io.stat": f"8:0 rbytes={100 + 23 * gone_s} wbytes={200 + 29 * gone_s} rios=1 wios=2\n",
        "cpu.pressure": pressure(21, 22),
        "memory.pressure": pressure(23, 24),
        "io.pressure": pressure(25, 26),
        "step_0/user/task_0/cgroup.procs": f"{PID}\n11\n12\n",
    }
    return {f"sys/fs/cgroup{JOB}/{name}": text for name, text in files.items()}


STATE = "T"


def process_files(gone_s: int) -> dict[str, str]:
    cpu = f"{1 + 150 * gone_s} {2 + 50 * gone_s}"
    return {
        "stat": f"{PID} (python) {STATE} 4711 1 1 0 0 0 0 0 0 0 {cpu} 0 0 20 0 9 0 123456 99 321\n",
        "comm": "python\n",
        "schedstat": f"77 {9_000_999 + 250_000_000 * gone_s} 5\n",
        "environ": "RANK=1\0",
        "status": f"Name:\tpython\nNSpid:\t{PID}\t17\nCpus_allowed_list:\t60-67,200\n",
        "cgroup": f"0::{JOB}/step_0/user/task_0\n",
        "io": f"rchar: 9\nread_bytes: {70 + 7 * gone_s}\nwrite_bytes: {80 + 8 * gone_s}\n",
    }


TICKS_PER_S = os.sysconf("SC_CLK_TCK")

NODE = {
    "cpu_count": 128,
    "cpu_busy_ratio": 0.25,
    "cpu_iowait_ratio": 0.05,
    "cpu_total_ticks": 9_086 + 100 * GAP_S,
    "cpu_iowait_ticks": 50 + 5 * GAP_S,
    "cpu_busy_ticks": 1_036 + 25 * GAP_S,
    "load_1m": 3.25,
    "load_5m": 2.5,
    "load_15m": 1.75,
    "host_mem_total_bytes": 1_000_003 * 1024,
    "host_mem_available_bytes": 700_001 * 1024,
    "host_swap_total_bytes": 80_007 * 1024,
    "host_swap_free_bytes": 60_011 * 1024,
    "cpu_pressure_some_ratio": 0.11,
    "cpu_pressure_full_ratio": 0.12,
    "mem_pressure_some_ratio": 0.13,
    "mem_pressure_full_ratio": 0.14,
    "io_pressure_some_ratio": 0.15,
    "io_pressure_full_ratio": 0.16,
    "d_state_process_count": 1,
    "net_rx_bytes": 1_000 + 11 * GAP_S,
    "net_rx_bytes_per_s": 11,
    "net_tx_bytes": 2_000 + 13 * GAP_S,
    "net_tx_bytes_per_s": 13,
    "disk_read_bytes": 512 * (10 + 2 * GAP_S),
    "disk_read_bytes_per_s": 1024,
    "disk_write_bytes": 512 * (20 + 6 * GAP_S),
    "disk_write_bytes_per_s": 3072,
    "uptime_s": 5215.71,
    # By the test's clock no call takes any time; how many there are the stand-in counts.
    "probe_driver_us": 0,
    "probe_driver_ratio": 0.0,
    "probe_slowest_call_s": 0.0,
}
COUNTED = {"probe_calls", "probe_calls_per_s"}

NIC = {
    "nic_speed_gbps": 400,
    "nic_tx_bytes": 4 * (1_000 + 17 * GAP_S),
    "nic_tx_bytes_per_s": 4 * 17,
    "nic_rx_bytes": 4 * (3_000 + 19 * GAP_S),
    "nic_rx_bytes_per_s": 4 * 19,
    "nic_numa_node": 3,
    **{f"nic_{name}": 31 + place for place, name in enumerate(ERRORS)},
    **{f"nic_{name}": 51 + place for place, name in enumerate(ROCE)},
}

FILESYSTEM = {
    "fs_read_bytes": 4_000 + 1_024 * GAP_S,
    "fs_read_bytes_per_s": 1_024,
    "fs_write_bytes": 8_000 + 2_048 * GAP_S,
    "fs_write_bytes_per_s": 2_048,
    "fs_read_ops": 100 + 2 * GAP_S,
    "fs_read_ops_per_s": 2,
    "fs_read_rtt_us": 1000 * (500 + 6 * GAP_S),
    "fs_read_rtt_s": 0.003,
    "fs_read_exec_us": 1000 * (900 + 10 * GAP_S),
    "fs_read_exec_s": 0.005,
    "fs_write_ops": 300 + 4 * GAP_S,
    "fs_write_ops_per_s": 4,
    "fs_write_rtt_us": 1000 * (700 + 20 * GAP_S),
    "fs_write_rtt_s": 0.005,
    "fs_write_exec_us": 1000 * (800 + 28 * GAP_S),
    "fs_write_exec_s": 0.007,
    "fs_retransmits": 9,
    "fs_timeouts": 3,
}

SPACE = {"size_bytes", "used_bytes", "free_bytes"}
"""Of the disk that this machine's own root lies on."""

CGROUP = {
    "job_cpu_us": 5_000_000 + 3_500_000 * GAP_S,
    "job_cpu_cores_used": 3.5,
    "job_cpu_count": 11,
    "job_mem_used_bytes": 1_001,
    "job_mem_peak_bytes": 2_003,
    "job_mem_limit_bytes": 3_005,
    "job_oom_kills": 6,
    "job_io_read_bytes": 100 + 23 * GAP_S,
    "job_io_read_bytes_per_s": 23,
    "job_io_write_bytes": 200 + 29 * GAP_S,
    "job_io_write_bytes_per_s": 29,
    "job_output_bytes": 1_000 + 31 * GAP_S,
    "job_output_bytes_per_s": 31,
    "job_cpu_pressure_some_ratio": 0.21,
    "job_cpu_pressure_full_ratio": 0.22,
    "job_mem_pressure_some_ratio": 0.23,
    "job_mem_pressure_full_ratio": 0.24,
    "job_io_pressure_some_ratio": 0.25,
    "job_io_pressure_full_ratio": 0.26,
    "job_process_count": 3,
}

AGED = {"job_output_age_s"}
"""By the node's own clock, which here is the machine's."""

PROCESS = {
    "uid": 4_243 if os.geteuid() == 0 else os.geteuid(),
    "start_time_s": 123_456 / TICKS_PER_S,
    "parent_pid": 4_711,
    "inner_pid": 17,
    "process_cpu_us": (3 + 200 * GAP_S) * 1_000_000 // TICKS_PER_S,
    "process_cpu_cores_used": 200 / TICKS_PER_S,
    "process_rss_bytes": 321 * os.sysconf("SC_PAGE_SIZE"),
    "descendant_count": 1,
    "process_tree_cpu_us": (14 + 310 * GAP_S) * 1_000_000 // TICKS_PER_S,
    "process_tree_cpu_cores_used": 310 / TICKS_PER_S,
    "process_tree_rss_bytes": (321 + 45) * os.sysconf("SC_PAGE_SIZE"),
    "process_io_read_bytes": 70 + 7 * GAP_S,
    "process_io_read_bytes_per_s": 7,
    "process_io_write_bytes": 80 + 8 * GAP_S,
    "process_io_write_bytes_per_s": 8,
    "cpus_allowed_count": 9,
    "process_cpu_wait_us": 9_000 + 250_000 * GAP_S,
    "process_cpu_wait_ratio": 0.25,
    "process_stopped_s": GAP_S,
    "process_stuck_s": 0,
}

EVENT = {"xid": 48, "event_type": 0x8, "event_age_s": 7.0}


def fields(block: str) -> set[str]:
    return {field.key for field in CATALOGUE.values() if field.block == block}


def test_every_field_has_an_expected_value() -> None:
    """Whoever adds a field says here what it is made of."""
    assert set(NODE) | COUNTED == fields("node")
    assert set(NIC) == fields("nic")
    assert set(FILESYSTEM) == fields("filesystem")
    assert set(SPACE) == fields("local_filesystem")
    assert set(CGROUP) | AGED == fields("cgroup")
    assert set(PROCESS) == fields("process")
    assert set(EVENT) == fields("event")
    gpu_blocks = {"gpu", "link", "mig", "context"}
    blocks = {field.block for field in CATALOGUE.values()}
    assert blocks - gpu_blocks == {
        *("node", "nic", "filesystem", "local_filesystem", "cgroup", "process", "event")
    }


def write(root: Path, gone_s: int) -> None:
    files = node_files(gone_s) | port_files(gone_s) | mount_files(gone_s) | job_files(gone_s)
    files |= local_files()
    files |= {f"proc/{PID}/{name}": text for name, text in process_files(gone_s).items()}
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    output = root / "proc" / str(PID) / "fd" / "1"
    output.parent.mkdir(exist_ok=True)
    output.write_bytes(bytes(1_000 + 31 * gone_s))
    os.utime(output, (time.time() - 40, time.time() - 40))
    if os.geteuid() == 0:
        os.chown(root / "proc" / str(PID), PROCESS["uid"], -1)


def assert_is(frame: Frame, block: str, key: str, wanted: Mapping[str, float]) -> None:
    found = frame.block(block)
    row = found.keys.index(key)
    for field, value in wanted.items():
        exact = value if CATALOGUE[field].kind.is_integer else pytest.approx(value)
        assert found.value(field, row) == exact, field
        assert (field, row) not in found.missing, field


@pytest.fixture
def frames(standin: Start, tmp_path: Path) -> tuple[Frame, Frame, Frame]:
    """At first, after `GAP_S` with an Xid in between, and seven seconds later."""
    node = standin("h100", gpus=1)
    node.state.set(gpm_min_interval_ms=0)
    node.state.process(0, PID, 1 << 30)
    node.state.write()
    root = tmp_path / "root"
    write(root, 0)
    with Stepped(root) as probe:
        first = probe.frame(FIRST_S)
        write(root, GAP_S)
        node.state.event(0, 48)
        node.state.write()
        before = sum(calls.total for calls in node.counts().values())
        second = probe.frame(SECOND_S)
        asked = sum(calls.total for calls in node.counts().values()) - before
        # The binding makes one call of its own into the driver where it asks for a size first.
        assert 0 < second.block("node").value("probe_calls_per_s", 0) * GAP_S <= asked
        return first, second, probe.frame(SECOND_S + 7)


def test_every_field_arrives_with_its_value_and_unit(frames: tuple[Frame, Frame, Frame]) -> None:
    first, second, third = frames
    disk_of_root = os.statvfs("/")
    assert first.errors == second.errors == third.errors == ()
    assert_is(second, "node", second.block("node").keys[0], NODE)
    assert_is(second, "nic", "mlx5_0/1", NIC)
    assert_is(second, "filesystem", "/home", FILESYSTEM)
    local = second.block("local_filesystem")
    assert (local.keys, local.label("type", 0)) == (("/",), "ext4")
    assert local.value("size_bytes", 0) == disk_of_root.f_blocks * disk_of_root.f_frsize
    assert_is(second, "cgroup", "7", CGROUP)
    age_s = second.block("cgroup").value("job_output_age_s", 0)
    assert age_s is not None
    assert 40 <= age_s < 600
    assert_is(second, "process", str(PID), PROCESS)
    told_by = second.block("process").label
    assert (told_by("state", 0), told_by("cpus_allowed", 0)) == (STATE, "60-67,200")
    assert told_by("cpu_numa_nodes", 0) == "0,1"
    assert second.block("node").label("numa_distances", 0) == "0:10,32 1:32,10"
    (uuid,) = third.block("gpu").keys
    assert third.block("event").keys == (f"{uuid}/48/1", f"{uuid}/79/kmsg-1")
    assert_is(third, "event", f"{uuid}/48/1", EVENT)
    told = {"xid": 79, "event_type": 0x8, "event_age_s": SECOND_S + 7 - 990}
    assert_is(third, "event", f"{uuid}/79/kmsg-1", told)


def test_what_takes_two_readings_says_so_and_a_silent_mount_says_why(
    frames: tuple[Frame, Frame, Frame],
) -> None:
    first, second, _ = frames
    for block, wanted in (("node", NODE), ("nic", NIC), ("filesystem", FILESYSTEM)):
        found = first.block(block)
        waiting = {key for key, row in found.missing if row == 0 and key in wanted}
        assert {found.missing[key, 0] for key in waiting} == {Reason.NOT_SAMPLED}
        assert {key for key in wanted if key.endswith("_per_s")} <= waiting
    silent = second.block("filesystem")
    row = silent.keys.index("/gpfs")
    for key in FILESYSTEM:
        assert silent.missing.get((key, row)) is Reason.NOT_SUPPORTED, key


def test_watching_says_what_it_costs_the_driver(standin: Start) -> None:
    """Calls, the time in them, and the slowest one by name."""
    node = standin("h100", gpus=2)
    # Far more than a busy machine adds to any other call, and less than looks stuck.
    node.state.latency("nvmlDeviceGetTemperature", 400, gpu=1)
    node.state.write()
    with Probe() as probe:
        first = probe.frame().block("node")
        last = probe.frame(lambda frame: bool(frame.block("node").columns["probe_calls_per_s"][0]))
    rows = last.block("node")
    uuid = last.block("gpu").keys[1]
    assert rows.label("slowest_call", 0) == f"nvmlDeviceGetTemperature {uuid}"
    assert 0.4 <= rows.value("probe_slowest_call_s", 0) < 5
    assert rows.value("probe_driver_us", 0) >= first.value("probe_driver_us", 0) + 400_000
    assert rows.value("probe_driver_ratio", 0) > 0.01
    asked = sum(calls.total for calls in node.counts().values())
    assert first.value("probe_calls", 0) < rows.value("probe_calls", 0) <= asked
