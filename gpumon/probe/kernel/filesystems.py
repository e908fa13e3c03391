"""Network file systems: bytes, requests and how long they took, from files of /proc only.

A mount itself is never touched: statvfs() on one whose server is gone may never return.
"""

import re
from typing import Dict, List, NamedTuple

from gpumon.probe.kernel import files
from gpumon.probe.rows import FAILED, NO_PERMISSION, NOT_SUPPORTED, Row, too_many

MEDIUM_PERIOD_S = 5.0
"""How often mounts are read."""

MAX_MOUNTS = 64
"""Most mounts that are reported; automounted homes can be many."""

NFS = ("nfs", "nfs4")
SILENT = ("gpfs", "ceph", "beegfs", "wekafs", "cifs", "smb3")
"""Types whose counters need rights or tools that the probe does not use; they are only named."""

LLITE = ("/sys/kernel/debug/lustre/llite", "/proc/fs/lustre/llite")
"""Where a Lustre client has its counters: from 2.12 on for root only, before for everyone."""

WAYS = ("read", "write")
TRAFFIC = ["fs_%s_bytes" % way for way in WAYS]
REQUESTS = ["fs_%s_ops" % way for way in WAYS]
RTT = ["fs_%s_rtt_us" % way for way in WAYS]
EXEC = ["fs_%s_exec_us" % way for way in WAYS]
RESENT = ["fs_retransmits", "fs_timeouts"]
EVERY = TRAFFIC + REQUESTS + RTT + EXEC + RESENT

MOUNT = re.compile(r"device (\S+) mounted on (\S+) with fstype (\S+)")
ESCAPE = re.compile(r"\\([0-7]{3})")

WRAPPED = 1 << 63
"""A counter from here on went below zero in the kernel: it means nothing."""


class Mount(NamedTuple):
    """One network mount with the lines that the kernel prints of it."""

    device: str
    point: str
    kind: str
    lines: List[str]


def mounts(text: str) -> List[Mount]:
    """Network mounts of a mountstats text; a later mount on the same point hides an earlier."""
    found: Dict[str, Mount] = {}
    lines: List[str] = []
    for line in text.splitlines():
        match = MOUNT.match(line)
        if match is None:
            if len(lines) < 512:
                lines.append(line.strip())
            continue
        device, point, kind = match.groups()
        lines = []
        if kind in NFS or kind in SILENT or kind == "lustre":
            found[point] = Mount(_plain(device), _plain(point), kind, lines)
        else:
            found.pop(point, None)
    return list(found.values())


def _plain(text: str) -> str:
    """A name of /proc/mounts with its octal escapes resolved."""
    return ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text)


class Filesystems:
    """Reads every network mount now and then."""

    def __init__(self, root: str = "/") -> None:
        """Read /proc and /sys below `root`."""
        self._root = root.rstrip("/")
        self._rows: List[Row] = []
        self._at = float("-inf")
        self.refused: List[Dict[str, str]] = []
        """What the last rows leave out, as errors."""

    def rows(self, now: float) -> List[Row]:
        """One row per network mount, keyed by its mount point; the last ones between readings."""
        if now - self._at >= MEDIUM_PERIOD_S:
            self._at = now
            text = files.read_or_empty(self._root + "/proc/self/mountstats")
            found = mounts(text)
            self.refused = []
            if len(found) > MAX_MOUNTS:
                hint = "nfsiostat and mount on the node show the others"
                error = too_many("file systems", "network mounts", len(found), MAX_MOUNTS, hint)
                self.refused = [error]
                found = found[:MAX_MOUNTS]
            self._rows = [self._row(mount, found, now) for mount in found]
        return self._rows

    def _row(self, mount: Mount, every: List[Mount], now: float) -> Row:
        row = Row(mount.point, now)
        row.labels["fstype"] = mount.kind
        row.labels["device"] = mount.device
        if mount.kind in NFS:
            nfs(row, mount.lines)
        elif mount.kind == "lustre":
            name = mount.device.rpartition("/")[2]
            twins = [m for m in every if m.kind == "lustre" and m.device.rpartition("/")[2] == name]
            self._lustre(row, name, len(twins))
        row.lose(EVERY, NOT_SUPPORTED)
        return row

    def _lustre(self, row: Row, name: str, twins: int) -> None:
        """Counters of the client whose folder is `name-hash`.

        Two mounts of one file system have two folders, and nothing here shows which is whose.
        """
        reason = NOT_SUPPORTED
        for place in LLITE:
            folder = self._root + place
            try:
                with_name = [
                    client
                    for client in files.names_or_error(folder, 256)
                    if client.rpartition("-")[0] == name
                ]
                if len(with_name) == 1 and twins == 1:
                    lustre(row, files.read("%s/%s/stats" % (folder, with_name[0])))
                    return
            except OSError as error:
                why = files.why(error)
                reason = why if why != NOT_SUPPORTED or reason != NO_PERMISSION else reason
        row.lose(EVERY, reason)


def nfs(row: Row, lines: List[str]) -> None:
    """Give a row the counters of an NFS mount."""
    resent = timeouts = 0
    has_ops = False
    for line in lines:
        name, colon, rest = line.partition(":")
        try:
            numbers = [int(word) for word in rest.split()]
        except ValueError:
            continue
        if not colon or any(number < 0 or number >= WRAPPED for number in numbers):
            continue
        if name == "bytes" and len(numbers) >= 6:
            row.values.update(zip(TRAFFIC, numbers[4:6]))
        elif name.isupper() and len(numbers) >= 8:
            has_ops = True
            resent += max(0, numbers[1] - numbers[0])
            timeouts += numbers[2]
            way = name.lower()
            if way in WAYS:
                row.values["fs_%s_ops" % way] = numbers[0]
                row.values["fs_%s_rtt_us" % way] = numbers[6] * 1000
                row.values["fs_%s_exec_us" % way] = numbers[7] * 1000
    if has_ops:
        row.values["fs_retransmits"] = resent
        row.values["fs_timeouts"] = timeouts
    row.lose(EVERY, FAILED)


def lustre(row: Row, text: str) -> None:
    """Give a row the counters of a Lustre client's llite stats."""
    lines = text.splitlines()[:256]
    if not any(line.startswith("snapshot_time") for line in lines):
        row.lose(EVERY, FAILED)
        return
    for way in WAYS:
        # The kernel leaves a line out until something was counted: none yet is truly 0.
        row.values["fs_%s_bytes" % way] = 0
        row.values["fs_%s_ops" % way] = 0
    for line in lines:
        words = line.split()
        way = words[0].partition("_")[0] if words else ""
        if way not in WAYS or len(words) < 7 or words[2] != "samples":
            continue
        try:
            count, total = files.whole(words[1]), files.whole(words[6])
        except ValueError:
            continue
        if words[0] == way + "_bytes" and words[3] == "[bytes]":
            row.values["fs_%s_ops" % way] = count
            row.values["fs_%s_bytes" % way] = total
        elif words[0] == way and words[3] in ("[usecs]", "[usec]"):
            row.values["fs_%s_exec_us" % way] = total
