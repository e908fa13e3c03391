"""The catalogue's fields of a GPU's health: errors of memory and links, modes, fabric."""

from __future__ import annotations

from typing import Final

from gpumon.model.field import ANY_COUNT, Field, Kind

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
        "",
    ),
    (
        "remap_failure",
        "REMAPFAIL",
        1,
        "1: a row could not be replaced; the board is due for exchange.",
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
        "",
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
        "",
    ),
    (
        "fabric_health",
        "FABHEALTH",
        255,
        "Health of the fabric: 0 not said, 1 healthy, 2 unhealthy, 3 limited.",
        "nvmlDeviceGetGpuFabricInfoV.healthSummary (version 3)",
        "",
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
        "Who may compute: 0 everybody, 2 nobody, 3 one process.",
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
    return Field(key, "gpu", Kind.COUNTER, "", 0, ANY_COUNT, "", doc, origin, dcgm)


GPU_HEALTH_FIELDS: Final = (
    *(_counter(key, doc, f"NVML_FI_DEV_PCIE_{origin}") for key, doc, origin in _PCIE_ERRORS),
    *(
        _counter(key, f"{doc}, all NVLinks, up to NVLink 4.", f"NVML_FI_DEV_NVLINK_{origin}")
        for key, doc, origin in _NVLINK_ERRORS
    ),
    *(_counter(*row) for row in _MEMORY_ERRORS),
    *(
        Field(key, "gpu", Kind.ID, "", 0, high, title, doc, origin, dcgm)
        for key, title, high, doc, origin, dcgm in _CODES
    ),
    Field(
        "watched_events",
        "gpu",
        Kind.MASK,
        "",
        0,
        ANY_COUNT,
        "WATCHED",
        "NVML's event types that are listened to: 0x8 is Xids.",
        "nvmlDeviceRegisterEvents",
    ),
)
