"""The node itself: names, CPUs, load, memory."""

import os

from gpumon.probe.rows import FAILED, Row

MEMORY = {"MemTotal": "host_mem_total_bytes", "MemAvailable": "host_mem_available_bytes"}
"""Lines of /proc/meminfo, in KiB, and the catalogue's keys."""


def read(now: float, root: str = "/proc") -> Row:
    """One row about the node, keyed by its host name."""
    row = Row(os.uname().nodename, now)
    row.labels["host_name"] = row.key
    cpus = os.cpu_count()
    if cpus:
        row.values["cpu_count"] = cpus
    _number(row, "load_1m", _text(root + "/loadavg"), 1)
    for line in _text(root + "/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name in MEMORY:
            _number(row, MEMORY[name], rest, 1024)
    boot = _text(root + "/sys/kernel/random/boot_id")
    if boot:
        row.labels["boot_id"] = boot.strip()
    row.lose(
        ["cpu_count", "load_1m", "host_mem_total_bytes", "host_mem_available_bytes", "boot_id"],
        FAILED,
    )
    return row


def _number(row: Row, field: str, text: str, factor: int) -> None:
    """Give the row the first number of a text; one that is none leaves the field missing."""
    try:
        row.values[field] = float(text.split()[0]) * factor
    except (IndexError, ValueError):
        row.missing[field] = FAILED


def _text(path: str) -> str:
    """Text of a file, empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
