"""InfiniBand and RoCE ports: words into bytes, text where numbers should be, GPUs nearby."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.catalogue.host import NIC_ERRORS, NIC_ROCE
from gpumon.probe.kernel import files as kernel_files
from gpumon.probe.kernel import ports
from gpumon.probe.kernel.pci import NEARNESS, Place, nearest, nearness, normal
from gpumon.probe.kernel.ports import Ports, speed_gbps

if TYPE_CHECKING:
    from pathlib import Path

    from gpumon.probe.rows import Row

GPU = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0"
NEAR = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0"
FAR = "pci0000:97/0000:97:01.0/0000:98:00.0"


def device(root: Path, path: str, numa: int = 0) -> Path:
    """A PCI device in the tree of sysfs."""
    folder = root / "sys" / "devices" / path
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{numa}\n")
    link = root / "sys" / "bus" / "pci" / "devices" / folder.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return folder


def port(root: Path, name: str, path: str, files: dict[str, str], numa: int = 0) -> None:
    adapter = device(root, path, numa)
    folder = adapter / "infiniband" / name
    for file, text in files.items():
        place = folder / "ports" / "1" / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (folder / "device").symlink_to("../..")
    link = root / "sys" / "class" / "infiniband" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)


INFINIBAND = {
    "state": "4: ACTIVE\n",
    "phys_state": "5: LinkUp\n",
    "link_layer": "InfiniBand\n",
    "rate": "400 Gb/sec (4X NDR)\n",
    "counters/port_xmit_data": "1000\n",
    "counters/port_rcv_data": "4611686018427387904\n",
    "counters/symbol_error": "65535\n",
    "counters/link_downed": "2\n",
    "counters/port_rcv_errors": "N/A (no PMA)\n",
}
ROCE = {
    "state": "1: DOWN\n",
    "phys_state": "3: Disabled\n",
    "link_layer": "Ethernet\n",
    "rate": "2.5 Gb/sec (1X SDR)\n",
    "counters/port_xmit_data": "N/A (no PMA)",
    "hw_counters/out_of_sequence": "7\n",
    "hw_counters/np_cnp_sent": "8\n",
}


def rows(root: Path, now: float = 1.0, gpus: dict[str, str] | None = None) -> list[Row]:
    return Ports(str(root)).rows(now, gpus or {})


def test_the_files_are_those_of_the_catalogue() -> None:
    assert set(ports.ERRORS) == set(NIC_ERRORS)
    assert set(ports.ROCE) == set(NIC_ROCE)


def test_an_infiniband_port(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", NEAR, INFINIBAND)
    device(tmp_path, GPU)
    device(tmp_path, FAR, 1)
    gpus = {"GPU-far": "00000000:98:00.0", "GPU-a": "00000000:18:00.0", "GPU-?": "nonsense"}
    (row,) = rows(tmp_path, gpus=gpus)
    assert row.key == "mlx5_0/1"
    assert row.values == {
        "nic_speed_gbps": 400.0,
        "nic_tx_bytes": 4000,
        "nic_rx_bytes": 2**64,
        "nic_symbol_error": 65535,
        "nic_link_downed": 2,
        "nic_numa_node": 0,
    }
    assert row.labels == {
        "state": "ACTIVE",
        "phys_state": "LinkUp",
        "link_layer": "InfiniBand",
        "pci_bus_id": "0000:19:00.0",
        "nearest_by": "switch",
        "nearest_gpus": "GPU-a",
    }
    assert set(row.missing.values()) == {"not_supported"}
    assert {"nic_port_rcv_errors", "nic_out_of_sequence", "net_device"} <= set(row.missing)


def test_a_roce_port_that_is_down(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_bond_0", FAR, ROCE, numa=-1)
    (tmp_path / "sys" / "devices" / FAR / "net" / "ens1").mkdir(parents=True)
    (row,) = rows(tmp_path)
    assert row.key == "mlx5_bond_0/1"
    assert (row.labels["state"], row.labels["link_layer"]) == ("DOWN", "Ethernet")
    assert row.labels["net_device"] == "ens1"
    assert row.values["nic_speed_gbps"] == 2.5
    assert row.values["nic_out_of_sequence"] == 7
    assert row.missing["nic_tx_bytes"] == "not_supported"
    assert row.missing["nic_numa_node"] == "not_supported"
    assert row.missing["nearest_gpus"] == "not_supported"


def test_traffic_is_read_each_time_and_the_rest_now_and_then(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", NEAR, INFINIBAND)
    folder = tmp_path / "sys" / "class" / "infiniband" / "mlx5_0" / "ports" / "1"
    reader = Ports(str(tmp_path))
    reader.rows(0.0, {})
    (folder / "counters" / "port_xmit_data").write_text("2000\n")
    (folder / "state").write_text("1: DOWN\n")
    (row,) = reader.rows(4.9, {})
    assert (row.values["nic_tx_bytes"], row.labels["state"], row.at) == (8000, "ACTIVE", 4.9)
    (row,) = reader.rows(5.0, {})
    assert row.labels["state"] == "DOWN"
    (folder / "counters" / "port_xmit_data").unlink()
    (row,) = reader.rows(6.0, {})
    assert "nic_tx_bytes" not in row.values
    assert row.missing["nic_tx_bytes"] == "not_supported"


def test_a_counter_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = kernel_files.read

    def refuse(path: str, most: int) -> str:
        if path.endswith("port_xmit_data"):
            raise PermissionError(13, "Permission denied")
        return read(path, most)

    monkeypatch.setattr(kernel_files, "read", refuse)
    port(tmp_path, "mlx5_0", NEAR, INFINIBAND)
    (row,) = rows(tmp_path)
    assert row.missing["nic_tx_bytes"] == "no_permission"
    assert row.values["nic_rx_bytes"] == 2**64


def test_a_node_without_ports_has_none(tmp_path: Path) -> None:
    assert rows(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "speed"),
    [("400 Gb/sec (4X NDR)\n", 400.0), ("2.5 Gb/sec (1X SDR)", 2.5), ("56 Gb/sec", 56.0)],
)
def test_speed(text: str, speed: float) -> None:
    assert speed_gbps(text) == speed


@given(st.text(max_size=40) | st.sampled_from(["nan Gb/sec", "Gb/sec", "5", "x Gb/sec"]))
def test_what_is_no_speed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        speed_gbps(text)


@pytest.mark.parametrize(
    ("bus_id", "expected"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000:1b:00.0", "0000:1b:00.0"),
        ("0000:1b:00", "0000:1b:00.0"),
        ("1b:00.0", "0000:1b:00.0"),
        ("00010000:1b:00.0", "10000:1b:00.0"),
        ("../../etc", ""),
        ("", ""),
    ],
)
def test_a_bus_id_as_sysfs_writes_it(bus_id: str, expected: str) -> None:
    assert normal(bus_id) == expected


def place(path: str, numa: int | None = None) -> Place:
    return Place(tuple(path.split("/")), numa)


@pytest.mark.parametrize(
    ("other", "numa", "how"),
    [
        (NEAR, 0, "switch"),
        ("pci0000:15/0000:15:01.0/0000:20:00.0", 0, "switch"),
        ("pci0000:15/0000:15:02.0/0000:21:00.0", 0, "root"),
        (FAR, 0, "numa"),
        (FAR, 1, "system"),
        (FAR, None, "system"),
    ],
)
def test_nearness(other: str, numa: int | None, how: str) -> None:
    assert nearness(place(GPU, 0), place(other, numa)) == how
    assert nearness(place(other, numa), place(GPU, 0)) == how
    assert how in NEARNESS


def test_two_devices_of_unknown_numa_node_are_not_on_the_same() -> None:
    assert nearness(place(GPU), place(FAR)) == "system"


def test_the_nearest_are_all_of_the_same_nearness() -> None:
    gpus = {
        "b": place("pci0000:15/0000:15:02.0/0000:21:00.0"),
        "a": place("pci0000:15/0000:15:03.0/0000:22:00.0"),
        "far": place(FAR),
        "lost": Place((), 0),
    }
    assert nearest(place(NEAR), gpus) == ("root", ["a", "b"])
    assert nearest(place(NEAR), {}) == ("system", [])
    assert nearest(Place((), 0), gpus) == ("system", [])


def test_more_ports_than_are_read_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        port(tmp_path, f"mlx5_{number}", f"pci0000:15/0000:15:0{number}.0", INFINIBAND)
    monkeypatch.setattr(ports, "MAX_PORTS", 5)
    reader = Ports(str(tmp_path))
    assert [row.key for row in reader.rows(1.0, {})] == [f"mlx5_{n}/1" for n in range(5)]
    (error,) = reader.refused
    assert error["message"] == "7 ports: 5 are read, 2 are not"
    assert error["hint"]
    monkeypatch.setattr(ports, "MAX_PORTS", 7)
    assert len(reader.rows(9.0, {})) == 7
    assert reader.refused == []
