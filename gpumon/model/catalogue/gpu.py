"""Fields of a GPU: what it does, its engines, power, heat and clocks, its links and health."""

from __future__ import annotations

from typing import Final

from gpumon.model.catalogue.field import ANY_COUNT, ANY_MEMORY, Field, Kind

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
        "DCGM_FI_DEV_POWER_VIOLATION",
    ),
    (
        "thermal_violation",
        "HOT",
        "any thermal limit held the clocks down",
        "NVML_FI_DEV_PERF_POLICY_THERMAL (75), ns",
        "DCGM_FI_DEV_THERMAL_VIOLATION",
    ),
    (
        "sw_thermal",
        "SWHOT",
        "the driver lowered the clocks against heat",
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN (269), ns",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS",
    ),
    (
        "hw_thermal",
        "HWHOT",
        "the hardware lowered the clocks against heat",
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN (270), ns",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
    ),
    (
        "power_brake",
        "BRAKE",
        "an external power brake lowered the clocks",
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN (271), ns",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",
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
        "DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS",
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
    with_history: frozenset[str] = frozenset(),
) -> tuple[Field, ...]:
    low, high = bounds
    return tuple(
        Field(
            key=key,
            block="gpu",
            kind=Kind.GAUGE,
            unit=unit,
            low=low,
            high=high,
            title=title,
            doc=doc,
            origin=origin,
            dcgm=dcgm,
            is_kept=key in with_history,
        )
        for key, title, doc, origin, dcgm in table
    )


def _slowdown_times() -> tuple[Field, ...]:
    """Per reason the time spent in it, and the share of the time since the last reading."""
    fields: list[Field] = []
    for stem, title, what, origin, dcgm in _SLOWDOWNS:
        time = f"Time since the driver was loaded in which {what}."
        share = f"Share of the time since the last reading in which {what}."
        counter = (stem + "_us", "gpu", Kind.COUNTER, "us", 0, ANY_COUNT, "", time, origin)
        ratio = (stem + "_ratio", "gpu", Kind.GAUGE, "ratio", 0.0, 1.0, title, share)
        fields += [Field(*counter, dcgm), Field(*ratio, f"difference of {stem}_us", is_kept=False)]
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
        low=0,
        high=15,
        title="PSTATE",
        doc="Performance state: 0 is the fastest, 15 the slowest.",
        origin="nvmlDeviceGetPerformanceState",
        dcgm="DCGM_FI_DEV_PSTATE",
        is_kept=False,
    ),
)


_PCIE_ERRORS: Final = (
    ("pcie_replay_count", "PCIe packets sent again.", "REPLAY_COUNTER (94)"),
    ("pcie_recovery_count", "Retrainings of the PCIe link.", "L0_TO_RECOVERY_COUNTER (169)"),
    ("pcie_correctable_error_count", "Correctable errors.", "COUNT_CORRECTABLE_ERRORS (173)"),
    ("pcie_nak_received_count", "Refusals received.", "COUNT_NAKS_RECEIVED (174)"),
    ("pcie_receiver_error_count", "Receiver errors.", "COUNT_RECEIVER_ERROR (175)"),
    ("pcie_bad_tlp_count", "Broken transaction packets.", "COUNT_BAD_TLP (176)"),
    ("pcie_nak_sent_count", "Refusals sent.", "COUNT_NAKS_SENT (177)"),
    ("pcie_bad_dllp_count", "Broken data link packets.", "COUNT_BAD_DLLP (178)"),
    (
        "pcie_nonfatal_error_count",
        "Uncorrectable, not fatal errors.",
        "COUNT_NON_FATAL_ERROR (179)",
    ),
    ("pcie_fatal_error_count", "Fatal errors.", "COUNT_FATAL_ERROR (180)"),
    ("pcie_unsupported_request_count", "Unknown requests.", "COUNT_UNSUPPORTED_REQ (181)"),
    ("pcie_lcrc_error_count", "Checksum errors of the PCIe link.", "COUNT_LCRC_ERROR (182)"),
)

_PCIE_DCGM: Final = {
    "pcie_replay_count": "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "pcie_correctable_error_count": "DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS",
}

_NVLINK_ERRORS: Final = (
    (
        "nvlink_crc_flit_count",
        "Checksum errors of control flits",
        "CRC_FLIT_ERROR_COUNT_TOTAL (38)",
    ),
    ("nvlink_crc_data_count", "Checksum errors of data", "CRC_DATA_ERROR_COUNT_TOTAL (45)"),
    ("nvlink_replay_count", "Packets sent again", "REPLAY_ERROR_COUNT_TOTAL (52)"),
    ("nvlink_recovery_count", "Recoveries", "RECOVERY_ERROR_COUNT_TOTAL (59)"),
    ("nvlink_ecc_data_count", "ECC errors of data", "ECC_DATA_ERROR_COUNT_TOTAL (160)"),
)

