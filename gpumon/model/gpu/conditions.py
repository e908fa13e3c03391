"""What is wrong with a GPU by its newest values: field, limit, how grave, in which words.

The one table of it: the column HEALTH, the map, `gpu_fault` and `--exit-status` read it. What an
event means, what a link does and why nothing can be read have tables of their own.
"""

from __future__ import annotations

from math import isnan
from operator import eq, ge, gt, lt
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.fields import clock_event_names
from gpumon.model.gpu.code_names import RECOVERY_ACTIONS, code_name
from gpumon.model.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_UNHEALTHY: Final = 2
"""Of `fabric_health` (nvml.h, NVML_GPU_FABRIC_HEALTH_SUMMARY)."""

IDLE_BITS: Final = 0x001 | 0x002
"""Clock event reasons that mean no trouble: idle, clocks set by an application."""

HARMLESS_BITS: Final = 0x004 | 0x010 | 0x100
"""Software power cap, sync boost, display clocks: set on purpose or by the board's own budget."""

_GRAVE_BITS: Final = (0x040, 0x080, 0x008, 0x020)
"""Hardware's heat, power brake and slow-down before the driver's own heat control."""

AT_WORK: Final = 0.5
"""Share of the time with a kernel from which the clock is that of work (our choice)."""

_LOW_CLOCK: Final = 1.0 / 3.0
"""Share of the highest clock below which a GPU at work is stuck there: power caps down to what a
board can be set to leave more (our choice)."""


class Condition(NamedTuple):
    """One thing that may be wrong with a GPU."""

    key: str
    """Field that shows it."""
    is_so: Callable[[float, float], bool]
    """Whether it is wrong, of value and limit."""
    limit: float | str
    """A constant, or the field that holds it."""
    is_grave: bool
    """Whether no job should compute on the GPU: ‼ in HEALTH, and 2 from `--exit-status`."""
    word: str
    """Fits a column; `{value}` is the value."""
    sentence: str
    """What is wrong, with `{value}`, `{limit}` and `{plural}`."""
    advice: str
    """What who runs the machine can do; empty where the sentence has it."""
    limit_share: float = 1.0
    """Part of the limit that counts."""
    is_of_work: bool = False
    """Whether it counts only while kernels run and no user has set the clocks."""


_GIVEN_AS_REASON: Final = (4.0, 15.0)
"""NVML_ERROR_NO_PERMISSION and _GPU_IS_LOST: given by the reason for which every value of the GPU
is missing; that a user may not open a GPU is no fault of it."""

RETURN_CODES: Final = {
    1: "not initialised",
    2: "invalid argument",
    3: "not supported",
    4: "no permission",
    6: "not found",
    8: "power cables not connected",
    9: "driver not loaded",
    10: "timeout",
    11: "interrupt request issue",
    14: "infoROM is corrupted",
    15: "GPU is lost",
    16: "reset required",
    17: "blocked by the operating system",
    18: "driver and library of different versions",
    19: "in use",
    20: "out of memory",
    999: "unknown error",
}
"""Of NVML (nvml.h, nvmlReturn_t), those that opening a GPU may answer."""


def _is_refused(code: float, _none: float) -> bool:
    return code not in (0.0, *_GIVEN_AS_REASON)


