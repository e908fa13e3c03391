"""Network mounts: NFS and Lustre counters, and never a touch of the mount itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.probe.kernel import files as kernel_files
from gpumon.probe.kernel.filesystems import EVERY, MAX_MOUNTS, Filesystems, lustre, mounts, nfs
from gpumon.probe.rows import Row

if TYPE_CHECKING:
    from pathlib import Path

NFS = """\
device proc mounted on /proc with fstype proc
device filer:/home mounted on /home with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576
\tage:\t52
\tcaps:\tcaps=0x3ffbffff
\tevents:\t1 2 3 4 5 6 7 8 9 10
\tbytes:\t100 200 0 0 4096 8192 1 2
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 903 1 1 0 0 23 23 0 23 0 2 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 10 12 1 1840 5320 3 50 70 0
\t       WRITE: 4 4 0 17000 640 1 20 44 2
\t     GETATTR: 100 103 2 1 1 1 9 9 0
device filer:/scratch\\040two mounted on /scratch\\040two with fstype nfs statvers=1.1
device gpfs0 mounted on /gpfs with fstype gpfs
device /dev/sda1 mounted on / with fstype ext4
"""
LUSTRE = "device 10.0.0.1@o2ib:10.0.0.2@o2ib:/work mounted on /work with fstype lustre\n"
STATS_214 = """\
snapshot_time             1700000000.123456789 secs.nsecs
start_time                1690000000.0 secs.nsecs
read_bytes                5 samples [bytes] 4096 1048576 3149824 3300000000000
write_bytes               2 samples [bytes] 10 20 30 500
read                      5 samples [usecs] 12 900 1500 900000
write                     2 samples [usecs] 10 30 40 1000
open                      9 samples [usecs] 1 2 3 4
"""
STATS_210 = """\
snapshot_time             1700000000.123456 secs.usecs
write_bytes               2 samples [bytes] 10 20 30
open                      9 samples [regs]
"""


def tree(root: Path, **files: str) -> Filesystems:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Filesystems(str(root))


def read(root: Path, text: str, **files: str) -> dict[str, Row]:
    return {r.key: r for r in tree(root, **{"proc/self/mountstats": text}, **files).rows(1.0)}


def test_an_nfs_mount(tmp_path: Path) -> None:
    row = read(tmp_path, NFS)["/home"]
    assert row.labels == {"fstype": "nfs4", "device": "filer:/home"}
    assert row.values == {
        "fs_read_bytes": 4096,
        "fs_write_bytes": 8192,
        "fs_read_ops": 10,
        "fs_write_ops": 4,
        "fs_read_rtt_us": 50_000,
        "fs_read_exec_us": 70_000,
        "fs_write_rtt_us": 20_000,
        "fs_write_exec_us": 44_000,
        "fs_retransmits": 5,
        "fs_timeouts": 3,
    }
    assert row.missing == {}


def test_mounts_that_say_nothing_are_named_and_local_ones_are_not(tmp_path: Path) -> None:
    found = read(tmp_path, NFS)
    assert set(found) == {"/home", "/scratch two", "/gpfs"}
    assert found["/gpfs"].missing == dict.fromkeys(EVERY, "not_supported")
    assert found["/scratch two"].missing == dict.fromkeys(EVERY, "failed")
    assert found["/scratch two"].labels["device"] == "filer:/scratch two"


def test_a_counter_that_went_below_zero_is_missing() -> None:
    row = Row("/home", 0.0)
    nfs(row, [f"bytes: 1 1 1 1 {2**64 - 5} 7 1 1", f"READ: 1 1 1 1 1 1 1 {2**64 - 1}"])
    assert row.values == {}
    assert set(row.missing.values()) == {"failed"}


def test_the_last_mount_on_a_point_counts(tmp_path: Path) -> None:
    text = NFS + "device tmpfs mounted on /home with fstype tmpfs\n"
    assert "/home" not in read(tmp_path, text)
    text = NFS + "device b:/x mounted on /home with fstype nfs4 statvers=1.1\n"
    assert read(tmp_path, text)["/home"].labels["device"] == "b:/x"


@pytest.mark.parametrize(
    "folder", ["sys/kernel/debug/lustre/llite", "proc/fs/lustre/llite"], ids=["debugfs", "proc"]
)
def test_a_lustre_client(folder: str, tmp_path: Path) -> None:
    row = read(tmp_path, LUSTRE, **{f"{folder}/work-ffff9f1c2e3d4000/stats": STATS_214})["/work"]
    assert row.values == {
        "fs_read_bytes": 3149824,
        "fs_read_ops": 5,
        "fs_read_exec_us": 1500,
        "fs_write_bytes": 30,
        "fs_write_ops": 2,
        "fs_write_exec_us": 40,
    }
    assert row.missing["fs_read_rtt_us"] == "not_supported"
    assert row.labels["fstype"] == "lustre"


def test_an_old_client_that_has_read_nothing_yet_has_read_0_bytes() -> None:
    row = Row("/work", 0.0)
    lustre(row, STATS_210)
    assert (row.values["fs_read_bytes"], row.values["fs_write_bytes"]) == (0, 30)
    assert "fs_write_exec_us" not in row.values


def test_a_text_without_a_time_is_no_lustre_stats() -> None:
    row = Row("/work", 0.0)
    lustre(row, "read_bytes 5 samples [bytes] 1 2 3\n")
    assert row.values == {}
    assert set(row.missing.values()) == {"failed"}


def test_lustre_that_only_root_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, most: int) -> list[str]:
        if "debug" in path:
            raise PermissionError(13, "Permission denied")
        return []

    monkeypatch.setattr(kernel_files, "names_or_error", refuse)
    row = read(tmp_path, LUSTRE)["/work"]
    assert row.missing == dict.fromkeys(EVERY, "no_permission")


def test_two_mounts_of_one_lustre_are_not_mixed_up(tmp_path: Path) -> None:
    text = LUSTRE + LUSTRE.replace("on /work", "on /work2")
    folder = "sys/kernel/debug/lustre/llite"
    files = {f"{folder}/work-ffff{n}/stats": STATS_214 for n in (1, 2)}
    found = read(tmp_path, text, **files)
    assert all(row.values == {} for row in found.values())
    assert found["/work2"].missing["fs_read_bytes"] == "not_supported"


def test_no_mount_is_ever_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the kernel's own files are opened or listed; nothing else is asked of the system."""
    touched: list[str] = []
    opened, listed = open, os.listdir
    reader = tree(tmp_path, **{"proc/self/mountstats": NFS + LUSTRE})

    def refuse(*_: object) -> None:
        raise AssertionError("a mount was asked")

    def note_open(path: str, mode: str) -> object:
        touched.append(path)
        return opened(path, mode)

    def note_list(path: str) -> list[str]:
        touched.append(path)
        return listed(path)

    for name in ("statvfs", "stat", "lstat", "scandir"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(os, "listdir", note_list)
    monkeypatch.setattr(kernel_files, "open", note_open, raising=False)
    rows = reader.rows(1.0)
    monkeypatch.undo()
    assert len(rows) == 4
    kernel = (f"{tmp_path}/proc/", f"{tmp_path}/sys/kernel/debug/")
    assert len(touched) > 1
    assert [path for path in touched if not path.startswith(kernel)] == []


def test_homes_by_the_hundred_are_bounded(tmp_path: Path) -> None:
    line = "device f:/h/{0} mounted on /home/u{0} with fstype nfs4 statvers=1.1\n"
    reader = tree(tmp_path, **{"proc/self/mountstats": "".join(map(line.format, range(900)))})
    assert len(reader.rows(0.0)) == MAX_MOUNTS
    (error,) = reader.refused
    left = 900 - MAX_MOUNTS
    assert error["message"] == f"900 network mounts: {MAX_MOUNTS} are read, {left} are not"
    assert error["hint"]
    tree(tmp_path, **{"proc/self/mountstats": line.format(1)})
    reader.rows(9.0)
    assert reader.refused == []


def test_mounts_are_read_now_and_then_and_keep_their_time(tmp_path: Path) -> None:
    reader = tree(tmp_path, **{"proc/self/mountstats": NFS})
    assert reader.rows(0.0)[0].at == 0.0
    (tmp_path / "proc/self/mountstats").write_text("")
    assert reader.rows(4.9)[0].at == 0.0
    assert reader.rows(5.0) == []


WORDS = st.sampled_from(
    [
        *("device", "mounted on", "with fstype", "nfs4", "lustre", "/home", "\n", "\n\t", ":"),
        *("READ:", "bytes:", "read_bytes", "samples", "[bytes]", "[usecs]", "snapshot_time"),
        *("-1", "0", "18446744073709551615", "٣", "²", "9" * 5000, "x", "\\040", "\\777"),
    ]
)


@given(st.lists(WORDS, max_size=60).map(" ".join))
def test_no_text_is_too_strange(text: str) -> None:
    for mount in mounts(text):
        nfs(Row(mount.point, 0.0), mount.lines)
    row = Row("", 0.0)
    nfs(row, text.splitlines())
    lustre(row, text)
    assert all(0 <= value < 2**74 for value in row.values.values())