_MEMORY_ERRORS: Final = (
    (
        "ecc_corrected_volatile_count",
        "Corrected ECC errors since the driver was loaded.",
        "NVML_FI_DEV_ECC_SBE_VOL_TOTAL (3)",
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
    ),
    (
        "ecc_uncorrected_volatile_count",
        "Uncorrected ECC errors since the driver was loaded.",
        "NVML_FI_DEV_ECC_DBE_VOL_TOTAL (4)",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
    ),
    (
        "ecc_corrected_aggregate_count",
        "Corrected ECC errors of the board's life.",
        "NVML_FI_DEV_ECC_SBE_AGG_TOTAL (5)",
        "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
    ),
    (
        "ecc_uncorrected_aggregate_count",
        "Uncorrected ECC errors of the board's life.",
        "NVML_FI_DEV_ECC_DBE_AGG_TOTAL (6)",
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
    ),
    (
        "retired_pages_corrected_count",
        "Pages retired after repeated corrected errors (before Ampere).",
        "NVML_FI_DEV_RETIRED_SBE (29)",
        "DCGM_FI_DEV_RETIRED_SBE",
    ),
    (
        "retired_pages_uncorrected_count",
        "Pages retired after an uncorrected error (before Ampere).",
        "NVML_FI_DEV_RETIRED_DBE (30)",
        "DCGM_FI_DEV_RETIRED_DBE",
    ),
    (
        "remapped_rows_correctable_count",
        "Memory rows replaced after corrected errors (Ampere and newer).",
        "NVML_FI_DEV_REMAPPED_COR (142)",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    ),
    (
        "remapped_rows_uncorrectable_count",
        "Memory rows replaced after uncorrected errors (Ampere and newer).",
        "NVML_FI_DEV_REMAPPED_UNC (143)",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    ),
)

_CODES: Final = (
    (
        "retired_pages_pending",
        "RETPEND",
        1,
        "1: pages wait for a restart of the driver to be retired.",
        "NVML_FI_DEV_RETIRED_PENDING (31)",
        "DCGM_FI_DEV_RETIRED_PENDING",
    ),
    (
        "remap_pending",
        "REMAPPEND",
        1,
        "1: rows wait for a reset of the GPU to be replaced.",
        "NVML_FI_DEV_REMAPPED_PENDING (144)",
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
    ),
    (
        "remap_failure",
        "REMAPFAIL",
        1,
        "1: a row could not be replaced; the board is due for replacement.",
        "NVML_FI_DEV_REMAPPED_FAILURE (145)",
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    ),
    (
        "recovery_action",
        "RECOVERY",
        255,
        (
            "What the driver asks for: 0 nothing, 1 reset the GPU, 2 reboot the node, 3 drain "
            "P2P, 4 drain and reset, 5 recover the IMEX domain, 6 reset the bus, 7 reboot."
        ),
        "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION (230)",
        "DCGM_FI_DEV_GPU_RECOVERY_ACTION",
    ),
    (
        "fabric_state",
        "FABRIC",
        255,
        "Registration with the NVLink fabric: 0 none, 1 not started, 2 under way, 3 completed.",
        "nvmlDeviceGetGpuFabricInfoV.state",
        "DCGM_FI_DEV_FABRIC_MANAGER_STATUS",
    ),
    (
        "fabric_status",
        "FABSTAT",
        2**31,
        "NVML return code of a completed registration: 0 is success.",
        "nvmlDeviceGetGpuFabricInfoV.status",
        "",
    ),
    (
        "fabric_clique",
        "CLIQUE",
        2**32,
        "GPUs of one cluster and one clique can reach each other over NVLink.",
        "nvmlDeviceGetGpuFabricInfoV.cliqueId",
        "DCGM_FI_DEV_FABRIC_CLIQUE_ID",
    ),
    (
        "fabric_health",
        "FABHEALTH",
        255,
        "Health of the fabric: 0 unknown, 1 healthy, 2 unhealthy, 3 limited.",
        "nvmlDeviceGetGpuFabricInfoV.healthSummary (version 3)",
        "DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY",
    ),
    (
        "persistence_mode",
        "PERSIST",
        1,
        "1: the driver stays loaded without users; 0 makes every first use slow.",
        "nvmlDeviceGetPersistenceMode",
        "DCGM_FI_DEV_PERSISTENCE_MODE",
    ),
    (
        "compute_mode",
        "CMODE",
        255,
        "Which processes may compute: 0 any, 2 none, 3 one.",
        "nvmlDeviceGetComputeMode",
        "DCGM_FI_DEV_COMPUTE_MODE",
    ),
    (
        "mig_mode",
        "MIG",
        1,
        "1: the GPU is cut into instances, and its own utilisation is not supported.",
        "nvmlDeviceGetMigMode",
        "DCGM_FI_DEV_MIG_MODE",
    ),
    (
        "ecc_mode",
        "ECC",
        1,
        "1: memory errors are corrected and counted.",
        "NVML_FI_DEV_ECC_CURRENT (1)",
        "DCGM_FI_DEV_ECC_CURRENT",
    ),
)


