"""The node's own row: numbers in bytes, and a reason where /proc does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.probe import host
from gpumon.probe.rows import Row, block

if TYPE_CHECKING:
    from pathlib import Path


def proc(root: Path) -> Path:
    (root / "loadavg").write_text("3.25 2.00 1.00 1/234 5678\n")
    (root / "meminfo").write_text(
        "MemTotal:       1056000000 kB\nMemFree: 1 kB\nMemAvailable:    1000 kB\n"
    )
    boot = root / "sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("94ab5641-0b2b-4b26-9b32-3314fbba0e5e\n")
    return root


def test_the_node_s_row(tmp_path: Path) -> None:
    row = host.read(7.0, str(proc(tmp_path)))
    assert row.values["load_1m"] == 3.25
    assert row.values["host_mem_total_bytes"] == 1056000000 * 1024
    assert row.values["host_mem_available_bytes"] == 1000 * 1024
    assert row.labels["boot_id"] == "94ab5641-0b2b-4b26-9b32-3314fbba0e5e"
    assert row.labels["host_name"] == row.key
    assert row.missing == {}


def test_what_proc_does_not_say_is_missing_with_a_reason(tmp_path: Path) -> None:
    row = host.read(7.0, str(tmp_path))
    lacking = {"load_1m", "host_mem_total_bytes", "host_mem_available_bytes", "boot_id"}
    assert row.missing == dict.fromkeys(lacking, "failed")


@pytest.mark.parametrize("meminfo", ["", "MemTotal:\n", "MemTotal: lots kB\n", "\x00"])
def test_a_strange_proc_is_missing_values_and_no_crash(tmp_path: Path, meminfo: str) -> None:
    (proc(tmp_path) / "meminfo").write_text(meminfo)
    (tmp_path / "loadavg").write_text("\n")
    row = host.read(7.0, str(tmp_path))
    assert row.missing["host_mem_total_bytes"] == "failed"
    assert row.missing["load_1m"] == "failed"


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
