"""What the driver's error numbers mean, and what to do about them.

Numbers and both columns of what to do, now and later, follow NVIDIA's Xid catalogue
(docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html) as gpud holds it: leptonai/gpud,
components/accelerator/nvidia/xid/catalog_generated.go, generated on 2025-10-29, read at 4a8de33a of
2026-08-22. The words are ours. A number that the catalogue lacks, calls unused or leaves without
anything to do is unknown, which is reported instead of a guess.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Action(StrEnum):
    """What to do now, the catalogue's first column; its text is the advice."""

    NONE = "nothing to do now"
    RESTART_APP = "restart the application"
    FIND_CAUSE = "find the error that came before it; this one only cleans up"
    RESET_GPU = "free the node and reset the GPU"
    RESET_FREE_GPU = "reset the GPU once it is free"
    """As `RESET_GPU`, where a program is the likelier cause and no node need be freed."""
    RESTART_NODE = "free the node and power-cycle it"
    RESTART_VM = "restart the virtual machine"
    CHECK_ECC = "free the node, reset the GPU, check row remapping; replace it if it repeats"
    CHECK_POWER = "check power cables and the board's seat"
    CHECK_LINK = "check the other end of the NVLink; reset both ends if it goes on"
    CHECK_UVM = "check what the driver logged about unified memory"
    SEE_RECOVERY = "do what the GPU's recovery action says"
    UPDATE_SOFTWARE = "update the driver, the firmware or what runs the virtual machines"
    ASK_SUPPORT = "contact support"
    ASK_VENDOR = "look it up in NVIDIA's Xid catalogue"


class Later(StrEnum):
    """What to look into, the catalogue's second column; its text is added to the advice."""

    NOTHING = ""
    ASK_SUPPORT = "contact support if it repeats"
    CHECK_APP = "check the program and its use of CUDA"
    CHECK_SOFTWARE = "look for the cause in software"
    CHECK_SIGNAL = "check the link's signal and cables"
    CHECK_PRIVILEGE = "check what accessed the link without permission"
    RESTART_FABRIC = "if no other error came with it, restart the fabric manager"
    FOLLOW_OTHER = "follow the other errors that came with it"
    REPORT_ALONE = "report it if no other error came with it"


class Cause(StrEnum):
    """Whose fault an error is, as far as its number alone shows."""

    MACHINE = "machine"
    PROGRAM = "program"
    OPEN = "open"
    """An engine of the GPU stopped a program, and either may be at fault."""
    NONE = "none"
    """No one's: it may be ignored now."""
    UNKNOWN = "unknown"


class Xid(NamedTuple):
    """One error number of the driver."""

    number: int
    meaning: str
    action: Action
    later: Later
    cause: Cause

    @property
    def is_application(self) -> bool:
        """Whether it is usually the fault of a program, so no ground to free a node."""
        return self.cause is Cause.PROGRAM

    @property
    def is_known(self) -> bool:
        """Whether the number is listed; another one may mean anything."""
        return self.cause is not Cause.UNKNOWN

    @property
    def is_blamed(self) -> bool:
        """Whether the number alone separates a program's fault from what is none."""
        return self.cause not in (Cause.OPEN, Cause.UNKNOWN)

    @property
    def is_remark(self) -> bool:
        """Whether it may be ignored now and is to be looked into all the same."""
        return self.cause is Cause.NONE and self.later is not Later.NOTHING

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to do about it, neither now nor later."""
        return self.cause is Cause.NONE and self.later is Later.NOTHING

    @property
    def advice(self) -> str:
        """What to do now and later, in one line."""
        return "; ".join(part for part in (self.action.value, self.later.value) if part)

    @property
    def owner_advice(self) -> str:
        """The part of the advice that a job's owner can follow; empty where there is none."""
        return self._part(for_owner=True)

    @property
    def machine_advice(self) -> str:
        """The part of the advice for who runs the machine; empty where there is none."""
        return self._part(for_owner=False)

    def _part(self, *, for_owner: bool) -> str:
        if self.is_silent:
            return ""
        # That there is nothing to do now is for the one who has something to do later.
        now = self.later if self.action is Action.NONE else self.action
        steps = ((self.action.value, now), (self.later.value, self.later))
        parts = [text for text, step in steps if text and self._is_for_owner(step) == for_owner]
        return "; ".join(parts)

    def _is_for_owner(self, step: Action | Later) -> bool:
        # The driver's software is none of the owner's.
        return step in _FOR_OWNER or (step is Later.CHECK_SOFTWARE and self.is_application)


