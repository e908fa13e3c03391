"""Instances of a GPU in MIG mode: slices with memory and activity of their own."""

from typing import Any, Dict, List

import pynvml

from gpumon.probe import tiers
from gpumon.probe.driver.driver import Driver, NoValueError
from gpumon.probe.driver.gpm import INSTANCE_METRICS, Gpm
from gpumon.probe.rows import NOT_SHARED, NOT_SUPPORTED, Row

MOST_INSTANCES = 16
"""Most instances per GPU that are asked for; today's GPUs can be cut into seven."""

IDS = (
    ("mig_gpu_instance", "nvmlDeviceGetGpuInstanceId"),
    ("mig_compute_instance", "nvmlDeviceGetComputeInstanceId"),
)

MEMORY = ["mig_mem_used_bytes", "mig_mem_total_bytes"]

LABELS = ["parent", "profile"]


class Instance:
    """A MIG instance: what never changes of it, and its handle."""

    def __init__(self, driver: Driver, handle: Any, uuid: str, parent: str) -> None:
        """Learn what it is."""
        self.handle = handle
        self.fixed = Row(uuid, 0.0)
        self.fixed.labels["parent"] = parent
        for key, call in IDS:
            try:
                self.fixed.values[key] = driver.ask(call, uuid, handle)
            except NoValueError as missing:
                self.fixed.missing[key] = missing.reason
        try:
            name = driver.ask("nvmlDeviceGetName", uuid, handle)
            text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
            # "NVIDIA H100 80GB HBM3 MIG 1g.10gb": the profile is what follows the last MIG.
            self.fixed.labels["profile"] = text.rpartition("MIG ")[2]
        except NoValueError as missing:
            self.fixed.missing["profile"] = missing.reason


class Instances:
    """The instances of one GPU; they may come and go while it runs."""

    def __init__(self, driver: Driver, handle: Any, gpu: str, has_gpm: bool) -> None:
        """Nothing is asked before the first reading."""
        self._driver = driver
        self._handle = handle
        self._gpu = gpu
        self._has_gpm = has_gpm
        self.driver_count = 0
        """Places for instances that the driver counts; the first `MOST_INSTANCES` are read."""
        self._gpms: Dict[int, Gpm] = {}
        self._known: Dict[str, Instance] = {}
        self._found_at = float("-inf")
        self._read_at = float("-inf")
        self._rows: List[Row] = []

    def read(self, now: float, is_cut: bool, is_zoomed: bool) -> List[Row]:
        """One row per instance, as last read; the very same list where nothing was read again.

        Instances are listed in the slow tier, and read in the medium one or under zoom.
        """
        if not is_cut:
            self._known = {}
            if self._rows:
                self._rows = []
            return self._rows
        if now - self._found_at >= tiers.PERIODS_S[tiers.SLOW] - tiers.SLACK_S:
            self._find()
            self._found_at = now
        period_s = tiers.PERIODS_S[tiers.HOT if is_zoomed else tiers.MEDIUM]
        if now - self._read_at >= period_s - tiers.SLACK_S:
            activity = self._activity()
            self._rows = [
                self._row(uuid, instance, activity, now) for uuid, instance in self._known.items()
            ]
            self._read_at = now
        return self._rows

    def without(self, reason: str, now: float) -> List[Row]:
        """The same instances with nothing but the reason why, the same list for the same one."""
        if self._rows and self._rows[0].missing.get(MEMORY[0]) != reason:
            self._rows = [Row(row.key, now) for row in self._rows]
            for row in self._rows:
                if row.key in self._known:
                    row.add(self._known[row.key].fixed)
                row.lose(every_key(), reason)
            self._found_at = self._read_at = float("-inf")
        return self._rows

    def _find(self) -> None:
        """Find the instances that exist now; what is known of one stays."""
        try:
            count = self._driver.call("nvmlDeviceGetMaxMigDeviceCount", self._gpu, self._handle)
        except NoValueError:
            count = 0
        self.driver_count = count
        found: Dict[str, Instance] = {}
        for index in range(min(count, MOST_INSTANCES)):
            try:
                handle = self._driver.ask(
                    "nvmlDeviceGetMigDeviceHandleByIndex", self._gpu, self._handle, index
                )
                name = self._driver.ask("nvmlDeviceGetUUID", self._gpu, handle)
            except NoValueError:
                # No instance at this place.
                continue
            uuid = name.decode() if isinstance(name, bytes) else str(name)
            known = self._known.get(uuid)
            found[uuid] = known or Instance(self._driver, handle, uuid, self._gpu)
            found[uuid].handle = handle
        self._known = found

    def _activity(self) -> Dict[int, Row]:
        """What GPM measured of each GPU instance since it was last asked."""
        found: Dict[int, Row] = {}
        for instance in self._known.values():
            number = instance.fixed.values.get("mig_gpu_instance")
            if number is None or number in found:
                continue
            number = int(number)
            if number not in self._gpms:
                self._gpms[number] = Gpm(
                    self._driver, self._handle, self._gpu, self._has_gpm, number
                )
            found[number] = row = Row("", 0.0)
            self._gpms[number].read(row.values, row.missing)
        return found

    def _row(self, uuid: str, instance: Instance, activity: Dict[int, Row], now: float) -> Row:
        row = Row(uuid, now)
        row.add(instance.fixed)
        try:
            memory = self._driver.call(
                "nvmlDeviceGetMemoryInfo", uuid, instance.handle, pynvml.nvmlMemory_v2
            )
            row.values["mig_mem_used_bytes"] = memory.used
            row.values["mig_mem_total_bytes"] = memory.total
        except NoValueError as missing:
            row.lose(MEMORY, missing.reason)
        number = instance.fixed.values.get("mig_gpu_instance")
        if number is not None:
            row.add(activity[int(number)])
        row.lose(every_key(), NOT_SUPPORTED if self._has_gpm else NOT_SHARED)
        return row


def every_key() -> List[str]:
    """Every field and label of an instance."""
    return [key for key, _ in IDS] + MEMORY + [key for _, key, _ in INSTANCE_METRICS] + LABELS
