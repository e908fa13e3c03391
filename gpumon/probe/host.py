"""The node itself: names, CPUs, load, memory."""

import os
import socket
from typing import Optional

from gpumon.probe.rows import FAILED, Row


def read(now: float, root: str = "/proc") -> Row:
    """One row about the node, keyed by its host name."""
    row = Row(socket.gethostname(), now)
    row.labels["host_name"] = row.key
    cpus = os.cpu_count()
    if cpus:
        row.values["cpu_count"] = cpus
    load = _text(root + "/loadavg")
    if load:
        row.values["load_1m"] = float(load.split()[0])
    for line in (_text(root + "/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            row.values["host_mem_total_bytes"] = int(rest.split()[0]) * 1024
        elif name == "MemAvailable":
            row.values["host_mem_available_bytes"] = int(rest.split()[0]) * 1024
    boot = _text(root + "/sys/kernel/random/boot_id")
    if boot:
        row.labels["boot_id"] = boot.strip()
    row.lose(
        ["cpu_count", "load_1m", "host_mem_total_bytes", "host_mem_available_bytes", "boot_id"],
        FAILED,
    )
    return row


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