XID_EVENT: Final = 0x8
"""NVML's type of an event that is an Xid (nvmlEventTypeXidCriticalError)."""

_FOR_OWNER: Final[frozenset[Action | Later]] = frozenset(
    {Action.RESTART_APP, Action.FIND_CAUSE, Later.CHECK_APP}
)

_HEALTH_CHECK: Final = frozenset({13, 31, 43, 45, 68, 109})
"""What NVIDIA's own health checks pass over as a program's (NVIDIA/k8s-device-plugin, which skips
these numbers)."""

_MEMORY: Final = frozenset({94})
"""An error of memory, though all there is to do now is to restart the program that met it."""


def _cause(number: int, action: Action, later: Later) -> Cause:
    """Whose fault it is, by what the catalogue has people do about it."""
    is_software = later in (Later.CHECK_APP, Later.CHECK_SOFTWARE)
    if number in _HEALTH_CHECK or (action is Action.RESTART_APP and is_software):
        return Cause.PROGRAM
    if action is Action.NONE:
        return Cause.PROGRAM if later is Later.CHECK_APP else Cause.NONE
    if action is Action.RESTART_APP and number not in _MEMORY:
        return Cause.OPEN
    return Cause.NONE if action is Action.SEE_RECOVERY else Cause.MACHINE


def _engines(
    name: str, numbers: Iterable[int], first: int = 0
) -> list[tuple[int, str, Action, Later]]:
    """Errors of engines of one kind, of which the catalogue has the same done."""
    return [
        (number, f"{name} {engine}: error", Action.RESTART_APP, Later.ASK_SUPPORT)
        for engine, number in enumerate(numbers, first)
    ]


