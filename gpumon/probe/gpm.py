"""GPU performance metrics (GPM) of Hopper and newer: SM, tensor and DRAM activity without a lock.

A metric is the difference of two samples that lie more than 100 ms apart (nvml.h).
"""

import time
from typing import Any, Dict, List, Tuple

import pynvml

from gpumon.probe.driver import Driver, NoValueError
from gpumon.probe.rows import FAILED, NOT_SAMPLED, NOT_SUPPORTED

MIB = 1048576.0

METRICS = (
    (pynvml.NVML_GPM_METRIC_SM_UTIL, "sm_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_SM_OCCUPANCY, "sm_occupancy_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, "tensor_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, "dram_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, "pcie_tx_bytes_per_s", MIB),
    (pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC, "pcie_rx_bytes_per_s", MIB),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, "nvlink_tx_bytes_per_s", MIB),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, "nvlink_rx_bytes_per_s", MIB),
)
"""Metric id, field, factor: percent to ratio, MiB/s to bytes/s."""

FIELDS = [field for _, field, _ in METRICS]
ACTIVITY = FIELDS[:4]
MIN_GAP_S = 0.1


class Gpm:
    """The two latest samples of one GPU."""

    def __init__(self, driver: Driver, handle: Any, gpu: str) -> None:
        """Ask once whether the GPU supports GPM."""
        self._driver = driver
        self._handle = handle
        self._gpu = gpu
        self._samples: List[Tuple[float, Any]] = []
        self._spare: List[Any] = []
        self.reason = ""
        try:
            support = driver.call("nvmlGpmQueryDeviceSupport", gpu, handle)
            if not support.isSupportedDevice:
                self.reason = NOT_SUPPORTED
            else:
                self._spare = [driver.call("nvmlGpmSampleAlloc", gpu) for _ in range(2)]
        except NoValueError as missing:
            self.reason = missing.reason

    def read(self, values: Dict[str, float], missing: Dict[str, str]) -> None:
        """Add the metrics since the previous read to `values`, or why they are missing."""
        if self.reason:
            missing.update(dict.fromkeys(ACTIVITY, self.reason))
            return
        now = time.monotonic()
        if self._samples and now - self._samples[-1][0] <= MIN_GAP_S:
            missing.update(dict.fromkeys(ACTIVITY, NOT_SAMPLED))
            return
        buffer = self._spare.pop() if self._spare else self._samples.pop(0)[1]
        try:
            self._driver.call("nvmlGpmSampleGet", self._gpu, self._handle, buffer)
        except NoValueError as error:
            self._spare.append(buffer)
            missing.update(dict.fromkeys(ACTIVITY, error.reason))
            return
        self._samples.append((now, buffer))
        if len(self._samples) < 2:
            missing.update(dict.fromkeys(ACTIVITY, NOT_SAMPLED))
            return
        self._difference(values, missing)

    def _difference(self, values: Dict[str, float], missing: Dict[str, str]) -> None:
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(METRICS)
        request.sample1, request.sample2 = self._samples[0][1], self._samples[1][1]
        for slot, (metric, _, _) in enumerate(METRICS):
            request.metrics[slot].metricId = metric
        try:
            self._driver.call("nvmlGpmMetricsGet", self._gpu, request)
        except NoValueError as error:
            missing.update(dict.fromkeys(ACTIVITY, error.reason))
            return
        for slot, (_, field, factor) in enumerate(METRICS):
            answer = request.metrics[slot]
            if answer.nvmlReturn == pynvml.NVML_SUCCESS:
                values[field] = round(answer.value * factor, 6)
            else:
                missing[field] = NOT_SUPPORTED if answer.nvmlReturn in (2, 3) else FAILED
