"""GPU performance metrics (GPM) of Hopper and newer: SM, pipe and DRAM activity without a lock.

A metric is the difference of two samples that lie more than 100 ms apart (nvml.h).
"""

import struct
from typing import Any, Dict, List, Optional, Tuple

import pynvml

from gpumon.probe import tiers
from gpumon.probe.driver.driver import REASONS, Driver, NoValueError
from gpumon.probe.rows import FAILED, NOT_SAMPLED, NOT_SHARED, NOT_SUPPORTED

MIB = 1048576.0
"""Bytes of the unit that GPM's rates have (nvml.h: MiB/sec)."""

DEAR = (pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL, "graphics_active_ratio", 0.01)
"""Asked for as often as the medium tier: on an H200 (driver 580) it alone took 1.2 to 1.9 ms, all
others together 20 us."""

METRICS = (
    (pynvml.NVML_GPM_METRIC_SM_UTIL, "sm_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_SM_OCCUPANCY, "sm_occupancy_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, "tensor_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, "dram_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_INTEGER_UTIL, "int_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_DFMA_TENSOR_UTIL, "tensor_dfma_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_HMMA_TENSOR_UTIL, "tensor_hmma_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_DMMA_TENSOR_UTIL, "tensor_dmma_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_IMMA_TENSOR_UTIL, "tensor_imma_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_FP64_UTIL, "fp64_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_FP32_UTIL, "fp32_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_FP16_UTIL, "fp16_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, "pcie_tx_bytes_per_s", MIB),
    (pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC, "pcie_rx_bytes_per_s", MIB),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, "nvlink_tx_bytes_per_s", MIB),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, "nvlink_rx_bytes_per_s", MIB),
    DEAR,
)
"""Metric id, field, factor: percent to ratio, MiB/s to bytes/s."""

ACTIVITY = [field for _, field, _ in METRICS if field.endswith("_ratio")]
"""What only GPM gives; the rates have other sources too."""

INSTANCE_METRICS = tuple((metric, "mig_" + field, factor) for metric, field, factor in METRICS[:4])
"""The same of one MIG instance."""

MIN_GAP_S = 0.1
"""Least time between two samples, seconds: what is closer together is not valid (nvml.h)."""

_ANSWER = struct.Struct("=IId24s")
"""Of nvmlGpmMetric_t: metric, return code, value, and three texts that are not read (nvml.h)."""


class Gpm:
    """The two latest samples of one GPU, or of one of its MIG instances."""

    def __init__(
        self, driver: Driver, handle: Any, gpu: str, is_wanted: bool, instance: Optional[int] = None
    ) -> None:
        """Ask once whether the GPU supports GPM.

        Args:
            driver: Whom to ask.
            handle: The GPU's handle, also for an instance.
            gpu: Its UUID.
            is_wanted: False: nothing is asked, and every metric was not asked for.
            instance: Id of a GPU instance to sample instead of the whole GPU.
        """
        self._driver = driver
        self._handle = handle
        self._gpu = gpu
        self._instance = instance
        self._metrics = METRICS if instance is None else INSTANCE_METRICS
        self.keys = [field for _, field, _ in self._metrics if field.endswith("_ratio")]
        self._samples: List[Tuple[float, Any]] = []
        self._spare: List[Any] = []
        self._request: Any = None
        self._answers: Any = b""
        """Where the driver writes the metrics; one that was not asked for stays as it was."""
        self._asked_at = float("-inf")
        """When every metric was asked for."""
        self.reason = "" if is_wanted else NOT_SHARED
        if not is_wanted:
            return
        try:
            support = driver.call("nvmlGpmQueryDeviceSupport", gpu, handle)
            if not support.isSupportedDevice:
                self.reason = NOT_SUPPORTED
            else:
                self._spare = [driver.call("nvmlGpmSampleAlloc", gpu)]
        except NoValueError as missing:
            self.reason = missing.reason

    def _ready_request(self) -> Any:
        """A request for every metric; it is 19 KB, so it is made once."""
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        metrics = request.metrics
        for slot, (metric, _, _) in enumerate(self._metrics):
            metrics[slot].metricId = metric
        first = pynvml.c_nvmlGpmMetricsGet_t.metrics.offset
        end = first + len(self._metrics) * _ANSWER.size
        self._answers = memoryview(request).cast("B")[first:end]
        return request

    def read(self, values: Dict[str, float], missing: Dict[str, str]) -> None:
        """Add the metrics since the previous read to `values`, or why they are missing."""
        reason = self.reason or self._sample()
        if reason:
            missing.update(dict.fromkeys(self.keys, reason))
        else:
            self._difference(values, missing)

    def _sample(self) -> str:
        """Take a sample; empty when there are two to compare, else the reason."""
        now = self._driver.monotonic()
        if self._samples and now - self._samples[-1][0] <= MIN_GAP_S:
            return NOT_SAMPLED
        try:
            buffer = self._free_buffer()
        except NoValueError as missing:
            return missing.reason
        is_taken = False
        try:
            self._fill(buffer)
            is_taken = True
        except NoValueError as missing:
            return missing.reason
        finally:
            # Also when this thread was given up meanwhile: there is no third buffer.
            if not is_taken:
                self._spare.append(buffer)
        self._samples.append((now, buffer))
        return "" if len(self._samples) == 2 else NOT_SAMPLED

    def _free_buffer(self) -> Any:
        """A spare one, the second when it is first needed, or that of the older sample."""
        if self._spare:
            return self._spare.pop()
        if len(self._samples) < 2:
            return self._driver.call("nvmlGpmSampleAlloc", self._gpu)
        return self._samples.pop(0)[1]

    def _fill(self, buffer: Any) -> None:
        if self._instance is None:
            self._driver.call("nvmlGpmSampleGet", self._gpu, self._handle, buffer)
        else:
            self._driver.call(
                "nvmlGpmMigSampleGet", self._gpu, self._handle, self._instance, buffer
            )

    def _count(self, now: float) -> int:
        """How many of the metrics this reading asks for: all, or all but the dear one."""
        count = len(self._metrics)
        if self._metrics[-1] is not DEAR:
            return count
        if now - self._asked_at < tiers.PERIODS_S[tiers.MEDIUM] - tiers.SLACK_S:
            return count - 1
        self._asked_at = now
        return count

    def _difference(self, values: Dict[str, float], missing: Dict[str, str]) -> None:
        if self._request is None:
            # Not before: a single report never gets so far.
            self._request = self._ready_request()
        request: Any = self._request
        request.sample1, request.sample2 = self._samples[0][1], self._samples[1][1]
        request.numMetrics = self._count(self._samples[1][0])
        try:
            self._driver.call("nvmlGpmMetricsGet", self._gpu, request)
        except NoValueError as error:
            missing.update(dict.fromkeys(self.keys, error.reason))
            return
        answers = _ANSWER.iter_unpack(self._answers)
        for (metric, field, factor), (_, code, value, _) in zip(self._metrics, answers):
            if code == pynvml.NVML_SUCCESS:
                values[field] = round(value * factor, 6)
            else:
                missing[field] = REASONS.get(code, FAILED)
                if missing[field] == FAILED:
                    failure = "GPM metric %d: return code %d" % (metric, code)
                    self._driver.failures[self._gpu] = failure
