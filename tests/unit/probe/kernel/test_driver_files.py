"""What the kernel module knows of GPUs that NVML does not open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.probe.kernel.driver_files import Board, boards, name_unopened
from gpumon.probe.rows import FAILED, Row

if TYPE_CHECKING:
    from pathlib import Path

INFORMATION = """Model: \t\t NVIDIA L40S
IRQ:   \t\t 214
GPU UUID: \t {uuid}
Bus Location: \t {bus}
Device Minor: \t {minor}
GPU Excluded:\t {excluded}
"""


def machine(root: Path, *gpus: tuple[str, str, str, str]) -> str:
    for bus, uuid, minor, excluded in gpus:
        folder = root / "proc/driver/nvidia/gpus" / bus
        folder.mkdir(parents=True)
        text = INFORMATION.format(bus=bus, uuid=uuid, minor=minor, excluded=excluded)
        (folder / "information").write_text(text)
    return str(root)


def row(index: int, bus: str = "", code: int = 0) -> Row:
    made = Row(f"GPU-{index}" if bus else f"unopened-n-{index}", 1.0)
    made.values.update({"index": index, "open_error": code})
    if bus:
        made.labels["pci_bus_id"] = bus
    else:
        made.missing.update(dict.fromkeys(("pci_bus_id", "name", "minor_number", "temp_c"), FAILED))
    return made


def test_the_boards_that_nvml_counts_come_in_its_order(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        ("0000:c1:00.0", "GPU-c", "2", "No"),
        ("0000:41:00.0", "GPU-????????-????-????-????-????????????", "0", "No"),
        ("0000:81:00.0", "GPU-b", "1", "Yes"),
        ("not-a-bus", "GPU-x", "9", "No"),
    )
    assert boards(root) == [
        Board("0000:41:00.0", "", 0, "NVIDIA L40S"),
        Board("0000:c1:00.0", "GPU-c", 2, "NVIDIA L40S"),
    ]


def test_without_the_module_s_files_there_are_none(tmp_path: Path) -> None:
    assert boards(str(tmp_path)) == []


def test_a_closed_gpu_is_the_board_that_no_open_one_claims(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        ("0000:41:00.0", "GPU-0", "0", "No"),
        ("0000:81:00.0", "GPU-lost", "7", "No"),
        ("0000:c1:00.0", "GPU-????????-????-????-????-????????????", "x", "No"),
    )
    gpus = [row(2, code=999), row(0, "00000000:41:00.0"), row(1, code=15)]
    name_unopened(gpus, boards(root))
    unknown, _, known = gpus
    assert (known.key, known.labels["pci_bus_id"]) == ("GPU-lost", "0000:81:00.0")
    assert (known.values["minor_number"], known.labels["name"]) == (7, "NVIDIA L40S")
    assert known.missing == {"temp_c": FAILED}
    # A UUID that could not be read stays replaced, with what else is known.
    assert (unknown.key, unknown.labels["pci_bus_id"]) == ("unopened-n-2", "0000:c1:00.0")
    assert "minor_number" in unknown.missing


def test_a_uuid_that_an_open_gpu_has_is_not_given_twice(tmp_path: Path) -> None:
    root = machine(
        tmp_path, ("0000:41:00.0", "GPU-0", "0", "No"), ("0000:81:00.0", "GPU-0", "1", "No")
    )
    gpus = [row(1, code=999), row(0, "00000000:41:00.0")]
    name_unopened(gpus, boards(root))
    assert [gpu.key for gpu in gpus] == ["unopened-n-1", "GPU-0"]


def test_nothing_is_given_where_an_open_gpu_may_be_any_board(tmp_path: Path) -> None:
    root = machine(
        tmp_path, ("0000:21:00.0", "GPU-a", "0", "No"), ("0000:61:00.0", "GPU-b", "1", "No")
    )
    gpus = [row(0), row(1, code=15)]
    name_unopened(gpus, boards(root))
    assert [gpu.key for gpu in gpus] == ["unopened-n-0", "unopened-n-1"]
    assert "pci_bus_id" in gpus[1].missing
