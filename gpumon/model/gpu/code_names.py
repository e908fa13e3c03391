"""Names of the numbers by which the driver reports a GPU's states."""

from __future__ import annotations

from typing import Final

RECOVERY_ACTIONS: Final = {
    0: "none",
    1: "reset the GPU",
    2: "reboot the node",
    3: "drain peer-to-peer traffic",
    4: "drain and reset",
    5: "recover the IMEX domain",
    6: "reset the bus",
    7: "reboot the system",
}
"""Values of NVML_FI_DEV_GET_GPU_RECOVERY_ACTION (field 230), as nvidia-ml-py 13 names them."""

FABRIC_STATES: Final = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
"""Values of nvmlGpuFabricState_t."""

FABRIC_HEALTH: Final = {0: "not supported", 1: "healthy", 2: "unhealthy", 3: "limited"}
"""Values of nvmlGpuFabricInfo healthSummary."""


def code_name(value: float | None, names: dict[int, str]) -> str | None:
    """Name of a value of one of these tables, the bare number where it has none."""
    return None if value is None else names.get(int(value), str(int(value)))
