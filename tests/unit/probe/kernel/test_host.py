"""The node's own row: numbers in bytes, and a reason where /proc does not have them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.probe.kernel import host as kernel_host
from gpumon.probe.kernel import pressure, process_stat
from gpumon.probe.kernel.host import Host, disk_bytes, interface_bytes
from gpumon.probe.rows import Row, block
from tests.worlds.proc import stat_line

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "proc/loadavg": "3.25 2.00 1.00 1/234 5678\n",
    "proc/uptime": "5215.71 8448.63\n",
    "proc/stat": "cpu  100 10 20 800 50 1 2 3 7 0\ncpu0 100 10 20 800 50 1 2 3 7 0\nctxt 9\n",
    "proc/meminfo": "MemTotal:       1056000000 kB\nMemFree: 1 kB\nMemAvailable:    1000 kB\n"
    "SwapTotal:  8 kB\nSwapFree:  0 kB\n",
    "proc/sys/kernel/random/boot_id": "94ab5641-0b2b-4b26-9b32-3314fbba0e5e\n",
    "proc/net/dev": "Inter-|   Receive |  Transmit\n face |bytes packets|bytes\n"
    "    lo:    3793      41    0    0    0     0          0         0     3793      41\n"
    "  eth0: 1000 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n  ib0:2000 1 0 0 0 0 0 0 60 1 0 0 0 0 0 0\n"
    " bond0: 3000 1 0 0 0 0 0 0 110 1 0 0 0 0 0 0\n",
    "proc/diskstats": " 7 0 loop0 9 0 9 0 9 0 9 0 0 0 0\n 259 0 nvme0n1 5 0 10 3 7 0 20 4 0 1 1\n"
    " 259 1 nvme0n1p1 5 0 10 3 7 0 20 4 0 1 1\n 9 0 md0 5 0 10 3 7 0 20 4 0 1 1\n",
    "proc/pressure/cpu": "some avg10=1.92 avg60=1.96 avg300=6.68 total=232278705\n",
    "proc/pressure/memory": "some avg10=50.00 avg60=0 avg300=0 total=1\n"
    "full avg10=25.00 avg60=0 avg300=0 total=1\n",
    "sys/class/net/eth0/device/vendor": "0x15b3\n",
    "sys/class/net/ib0/device/vendor": "0x15b3\n",
    "sys/class/net/lo/mtu": "65536\n",
    "sys/class/net/bond0/mtu": "1500\n",
    "sys/block/nvme0n1/device/model": "disk\n",
    "sys/block/loop0/size": "0\n",
    "sys/block/md0/size": "0\n",
}


def tree(root: Path, **changes: str) -> str:
    for name, text in (FILES | changes).items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return str(root)


def test_the_node_s_row(tmp_path: Path) -> None:
    row = Host(tree(tmp_path)).read(7.0)
    assert row.labels["boot_id"] == "94ab5641-0b2b-4b26-9b32-3314fbba0e5e"
    assert row.labels["host_name"] == row.key
    values = dict(row.values)
    assert values.pop("cpu_count") >= 1
    assert values == {
        "load_1m": 3.25,
        "load_5m": 2.0,
        "load_15m": 1.0,
        "uptime_s": 5215.71,
        "cpu_total_ticks": 986,
        "cpu_iowait_ticks": 50,
        "cpu_busy_ticks": 136,
        "host_mem_total_bytes": 1056000000 * 1024,
        "host_mem_available_bytes": 1000 * 1024,
        "host_swap_total_bytes": 8192,
        "host_swap_free_bytes": 0,
        "cpu_pressure_some_ratio": pytest.approx(0.0192),
        "mem_pressure_some_ratio": 0.5,
        "mem_pressure_full_ratio": 0.25,
        "net_rx_bytes": 3000,
        "net_tx_bytes": 110,
        "disk_read_bytes": 5120,
        "disk_write_bytes": 10240,
    }
    assert row.missing == {
        "cpu_pressure_full_ratio": "not_supported",
        "io_pressure_some_ratio": "not_supported",
        "io_pressure_full_ratio": "not_supported",
        "d_state_process_count": "not_sampled",
    }


def test_what_proc_does_not_say_is_missing_with_a_reason(tmp_path: Path) -> None:
    row = Host(str(tmp_path)).read(7.0)
    assert set(row.values) == {"cpu_count"}
    assert set(row.missing.values()) == {"failed", "not_supported", "not_sampled"}
    for what in ("cpu", "mem", "io"):
        for part in ("some", "full"):
            assert row.missing[f"{what}_pressure_{part}_ratio"] == "not_supported"


@pytest.mark.parametrize("text", ["", "MemTotal:\n", "MemTotal: lots kB\n", "\x00", "cpu\n\n", "²"])
def test_a_strange_proc_is_missing_values_and_no_crash(tmp_path: Path, text: str) -> None:
    strange = {name: text for name in FILES if name.startswith("proc/")}
    row = Host(tree(tmp_path, **strange)).read(7.0)
    assert row.missing["host_mem_total_bytes"] == "failed"
    assert row.missing["load_1m"] == "failed"
    assert row.missing["cpu_total_ticks"] == "failed"


def test_hanging_processes_are_counted_now_and_then_and_not_at_first(tmp_path: Path) -> None:
    states = {1: "S", 2: "D", 3: "R", 44: "D"}
    for pid, state in states.items():
        tree(tmp_path, **{f"proc/{pid}/stat": stat_line(pid, "a) D (b", state=state)})
    host = Host(tree(tmp_path))
    key = "d_state_process_count"
    assert host.read(0.0).missing[key] == "not_sampled"
    assert host.read(1.0).values[key] == 2
    tree(tmp_path, **{"proc/1/stat": stat_line(1, state="D")})
    assert host.read(30.5).values[key] == 2
    row = host.read(31.0)
    assert row.values[key] == 3
    assert key not in row.missing


def test_new_interfaces_are_found_after_a_while(tmp_path: Path) -> None:
    host = Host(tree(tmp_path))
    host.read(0.0)
    tree(tmp_path, **{"sys/class/net/bond0/device/vendor": "1"})
    assert host.read(29.0).values["net_rx_bytes"] == 3000
    assert host.read(30.0).values["net_rx_bytes"] == 6000


def test_where_all_interfaces_are_virtual_traffic_is_not_seen_and_not_0(tmp_path: Path) -> None:
    """As in a container: neither the network's nor the disks' counters are the node's."""
    root = tree(tmp_path)
    for device in ("sys/class/net/eth0", "sys/class/net/ib0", "sys/block/nvme0n1"):
        shutil.rmtree(tmp_path / device / "device")
    row = Host(root).read(7.0)
    for key in ("net_rx_bytes", "net_tx_bytes", "disk_read_bytes", "disk_write_bytes"):
        assert key not in row.values
        assert row.missing[key] == "not_supported"


