"""One GPU: who it is, and what its counters say now."""

import time
from typing import Any, Dict, List, Tuple

import pynvml

from gpumon.probe.driver import Driver, NoValueError
from gpumon.probe.gpm import ACTIVITY, Gpm
from gpumon.probe.rows import LOST, NOT_SUPPORTED, Row

MEDIUM_PERIOD_S = 5.0
"""Quantities that change rarely are read this often: caps, PCIe link, video engines."""

ALL_LINKS = 0xFFFFFFFF
"""Scope of an NVLink field that sums every link (nvml.h)."""

FIELDS = (
    (pynvml.NVML_FI_DEV_POWER_INSTANT, 0, "power_w", 0.001),
    (pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0, "energy_j", 0.001),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0, "pcie_tx_bytes", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0, "pcie_rx_bytes", 1),
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS, "nvlink_tx_bytes", 1024),
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS, "nvlink_rx_bytes", 1024),
)
"""Field id, scope, catalogue key, factor to the key's unit (mW, mJ, bytes, KiB)."""

COUNTERS = {"energy_j", "pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes", "nvlink_rx_bytes"}

Reading = Tuple[str, str, Tuple[Any, ...], float]
"""Catalogue key, function of the binding, arguments after the handle, factor."""

MEDIUM: Tuple[Reading, ...] = (
    ("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", (), 0.001),
    ("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration", (), 1),
    ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), 1),
)

FIXED: Tuple[Reading, ...] = (
    ("minor_number", "nvmlDeviceGetMinorNumber", (), 1),
    ("sm_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", (pynvml.NVML_CLOCK_SM,), 1),
    ("pcie_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), 1),
    ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), 1),
)

HOT: Tuple[Reading, ...] = (
    ("temp_c", "nvmlDeviceGetTemperature", (pynvml.NVML_TEMPERATURE_GPU,), 1),
    ("sm_clock_mhz", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_SM,), 1),
)

RUNNING = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2")
"""The newest form of the call, and the one that drivers of the 470 branch have."""

OTHERS = [
    "gpu_util_ratio",
    "mem_activity_ratio",
    "mem_used_bytes",
    "mem_total_bytes",
    "mem_reserved_bytes",
    "clock_event_reasons",
    "encoder_util_ratio",
    "decoder_util_ratio",
    "process_count",
]
"""Fields whose call gives more than one of them, or has an older form."""


