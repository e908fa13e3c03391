"""The catalogue's fields of a GPU's engines: pipes, clocks and why they are low, heat, power."""

from __future__ import annotations

from typing import Final

from gpumon.model.field import ANY_COUNT, Field, Kind

_PIPES: Final = (
    (
        "graphics_active_ratio",
        "GR",
        "Share of time in which any compute or graphics work was on the GPU.",
        "GPM metric 1 (GRAPHICS_UTIL)",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    ),
    (
        "int_active_ratio",
        "INT",
        "Share of time in which the SMs did integer operations.",
        "GPM metric 4 (INTEGER_UTIL)",
        "DCGM_FI_PROF_PIPE_INT_ACTIVE",
    ),
    (
        "tensor_dfma_active_ratio",
        "DFMA",
        "Share of time in which tensor pipes did DFMA operations.",
        "GPM metric 6 (DFMA_TENSOR_UTIL)",
        "DCGM_FI_PROF_PIPE_TENSOR_DFMA_ACTIVE",
    ),
    (
        "tensor_hmma_active_ratio",
        "HMMA",
        "Share of time in which tensor pipes worked on half precision.",
        "GPM metric 7 (HMMA_TENSOR_UTIL)",
        "DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE",
    ),
    (
        "tensor_dmma_active_ratio",
        "DMMA",
        "Share of time in which tensor pipes worked on double precision.",
        "GPM metric 8 (DMMA_TENSOR_UTIL)",
        "",
    ),
    (
        "tensor_imma_active_ratio",
        "IMMA",
        "Share of time in which tensor pipes worked on integers.",
        "GPM metric 9 (IMMA_TENSOR_UTIL)",
        "DCGM_FI_PROF_PIPE_TENSOR_IMMA_ACTIVE",
    ),
    (
        "fp64_active_ratio",
        "FP64",
        "Share of time in which the SMs did FP64 math outside the tensor pipes.",
        "GPM metric 11 (FP64_UTIL)",
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE",
    ),
    (
        "fp32_active_ratio",
        "FP32",
        "Share of time in which the SMs did FP32 math outside the tensor pipes.",
        "GPM metric 12 (FP32_UTIL)",
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
    ),
    (
        "fp16_active_ratio",
        "FP16",
        "Share of time in which the SMs did FP16 math outside the tensor pipes.",
        "GPM metric 13 (FP16_UTIL)",
        "DCGM_FI_PROF_PIPE_FP16_ACTIVE",
    ),
)

_SLOWDOWNS: Final = (
    (
        "sw_power_cap",
        "CAPPED",
        "the power cap held the clocks down",
        "NVML_FI_DEV_PERF_POLICY_POWER (74), ns",
    ),
    (
        "thermal_violation",
        "HOT",
        "any thermal limit held the clocks down",
        "NVML_FI_DEV_PERF_POLICY_THERMAL (75), ns",
    ),
    (
        "sw_thermal",
        "SWHOT",
        "the driver lowered the clocks against heat",
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN (269), ns",
    ),
    (
        "hw_thermal",
        "HWHOT",
        "the hardware lowered the clocks against heat",
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN (270), ns",
    ),
    (
        "power_brake",
        "BRAKE",
        "an external power brake lowered the clocks",
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN (271), ns",
    ),
)

_POWERS: Final = (
    (
        "power_average_w",
        "PWRAVG",
        "Board power, mean of the last second.",
        "NVML_FI_DEV_POWER_AVERAGE (185)",
        "",
    ),
    (
        "power_limit_default_w",
        "PCAPDEF",
        "Power limit that the board starts with.",
        "nvmlDeviceGetPowerManagementDefaultLimit",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF",
    ),
    (
        "power_limit_min_w",
        "PCAPMIN",
        "Lowest power limit that can be set.",
        "nvmlDeviceGetPowerManagementLimitConstraints",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN",
    ),
    (
        "power_limit_max_w",
        "PCAPMAX",
        "Highest power limit that can be set.",
        "nvmlDeviceGetPowerManagementLimitConstraints",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX",
    ),
)

