"""The node itself: CPUs, load, memory, pressure, disks, network, and processes that hang."""

import os
from math import isfinite
from typing import FrozenSet, Optional, Tuple

from gpumon.probe.kernel import files, pressure
from gpumon.probe.kernel.cgroups import cpus
from gpumon.probe.kernel.process_stat import AllProcesses
from gpumon.probe.rows import FAILED, NOT_SAMPLED, NOT_SUPPORTED, Row

MEMORY = {
    "MemTotal": "host_mem_total_bytes",
    "MemAvailable": "host_mem_available_bytes",
    "SwapTotal": "host_swap_total_bytes",
    "SwapFree": "host_swap_free_bytes",
}
"""Lines of /proc/meminfo, in KiB, and the catalogue's keys."""

SLOW_PERIOD_S = 30.0
"""How often all processes are scanned, and which disks and interfaces are physical."""

MAX_DEVICES = 1024
"""Most disks or interfaces that are read; where there are more, nothing is added up."""

SECTOR_BYTES = 512
"""Unit of /proc/diskstats, also of disks with other sectors."""

CPU = ["cpu_busy_ticks", "cpu_iowait_ticks", "cpu_total_ticks"]
LOAD = ["load_1m", "load_5m", "load_15m"]
TRAFFIC = ["net_rx_bytes", "net_tx_bytes", "disk_read_bytes", "disk_write_bytes"]


