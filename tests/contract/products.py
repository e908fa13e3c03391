"""What each pretend product or driver does not have (profiles of the stand-in driver)."""

from __future__ import annotations

from gpumon.model.catalogue.fields import CATALOGUE

ACTIVITY = {
    field.key
    for field in CATALOGUE.values()
    if field.block == "gpu" and field.origin.startswith("GPM") and field.unit == "ratio"
}
PCIE_COUNTERS = {"pcie_tx_bytes", "pcie_rx_bytes"}
PCIE_RATES = {"pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"}
PCIE_ERRORS = {key for key in CATALOGUE if key.startswith("pcie_") and key.endswith("_count")} - {
    "pcie_replay_count"
}
NVLINK = {key for key in CATALOGUE if key.startswith("nvlink_")}
OLDER_NVLINK = {key for key in NVLINK if key.endswith("_count")}
RETIRED = {key for key in CATALOGUE if key.startswith("retired_pages_")}
REMAP = {key for key in CATALOGUE if key.startswith("remap")}
ECC = {key for key in CATALOGUE if key.startswith(("ecc_", "remap"))}
FABRIC = {key for key in CATALOGUE if key.startswith("fabric_")}
MARGIN = {"temp_margin_c"}
FANS = {"fan_speed_ratio"}
SLOWDOWNS = {
    stem + end for stem in ("sw_thermal", "hw_thermal", "power_brake") for end in ("_us", "_ratio")
}
MEMORY_HEAT = {"mem_temp_c", "mem_temp_max_c"}
OLDER_LINK = {"link_replay_count", "link_recovery_count", "link_crc_count"}
NEWER_LINK = {
    field.key for field in CATALOGUE.values() if field.block == "link" and "NVLink 5" in field.doc
}
H100 = RETIRED | PCIE_ERRORS | FANS
A100 = H100 | ACTIVITY | FABRIC | MARGIN | SLOWDOWNS
LACKS = {
    "h100": H100,
    "b200": RETIRED | OLDER_NVLINK | FANS,
    # What the instances do is not the GPU's to tell.
    "mig": H100 | ACTIVITY | {"gpu_util_ratio", "mem_activity_ratio"},
    "a100": A100,
    "a100_pcie": A100 | NVLINK,
    "rtx": ((A100 - FANS) | NVLINK | ECC | MEMORY_HEAT | PCIE_COUNTERS | PCIE_RATES | {"mig_mode"})
    | {"recovery_action"},
    # Volta retires pages, and knows neither instances nor rows to remap.
    "v100": (A100 - RETIRED) | REMAP | {"mig_mode", "recovery_action"},
    "r470": A100
    | PCIE_COUNTERS
    | PCIE_RATES
    | {"mem_reserved_bytes", "power_average_w", "recovery_action"},
}
LINKS = {
    "h100": 18,
    "b200": 18,
    "mig": 18,
    "a100": 12,
    "a100_pcie": 0,
    "rtx": 0,
    "v100": 6,
    "r470": 12,
}
LINK_RATES = {"link_tx_bytes_per_s", "link_rx_bytes_per_s"}
"""They need two readings of a tier that is read every five seconds."""
LINKS_LACK = {
    "h100": NEWER_LINK,
    "mig": NEWER_LINK,
    "b200": OLDER_LINK,
    "a100": NEWER_LINK,
    "v100": NEWER_LINK,
    # The driver of 2021 knows the links' bytes, but none of the fields that came later.
    "r470": {field.key for field in CATALOGUE.values() if field.block == "link"}
    - {"link_tx_bytes", "link_rx_bytes"}
    - LINK_RATES,
}