_TEMPERATURES: Final = (
    (
        "mem_temp_c",
        "MEMTEMP",
        "Temperature of the device memory.",
        "NVML_FI_DEV_MEMORY_TEMP (82)",
        "DCGM_FI_DEV_MEMORY_TEMP",
    ),
    (
        "temp_margin_c",
        "MARGIN",
        "Degrees left until the clocks are lowered (T.limit): a margin, not a temperature.",
        "nvmlDeviceGetMarginTemperature",
        "",
    ),
    (
        "temp_slowdown_c",
        "SLOWAT",
        "Core temperature at which the hardware lowers the clocks.",
        "nvmlDeviceGetTemperatureThreshold(SLOWDOWN)",
        "DCGM_FI_DEV_SLOWDOWN_TEMP",
    ),
    (
        "temp_shutdown_c",
        "OFFAT",
        "Core temperature at which the GPU switches itself off.",
        "nvmlDeviceGetTemperatureThreshold(SHUTDOWN)",
        "DCGM_FI_DEV_SHUTDOWN_TEMP",
    ),
    (
        "temp_max_c",
        "TEMPMAX",
        "Highest core temperature of normal operation.",
        "nvmlDeviceGetTemperatureThreshold(GPU_MAX)",
        "DCGM_FI_DEV_GPU_MAX_OP_TEMP",
    ),
    (
        "mem_temp_max_c",
        "MEMTMAX",
        "Highest memory temperature of normal operation.",
        "nvmlDeviceGetTemperatureThreshold(MEM_MAX)",
        "DCGM_FI_DEV_MEM_MAX_OP_TEMP",
    ),
)

_CLOCKS: Final = (
    (
        "mem_clock_mhz",
        "MEMCLK",
        "Memory clock now.",
        "nvmlDeviceGetClockInfo(MEM)",
        "DCGM_FI_DEV_MEM_CLOCK",
    ),
    (
        "mem_clock_max_mhz",
        "MEMCLKMAX",
        "Highest memory clock of this board.",
        "nvmlDeviceGetMaxClockInfo(MEM)",
        "DCGM_FI_DEV_MAX_MEM_CLOCK",
    ),
    (
        "graphics_clock_mhz",
        "GRCLK",
        "Graphics clock now.",
        "nvmlDeviceGetClockInfo(GRAPHICS)",
        "",
    ),
    (
        "graphics_clock_max_mhz",
        "GRCLKMAX",
        "Highest graphics clock of this board.",
        "nvmlDeviceGetMaxClockInfo(GRAPHICS)",
        "",
    ),
)


def _gauges(
    table: tuple[tuple[str, str, str, str, str], ...],
    unit: str,
    bounds: tuple[float, float],
    kept: frozenset[str] = frozenset(),
) -> tuple[Field, ...]:
    low, high = bounds
    return tuple(
        Field(key, "gpu", Kind.GAUGE, unit, low, high, title, doc, origin, dcgm, key in kept)
        for key, title, doc, origin, dcgm in table
    )


def _slowdown_times() -> tuple[Field, ...]:
    """Per reason the time spent in it, and the share of the time since the last reading."""
    fields: list[Field] = []
    for stem, title, what, origin in _SLOWDOWNS:
        time = f"Time since the driver was loaded in which {what}."
        share = f"Share of the time since the last reading in which {what}."
        counter = (stem + "_us", "gpu", Kind.COUNTER, "us", 0, ANY_COUNT, "", time, origin)
        ratio = (stem + "_ratio", "gpu", Kind.GAUGE, "ratio", 0.0, 1.0, title, share)
        fields += [Field(*counter), Field(*ratio, f"difference of {stem}_us", is_kept=False)]
    return tuple(fields)


GPU_ENGINE_FIELDS: Final = (
    *_gauges(_PIPES, "ratio", (0.0, 1.0), frozenset({"fp64_active_ratio", "fp32_active_ratio"})),
    *_slowdown_times(),
    *_gauges(_POWERS, "W", (0, 5000)),
    *_gauges(_TEMPERATURES, "C", (-200, 200), frozenset({"mem_temp_c"})),
    *_gauges(_CLOCKS, "MHz", (0, 20000)),
    Field(
        "perf_state",
        "gpu",
        Kind.GAUGE,
        "",
        0,
        15,
        "PSTATE",
        "Performance state: 0 is the fastest, 15 the slowest.",
        "nvmlDeviceGetPerformanceState",
        "DCGM_FI_DEV_PSTATE",
        is_kept=False,
    ),
)
