"""Xid errors that the NVIDIA driver wrote to the kernel's log."""

import errno
import os
import re
from typing import Any, Callable, Dict, List, Optional, Tuple

from gpumon.probe import kernel_files
from gpumon.probe.pci import normal

MAX_RECORDS = 2048
"""Most records that one look reads; the rest waits for the next."""

MAX_EVENTS = 64
"""Most Xids that one look reports: a storm is a storm, and its end is in the log."""

RECORD_BYTES = 8192
"""A record of /dev/kmsg is shorter than this (kernel: CONSOLE_EXT_LOG_MAX)."""

XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?\): (\d{1,5})\b", re.I
)
"""With and without `PCI:`; pid and program follow in some drivers and lack in others."""

RECORD = re.compile(r"\d{1,20},\d{1,20},(\d{1,20}),[^;]*;(.*)")
"""Priority, sequence number, microseconds since boot, flags, text."""


def parse(line: str) -> Optional[Tuple[float, str, int]]:
    """Seconds since boot, PCI bus id and Xid of one record of /dev/kmsg, None for others."""
    record = RECORD.match(line)
    found = XID.search(record.group(2)) if record else None
    if record is None or found is None:
        return None
    return int(record.group(1)) / 1e6, normal(found.group(1)), int(found.group(2))


class KernelLog:
    """Follows the kernel's log from its oldest record on, without ever waiting for one."""

    def __init__(self, root: str = "/", read: Callable[[int, int], bytes] = os.read) -> None:
        """Open /dev/kmsg below `root`; `read` is the call that gives one record."""
        self.reason = ""
        """Why the log cannot be read, empty where it can."""
        self._read = read
        self._file = -1
        try:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            self._file = os.open(root.rstrip("/") + "/dev/kmsg", flags)
        except OSError as error:
            self.reason = kernel_files.why(error)

    def events(self, gpus: Dict[str, str]) -> List[Dict[str, Any]]:
        """Xids since the last look, oldest first.

        Args:
            gpus: PCI bus id of every GPU by its UUID.
        """
        uuids = {normal(bus_id): uuid for uuid, bus_id in gpus.items()}
        found: List[Dict[str, Any]] = []
        for text in self._records():
            for line in text.splitlines():
                xid = parse(line)
                if xid is not None:
                    at, bus_id, number = xid
                    gpu = uuids.get(bus_id, bus_id)
                    found.append({"source": "kmsg", "gpu": gpu, "xid": number, "at": at})
        return found[-MAX_EVENTS:]

    def _records(self) -> List[str]:
        records: List[str] = []
        for _ in range(MAX_RECORDS if self._file >= 0 else 0):
            try:
                record = self._read(self._file, RECORD_BYTES)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    # Records were overwritten before they were read; the next read goes on.
                    continue
                if error.errno not in (errno.EAGAIN, errno.EINTR):
                    self.reason = kernel_files.why(error)
                    self._close()
                break
            if not record:
                break
            records.append(record.decode("utf-8", "replace"))
        return records

    def _close(self) -> None:
        os.close(self._file)
        self._file = -1
