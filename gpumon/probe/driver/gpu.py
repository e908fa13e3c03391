"""One GPU: who it is, and what its counters read now."""

import ctypes
import os
from typing import Any, Dict, List, NamedTuple, Optional

import pynvml

from gpumon.probe import tiers
from gpumon.probe.driver.contexts import COUNTS, Contexts, Held
from gpumon.probe.driver.driver import Batch, Driver, NoValueError
from gpumon.probe.driver.gpm import ACTIVITY, Gpm
from gpumon.probe.driver.links import Links
from gpumon.probe.driver.mig import Instances
from gpumon.probe.rows import (
    FAILED,
    LOST,
    NO_PERMISSION,
    NOT_SAMPLED,
    NOT_SHARED,
    NOT_SUPPORTED,
    Row,
)

USE = ["gpu_util_ratio", "mem_activity_ratio"]
MEMORY = ["mem_used_bytes", "mem_total_bytes", "mem_reserved_bytes"]
PCIE_RATES = ["pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"]
NVLINK_RATES = ["nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s"]
"""GPM answers them with 0 also where the GPU has no link (H200 with links disabled, driver 580)."""
POWER_RANGE = ["power_limit_min_w", "power_limit_max_w"]

ARCHITECTURES = {
    pynvml.NVML_DEVICE_ARCH_KEPLER: "Kepler",
    pynvml.NVML_DEVICE_ARCH_MAXWELL: "Maxwell",
    pynvml.NVML_DEVICE_ARCH_PASCAL: "Pascal",
    pynvml.NVML_DEVICE_ARCH_VOLTA: "Volta",
    pynvml.NVML_DEVICE_ARCH_TURING: "Turing",
    pynvml.NVML_DEVICE_ARCH_AMPERE: "Ampere",
    pynvml.NVML_DEVICE_ARCH_ADA: "Ada",
    pynvml.NVML_DEVICE_ARCH_HOPPER: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
"""nvmlDeviceArchitecture_t (nvml.h); the newest by number, for older bindings lack their names."""

ANCESTORS = "common_ancestors"
"""Label that the whole node's GPUs must be known for; `topology` fills it in."""

LABELS = (
    ("name", "nvmlDeviceGetName", lambda name: name),
    ("pci_bus_id", "nvmlDeviceGetPciInfo", lambda info: info.busId),
    (
        "architecture",
        "nvmlDeviceGetArchitecture",
        lambda number: ARCHITECTURES.get(number, "number %d" % number),
    ),
    (
        "compute_capability",
        "nvmlDeviceGetCudaComputeCapability",
        lambda pair: "%d.%d" % (pair[0], pair[1]),
    ),
    ("serial", "nvmlDeviceGetSerial", lambda serial: serial),
    ("board_part", "nvmlDeviceGetBoardPartNumber", lambda part: part),
    ("vbios", "nvmlDeviceGetVbiosVersion", lambda version: version),
)
"""Label, function of the binding, what to take of its answer."""

OPEN_ERROR = "open_error"

FAN = "fan_speed_ratio"

MOST_FANS = 16
"""Fans of a board that are asked; no board has so many."""

MOST_PERCENT = 200
"""A fan may be set to turn faster than its noise allows (nvml.h); far beyond is garbage."""

FABRIC_KEYS = ("fabric_state", "fabric_status", "fabric_clique", "fabric_health", "fabric_cluster")

FABRIC_CALL = "nvmlDeviceGetGpuFabricInfoV"


def read_fabric(driver: Driver, handle: Any, gpu: str, row: Row) -> None:
    """Add state, status, clique, health and cluster; drivers before version 3 know no health."""
    answer = None
    reason = NOT_SUPPORTED
    for make in (pynvml.c_nvmlGpuFabricInfo_v3_t, pynvml.c_nvmlGpuFabricInfo_v2_t):
        info = make()
        try:
            driver.ask(FABRIC_CALL, gpu, handle, ctypes.byref(info))
        except NoValueError as missing:
            reason = missing.reason
            if missing.code == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
                continue
            break
        answer = info
        break
    if answer is not None:
        row.values["fabric_state"] = answer.state
        row.values["fabric_clique"] = answer.cliqueId
        if answer.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED:
            row.values["fabric_status"] = answer.status
        health = getattr(answer, "healthSummary", None)
        if health is not None:
            row.values["fabric_health"] = health
        if any(answer.clusterUuid):
            row.labels["fabric_cluster"] = bytes(answer.clusterUuid).hex()
    row.lose(list(FABRIC_KEYS), reason)


class Wanted(NamedTuple):
    """What the monitor asked for at the start."""

    gpm: bool = True
    tiers: Any = tiers.ALL


class GpuReading(NamedTuple):
    """What one reading of a GPU brought."""

    row: Row
    contexts: List[Held]
    links: List[Row]
    instances: List[Row]


class Gpu:
    """A device that answered when the driver was opened."""

    def __init__(self, driver: Driver, index: int, wanted: Wanted) -> None:
        """Read who it is; raises NoValueError where the driver does not report even that."""
        self.driver = driver
        self.index = index
        self.handle = driver.ask("nvmlDeviceGetHandleByIndex", str(index), index)
        self.uuid = _text(driver.ask("nvmlDeviceGetUUID", str(index), self.handle))
        self.fixed = Row(self.uuid, 0.0)
        self.fixed.values["index"] = index
        self.fixed.values[OPEN_ERROR] = 0
        self.fixed.missing[ANCESTORS] = NOT_SAMPLED
        for label, function, pick in LABELS:
            self._label(label, function, pick)
        self._read(self.fixed, tiers.START)
        self._power_range()
        self.gpm = Gpm(driver, self.handle, self.uuid, wanted.gpm and tiers.HOT in wanted.tiers)
        self.links = Links(driver, self.handle, self.uuid, wanted.tiers)
        self.instances = Instances(driver, self.handle, self.uuid, not self.gpm.reason)
        self._contexts = Contexts(driver, self.handle, self.uuid)
        self._batches = {
            tier: Batch(driver, self.handle, self.uuid, fields)
            for tier, fields in tiers.FIELDS.items()
        }
        self._unsupported: Dict[str, str] = {}
        self._rows: Dict[str, Row] = {}
        for tier in tiers.ALL:
            row = self._rows[tier] = Row(self.uuid, float("-inf"))
            if tier in wanted.tiers and tier != tiers.HOT:
                row.missing.update(dict.fromkeys(keys_of(tier), NOT_SAMPLED))
            elif tier not in wanted.tiers:
                row.at = float("inf")
                row.missing.update(dict.fromkeys(keys_of(tier), NOT_SHARED))
        self._rare_row = Row(self.uuid, 0.0)
        self._rare_at: Any = None
        """Of when its parts are; who the other GPUs are is learned last."""
        self._throughput: Dict[str, float] = {}
        self._fan_count: Optional[int] = None
        """None: not known yet."""

    @property
    def needs_throughput(self) -> bool:
        """Whether only the call that counts bytes for 20 ms gives the PCIe rates."""
        return bool(self.gpm.reason) and "pcie_tx_bytes" in self._unsupported

    def read(
        self,
        is_zoomed: bool = False,
        may_wait: bool = False,
        is_hurried: bool = False,
        shows_processes: bool = True,
    ) -> GpuReading:
        """Every value of this instant; what cannot be had is missing with its reason.

        Args:
            is_zoomed: A user watches this GPU: what is dear to read is read more often.
            may_wait: This pass may spend the 2 x 20 ms that reading the PCIe rate may take.
            is_hurried: The driver is slow: what changes rarely has to wait for another pass.
            shows_processes: A user watches processes.
        """
        now = self.driver.monotonic()
        row = Row(self.uuid, now)
        if self._is_due(tiers.HOT, now):
            self._hot(row)
            if LOST in row.missing.values():
                return self._lost(row)
        is_medium = not is_hurried and self._is_due(tiers.MEDIUM, now)
        if is_medium:
            medium = Row(self.uuid, now)
            self._fields(medium, tiers.MEDIUM)
            self._read(medium, tiers.READINGS[tiers.MEDIUM])
            self._fans(medium)
            self._rows[tiers.MEDIUM] = medium
        if not is_hurried and self._is_due(tiers.SLOW, now):
            slow = Row(self.uuid, now)
            self._fields(slow, tiers.SLOW)
            self._read(slow, tiers.READINGS[tiers.SLOW])
            read_fabric(self.driver, self.handle, self.uuid, slow)
            self._rows[tiers.SLOW] = slow
        held: List[Held] = []
        if self._rows[tiers.MEDIUM].at != float("inf"):
            held = self._contexts.read(row, is_medium, shows_processes)
        self._pcie_rates(row, is_zoomed, may_wait)
        links = self.links.last(now) if is_hurried else self.links.read(now, is_zoomed)
        is_cut = self._rows[tiers.SLOW].values.get("mig_mode") == 1
        instances = self.instances.read(now, is_cut, is_zoomed)
        row.add(self._rare_values())
        return GpuReading(row, held, links, instances)

    def _rare_values(self) -> Row:
        """All that is not read in every period, put together when some of it was read."""
        parts = (self.fixed, *self._rows.values())
        read_at = (self.fixed.missing.get(ANCESTORS), *(part.at for part in parts))
        if read_at != self._rare_at:
            row = Row(self.uuid, 0.0)
            for part in parts:
                row.add(part)
            self._rare_at, self._rare_row = read_at, row
        return self._rare_row

    def _is_due(self, tier: str, now: float) -> bool:
        return now - self._rows[tier].at >= tiers.PERIODS_S[tier] - tiers.SLACK_S

    def _hot(self, row: Row) -> None:
        self._fields(row, tiers.HOT)
        if "power_w" in row.missing:
            del row.missing["power_w"]
            self._read(row, (("power_w", "nvmlDeviceGetPowerUsage", (), 0.001),))
        if LOST in row.missing.values():
            return
        self._use(row)
        self._memory(row)
        self._read(row, tiers.READINGS[tiers.HOT])
        self._clock_events(row)
        self.gpm.read(row.values, row.missing)
        if not self.links.count:
            for key in NVLINK_RATES:
                row.values.pop(key, None)
            row.lose(NVLINK_RATES, NOT_SUPPORTED)

    def _fields(self, row: Row, tier: str) -> None:
        for (_, _, key, factor), answer in self._batches[tier].read():
            if isinstance(answer, str):
                row.missing[key] = answer
                if answer == NOT_SUPPORTED:
                    self._unsupported[key] = answer
            elif key in tiers.NEVER_ZERO and not answer:
                row.missing[key] = NOT_SUPPORTED
            elif key in tiers.COUNTED:
                row.values[key] = answer // 1000 if factor == 0.001 else answer * factor
                if tier != tiers.HOT:
                    row.read_at[key] = round(row.at, 4)
            else:
                row.values[key] = answer * factor
        row.lose([f[2] for f in tiers.FIELDS[tier] if f[2] in self._unsupported], NOT_SUPPORTED)

    def _lost(self, row: Row) -> GpuReading:
        row.values = dict(self.fixed.values)
        row.labels = dict(self.fixed.labels)
        row.missing = dict(self.fixed.missing)
        row.lose(every_key(), LOST)
        links = self.links.without(LOST, row.at)
        return GpuReading(row, [], links, self.instances.without(LOST, row.at))

    def _label(self, label: str, function: str, pick: Any) -> None:
        try:
            answer = self.driver.call(function, self.uuid, self.handle)
            self.fixed.labels[label] = _text(pick(answer))
        except NoValueError as missing:
            self.fixed.missing[label] = missing.reason

    def _read(self, row: Row, readings: Any) -> None:
        for field, function, arguments, factor in readings:
            try:
                number = self.driver.call(function, self.uuid, self.handle, *arguments)
            except NoValueError as missing:
                row.missing[field] = missing.reason
                continue
            row.values[field] = (
                number[0] if isinstance(number, (list, tuple)) else number
            ) * factor

    def _power_range(self) -> None:
        call = "nvmlDeviceGetPowerManagementLimitConstraints"
        try:
            limits = self.driver.call(call, self.uuid, self.handle)
            for key, limit in zip(POWER_RANGE, limits):
                self.fixed.values[key] = limit * 0.001
        except NoValueError as missing:
            self.fixed.lose(POWER_RANGE, missing.reason)

    def _fans(self, row: Row) -> None:
        """The fastest fan; a board that has none is asked once."""
        try:
            if self._fan_count is None:
                self._fan_count = self.driver.call("nvmlDeviceGetNumFans", self.uuid, self.handle)
            speeds = [
                self.driver.call("nvmlDeviceGetFanSpeed_v2", self.uuid, self.handle, fan)
                for fan in range(min(self._fan_count, MOST_FANS))
            ]
        except NoValueError as missing:
            row.missing[FAN] = missing.reason
            return
        if speeds:
            fastest = max(speeds)
            row.values[FAN] = 1.0 if 100 < fastest <= MOST_PERCENT else fastest * 0.01
        row.lose([FAN], NOT_SUPPORTED)

    def _use(self, row: Row) -> None:
        try:
            use = self.driver.call("nvmlDeviceGetUtilizationRates", self.uuid, self.handle)
            row.values["gpu_util_ratio"] = use.gpu * 0.01
            row.values["mem_activity_ratio"] = use.memory * 0.01
        except NoValueError as missing:
            row.lose(USE, missing.reason)

    def _memory(self, row: Row) -> None:
        """Memory v2, which counts the driver's own reserve apart, else v1."""
        reason = NOT_SUPPORTED
        for version in ((pynvml.nvmlMemory_v2,), ()):
            try:
                memory = self.driver.call(
                    "nvmlDeviceGetMemoryInfo", self.uuid, self.handle, *version
                )
            except NoValueError as missing:
                reason = missing.reason
                if reason != NOT_SUPPORTED:
                    break
                continue
            if not memory.total:
                # A board that has no memory of its own: 0 of 0 would mean that it is free.
                reason = NOT_SUPPORTED
                continue
            row.values["mem_used_bytes"] = memory.used
            row.values["mem_total_bytes"] = memory.total
            if version:
                row.values["mem_reserved_bytes"] = memory.reserved
            break
        row.lose(MEMORY, reason)

    def _clock_events(self, row: Row) -> None:
        """Reason bits under the newer name of the call, else under its older one."""
        readings = (
            ("clock_event_reasons", "nvmlDeviceGetCurrentClocksEventReasons", (), 1),
            ("clock_event_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), 1),
        )
        for reading in readings:
            self._read(row, (reading,))
            if "clock_event_reasons" in row.values:
                row.missing.pop("clock_event_reasons", None)
                return

    def _pcie_rates(self, row: Row, is_zoomed: bool, may_wait: bool) -> None:
        """Fill in the rates that neither a counter nor GPM gives, in turn and under zoom only."""
        if not self.needs_throughput:
            return
        if not is_zoomed:
            self._throughput = {}
        elif may_wait:
            counters = (pynvml.NVML_PCIE_UTIL_TX_BYTES, pynvml.NVML_PCIE_UTIL_RX_BYTES)
            part = Row(self.uuid, row.at)
            self._read(
                part,
                [
                    (key, "nvmlDeviceGetPcieThroughput", (counter,), 1024)
                    for key, counter in zip(PCIE_RATES, counters)
                ],
            )
            self._throughput = part.values
            row.missing.update(part.missing)
        row.values.update(self._throughput)
        row.lose(PCIE_RATES, NOT_SHARED)


def keys_of(tier: str) -> List[str]:
    """Every field that a tier reads."""
    keys = [f[2] for f in tiers.FIELDS[tier]] + [r[0] for r in tiers.READINGS[tier]]
    if tier == tiers.HOT:
        return keys + USE + MEMORY + ACTIVITY + ["clock_event_reasons"]
    return keys + ([*COUNTS, FAN] if tier == tiers.MEDIUM else list(FABRIC_KEYS))


def unopened(index: int, missing: NoValueError) -> Row:
    """What is known of a GPU that the driver counts and does not open: that it is there, and why.

    Its key replaces a UUID that could not be read; it is another one on each node.
    """
    row = Row("unopened-%s-%d" % (os.uname().nodename, index), 0.0)
    row.values["index"] = index
    row.values[OPEN_ERROR] = missing.code if missing.code > 0 else pynvml.NVML_ERROR_UNKNOWN
    known = missing.reason in (LOST, NO_PERMISSION)
    row.lose(every_key(), missing.reason if known else FAILED)
    return row


def every_key() -> List[str]:
    """Every field and label that a reading can hold."""
    start = [reading[0] for reading in tiers.START] + POWER_RANGE + [label[0] for label in LABELS]
    return [key for tier in tiers.ALL for key in keys_of(tier)] + start + [ANCESTORS]


def _text(value: Any) -> str:
    """Text of the binding, which older releases hand out as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