def _counter(key: str, doc: str, origin: str, dcgm: str = "") -> Field:
    return Field(
        key=key,
        block="gpu",
        kind=Kind.COUNTER,
        unit="",
        low=0,
        high=ANY_COUNT,
        title="",
        doc=doc,
        origin=origin,
        dcgm=dcgm,
    )


GPU_HEALTH_FIELDS: Final = (
    *(
        _counter(key, doc, f"NVML_FI_DEV_PCIE_{origin}", _PCIE_DCGM.get(key, ""))
        for key, doc, origin in _PCIE_ERRORS
    ),
    *(
        _counter(
            key,
            f"{doc}, all NVLinks, up to NVLink 4.",
            f"NVML_FI_DEV_NVLINK_{origin}",
            # DCGM calls them as NVML does.
            f"DCGM_FI_DEV_NVLINK_{origin.partition(' ')[0]}",
        )
        for key, doc, origin in _NVLINK_ERRORS
    ),
    *(_counter(*row) for row in _MEMORY_ERRORS),
    *(
        Field(
            key,
            "gpu",
            Kind.ID,
            "",
            low=0,
            high=high,
            title=title,
            doc=doc,
            origin=origin,
            dcgm=dcgm,
        )
        for key, title, high, doc, origin, dcgm in _CODES
    ),
    Field(
        "watched_events",
        "gpu",
        Kind.MASK,
        "",
        low=0,
        high=ANY_COUNT,
        title="WATCHED",
        doc="NVML's event types that are listened to: 0x8 is Xids.",
        origin="nvmlDeviceRegisterEvents",
    ),
)


def _gpu(
    key: str,
    kind: Kind,
    unit: str,
    high: float,
    title: str,
    doc: str,
    origin: str,
    dcgm: str = "",
    low: float = 0.0,
) -> Field:
    return Field(
        key=key,
        block="gpu",
        kind=kind,
        unit=unit,
        low=low,
        high=high,
        title=title,
        doc=doc,
        origin=origin,
        dcgm=dcgm,
    )


def _ratio(key: str, title: str, doc: str, origin: str, dcgm: str = "") -> Field:
    return _gpu(key, Kind.GAUGE, "ratio", 1.0, title, doc, origin, dcgm)


def _bytes_per_s(key: str, title: str, doc: str, origin: str, dcgm: str = "") -> Field:
    # 8 TB/s is beyond every link of today; a larger rate comes from a counter that was reset.
    return _gpu(key, Kind.RATE, "bytes/s", 8e12, title, doc, origin, dcgm)


