"""Which mounts are asked for their space, and that none is that could wait for a server."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.probe.kernel import files
from gpumon.probe.kernel.local_filesystems import (
    FIELDS,
    MAX_MOUNTS,
    LocalFilesystems,
    Space,
    mounts,
    safe,
    with_data,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

Line = tuple[int, int, str, str]
"""Number, parent, mount point, type."""

ROOT: Line = (27, 1, "/", "ext4")


def text(lines: Sequence[Line], *, options: str = "rw", root: str = "/") -> str:
    return "".join(
        f"{number} {parent} 0:{number} {root if number != 27 else '/'} {point} "
        f"{options},relatime shared:1 - {kind} source rw\n"
        for number, parent, point, kind in lines
    )


def asked(*lines: Line) -> list[str]:
    return [mount.path.decode() for mount in safe(mounts(text((ROOT, *lines)).encode()))]


def shown(lines: str) -> list[str]:
    return [mount.path.decode() for mount in with_data(mounts(lines.encode()))]


@pytest.mark.parametrize("kind", ["tmpfs", "ext4", "xfs", "btrfs", "zfs"])
def test_disks_and_memory_of_the_node_are_asked(kind: str) -> None:
    assert asked((30, 27, "/local", kind)) == ["/", "/local"]


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs4", "lustre", "gpfs", "ceph", "beegfs", "cifs", "9p", "virtiofs", "autofs"),
        *(
            "fuse",
            "fuse.sshfs",
            "fuseblk",
            "wekafs",
            "afs",
            "overlay",
            "vfat",
            "proc",
            "never_seen",
        ),
    ],
)
def test_no_other_kind_is_asked(kind: str) -> None:
    assert asked((30, 27, "/data", kind)) == ["/"]


@pytest.mark.parametrize("kind", ["nfs4", "autofs", "lustre", "fuse.sshfs", "never_seen"])
def test_nothing_below_a_network_mount_is_asked(kind: str) -> None:
    """The way to it leads through a file system that may never answer."""
    lines = (
        (30, 27, "/data", kind),
        (31, 30, "/data/fast", "xfs"),
        (32, 31, "/data/fast/a", "xfs"),
    )
    assert asked(*lines) == ["/"]


@pytest.mark.parametrize("kind", ["nfs4", "autofs", "fuse"])
def test_what_a_network_mount_hides_is_not_asked(kind: str) -> None:
    """Mounted over the very place, or over a folder above it."""
    place = ((30, 27, "/a", "xfs"), (31, 30, "/a", kind))
    above = ((40, 27, "/b/c/d", "xfs"), (41, 27, "/b", kind))
    assert asked(*place, *above) == ["/"]


def test_what_stands_before_in_the_list_may_hide_as_well() -> None:
    assert asked((31, 30, "/a", "nfs4"), (30, 27, "/a", "xfs")) == ["/"]


def test_of_two_at_one_place_the_upper_is_asked() -> None:
    lines = text((ROOT, (30, 27, "/dev", "devtmpfs"), (31, 30, "/dev/shm", "tmpfs"),
                  (32, 31, "/dev/shm", "tmpfs")))  # fmt: skip
    assert [mount.number for mount in safe(mounts(lines.encode()))] == [27, 32]


def test_a_name_that_begins_alike_hides_nothing() -> None:
    assert asked((30, 27, "/data", "nfs4"), (31, 27, "/data2", "xfs")) == ["/", "/data2"]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(((27, 1, "/", "nfs4"), (30, 27, "/dev/shm", "tmpfs")), id="diskless"),
        pytest.param(((30, 99, "/local", "xfs"),), id="no root in the list"),
        pytest.param(((30, 31, "/a", "xfs"), (31, 30, "/a/b", "xfs")), id="a ring"),
    ],
)
def test_where_the_way_from_the_root_is_not_known_to_be_local_nothing_is(
    lines: Sequence[Line],
) -> None:
    assert safe(mounts(text(lines).encode())) == []


def test_a_container_s_own_layer_and_what_it_mounts_are_asked() -> None:
    lines = text(((27, 1, "/", "overlay"), (30, 27, "/dev", "tmpfs"), (31, 30, "/dev/shm", "tmpfs"),
                  (32, 27, "/scratch", "overlay")))  # fmt: skip
    assert shown(lines) == ["/dev/shm", "/"]


def test_shared_memory_comes_first_and_what_nobody_keeps_data_in_is_left_out() -> None:
    points = ("/dev/mqueue", "/run", "/run/user/7", "/sys/fs/cgroup",
              "/var/lib/docker/x/mounts/shm", "/etc/hosts", "/snap/core", "/tmp", "/dev/shm",
              "/running")  # fmt: skip
    lines = text((ROOT, *((50 + n, 27, point, "tmpfs") for n, point in enumerate(points))))
    assert shown(lines) == ["/dev/shm", "/", "/run", "/running", "/tmp"]


def test_a_read_only_mount_cannot_fill_up() -> None:
    assert shown(text((ROOT,)) + text(((30, 27, "/image", "ext4"),), options="ro")) == ["/"]


def test_a_folder_that_is_mounted_once_more_is_no_further_file_system() -> None:
    line = "{} 27 8:1 {} {} rw - xfs /dev/sda1 rw\n"
    lines = text((ROOT,)) + line.format(30, "/home/x", "/b") + line.format(31, "/", "/local/disk")
    assert shown(lines) == ["/", "/local/disk"]
    assert shown(text((ROOT,)) + line.format(30, "/y", "/bb") + line.format(31, "/z", "/a")) == [
        "/",
        "/a",
    ]


def test_escapes_of_a_name_are_resolved() -> None:
    assert asked((30, 27, r"/a\040b\134\011", "xfs")) == ["/", "/a b\\\t"]


def test_a_line_with_an_endless_number_is_none() -> None:
    strange = f"{'7' * 6000} 27 8:2 / /c rw - ext4 /dev/sda2 rw\n"
    assert shown(text((ROOT,)) + strange) == ["/"]
    assert shown(text((ROOT,)) + strange.replace("7" * 6000 + " 27", "44 " + "8" * 4301)) == ["/"]


@given(st.text(alphabet="0123 /:-abext4rw,\\\n", max_size=200))
def test_no_text_is_too_strange(strange: str) -> None:
    with_data(mounts((text((ROOT,)) + strange).encode()))


class World:
    """A list of mounts and what each answers."""

    def __init__(self, root: Path, *lines: Line) -> None:
        self._file = root / "proc/self/mountinfo"
        self._file.parent.mkdir(parents=True)
        self.mount(*lines)
        self.asked: list[str] = []
        self.answers: dict[str, Space | OSError] = {}
        self.spaces = LocalFilesystems(str(root), self._ask, patience_s=60.0)

    def mount(self, *lines: Line) -> None:
        self._file.write_text(text((ROOT, *lines)))

    def _ask(self, path: bytes) -> Space:
        self.asked.append(path.decode())
        answer = self.answers.get(path.decode(), Space(100, 30, 70))
        if isinstance(answer, OSError):
            raise answer
        return answer


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    return lambda *lines: World(tmp_path, *lines)


def test_space_is_told_by_mount_and_kind(world: Callable[..., World]) -> None:
    node = world((30, 27, "/dev/shm", "tmpfs"))
    node.answers["/dev/shm"] = Space(1000, 900, 100)
    shared, root = node.spaces.rows(5.0)
    assert (shared.key, shared.labels) == ("/dev/shm", {"type": "tmpfs"})
    assert [shared.values[key] for key in FIELDS] == [1000, 900, 100]
    assert (root.key, root.labels, root.missing) == ("/", {"type": "ext4"}, {})
    assert node.spaces.refused == []


def test_mounts_are_asked_every_ten_seconds_and_new_ones_with_them(
    world: Callable[..., World],
) -> None:
    node = world()
    node.spaces.rows(5.0)
    node.mount((30, 27, "/local", "xfs"))
    node.answers["/"] = Space(100, 99, 1)
    assert [row.values["used_bytes"] for row in node.spaces.rows(14.9)] == [30]
    assert {row.key: row.values["used_bytes"] for row in node.spaces.rows(15.0)} == {
        "/": 99,
        "/local": 30,
    }
    assert node.asked == ["/", "/", "/local"]


def test_one_that_cannot_be_asked_says_so_and_one_without_a_size_is_left_out(
    world: Callable[..., World],
) -> None:
    node = world((30, 27, "/broken", "xfs"), (31, 27, "/endless", "tmpfs"))
    node.answers["/broken"] = OSError(5, "Input/output error")
    node.answers["/endless"] = Space(0, 0, 0)
    rows = {row.key: row for row in node.spaces.rows(5.0)}
    assert set(rows) == {"/", "/broken"}
    assert {rows["/broken"].missing[key] for key in FIELDS} == {"failed"}


def test_a_disk_that_hangs_is_named_and_the_others_are_told(tmp_path: Path) -> None:
    over, begun = threading.Event(), threading.Event()

    def ask(path: bytes) -> Space:
        if path == b"/slow":
            begun.set()
            assert over.wait(60)
        return Space(100, 30, 70)

    file = tmp_path / "proc/self/mountinfo"
    file.parent.mkdir(parents=True)
    file.write_text(text((ROOT, (30, 27, "/slow", "xfs"), (31, 27, "/zzz", "xfs"))))
    spaces = LocalFilesystems(str(tmp_path), ask, patience_s=0.0)
    spaces.rows(5.0)
    assert begun.wait(60)
    first = {row.key: row for row in spaces.rows(5.5)}
    assert first["/"].values["used_bytes"] == 30
    assert first["/slow"].missing["used_bytes"] == "not_sampled"
    assert spaces.refused == []
    later = {row.key: row for row in spaces.rows(12.0)}
    assert later["/"].values["used_bytes"] == 30
    assert later["/slow"].missing["used_bytes"] == later["/zzz"].missing["used_bytes"] == "failed"
    (error,) = spaces.refused
    assert "/slow has not reported its space for 7 s" in error["message"]
    # What was reported before it hung is old by then.
    assert {row.missing["used_bytes"] for row in spaces.rows(26.0)} == {"failed"}
    over.set()
    spaces._patience_s = 60.0
    with spaces._changed:
        assert spaces._changed.wait_for(lambda: not spaces._awaited, 60)
    assert {row.values["used_bytes"] for row in spaces.rows(36.0)} == {30}
    assert spaces.refused == []


def test_disks_by_the_hundred_are_bounded(world: Callable[..., World]) -> None:
    node = world(*((100 + n, 27, f"/disk{n:03}", "xfs") for n in range(100)))
    assert len(node.spaces.rows(5.0)) == MAX_MOUNTS == len(node.asked)
    (error,) = node.spaces.refused
    assert error["message"] == "101 local mounts: 32 are read, 69 are not"


def test_of_a_list_that_is_cut_nothing_is_asked(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = world((30, 27, "/local", "xfs"))
    monkeypatch.setattr(files, "MAX_BYTES", 64)
    assert node.spaces.rows(5.0) == []
    assert node.asked == []


def test_a_kernel_without_the_list_has_no_local_mounts(tmp_path: Path) -> None:
    assert LocalFilesystems(str(tmp_path)).rows(1.0) == []


def test_this_machine_s_root_is_what_statvfs_says() -> None:
    rows = {row.key: row for row in LocalFilesystems("/", patience_s=60.0).rows(1.0)}
    for path, row in rows.items():
        if "size_bytes" in row.values:
            now = os.statvfs(path)
            assert row.values["size_bytes"] == now.f_blocks * now.f_frsize