_LISTED: Final = (
    (8, "GPU stopped processing (idle timeout)", Action.RESTART_APP, Later.ASK_SUPPORT),
    (11, "invalid or corrupted commands", Action.RESTART_APP, Later.CHECK_APP),
    (13, "graphics engine exception", Action.RESTART_APP, Later.CHECK_APP),
    (25, "invalid or illegal commands", Action.RESTART_APP, Later.CHECK_APP),
    (31, "GPU memory page fault", Action.RESTART_APP, Later.CHECK_APP),
    (32, "invalid or corrupted commands (push buffer)", Action.RESTART_APP, Later.CHECK_APP),
    (37, "firmware got a request that it does not know", Action.NONE, Later.CHECK_APP),
    (38, "firmware's watchdog ran out", Action.NONE, Later.ASK_SUPPORT),
    *_engines("copy engine", (39, 40, 41)),
    (43, "GPU stopped processing (channel reset)", Action.NONE, Later.ASK_SUPPORT),
    (44, "graphics engine fault at a context switch", Action.NONE, Later.ASK_SUPPORT),
    (45, "preemptive cleanup after another error", Action.FIND_CAUSE, Later.RESTART_FABRIC),
    (46, "GPU timeout", Action.RESET_GPU, Later.ASK_SUPPORT),
    (48, "double-bit ECC error", Action.CHECK_ECC, Later.NOTHING),
    (54, "auxiliary power not connected", Action.CHECK_POWER, Later.ASK_SUPPORT),
    (60, "video processor exception", Action.RESTART_APP, Later.CHECK_SOFTWARE),
    (62, "internal micro-controller halt", Action.RESET_GPU, Later.ASK_SUPPORT),
    (63, "row remapping event", Action.NONE, Later.NOTHING),
    (64, "row remapping failure", Action.RESET_GPU, Later.ASK_SUPPORT),
    (66, "illegal register access by the driver", Action.NONE, Later.CHECK_SOFTWARE),
    (67, "illegal access by the driver", Action.NONE, Later.ASK_SUPPORT),
    (68, "video decoder exception", Action.RESTART_APP, Later.ASK_SUPPORT),
    (69, "graphics engine class error", Action.RESTART_APP, Later.CHECK_APP),
    *_engines("copy engine", (70, 71, 72), 3),
    (74, "NVLink error", Action.CHECK_LINK, Later.ASK_SUPPORT),
    *_engines("copy engine", (75, 76, 77), 6),
    (78, "virtual GPU did not start", Action.UPDATE_SOFTWARE, Later.NOTHING),
    (79, "GPU has fallen off the bus", Action.RESTART_NODE, Later.ASK_SUPPORT),
    (80, "corrupted data sent to the GPU", Action.RESTART_APP, Later.CHECK_APP),
    *_engines("JPEG engine", (82,)),
    *_engines("video decoder", (83, 84), 1),
    *_engines("copy engine", (85,), 9),
    *_engines("optical flow engine", (86,)),
    *_engines("video decoder", (88, 89), 3),
    (92, "high single-bit ECC error rate", Action.NONE, Later.ASK_SUPPORT),
    (93, "InfoROM was written too often", Action.NONE, Later.ASK_SUPPORT),
    (94, "contained memory error", Action.RESTART_APP, Later.FOLLOW_OTHER),
    (95, "uncontained memory error", Action.RESET_GPU, Later.FOLLOW_OTHER),
    *_engines("video decoder", (96, 97, 98), 5),
    *_engines("JPEG engine", range(99, 106), 1),
    (106, "test message", Action.NONE, Later.NOTHING),
    (107, "silent test message", Action.NONE, Later.NOTHING),
    (109, "context-switch timeout", Action.RESET_FREE_GPU, Later.ASK_SUPPORT),
    (110, "security fault", Action.RESET_GPU, Later.CHECK_SOFTWARE),
    (119, "GSP RPC timeout", Action.RESET_GPU, Later.CHECK_SOFTWARE),
    (120, "GSP error", Action.RESET_GPU, Later.CHECK_SOFTWARE),
    (121, "C2C link error", Action.NONE, Later.ASK_SUPPORT),
    *_engines("copy engine", range(126, 136), 10),
    (136, "link training failed", Action.RESET_GPU, Later.CHECK_SIGNAL),
    (137, "NVLink privilege error", Action.NONE, Later.CHECK_PRIVILEGE),
    *_engines("optical flow engine", (139,), 1),
    (140, "unrecovered ECC error", Action.RESET_GPU, Later.ASK_SUPPORT),
    (141, "CUDA fast path error", Action.NONE, Later.ASK_SUPPORT),
    (142, "video encoder 3: error", Action.ASK_SUPPORT, Later.NOTHING),
    (143, "GPU initialisation error", Action.RESET_GPU, Later.ASK_SUPPORT),
    (144, "NVLink 5: SAW error", Action.CHECK_LINK, Later.NOTHING),
    (145, "NVLink 5: RLW error", Action.CHECK_LINK, Later.NOTHING),
    (146, "NVLink 5: TLW error", Action.CHECK_LINK, Later.NOTHING),
    (147, "NVLink 5: TREX error", Action.CHECK_LINK, Later.NOTHING),
    (148, "NVLink 5: NVLPW_CTRL error", Action.CHECK_LINK, Later.NOTHING),
    (149, "NVLink 5: NETIR error", Action.CHECK_LINK, Later.NOTHING),
    (150, "NVLink 5: MSE error", Action.CHECK_LINK, Later.NOTHING),
    (151, "key rotation error", Action.RESTART_VM, Later.ASK_SUPPORT),
    (152, "deep learning accelerator: address error", Action.NONE, Later.ASK_SUPPORT),
    (153, "deep learning accelerator: timeout", Action.NONE, Later.ASK_SUPPORT),
    (154, "recovery action changed", Action.SEE_RECOVERY, Later.FOLLOW_OTHER),
    (155, "NVLink: error defined by software", Action.RESET_GPU, Later.CHECK_SOFTWARE),
    (156, "resource retirement", Action.RESET_GPU, Later.NOTHING),
    (157, "resource retirement failure", Action.NONE, Later.ASK_SUPPORT),
    (158, "GPU fatal timeout", Action.RESET_GPU, Later.ASK_SUPPORT),
    (159, "CHI non-data error", Action.CHECK_UVM, Later.REPORT_ALONE),
    (160, "channel retirement", Action.NONE, Later.CHECK_SOFTWARE),
    (161, "channel retirement failure", Action.NONE, Later.CHECK_SOFTWARE),
)

XIDS: Final = {
    number: Xid(number, meaning, action, later, cause=_cause(number, action, later))
    for number, meaning, action, later in _LISTED
}
"""Every number for which the catalogue names what to do."""


def xid(number: int) -> Xid:
    """What a number means; an unlisted one is reported as unknown."""
    known = XIDS.get(number)
    if known is not None:
        return known
    return Xid(
        number=number,
        meaning="not in the catalogue",
        action=Action.ASK_VENDOR,
        later=Later.NOTHING,
        cause=Cause.UNKNOWN,
    )
