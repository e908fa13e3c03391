"""How near a node's GPUs are to one another over PCIe, asked once when all of them are known."""

from typing import Dict, List

import pynvml

from gpumon.probe.driver import Driver, NoValueError
from gpumon.probe.gpu import ANCESTORS, Gpu
from gpumon.probe.rows import NOT_SUPPORTED

LEVELS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "board",
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
"""nvmlDeviceGetTopologyCommonAncestor in the words of `nvidia-smi topo -m`."""


def relate(driver: Driver, gpus: List[Gpu]) -> None:
    """Give every GPU the label that names what it shares with each other GPU: `UUID=PIX,…`."""
    if len(gpus) == 1:
        gpus[0].fixed.missing[ANCESTORS] = NOT_SUPPORTED
    found: Dict[str, List[str]] = {gpu.uuid: [] for gpu in gpus}
    for place, one in enumerate(gpus):
        for other in gpus[place + 1 :]:
            try:
                level = driver.call(
                    "nvmlDeviceGetTopologyCommonAncestor", one.uuid, one.handle, other.handle
                )
            except NoValueError as missing:
                one.fixed.missing[ANCESTORS] = other.fixed.missing[ANCESTORS] = missing.reason
                continue
            word = LEVELS.get(level, "?")
            found[one.uuid].append("%s=%s" % (other.uuid, word))
            found[other.uuid].append("%s=%s" % (one.uuid, word))
    for gpu in gpus:
        if found[gpu.uuid]:
            gpu.fixed.missing.pop(ANCESTORS, None)
            gpu.fixed.labels[ANCESTORS] = ",".join(found[gpu.uuid])