GPU_FIELDS: Final = (
    _gpu(
        "index",
        Kind.ID,
        "",
        1024,
        "IDX",
        "NVML's own index as the reader sees it: a label, not an identity, renumbered by cgroups.",
        "nvmlDeviceGetHandleByIndex",
    ),
    _gpu(
        "open_error",
        Kind.ID,
        "",
        10_000,
        "OPENERR",
        "NVML's return code where the driver refuses to open the GPU, so that nothing can be read "
        "of it; 0 where it is open.",
        "nvmlDeviceGetHandleByIndex, nvmlDeviceGetUUID",
    ),
    _gpu(
        "gpu_numa_node",
        Kind.ID,
        "",
        65536,
        "NUMA",
        "NUMA node to which the GPU is attached; missing where the kernel knows of none.",
        "/sys/bus/pci/devices/BUS_ID/numa_node",
    ),
    _gpu(
        "minor_number",
        Kind.ID,
        "",
        1024,
        "MINOR",
        "N of /dev/nvidiaN, which Slurm's gres.conf names.",
        "nvmlDeviceGetMinorNumber",
        "DCGM_FI_DEV_MINOR_NUMBER",
    ),
    _ratio(
        "gpu_util_ratio",
        "UTIL",
        "Share of the last sample period in which any kernel ran; 1.0 "
        "says nothing about how much of the GPU it used.",
        "nvmlDeviceGetUtilizationRates.gpu",
        "DCGM_FI_DEV_GPU_UTIL",
    ),
    _ratio(
        "mem_activity_ratio",
        "MEMACT",
        "Share of the last sample period in which device memory was read or written.",
        "nvmlDeviceGetUtilizationRates.memory",
        "DCGM_FI_DEV_MEM_COPY_UTIL",
    ),
    _ratio(
        "sm_active_ratio",
        "SM",
        "Share of SM-cycles with at least one warp resident (Hopper and newer).",
        "GPM metric 2 (SM_UTIL)",
        "DCGM_FI_PROF_SM_ACTIVE",
    ),
    _ratio(
        "sm_occupancy_ratio",
        "OCC",
        "Resident warps over the warps that fit.",
        "GPM metric 3 (SM_OCCUPANCY)",
        "DCGM_FI_PROF_SM_OCCUPANCY",
    ),
    _ratio(
        "tensor_active_ratio",
        "TENS",
        "Share of cycles in which a tensor pipe worked.",
        "GPM metric 5 (ANY_TENSOR)",
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    ),
    _ratio(
        "dram_active_ratio",
        "DRAM",
        "Share of the memory bandwidth in use.",
        "GPM metric 10 (DRAM_BW)",
        "DCGM_FI_PROF_DRAM_ACTIVE",
    ),
    _gpu(
        "mem_used_bytes",
        Kind.GAUGE,
        "bytes",
        ANY_MEMORY,
        "MEM",
        "Device memory in use, without what the driver reserves where MemoryInfo v2 answers.",
        "nvmlDeviceGetMemoryInfo (v2).used",
        "DCGM_FI_DEV_FB_USED",
    ),
    _gpu(
        "mem_total_bytes",
        Kind.GAUGE,
        "bytes",
        ANY_MEMORY,
        "MEMTOT",
        "Device memory.",
        "nvmlDeviceGetMemoryInfo (v2).total",
        "DCGM_FI_DEV_FB_TOTAL",
    ),
    _gpu(
        "mem_reserved_bytes",
        Kind.GAUGE,
        "bytes",
        ANY_MEMORY,
        "MEMRES",
        "Device memory that the driver keeps for itself.",
        "nvmlDeviceGetMemoryInfo (v2).reserved",
        "DCGM_FI_DEV_FB_RESERVED",
    ),
    _gpu(
        "power_w",
        Kind.GAUGE,
        "W",
        5000,
        "PWR",
        "Board power: instantaneous where field 186 answers, else the driver's average.",
        "NVML_FI_DEV_POWER_INSTANT (186), else nvmlDeviceGetPowerUsage",
        "DCGM_FI_DEV_POWER_USAGE",
    ),
    _gpu(
        "power_limit_w",
        Kind.GAUGE,
        "W",
        5000,
        "PCAP",
        "Power limit that the driver enforces.",
        "nvmlDeviceGetEnforcedPowerLimit",
        "DCGM_FI_DEV_POWER_MGMT_LIMIT",
    ),
    _gpu(
        "energy_j",
        Kind.COUNTER,
        "J",
        ANY_COUNT,
        "ENERGY",
        "Energy since the driver was loaded, whole joules.",
        "NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION (83)",
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    ),
    _gpu(
        "temp_c",
        Kind.GAUGE,
        "C",
        150,
        "TEMP",
        "Core temperature.",
        "nvmlDeviceGetTemperature",
        "DCGM_FI_DEV_GPU_TEMP",
        -20,
    ),
    _gpu(
        "sm_clock_mhz",
        Kind.GAUGE,
        "MHz",
        10000,
        "CLK",
        "SM clock now.",
        "nvmlDeviceGetClockInfo(SM)",
        "DCGM_FI_DEV_SM_CLOCK",
    ),
    _gpu(
        "sm_clock_max_mhz",
        Kind.GAUGE,
        "MHz",
        10000,
        "CLKMAX",
        "Highest SM clock of this board.",
        "nvmlDeviceGetMaxClockInfo(SM)",
        "DCGM_FI_DEV_MAX_SM_CLOCK",
    ),
    _gpu(
        "clock_event_reasons",
        Kind.MASK,
        "",
        ANY_COUNT,
        "WHY",
        "Why the clock is below its maximum, NVML's bits.",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    ),
    _gpu(
        "pcie_gen",
        Kind.GAUGE,
        "",
        10,
        "PCIE",
        "PCIe generation now; idle GPUs may lower it.",
        "nvmlDeviceGetCurrPcieLinkGeneration",
        "DCGM_FI_DEV_PCIE_LINK_GEN",
        1,
    ),
    _gpu(
        "pcie_gen_max",
        Kind.GAUGE,
        "",
        10,
        "PCIEMAX",
        "Highest generation of GPU and slot.",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        "DCGM_FI_DEV_PCIE_MAX_LINK_GEN",
        1,
    ),
    _gpu(
        "pcie_width",
        Kind.GAUGE,
        "",
        32,
        "LANES",
        "PCIe lanes now.",
        "nvmlDeviceGetCurrPcieLinkWidth",
        "DCGM_FI_DEV_PCIE_LINK_WIDTH",
        1,
    ),
    _gpu(
        "pcie_width_max",
        Kind.GAUGE,
        "",
        32,
        "LANESMAX",
        "Most lanes of GPU and slot.",
        "nvmlDeviceGetMaxPcieLinkWidth",
        "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH",
        1,
    ),
    _gpu(
        "pcie_tx_bytes",
        Kind.COUNTER,
        "bytes",
        ANY_COUNT,
        "",
        "Bytes the GPU sent over PCIe; wraps at 2^32.",
        "NVML_FI_DEV_PCIE_COUNT_TX_BYTES (197)",
        "DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL",
    ),
    _gpu(
        "pcie_rx_bytes",
        Kind.COUNTER,
        "bytes",
        ANY_COUNT,
        "",
        "Bytes the GPU received over PCIe; wraps at 2^32.",
        "NVML_FI_DEV_PCIE_COUNT_RX_BYTES (198)",
        "DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL",
    ),
    _bytes_per_s(
        "pcie_tx_bytes_per_s",
        "PCIE TX",
        "From the GPU to the host.",
        "GPM metric 20, else difference of pcie_tx_bytes, else nvmlDeviceGetPcieThroughput",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
    ),
    _bytes_per_s(
        "pcie_rx_bytes_per_s",
        "PCIE RX",
        "From the host to the GPU.",
        "GPM metric 21, else difference of pcie_rx_bytes, else nvmlDeviceGetPcieThroughput",
        "DCGM_FI_PROF_PCIE_RX_BYTES",
    ),
    _gpu(
        "nvlink_tx_bytes",
        Kind.COUNTER,
        "bytes",
        ANY_COUNT,
        "",
        "Payload sent over all NVLinks.",
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX (138, all links), KiB",
    ),
    _gpu(
        "nvlink_rx_bytes",
        Kind.COUNTER,
        "bytes",
        ANY_COUNT,
        "",
        "Payload received over all NVLinks.",
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX (139, all links), KiB",
    ),
    _bytes_per_s(
        "nvlink_tx_bytes_per_s",
        "NVL TX",
        "Payload sent over all NVLinks.",
        "difference of nvlink_tx_bytes, else GPM metric 61",
        "DCGM_FI_PROF_NVLINK_TX_BYTES",
    ),
    _bytes_per_s(
        "nvlink_rx_bytes_per_s",
        "NVL RX",
        "Payload received over all NVLinks.",
        "difference of nvlink_rx_bytes, else GPM metric 60",
        "DCGM_FI_PROF_NVLINK_RX_BYTES",
    ),
    _ratio(
        "encoder_util_ratio",
        "ENC",
        "Video encoder use.",
        "nvmlDeviceGetEncoderUtilization",
        "DCGM_FI_DEV_ENC_UTIL",
    ),
    _ratio(
        "decoder_util_ratio",
        "DEC",
        "Video decoder use.",
        "nvmlDeviceGetDecoderUtilization",
        "DCGM_FI_DEV_DEC_UTIL",
    ),
    _ratio(
        "fan_speed_ratio",
        "FAN",
        "Target speed of its fastest fan, of the highest that its noise limit allows. Boards that "
        "the chassis cools have none.",
        "nvmlDeviceGetFanSpeed_v2, the largest of nvmlDeviceGetNumFans",
        "DCGM_FI_DEV_FAN_SPEED",
    ),
    _gpu(
        "process_count",
        Kind.GAUGE,
        "",
        65536,
        "PROCS",
        "Processes that hold a context on the GPU, to compute or to draw.",
        "nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetGraphicsRunningProcesses",
    ),
    _gpu(
        "compute_process_count",
        Kind.GAUGE,
        "",
        65536,
        "CPROCS",
        "Those of them that compute; the others only draw, as a desktop does, and use no GPU.",
        "nvmlDeviceGetComputeRunningProcesses",
    ),
    *GPU_ENGINE_FIELDS,
    *GPU_HEALTH_FIELDS,
)