HIDDEN = "proc /proc proc rw,nosuid,hidepid={} 0 0\n"


@pytest.mark.parametrize(
    ("option", "uid", "is_counted"),
    [("invisible", 1000, False), ("2", 65534, False), ("2", 0, True)],
)
def test_where_processes_are_hidden_nobody_counts_those_that_hang(
    option: str, uid: int, is_counted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)
    tree(tmp_path, **{"proc/8/stat": stat_line(8, state="D"), "proc/mounts": HIDDEN.format(option)})
    host = Host(str(tmp_path))
    host.read(0.0)
    row = host.read(31.0)
    assert row.values.get("d_state_process_count") == (1 if is_counted else None)
    assert ("d_state_process_count" in row.missing) is not is_counted


def test_where_the_state_of_most_processes_is_hidden_none_is_counted(tmp_path: Path) -> None:
    """hidepid=1 lists them and hides what they do."""
    tree(tmp_path, **{"proc/8/stat": stat_line(8), "proc/9/status": "", "proc/10/status": ""})
    host = Host(str(tmp_path))
    host.read(0.0)
    assert host.read(31.0).missing["d_state_process_count"] == "no_permission"


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("some avg10=0.00 avg60=1 avg300=2 total=3\nfull avg10=100.00\n", {"some": 0, "full": 1}),
        ("some avg10=x\nfull avg60=3\n", {}),
        ("some avg10=nan\nfull avg10=inf", {}),
        ("", {}),
    ],
)
def test_pressure(text: str, shares: dict[str, float]) -> None:
    assert pressure.parse(text) == shares


LINES = st.text(alphabet="cpu eth0:|some full avg10=12345678901234567890.-²\n\t", max_size=200)


@given(LINES)
def test_no_text_is_too_strange(text: str) -> None:
    wanted = frozenset({"eth0", "1", "cpu"})
    assert min(interface_bytes(text, wanted)) >= 0
    assert min(disk_bytes(text, wanted)) >= 0
    pressure.parse(text)


def test_a_block_says_a_common_reason_once_and_others_by_row() -> None:
    first, second = Row("a", 1.00004), Row("b", 2.0)
    first.values["x"] = 1
    first.missing.update(y="lost", z="failed")
    second.missing.update(x="lost", y="lost", z="lost")
    second.labels["name"] = "n"
    assert block([first, second]) == {
        "keys": ["a", "b"],
        "at": [1.0, 2.0],
        "columns": {"x": [1, None]},
        "labels": {"name": [None, "n"]},
        "missing": {"x": {"1": "lost"}, "y": "lost", "z": {"0": "failed", "1": "lost"}},
    }


def test_the_first_reason_stays_and_a_value_needs_none() -> None:
    row = Row("a", 0.0)
    row.values["x"] = 0
    row.missing["y"] = "lost"
    row.lose(["x", "y", "z"], "failed")
    assert row.missing == {"y": "lost", "z": "failed"}


def test_of_too_many_devices_no_sum_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_host, "MAX_DEVICES", 3)
    row = Host(tree(tmp_path)).read(7.0)
    for key in ("net_rx_bytes", "net_tx_bytes"):
        assert key not in row.values
        assert row.missing[key] == "not_sampled"
    assert row.values["disk_read_bytes"] == 5120
    monkeypatch.setattr(kernel_host, "MAX_DEVICES", 2)
    assert Host(str(tmp_path)).read(7.0).missing["disk_read_bytes"] == "not_sampled"


def test_of_too_many_processes_none_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_stat, "MAX_PROCESSES", 4)
    root = tree(tmp_path, **{f"proc/{pid}/stat": stat_line(pid, state="D") for pid in range(1, 6)})
    host = Host(root)
    host.read(0.0)
    row = host.read(31.0)
    assert "d_state_process_count" not in row.values
    assert row.missing["d_state_process_count"] == "not_sampled"
