"""Xids of the kernel's log: every form of the line, storms, and a log that is closed to us."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.probe.kernel import log as kernel_log
from gpumon.probe.kernel.log import KernelLog, only_logged, parse
from gpumon.probe.rows import Row

if TYPE_CHECKING:
    from pathlib import Path

GPUS = {"GPU-a": "00000000:05:00.0"}
FALLEN = "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off."


class Log:
    """A kernel's log: one record a read, then nothing yet."""

    def __init__(self, root: Path, *records: str | int) -> None:
        (root / "dev").mkdir()
        (root / "dev" / "kmsg").write_text("")
        self.records = list(records)
        self.log = KernelLog(str(root), self.read)

    def read(self, _: int, most: int) -> bytes:
        if not self.records:
            raise BlockingIOError(errno.EAGAIN, "nothing yet")
        record = self.records.pop(0)
        if isinstance(record, int):
            raise OSError(record, os.strerror(record))
        return record.encode()[:most]


def record(text: str, seconds: float = 1.5) -> str:
    return f"4,1234,{int(seconds * 1e6)},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:05:00.0\n"


@pytest.mark.parametrize(
    ("text", "bus_id", "xid"),
    [
        (FALLEN, "0000:05:00.0", 79),
        ("NVRM: Xid (PCI:0000:c1:00): 13, Graphics Exception", "0000:c1:00.0", 13),
        ("NVRM: Xid (0000:03:00): 31, Ch 00000010", "0000:03:00.0", 31),
        ("NVRM: Xid (PCI:0000:1B:00.0): 119, pid=1, name=x", "0000:1b:00.0", 119),
        ("NVRM: Xid (PCI:00010000:05:00): 149, RLW_RXPIPE Nonfatal XC0 i0 Link -1 (0x4 0x0)",
         "10000:05:00.0", 149),
        ("nvidia 0000:05:00.0: NVRM: Xid (PCI:0000:05:00): 94, Contained", "0000:05:00.0", 94),
    ],
)  # fmt: skip
def test_the_forms_of_an_xid(text: str, bus_id: str, xid: int) -> None:
    assert parse(record(text).splitlines()[0]) == (1.5, bus_id, xid)


@pytest.mark.parametrize(
    "line",
    [
        "",
        FALLEN,
        "4,1,2,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
        "4,1,2,-;NVRM: GPU at PCI:0000:05:00: GPU-1234",
        "4,1,2,-;nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal",
        "4,1,2,-;NVRM: Xid (PCI:0000:05:00): many",
        "4,1,-;NVRM: Xid (PCI:0000:05:00): 79,",
        " DEVICE=NVRM: Xid (PCI:0000:05:00): 79,",
    ],
)
def test_other_lines_are_no_xid(line: str) -> None:
    assert parse(line) is None


def test_an_xid_names_its_gpu_and_its_age(tmp_path: Path) -> None:
    log = Log(
        tmp_path,
        record("usb 1-1: new device"),
        record(FALLEN, 77.25),
        record("NVRM: Xid (PCI:0000:06:00): 43, pid=5", 80),
    )
    rows = log.log.rows(100.0, GPUS)
    assert [row.key for row in rows] == ["GPU-a/79/kmsg-1", "0000:06:00.0/43/kmsg-2"]
    assert rows[0].values == {"xid": 79, "event_type": 8, "event_age_s": 22.75}
    assert rows[0].at == 100.0
    again = log.log.rows(101.0, {"GPU-b": "0000:06:00.0"})
    assert [row.key for row in again] == ["0000:05:00.0/79/kmsg-1", "GPU-b/43/kmsg-2"]
    assert log.log.reason == ""


def test_an_xid_is_told_for_an_hour(tmp_path: Path) -> None:
    log = Log(tmp_path, record(FALLEN, 10.0), record(FALLEN, 3000.0))
    assert len(log.log.rows(3610.0, GPUS)) == 2
    assert [row.values["event_age_s"] for row in log.log.rows(3611.0, GPUS)] == [611.0]


