"""A GPU's place in the NVLink fabric of a machine with NVSwitches."""

import ctypes
from typing import Any

import pynvml

from gpumon.probe.driver import Driver, NoValueError
from gpumon.probe.rows import NOT_SUPPORTED, Row

KEYS = ("fabric_state", "fabric_status", "fabric_clique", "fabric_health", "fabric_cluster")

CALL = "nvmlDeviceGetGpuFabricInfoV"


def read(driver: Driver, handle: Any, gpu: str, row: Row) -> None:
    """Add state, status, clique, health and cluster; drivers before version 3 know no health."""
    answer = None
    reason = NOT_SUPPORTED
    for make in (pynvml.c_nvmlGpuFabricInfo_v3_t, pynvml.c_nvmlGpuFabricInfo_v2_t):
        info = make()
        try:
            driver.ask(CALL, gpu, handle, ctypes.byref(info))
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
    row.lose(list(KEYS), reason)