class Host:
    """Reads the node's row; what costs more than a file is read more rarely."""

    def __init__(
        self, root: str = "/", scans: bool = True, every: Optional[AllProcesses] = None
    ) -> None:
        """Read /proc and /sys below `root`; `scans` allows to scan all processes now and then.

        `every` scans them, where others need them, too.
        """
        self._all = every or AllProcesses(root)
        self._scans = scans
        self._root = root.rstrip("/")
        self._slow_at = float("-inf")
        self._scan_at = float("-inf")
        self._hanging = Row("", 0.0)
        self._hanging.missing["d_state_process_count"] = NOT_SAMPLED
        self._disks: Optional[FrozenSet[str]] = frozenset()
        """None: too many to read."""
        self._interfaces: Optional[FrozenSet[str]] = frozenset()
        self._cpus = 0

    def read(self, now: float) -> Row:
        """One row about the node, keyed by its host name."""
        row = Row(os.uname().nodename, now)
        row.labels["host_name"] = row.key
        self._read_rare(now)
        if self._cpus:
            row.values["cpu_count"] = self._cpus
        self._load(row)
        self._cpu(row)
        self._memory(row)
        pressure.read(row, self._root + "/proc/pressure/%s", "")
        row.values.update(self._hanging.values)
        row.missing.update(self._hanging.missing)
        self._network(row)
        self._disk(row)
        boot = files.read_or_empty(self._root + "/proc/sys/kernel/random/boot_id", 64)
        if boot.strip():
            row.labels["boot_id"] = boot.strip()
        row.lose(
            ["cpu_count", "uptime_s", "boot_id"] + LOAD + CPU + list(MEMORY.values()) + TRAFFIC,
            FAILED,
        )
        return row

    def _load(self, row: Row) -> None:
        words = files.read_or_empty(self._root + "/proc/loadavg", 256).split()
        for field, word in zip(LOAD, words):
            _give(row, field, word)
        for word in files.read_or_empty(self._root + "/proc/uptime", 256).split()[:1]:
            _give(row, "uptime_s", word)

    def _cpu(self, row: Row) -> None:
        """Ticks by what all CPUs did; guest time is part of user time already."""
        words = files.read_or_empty(self._root + "/proc/stat", 4096).partition("\n")[0]
        try:
            ticks = [files.whole(word) for word in words.split()[1:9]]
        except ValueError:
            return
        if not words.startswith("cpu ") or len(ticks) < 5:
            return
        row.values["cpu_total_ticks"] = sum(ticks)
        row.values["cpu_iowait_ticks"] = ticks[4]
        row.values["cpu_busy_ticks"] = sum(ticks) - ticks[3] - ticks[4]

    def _memory(self, row: Row) -> None:
        for line in files.read_or_empty(self._root + "/proc/meminfo").splitlines():
            name, _, rest = line.partition(":")
            if name in MEMORY:
                try:
                    row.values[MEMORY[name]] = files.whole(rest) * 1024
                except ValueError:
                    continue

    def _read_rare(self, now: float) -> None:
        """What changes rarely, and what costs a scan of all processes: that not at first."""
        if self._slow_at == float("-inf"):
            self._scan_at = now - SLOW_PERIOD_S
        elif self._scans and now - self._scan_at >= SLOW_PERIOD_S:
            self._scan_at = now
            self._hanging = self._find_hanging(now)
        if now - self._slow_at >= SLOW_PERIOD_S:
            self._slow_at = now
            self._cpus = self._online()
            self._disks = self._physical("/sys/block")
            self._interfaces = self._physical("/sys/class/net")

    def _find_hanging(self, now: float) -> Row:
        row = Row("", now)
        snapshot = self._all.snapshot(now)
        if snapshot.reason:
            row.missing["d_state_process_count"] = snapshot.reason
        else:
            states = [stat.state for stat in snapshot.stats.values()]
            row.values["d_state_process_count"] = states.count("D")
        return row

    def _online(self) -> int:
        """CPUs that are switched on, else those that Python knows of."""
        text = files.read_or_empty(self._root + "/sys/devices/system/cpu/online", 4096)
        try:
            return cpus(text)
        except ValueError:
            return os.cpu_count() or 0

    def _physical(self, folder: str) -> Optional[FrozenSet[str]]:
        """Devices with hardware behind them: no loops, bridges, bonds, RAIDs or mappings.

        None where there are more than `MAX_DEVICES`: a sum of the first would be too low.
        """
        path = self._root + folder
        listed = files.names(path, MAX_DEVICES + 1)
        if len(listed) > MAX_DEVICES:
            return None
        return frozenset(n for n in listed if os.path.exists("%s/%s/device" % (path, n)))

    def _network(self, row: Row) -> None:
        text = files.read_or_empty(self._root + "/proc/net/dev")
        if self._interfaces is None:
            row.lose(TRAFFIC[:2], NOT_SAMPLED)
        elif not self._interfaces:
            # In a container all that is there is virtual: what crosses the node's own ports is not
            # seen, and is not 0.
            row.lose(TRAFFIC[:2], NOT_SUPPORTED)
        elif text:
            received, sent = interface_bytes(text, self._interfaces)
            row.values.update(net_rx_bytes=received, net_tx_bytes=sent)

    def _disk(self, row: Row) -> None:
        text = files.read_or_empty(self._root + "/proc/diskstats")
        if self._disks is None:
            row.lose(TRAFFIC[2:], NOT_SAMPLED)
        elif not self._disks:
            row.lose(TRAFFIC[2:], NOT_SUPPORTED)
        elif text:
            read, written = disk_bytes(text, self._disks)
            row.values.update(disk_read_bytes=read, disk_write_bytes=written)


def interface_bytes(text: str, wanted: FrozenSet[str]) -> Tuple[int, int]:
    """Bytes received and sent by the wanted interfaces of a /proc/net/dev text."""
    received = sent = 0
    for line in text.splitlines():
        name, colon, rest = line.rpartition(":")
        words = rest.split()
        if colon and name.strip() in wanted and len(words) >= 9:
            try:
                more = files.whole(words[0]), files.whole(words[8])
            except ValueError:
                continue
            received, sent = received + more[0], sent + more[1]
    return received, sent


def disk_bytes(text: str, wanted: FrozenSet[str]) -> Tuple[int, int]:
    """Bytes read and written by the wanted disks of a /proc/diskstats text."""
    read = written = 0
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 10 and words[2] in wanted:
            try:
                more = files.whole(words[5]), files.whole(words[9])
            except ValueError:
                continue
            read, written = read + more[0] * SECTOR_BYTES, written + more[1] * SECTOR_BYTES
    return read, written


def _give(row: Row, field: str, word: str) -> None:
    """Give the row a number that a word spells; one that is none leaves the field missing."""
    try:
        number = float(word)
    except ValueError:
        return
    # JSON has no word for infinite or for not a number.
    if isfinite(number):
        row.values[field] = number
