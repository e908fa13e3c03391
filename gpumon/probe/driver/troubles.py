"""Errors where the driver, or a GPU of it, does not answer, hides or has too much."""

from typing import Dict, Iterable, List

import pynvml

from gpumon.probe.driver.driver import Driver
from gpumon.probe.driver.gpu import Gpu, GpuReading
from gpumon.probe.driver.links import MOST_LINKS
from gpumon.probe.driver.mig import MOST_INSTANCES
from gpumon.probe.rows import FAILED, LOST, NO_PERMISSION, too_many

REFUSED = "look at dmesg and nvidia-smi on the node; the GPU may need a reset"

GONE = "free the node and power-cycle it: a reset does not bring back a lost GPU"

CLOSED = (
    "this user may not use it: inside a job only the job's GPUs open; else ask an administrator"
)

HIDDEN = "root sees them; without them it is unknown who uses which GPU"

WAYS_OUT = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "no NVIDIA driver library (libnvidia-ml.so.1) on this node"
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA kernel module is not loaded: modprobe nvidia",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the driver was updated under a running kernel module: reboot the node, or end all that "
        "uses its GPUs and reload the nvidia modules"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "this user may not open the driver's files: look at ls -l /dev/nvidia*; inside a container "
        "or a job check that it was given GPUs"
    ),
    pynvml.NVML_ERROR_IRQ_ISSUE: (
        "a GPU's interrupts do not arrive: look for its bus address in dmesg, then power-cycle the "
        "node"
    ),
    pynvml.NVML_ERROR_MEMORY: "the node is out of memory: look at free and dmesg on it",
}
"""What to do where the driver does not open, by NVML's return code (nvml.h)."""

UNEXPLAINED = "look at dmesg and nvidia-smi on the node to see what the driver says"

GPU_WAYS_OUT = {
    pynvml.NVML_ERROR_GPU_IS_LOST: GONE,
    pynvml.NVML_ERROR_NO_PERMISSION: CLOSED,
    pynvml.NVML_ERROR_IRQ_ISSUE: WAYS_OUT[pynvml.NVML_ERROR_IRQ_ISSUE],
    pynvml.NVML_ERROR_MEMORY: WAYS_OUT[pynvml.NVML_ERROR_MEMORY],
}
"""The same where a GPU does not open."""

STRANGE = "please report this with the driver's version"

WEDGED = "the driver may be wedged; look at dmesg and nvidia-smi on the node"


def _where(gpu: Gpu) -> str:
    return "GPU %d %s" % (gpu.index, gpu.uuid)


def unread_fields(gpu: Gpu, reading: GpuReading, driver: Driver) -> List[Dict[str, str]]:
    """Why values are missing of a GPU that was opened."""
    reasons = set(reading.row.missing.values())
    if LOST in reasons:
        message = "GPU is lost: the driver no longer reaches it"
        return [{"where": _where(gpu), "message": message, "hint": GONE}]
    if FAILED in reasons:
        message = driver.failures.get(gpu.uuid, "a reading failed")
        return [{"where": _where(gpu), "message": message, "hint": REFUSED}]
    return []


def hidden_processes(readings: Iterable[GpuReading]) -> List[Dict[str, str]]:
    """Of how many GPUs this user may not see who computes on them."""
    missing = [reading.row.missing.get("compute_process_count") for reading in readings]
    hidden = missing.count(NO_PERMISSION)
    if not hidden:
        return []
    message = "the driver hides the processes of %d GPUs from this user" % hidden
    return [{"where": "GPU processes", "message": message, "hint": HIDDEN}]


def passed_over(gpu: Gpu) -> List[Dict[str, str]]:
    """What a GPU has more of than is read, as errors."""
    where = _where(gpu)
    errors = []
    if gpu.links.driver_count > MOST_LINKS:
        message = "the driver counts %d NVLinks, more than any GPU has: none is read"
        errors.append(
            {"where": where, "message": message % gpu.links.driver_count, "hint": STRANGE}
        )
    if gpu.instances.driver_count > MOST_INSTANCES:
        hint = "nvidia-smi -L on the node lists the others"
        errors.append(
            too_many(
                where, "places for instances", gpu.instances.driver_count, MOST_INSTANCES, hint
            )
        )
    return errors
