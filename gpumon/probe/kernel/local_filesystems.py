"""Local file systems: how large and how full, where asking cannot wait for a server.

A mount is asked only where it and everything on the way to it is of a kind that lives on this node,
and nothing hides it. A disk can hang all the same, so a thread of its own asks, and no
reading waits for it.
"""

import os
import re
import threading
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from gpumon.probe.kernel import files
from gpumon.probe.rows import FAILED, NOT_SAMPLED, Row, too_many

PERIOD_S = 10.0
"""How often mounts are asked."""

PATIENCE_S = 0.05
"""How long a reading waits for answers, which take microseconds; none waits for one that hangs."""

STUCK_S = 1.0
"""An answer is reported as stuck after this long."""

MAX_MOUNTS = 32
"""Most local file systems that are asked."""

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - nothing is written there
"""Where processes of one node hand data to each other, loaders of data for one."""

LOCAL = ("tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs")
"""Kinds that are reported: memory and disks of this node."""

ROOT = ("overlay", *LOCAL)
"""Kinds that are reported of /: a container's own layer, or that of a node that boots an image."""

ON_THE_WAY = frozenset(ROOT + ("devtmpfs", "rootfs", "ramfs", "squashfs", "erofs", "vfat"))
"""Kinds that a path may lead through: none of them asks another machine."""

BESIDE = re.compile(
    r"/(?:run/|(?:proc|sys|dev|etc|snap|var/lib/(?:docker|containers|containerd|kubelet|lxc|lxd))"
    r"(?:/|\Z))"
)
"""Where the system, and what starts containers, mounts what holds no data of users."""

ESCAPE = re.compile(rb"\\([0-7]{3})")

NUMBER = re.compile(rb"[0-9]{1,20}\Z")
"""A number of a mount: of thousands of digits Python makes none."""

FIELDS = ["size_bytes", "used_bytes", "free_bytes"]


class Mount(NamedTuple):
    """One line of /proc/self/mountinfo (proc(5))."""

    number: int
    parent: int
    """Number of the mount on which it lies."""
    device: bytes
    is_whole: bool
    """Whether it shows its file system from the root on, and no folder of it."""
    path: bytes
    kind: str
    is_writable: bool


class Space(NamedTuple):
    """What there is of a file system, bytes."""

    size: int
    used: int
    free: int
    """What users other than root may fill."""


def space(path: bytes) -> Space:
    """What statvfs(3) reports; raises OSError. May hang."""
    found = os.statvfs(path)
    size, unused = found.f_blocks * found.f_frsize, found.f_bfree * found.f_frsize
    return Space(size, max(0, size - unused), found.f_bavail * found.f_frsize)


def mounts(text: bytes) -> List[Mount]:
    """Every mount that a mountinfo file names; a line that is none is passed over."""
    found = []
    for line in text.splitlines():
        place, _, what = line.partition(b" - ")
        words, kind = place.split(b" "), what.split(b" ", 1)[0]
        if len(words) < 6 or not (NUMBER.match(words[0]) and NUMBER.match(words[1])):
            continue
        number, parent, device, root, path, options = words[:6]
        is_writable = b"rw" in options.split(b",")
        name = kind.decode("ascii", "replace")
        at = _plain(path)
        found.append(
            Mount(
                number=int(number),
                parent=int(parent),
                device=device,
                is_whole=root == b"/",
                path=at,
                kind=name,
                is_writable=is_writable,
            )
        )
    return found


def safe(every: List[Mount]) -> List[Mount]:
    """Mounts of local kinds that can be reached without asking another machine.

    All that lies on the way has to be known: what is mounted at a path's beginning, and is not
    below the mount itself, would be asked instead of what is thought to lie there.
    """
    by_number = {mount.number: mount for mount in every}
    at: Dict[bytes, List[int]] = {}
    for mount in every:
        at.setdefault(mount.path, []).append(mount.number)
    return [
        mount
        for mount in every
        if mount.kind in (ROOT if mount.path == b"/" else LOCAL)
        and _is_reached(mount, by_number, at)
    ]


def _is_reached(mount: Mount, by_number: Dict[int, Mount], at: Dict[bytes, List[int]]) -> bool:
    way = {mount.number}
    last = mount
    while last.parent in by_number and last.parent not in way:
        last = by_number[last.parent]
        if last.kind not in ON_THE_WAY:
            return False
        way.add(last.number)
    # Below a root that is no mount, as after chroot(2), it is unknown what lies on the way.
    if last.path != b"/":
        return False
    return all(number in way for start in _starts(mount.path) for number in at.get(start, ()))


def _starts(path: bytes) -> List[bytes]:
    """A path and every folder above it."""
    found = [b"/", path]
    while path.rpartition(b"/")[0]:
        path = path.rpartition(b"/")[0]
        found.append(path)
    return found


