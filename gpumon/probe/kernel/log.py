"""Xid errors that the NVIDIA driver wrote to the kernel's log."""

import errno
import os
import re
from collections import deque
from typing import Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

from gpumon.probe.kernel import files
from gpumon.probe.kernel.pci import normal
from gpumon.probe.rows import Row

MAX_RECORDS = 2048
"""Most records that one reading takes; the rest waits for the next."""

MAX_XIDS = 64
"""Most Xids that are remembered: of a storm the newest are enough."""

SHOWN_S = 3600.0
"""Age to which an Xid is reported, those from before the probe's start included."""

SAME_S = 5.0
"""The driver and the log report one Xid within this time of one another."""

XID_EVENT = 0x8
"""NVML's type of an event that is an Xid (nvmlEventTypeXidCriticalError)."""

RECORD_BYTES = 8192
"""A record of /dev/kmsg is shorter than this (kernel: CONSOLE_EXT_LOG_MAX)."""

LINE = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?\): (\d{1,5})\b", re.I
)
"""With and without `PCI:`; pid and program follow in some drivers and lack in others."""

MARK = b"NVRM"
"""What every such line has in it: the name that the driver's kernel module goes by."""

RECORD = re.compile(r"\d{1,20},\d{1,20},(\d{1,20}),[^;]*;(.*)")
"""Priority, sequence number, microseconds since boot, flags, text."""


class Xid(NamedTuple):
    """An Xid as the log has it."""

    at: float
    """Seconds since boot."""
    bus_id: str
    number: int


def parse(line: str) -> Optional[Xid]:
    """The Xid of one record of /dev/kmsg, None for others."""
    record = RECORD.match(line)
    found = LINE.search(record.group(2)) if record else None
    if record is None or found is None:
        return None
    return Xid(int(record.group(1)) / 1e6, normal(found.group(1)), int(found.group(2)))


def only_logged(logged: List[Row], reported: List[Row]) -> List[Row]:
    """Xids of the log that are not among the driver's own events already."""
    ages: Dict[str, List[float]] = {}
    for row in reported:
        ages.setdefault(row.key.rpartition("/")[0], []).append(row.values["event_age_s"])
    return [
        row
        for row in logged
        if not any(
            abs(age_s - row.values["event_age_s"]) < SAME_S
            for age_s in ages.get(row.key.rpartition("/")[0], ())
        )
    ]


class KernelLog:
    """Follows the kernel's log from its oldest record on, without ever waiting for one."""

    def __init__(self, root: str = "/", read: Callable[[int, int], bytes] = os.read) -> None:
        """Open /dev/kmsg below `root`; `read` is the call that gives one record."""
        self.reason = ""
        """Why the log cannot be read, empty where it can."""
        self._read = read
        self._sequence = 0
        self._shown: Deque[Tuple[int, Xid]] = deque(maxlen=MAX_XIDS)
        self.refused: List[Dict[str, str]] = []
        """What the last rows leave out, as errors."""
        self._dropped = 0
        self._dropped_at = float("-inf")
        self._file = -1
        try:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            self._file = os.open(root.rstrip("/") + "/dev/kmsg", flags)
        except OSError as error:
            self.reason = files.why(error)

    def rows(self, now: float, gpus: Dict[str, str]) -> List[Row]:
        """One row per Xid of the last hour, keyed `UUID/XID/kmsg-SEQUENCE`.

        Args:
            now: Monotonic time of the node, which the log counts in as well.
            gpus: PCI bus id of every GPU by its UUID; an Xid of another is keyed by its bus id.
        """
        for text in self._records():
            for line in text.splitlines():
                xid = parse(line)
                if xid is not None:
                    self._sequence += 1
                    self._drop_oldest(now)
                    self._shown.append((self._sequence, xid))
        self._report_dropped(now)
        uuids = {normal(bus_id): uuid for uuid, bus_id in gpus.items()}
        rows = []
        for sequence, xid in self._shown:
            age_s = max(0.0, now - xid.at)
            if age_s <= SHOWN_S:
                gpu = uuids.get(xid.bus_id, xid.bus_id)
                row = Row("%s/%d/kmsg-%d" % (gpu, xid.number, sequence), now)
                row.values["xid"] = xid.number
                row.values["event_type"] = XID_EVENT
                row.values["event_age_s"] = round(age_s, 3)
                rows.append(row)
        return rows

    def _drop_oldest(self, now: float) -> None:
        """Count the Xid that makes room for another, where it would still be reported."""
        if len(self._shown) == MAX_XIDS and now - self._shown[0][1].at <= SHOWN_S:
            self._dropped += 1
            self._dropped_at = self._shown[0][1].at

    def _report_dropped(self, now: float) -> None:
        self.refused = []
        if now - self._dropped_at > SHOWN_S:
            self._dropped = 0
        elif self._dropped:
            message = "%d Xids of the last hour were too many to show" % self._dropped
            hint = "the kernel log of the node has them all: dmesg"
            self.refused = [{"where": "kernel log", "message": message, "hint": hint}]

    def _records(self) -> List[str]:
        """What is new in the log of the driver."""
        records: List[str] = []
        for _ in range(MAX_RECORDS if self._file >= 0 else 0):
            try:
                record = self._read(self._file, RECORD_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    # Records were overwritten before they were read; the next read goes on.
                    continue
                if error.errno not in (errno.EAGAIN, errno.EINTR):
                    self.reason = files.why(error)
                    self._close()
                break
            if not record:
                break
            # Of two thousand records that wait at the start hardly one is about a GPU.
            if MARK in record:
                records.append(record.decode("utf-8", "replace"))
        return records

    def _close(self) -> None:
        os.close(self._file)
        self._file = -1
