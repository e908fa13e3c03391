"""What is read of a GPU, how often, and by which call: hot, medium, slow, and once at the start."""

from typing import Any, Tuple

import pynvml

HOT = "hot"
MEDIUM = "medium"
SLOW = "slow"
ALL = (HOT, MEDIUM, SLOW)

PERIODS_S = {HOT: 0.0, MEDIUM: 5.0, SLOW: 30.0}
"""Least time between two readings of a tier; the hot one is read in every period."""

SLACK_S = 0.5
"""A period that ends this little too early still counts as the tier's turn: the GPUs of a node are
opened one after the other, and their links, which fill half a report, are to be sent together."""

ALL_LINKS = 0xFFFFFFFF
"""Scope of an NVLink field that sums every link (nvml.h)."""

HOT_FIELDS = (
    (pynvml.NVML_FI_DEV_POWER_INSTANT, 0, "power_w", 0.001),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0, "pcie_tx_bytes", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0, "pcie_rx_bytes", 1),
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS, "nvlink_tx_bytes", 1024),
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS, "nvlink_rx_bytes", 1024),
    (pynvml.NVML_FI_DEV_PERF_POLICY_POWER, 0, "sw_power_cap_us", 0.001),
    (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, 0, "sw_thermal_us", 0.001),
)
"""Field id, scope, catalogue key, factor to the key's unit (mW, mJ, bytes, KiB, ns)."""

MEDIUM_FIELDS = (
    (pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0, "energy_j", 0.001),
    (pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL, 0, "thermal_violation_us", 0.001),
    (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, 0, "hw_thermal_us", 0.001),
    (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, 0, "power_brake_us", 0.001),
    (pynvml.NVML_FI_DEV_POWER_AVERAGE, 0, "power_average_w", 0.001),
    (pynvml.NVML_FI_DEV_MEMORY_TEMP, 0, "mem_temp_c", 1),
)
"""The first four the driver asks the GPU's own processor for at every reading: on an H200 (driver
580) energy took 2.5 to 4.2 ms, each of the times .4 to .8, the whole hot tier without them .5."""

SLOW_FIELDS = (
    (pynvml.NVML_FI_DEV_ECC_CURRENT, 0, "ecc_mode", 1),
    (pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, 0, "ecc_corrected_volatile_count", 1),
    (pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 0, "ecc_uncorrected_volatile_count", 1),
    (pynvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL, 0, "ecc_corrected_aggregate_count", 1),
    (pynvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL, 0, "ecc_uncorrected_aggregate_count", 1),
    (pynvml.NVML_FI_DEV_RETIRED_SBE, 0, "retired_pages_corrected_count", 1),
    (pynvml.NVML_FI_DEV_RETIRED_DBE, 0, "retired_pages_uncorrected_count", 1),
    (pynvml.NVML_FI_DEV_RETIRED_PENDING, 0, "retired_pages_pending", 1),
    (pynvml.NVML_FI_DEV_REMAPPED_COR, 0, "remapped_rows_correctable_count", 1),
    (pynvml.NVML_FI_DEV_REMAPPED_UNC, 0, "remapped_rows_uncorrectable_count", 1),
    (pynvml.NVML_FI_DEV_REMAPPED_PENDING, 0, "remap_pending", 1),
    (pynvml.NVML_FI_DEV_REMAPPED_FAILURE, 0, "remap_failure", 1),
    (pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, 0, "recovery_action", 1),
    (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 0, "pcie_replay_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER, 0, "pcie_recovery_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS, 0, "pcie_correctable_error_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_NAKS_RECEIVED, 0, "pcie_nak_received_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_RECEIVER_ERROR, 0, "pcie_receiver_error_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_BAD_TLP, 0, "pcie_bad_tlp_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_NAKS_SENT, 0, "pcie_nak_sent_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_BAD_DLLP, 0, "pcie_bad_dllp_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR, 0, "pcie_nonfatal_error_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR, 0, "pcie_fatal_error_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_UNSUPPORTED_REQ, 0, "pcie_unsupported_request_count", 1),
    (pynvml.NVML_FI_DEV_PCIE_COUNT_LCRC_ERROR, 0, "pcie_lcrc_error_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 0, "nvlink_crc_flit_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, 0, "nvlink_crc_data_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 0, "nvlink_replay_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, 0, "nvlink_recovery_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_ECC_DATA_ERROR_COUNT_TOTAL, 0, "nvlink_ecc_data_count", 1),
)

FIELDS = {HOT: HOT_FIELDS, MEDIUM: MEDIUM_FIELDS, SLOW: SLOW_FIELDS}

Reading = Tuple[str, str, Tuple[Any, ...], float]
"""Catalogue key, function of the binding, arguments after the handle, factor. Of an answer that is
several numbers the first counts."""

READINGS = {
    HOT: (
        ("temp_c", "nvmlDeviceGetTemperature", (pynvml.NVML_TEMPERATURE_GPU,), 1),
        ("sm_clock_mhz", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_SM,), 1),
    ),
    MEDIUM: (
        ("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", (), 0.001),
        ("mem_clock_mhz", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_MEM,), 1),
        ("graphics_clock_mhz", "nvmlDeviceGetClockInfo", (pynvml.NVML_CLOCK_GRAPHICS,), 1),
        ("perf_state", "nvmlDeviceGetPerformanceState", (), 1),
        ("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration", (), 1),
        ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), 1),
        ("encoder_util_ratio", "nvmlDeviceGetEncoderUtilization", (), 0.01),
        ("decoder_util_ratio", "nvmlDeviceGetDecoderUtilization", (), 0.01),
    ),
    SLOW: (
        ("temp_margin_c", "nvmlDeviceGetMarginTemperature", (), 1),
        ("persistence_mode", "nvmlDeviceGetPersistenceMode", (), 1),
        ("compute_mode", "nvmlDeviceGetComputeMode", (), 1),
        ("mig_mode", "nvmlDeviceGetMigMode", (), 1),
    ),
}

START = (
    ("minor_number", "nvmlDeviceGetMinorNumber", (), 1),
    ("sm_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", (pynvml.NVML_CLOCK_SM,), 1),
    ("mem_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", (pynvml.NVML_CLOCK_MEM,), 1),
    ("graphics_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", (pynvml.NVML_CLOCK_GRAPHICS,), 1),
    ("pcie_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), 1),
    ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), 1),
    ("power_limit_default_w", "nvmlDeviceGetPowerManagementDefaultLimit", (), 0.001),
    (
        "temp_shutdown_c",
        "nvmlDeviceGetTemperatureThreshold",
        (pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN,),
        1,
    ),
    (
        "temp_slowdown_c",
        "nvmlDeviceGetTemperatureThreshold",
        (pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,),
        1,
    ),
    (
        "mem_temp_max_c",
        "nvmlDeviceGetTemperatureThreshold",
        (pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX,),
        1,
    ),
    (
        "temp_max_c",
        "nvmlDeviceGetTemperatureThreshold",
        (pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX,),
        1,
    ),
)
"""What a driver does not change while it runs."""

NEVER_ZERO = frozenset(["mem_temp_c"])
"""Fields that boards without the sensor answer with 0."""

COUNTED = frozenset(
    key
    for _, _, key, _ in HOT_FIELDS + MEDIUM_FIELDS
    if key.endswith(("_bytes", "_us")) or key == "energy_j"
)
"""Counters that are handed on as exact integers: a float would lose their low bits."""