def with_data(every: List[Mount]) -> List[Mount]:
    """Those of them that users have data in, one for each file system, in order."""
    best: Dict[bytes, Tuple[Tuple[int, int, bytes], Mount]] = {}
    for mount in safe(every):
        path = mount.path.decode("utf-8", "replace")
        is_shared = path == SHARED_MEMORY
        if not mount.is_writable or (BESIDE.match(path) and not is_shared):
            continue
        # A folder that is mounted once more has the space of the file system that it is of.
        order = (0 if is_shared else 1 if mount.is_whole else 2, len(mount.path), mount.path)
        if mount.device not in best or order < best[mount.device][0]:
            best[mount.device] = (order, mount)
    chosen = [mount for _, mount in best.values()]
    return sorted(chosen, key=lambda m: (m.path != SHARED_MEMORY.encode(), m.path))


def _plain(text: bytes) -> bytes:
    """A name of mountinfo with its octal escapes resolved."""
    return ESCAPE.sub(lambda match: bytes((int(match.group(1), 8) & 0xFF,)), text)


class LocalFilesystems:
    """Asks local file systems now and then for their space."""

    def __init__(
        self,
        root: str = "/",
        ask: Callable[[bytes], Space] = space,
        patience_s: Optional[float] = None,
    ) -> None:
        """Read /proc below `root`; no thread runs before there is a mount to ask."""
        self._path = root.rstrip("/") + "/proc/self/mountinfo"
        self._ask = ask
        self._patience_s = PATIENCE_S if patience_s is None else patience_s
        self._at = float("-inf")
        self._asked_at = 0.0
        self._text = b""
        self._mounts: List[Mount] = []
        self._answers: Dict[bytes, Optional[Space]] = {}
        """None: it could not be asked."""
        self._awaited: List[bytes] = []
        """What the thread has still to ask, the first one being asked."""
        self._thread: Optional[threading.Thread] = None
        self._changed = threading.Condition()
        self.refused: List[Dict[str, str]] = []
        """What the last rows leave out or wait for, as errors."""

    def rows(self, now: float) -> List[Row]:
        """One row per local file system, keyed by its mount point; those of /dev/shm first."""
        if now - self._at >= PERIOD_S:
            self._at = now
            self._ask_all(now)
        with self._changed:
            answers = dict(self._answers)
            awaited = self._awaited
        waited_s = now - self._asked_at if awaited else 0.0
        lacking = self._mounts if waited_s >= 2 * PERIOD_S else []
        unanswered = {mount.path for mount in lacking}.union(awaited if waited_s >= STUCK_S else ())
        rows: Dict[str, Row] = {}
        for mount in self._mounts[:MAX_MOUNTS]:
            row = Row(mount.path.decode("utf-8", "replace"), self._asked_at)
            row.labels["type"] = mount.kind
            answer = answers.get(mount.path)
            is_lost = mount.path in unanswered
            if answer is not None and not is_lost:
                row.values.update(zip(FIELDS, answer))
            row.lose(FIELDS, FAILED if is_lost or mount.path in answers else NOT_SAMPLED)
            # What has no size, such as memory without a limit, cannot be full.
            if row.values.get("size_bytes") != 0:
                rows.setdefault(row.key, row)
        self.refused = self._errors(awaited[0] if waited_s >= STUCK_S else None, now)
        return list(rows.values())

    def _errors(self, stuck: Optional[bytes], now: float) -> List[Dict[str, str]]:
        errors = []
        if len(self._mounts) > MAX_MOUNTS:
            hint = "df on the node shows the others"
            count = len(self._mounts)
            errors = [too_many("file systems", "local mounts", count, MAX_MOUNTS, hint)]
        if stuck is not None:
            name = stuck.decode("utf-8", "replace")
            message = "%s has not reported its space for %.0f s" % (name, now - self._asked_at)
            hint = "its disk may hang: look at dmesg on the node"
            errors.append({"where": "file systems", "message": message, "hint": hint})
        return errors

    def _ask_all(self, now: float) -> None:
        """Ask all mounts again, unless one of them has not answered yet."""
        with self._changed:
            if self._awaited:
                return
        try:
            text = files.read_bytes(self._path)
        except OSError:
            text = b""
        if text != self._text:
            # In a list that is cut it is unknown what hides what.
            is_cut = len(text) >= files.MAX_BYTES
            self._text, self._mounts = text, with_data([] if is_cut else mounts(text))
        self._asked_at = now
        with self._changed:
            paths = [mount.path for mount in self._mounts[:MAX_MOUNTS]]
            self._answers = {path: a for path, a in self._answers.items() if path in paths}
            self._awaited = paths
            if paths and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="space", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._awaited, self._patience_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._awaited))
                path = self._awaited[0]
            try:
                answer: Optional[Space] = self._ask(path)
            except OSError:
                answer = None
            with self._changed:
                self._answers[path] = answer
                self._awaited = self._awaited[1:]
                self._changed.notify_all()
