"""A field's key in words, where a view has no better name for it."""

from __future__ import annotations

from typing import Final

_UNITS: Final = (
    "_bytes_per_s", "_per_s", "_bytes", "_ratio", "_mhz", "_gbps", "_ms", "_us", "_s", "_w", "_c",
    "_j",
)  # fmt: skip
"""Ends of keys that say the unit, the longest first: a value or an axis shows it."""

_WORDS: Final = {
    "cpu": "CPU",
    "crc": "CRC",
    "dram": "DRAM",
    "ecc": "ECC",
    "fs": "file system",
    "gpu": "GPU",
    "mem": "memory",
    "mig": "MIG",
    "nic": "port",
    "nvlink": "NVLink",
    "pcie": "PCIe",
    "psi": "PSI",
    "rss": "RSS",
    "rx": "received",
    "sm": "SM",
    "temp": "temperature",
    "tx": "sent",
    "util": "utilisation",
}


def spoken(key: str) -> str:
    """`SM clock` for `sm_clock_mhz`, `port speed` for `nic_speed_gbps`."""
    end = next((unit for unit in _UNITS if key.endswith(unit)), "")
    return " ".join(_WORDS.get(word, word) for word in key.removesuffix(end).split("_"))