class Gpu:
    """A device that answered when the driver was opened."""

    def __init__(self, driver: Driver, index: int) -> None:
        """Read who it is; raises NoValueError when the driver cannot even say that."""
        self.driver = driver
        self.index = index
        self.handle = driver.call("nvmlDeviceGetHandleByIndex", str(index), index)
        self.uuid = _text(driver.call("nvmlDeviceGetUUID", str(index), self.handle))
        self.labels: Dict[str, str] = {}
        self.fixed = Row(self.uuid, 0.0)
        self.fixed.values["index"] = index
        self._medium = Row(self.uuid, float("-inf"))
        self._label("name", "nvmlDeviceGetName", lambda name: name)
        self._label("pci_bus_id", "nvmlDeviceGetPciInfo", lambda info: info.busId)
        self._read(self.fixed, FIXED)
        self.gpm = Gpm(driver, self.handle, self.uuid)

    def _label(self, label: str, function: str, pick: Any) -> None:
        try:
            self.fixed.labels[label] = _text(
                pick(self.driver.call(function, self.uuid, self.handle))
            )
        except NoValueError as missing:
            self.fixed.missing[label] = missing.reason

    def _read(self, row: Row, readings: Tuple[Reading, ...]) -> None:
        for field, function, arguments, factor in readings:
            try:
                number = self.driver.call(function, self.uuid, self.handle, *arguments)
                row.values[field] = number * factor
            except NoValueError as missing:
                row.missing[field] = missing.reason

    def read(self) -> Row:
        """Every value of this instant; what cannot be had is missing with its reason."""
        now = time.monotonic()
        row = Row(self.uuid, now)
        self._counters(row)
        if row.missing.get("power_w") == LOST:
            return self._lost(row)
        self._use(row)
        self._read(row, HOT)
        self._clock_events(row)
        gpm: Dict[str, float] = {}
        self.gpm.read(gpm, row.missing)
        row.values.update(gpm)
        if now - self._medium.at >= MEDIUM_PERIOD_S:
            self._medium = Row(self.uuid, now)
            self._read(self._medium, MEDIUM)
            self._video(self._medium)
        for part in (self.fixed, self._medium):
            row.values.update(part.values)
            row.labels.update(part.labels)
            row.missing.update(part.missing)
        return row

    def _lost(self, row: Row) -> Row:
        row.values = dict(self.fixed.values)
        row.labels = dict(self.fixed.labels)
        row.missing = {field: LOST for field in self.every_field() if field not in row.values}
        return row

    def every_field(self) -> List[str]:
        """Every field that a reading can hold."""
        readings = [reading[0] for reading in HOT + MEDIUM + FIXED]
        return readings + [key for _, _, key, _ in FIELDS] + ACTIVITY + OTHERS

    def _counters(self, row: Row) -> None:
        try:
            ids = [(field, scope) for field, scope, _, _ in FIELDS]
            answers = self.driver.field_values(self.handle, self.uuid, ids)
        except NoValueError as missing:
            answers = {field: missing.reason for field, _, _, _ in FIELDS}
        for field, _, key, factor in FIELDS:
            answer = answers.get(field, NOT_SUPPORTED)
            if isinstance(answer, str):
                row.missing[key] = answer
            elif key in COUNTERS:
                # Exact integers: a float would lose the low bits of a large counter.
                row.values[key] = answer // 1000 if factor == 0.001 else answer * factor
            else:
                row.values[key] = answer * factor
        if "power_w" in row.missing:
            del row.missing["power_w"]
            self._read(row, (("power_w", "nvmlDeviceGetPowerUsage", (), 0.001),))

    def _use(self, row: Row) -> None:
        try:
            use = self.driver.call("nvmlDeviceGetUtilizationRates", self.uuid, self.handle)
            row.values["gpu_util_ratio"] = use.gpu * 0.01
            row.values["mem_activity_ratio"] = use.memory * 0.01
        except NoValueError as missing:
            row.lose(["gpu_util_ratio", "mem_activity_ratio"], missing.reason)
        try:
            memory = self._memory()
            row.values["mem_used_bytes"] = memory.used
            row.values["mem_total_bytes"] = memory.total
            reserved = getattr(memory, "reserved", None)
            if reserved is None:
                row.missing["mem_reserved_bytes"] = NOT_SUPPORTED
            else:
                row.values["mem_reserved_bytes"] = reserved
        except NoValueError as missing:
            row.lose(["mem_used_bytes", "mem_total_bytes", "mem_reserved_bytes"], missing.reason)

    def _memory(self) -> Any:
        """Memory v2, which counts the driver's own reserve apart, else v1."""
        try:
            return self.driver.call(
                "nvmlDeviceGetMemoryInfo", self.uuid, self.handle, pynvml.nvmlMemory_v2
            )
        except NoValueError as missing:
            if missing.reason != NOT_SUPPORTED:
                raise
            return self.driver.call("nvmlDeviceGetMemoryInfo", self.uuid, self.handle)

    def _clock_events(self, row: Row) -> None:
        """Reason bits under the newer name of the call, else under its older one."""
        for function in (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
        ):
            try:
                row.values["clock_event_reasons"] = self.driver.call(
                    function, self.uuid, self.handle
                )
                row.missing.pop("clock_event_reasons", None)
                return
            except NoValueError as missing:
                row.missing["clock_event_reasons"] = missing.reason

    def _video(self, row: Row) -> None:
        for field, function in (
            ("encoder_util_ratio", "nvmlDeviceGetEncoderUtilization"),
            ("decoder_util_ratio", "nvmlDeviceGetDecoderUtilization"),
        ):
            try:
                use = self.driver.call(function, self.uuid, self.handle)
                row.values[field] = use[0] * 0.01
            except NoValueError as missing:
                row.missing[field] = missing.reason

    def contexts(self, row: Row) -> List[Tuple[int, Any]]:
        """PID and device memory (None: the driver does not say) of each compute context."""
        for function in RUNNING:
            try:
                found = self.driver.call(function, self.uuid, self.handle)
            except NoValueError as missing:
                row.missing["process_count"] = missing.reason
                if missing.reason != NOT_SUPPORTED:
                    return []
                continue
            row.missing.pop("process_count", None)
            contexts = [(int(entry.pid), entry.usedGpuMemory) for entry in found]
            row.values["process_count"] = len(contexts)
            return contexts
        return []


def _text(value: Any) -> str:
    """Text of the binding, which older releases hand out as bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
