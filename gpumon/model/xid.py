"""What the driver's error numbers mean, and what to do about them.

Numbers, meanings and immediate actions follow NVIDIA's Xid catalogue as gpud prints it
(leptonai/gpud, components/accelerator/nvidia/xid/catalog_generated.go of 2025-10-29). A number that
is not listed here is unknown, which is said instead of a guess.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Action(StrEnum):
    """The immediate action; its text is the advice."""

    NONE = "nothing to do now; watch whether it comes again"
    RESTART_APP = "restart the application"
    FIND_CAUSE = "find the error that came before it; this one only cleans up"
    RESET_GPU = "drain the node and reset the GPU"
    RESTART_NODE = "drain the node and power-cycle it"
    RESTART_VM = "restart the virtual machine"
    CHECK_ECC = "drain the node, reset the GPU, check row remapping; replace it if it repeats"
    CHECK_POWER = "check power cables and the board's seat"
    CHECK_LINK = "check the other end of the NVLink; reset both ends if it repeats"
    CHECK_UVM = "check what the driver logged about unified memory"
    SEE_RECOVERY = "do what the GPU's recovery action says"
    ASK_VENDOR = "look it up in NVIDIA's Xid catalogue"


class Xid(NamedTuple):
    """One error number of the driver."""

    number: int
    meaning: str
    action: Action
    is_application: bool
    """Usually the fault of a program, so no ground to drain a node."""

    @property
    def is_known(self) -> bool:
        """Whether the number is listed; another one may mean anything."""
        return self.number in XIDS


APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Not faults of the machine, as NVIDIA's own health checks treat them."""

_LISTED: Final = (
    (8, "GPU stopped processing (idle timeout)", Action.RESTART_APP),
    (13, "graphics engine exception", Action.RESTART_APP),
    (31, "GPU memory page fault", Action.RESTART_APP),
    (43, "GPU stopped processing (channel reset)", Action.NONE),
    (45, "preemptive cleanup after another error", Action.FIND_CAUSE),
    (46, "GPU timeout", Action.RESET_GPU),
    (48, "double-bit ECC error", Action.CHECK_ECC),
    (54, "auxiliary power not connected", Action.CHECK_POWER),
    (62, "internal micro-controller halt", Action.RESET_GPU),
    (63, "row remapping event", Action.NONE),
    (64, "row remapping failure", Action.RESET_GPU),
    (68, "video decoder exception", Action.RESTART_APP),
    (74, "NVLink error", Action.CHECK_LINK),
    (79, "GPU has fallen off the bus", Action.RESTART_NODE),
    (92, "high single-bit ECC error rate", Action.NONE),
    (94, "contained memory error", Action.RESTART_APP),
    (95, "uncontained memory error", Action.RESET_GPU),
    (109, "context-switch timeout", Action.RESET_GPU),
    (110, "security fault", Action.RESET_GPU),
    (119, "GSP RPC timeout", Action.RESET_GPU),
    (120, "GSP error", Action.RESET_GPU),
    (121, "C2C link error", Action.NONE),
    (136, "link training failed", Action.RESET_GPU),
    (137, "NVLink privilege error", Action.NONE),
    (140, "unrecovered ECC error", Action.RESET_GPU),
    (143, "GPU initialisation error", Action.RESET_GPU),
    (144, "NVLink 5: SAW error", Action.CHECK_LINK),
    (145, "NVLink 5: RLW error", Action.CHECK_LINK),
    (146, "NVLink 5: TLW error", Action.CHECK_LINK),
    (147, "NVLink 5: TREX error", Action.CHECK_LINK),
    (148, "NVLink 5: NVLPW_CTRL error", Action.CHECK_LINK),
    (149, "NVLink 5: NETIR error", Action.CHECK_LINK),
    (150, "NVLink 5: MSE error", Action.CHECK_LINK),
    (151, "key rotation error", Action.RESTART_VM),
    (154, "recovery action changed", Action.SEE_RECOVERY),
    (155, "NVLink: error defined by software", Action.RESET_GPU),
    (156, "resource retirement", Action.RESET_GPU),
    (157, "resource retirement failure", Action.NONE),
    (158, "GPU fatal timeout", Action.RESET_GPU),
    (159, "CHI non-data error", Action.CHECK_UVM),
    (160, "channel retirement", Action.NONE),
    (161, "channel retirement failure", Action.NONE),
)

XIDS: Final = {
    number: Xid(number, meaning, action, number in APPLICATION_XIDS)
    for number, meaning, action in _LISTED
}
"""Every number whose meaning is known."""


def xid(number: int) -> Xid:
    """What a number means; an unlisted one is said to be unknown."""
    unknown = Xid(number, "not in the catalogue", Action.ASK_VENDOR, is_application=False)
    return XIDS.get(number, unknown)


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


def name_of(value: float | None, names: dict[int, str]) -> str | None:
    """Name of a value of one of these tables, the bare number where it has none."""
    return None if value is None else names.get(int(value), str(int(value)))