def test_records_that_were_overwritten_are_passed_over(tmp_path: Path) -> None:
    log = Log(tmp_path, errno.EPIPE, record(FALLEN))
    assert [row.values["xid"] for row in log.log.rows(5.0, GPUS)] == [79]


def test_a_storm_is_bounded_and_goes_on_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_log, "MAX_RECORDS", 100)
    log = Log(tmp_path, *[record(FALLEN, second) for second in range(150)])
    assert [row.values["event_age_s"] for row in log.log.rows(200.0, GPUS)] == [
        200 - second for second in range(36, 100)
    ]
    assert [row.values["event_age_s"] for row in log.log.rows(200.0, GPUS)] == [
        200 - second for second in range(86, 150)
    ]


def test_what_the_driver_told_itself_is_not_told_twice(tmp_path: Path) -> None:
    log = Log(tmp_path, record(FALLEN, 50.0), record(FALLEN, 90.0))
    row = Row("GPU-a/79/1", 100.0)
    row.values["event_age_s"] = 9.0
    logged = log.log.rows(100.0, GPUS)
    assert [one.key for one in only_logged(logged, [row])] == ["GPU-a/79/kmsg-1"]
    assert only_logged(logged, []) == logged


def test_a_log_that_only_ever_overwrites_ends_the_look(tmp_path: Path) -> None:
    log = Log(tmp_path, *[errno.EPIPE] * 100_000)
    assert log.log.rows(5.0, GPUS) == []
    assert len(log.records) > 0


def test_a_log_that_breaks_says_so(tmp_path: Path) -> None:
    log = Log(tmp_path, record(FALLEN), errno.EIO)
    assert len(log.log.rows(5.0, GPUS)) == 1
    assert log.log.reason == "failed"
    assert len(log.log.rows(6.0, GPUS)) == 1


def test_a_machine_without_the_log(tmp_path: Path) -> None:
    log = KernelLog(str(tmp_path))
    assert (log.reason, log.rows(5.0, GPUS)) == ("not_supported", [])


def test_a_closed_log_is_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "open", refuse)
    log = KernelLog(str(tmp_path))
    monkeypatch.undo()
    assert (log.reason, log.rows(5.0, GPUS)) == ("no_permission", [])


@given(st.text(max_size=60) | st.from_regex(kernel_log.RECORD) | st.from_regex(kernel_log.LINE))
def test_no_line_is_too_strange(line: str) -> None:
    found = parse("4,1,2,-;" + line)
    parse(line)
    assert found is None or found.number >= 0


def test_xids_that_made_room_for_newer_ones_are_counted_while_they_would_be_told(
    tmp_path: Path,
) -> None:
    log = Log(tmp_path, *[record(FALLEN, 10.0 + second) for second in range(kernel_log.MAX_XIDS)])
    log.log.rows(100.0, GPUS)
    assert log.log.refused == []
    log.records = [record(FALLEN, 90.0), record(FALLEN, 91.0), record(FALLEN, 92.0)]
    assert len(log.log.rows(100.0, GPUS)) == kernel_log.MAX_XIDS
    (error,) = log.log.refused
    assert error["message"] == "3 Xids of the last hour were too many to show"
    assert "dmesg" in error["hint"]
    log.log.rows(12.0 + kernel_log.SHOWN_S, GPUS)
    assert log.log.refused != []
    log.log.rows(12.5 + kernel_log.SHOWN_S, GPUS)
    assert log.log.refused == []


def test_xids_of_long_ago_are_missed_by_nobody(tmp_path: Path) -> None:
    log = Log(tmp_path, *[record(FALLEN, second) for second in range(3 * kernel_log.MAX_XIDS)])
    log.log.rows(9000.0, GPUS)
    assert log.log.refused == []