CONDITIONS: Final = (
    Condition(
        "open_error", _is_refused, 0.0, True, word="not open",
        sentence="the driver does not open it: {value}",
        advice="look at dmesg and nvidia-smi on the node; the GPU may need a reset",
    ),
    Condition(
        "ecc_uncorrected_volatile_count", gt, 0.0, True, word="ECC {value}",
        sentence="{errors} since the driver was loaded",
        advice="free the node, reset the GPU, check row remapping; replace it if it repeats",
    ),
    Condition(
        "remap_failure", gt, 0.0, True, word="remap failed",
        sentence="a broken memory row could not be replaced", advice="have the board replaced",
    ),
    Condition(
        "remap_pending", gt, 0.0, False, word="remap waits",
        sentence="broken memory rows wait for a reset of the GPU to be replaced",
        advice="reset the GPU once it is free",
    ),
    Condition(
        "retired_pages_pending", gt, 0.0, False, word="page waits",
        sentence="broken memory pages wait for a restart of the driver to be retired",
        advice="reload the driver or reboot the node once it is free",
    ),
    Condition(
        "recovery_action", gt, 0.0, True, word="recovery",
        sentence="the driver asks for recovery: {value}",
        advice="free the node and do what the driver asks for",
    ),
    Condition(
        "fabric_health", eq, _UNHEALTHY, True, word="fabric",
        sentence="the NVLink fabric calls this GPU unhealthy",
        advice="look at the fabric manager's log",
    ),
    Condition(
        "temp_c", ge, "temp_shutdown_c", True, word="{value} °C",
        sentence="{value} °C, and it switches itself off at {limit} °C",
        advice="look at fans, air and coolant",
    ),
    Condition(
        "temp_c", ge, "temp_slowdown_c", False, word="{value} °C",
        sentence="{value} °C, and the hardware lowers its clocks from {limit} °C on",
        advice="look at fans, air and coolant",
    ),
    Condition(
        "temp_margin_c", lt, 0.0, False, word="margin {value} °C",
        sentence="{value} °C is left until it lowers its clocks: it is too hot",
        advice="look at fans, air and coolant",
    ),
    Condition(
        "mem_temp_c", gt, "mem_temp_max_c", False, word="mem {value} °C",
        sentence="its memory is at {value} °C, normal is {limit} °C at most",
        advice="look at fans, air and coolant",
    ),
    Condition(
        "sm_clock_mhz", lt, "sm_clock_max_mhz", False, word="{value} MHz",
        sentence="its SM clock is at {value} MHz under load, less than a third of {limit} MHz",
        advice="look at power supply and power limit; reset the GPU once it is free",
        limit_share=_LOW_CLOCK, is_of_work=True,
    ),
    Condition(
        "pcie_width", lt, "pcie_width_max", False, word="PCIe x{value}",
        sentence="PCIe runs on {value} lanes, GPU and slot have {limit}",
        advice="reseat the board or its riser",
    ),
)  # fmt: skip
"""In the order in which they are listed among those as grave. NVML's own meaning of each field is
the catalogue's; that any uncorrected error, failed remapping or recovery action takes a GPU out of
service is our choice."""


_CODES: Final = {"recovery_action": RECOVERY_ACTIONS, "open_error": RETURN_CODES}


class Wrong(NamedTuple):
    """A condition that holds, with what shows it."""

    condition: Condition
    value: float
    limit: float

    @property
    def word(self) -> str:
        """The condition in a word."""
        return self.condition.word.format(value=f"{self.value:.0f}")

    @property
    def sentence(self) -> str:
        """The condition in a sentence without an end."""
        value = f"{self.value:.0f}"
        codes = _CODES.get(self.condition.key)
        if codes is not None:
            value = code_name(self.value, codes) or value
        errors = counted(round(self.value), "uncorrected ECC error")
        return self.condition.sentence.format(value=value, limit=f"{self.limit:.0f}", errors=errors)


def wrong_with(value: Callable[[str], float | None]) -> list[Wrong]:
    """All conditions that hold of one GPU, the grave ones first.

    Args:
        value: The newest value of a field, None where it is not known.
    """
    found: dict[str, Wrong] = {}
    for one in CONDITIONS:
        number = value(one.key)
        limit = value(one.limit) if isinstance(one.limit, str) else one.limit
        if number is None or limit is None or not one.is_so(number, one.limit_share * limit):
            continue
        if not one.is_of_work or _is_at_work(value):
            # Of a temperature the gravest alone.
            found.setdefault(one.key, Wrong(one, number, limit))
    return sorted(found.values(), key=lambda wrong: not wrong.condition.is_grave)


def may_be_wrong(values: Callable[[str], Collection[float]]) -> bool:
    """Whether a condition may hold of any of several GPUs, judged by all their values at once.

    Where it is not, it holds of none: the same as asking each, for a hundredth of the time.

    Args:
        values: All known values of a field.
    """
    is_at_work = any(share >= AT_WORK for share in values("gpu_util_ratio"))
    for one in CONDITIONS:
        if one.is_of_work and not is_at_work:
            continue
        known = values(one.key)
        limits = values(one.limit) if isinstance(one.limit, str) else (one.limit,)
        if any(one.is_so(v, one.limit_share * limit) for limit in limits for v in known):
            return True
    return False


def held_down_by(mask: float | None) -> tuple[str, ...]:
    """Names of the reasons that hold a clock down and are news, the gravest first."""
    if mask is None or isnan(mask):
        return ()
    bits = int(mask) & ~(IDLE_BITS | HARMLESS_BITS)
    ordered = [bit for bit in _GRAVE_BITS if bits & bit]
    rest = bits & ~sum(ordered)
    parts = (*ordered, rest) if rest else tuple(ordered)
    return tuple(name for part in parts for name in clock_event_names(part))


def _is_at_work(value: Callable[[str], float | None]) -> bool:
    set_bits = int(value("clock_event_reasons") or 0) & IDLE_BITS
    return not set_bits and (value("gpu_util_ratio") or 0.0) >= AT_WORK
