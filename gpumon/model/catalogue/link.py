"""The catalogue's fields of one NVLink, each with its NVML origin."""

from __future__ import annotations

from typing import Final

from gpumon.model.catalogue.field import ANY_COUNT, Field, Kind

_MAX_BYTES_PER_S: Final = 1e12
"""A link of today carries 0.1 TB/s per direction; more comes from a counter that was reset."""

_OLDER: Final = "up to NVLink 4"
_NEWER: Final = "NVLink 5 and newer"

_ERRORS: Final = (
    ("link_replay_count", "Packets sent again", _OLDER, "ERROR_DL_REPLAY (161)"),
    ("link_recovery_count", "Recoveries", _OLDER, "ERROR_DL_RECOVERY (162)"),
    ("link_crc_count", "Checksum errors", _OLDER, "ERROR_DL_CRC (163)"),
    ("link_receive_error_count", "Errors received", _NEWER, "COUNT_RCV_ERRORS (208)"),
    ("link_transmit_discard_count", "Packets not sent", _NEWER, "COUNT_XMIT_DISCARDS (212)"),
    (
        "link_recovery_success_count",
        "Recoveries that worked",
        _NEWER,
        "COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS (213)",
    ),
    (
        "link_recovery_failed_count",
        "Recoveries that failed",
        _NEWER,
        "COUNT_LINK_RECOVERY_FAILED_EVENTS (214)",
    ),
    (
        "link_recovery_event_count",
        "Recoveries begun",
        _NEWER,
        "COUNT_LINK_RECOVERY_EVENTS (215)",
    ),
    (
        "link_effective_error_count",
        "Errors left after correction",
        _NEWER,
        "COUNT_EFFECTIVE_ERRORS (219)",
    ),
    ("link_symbol_error_count", "Symbol errors", _NEWER, "COUNT_SYMBOL_ERRORS (221)"),
)

_CODES: Final = (
    (
        "link_state",
        "STATE",
        255,
        "0 inactive, 1 active, 2 asleep, 3 active without traffic.",
        "NVML_FI_DEV_NVLINK_GET_STATE (165)",
    ),
    (
        "link_version",
        "VERSION",
        255,
        (
            "NVML's number of the generation: 1 is 1.0, 2 is 2.0, 3 is 2.2, 4 is 3.0, 5 is 3.1, "
            "6 is 4.0, 7 is 5.0, 8 is 6.0."
        ),
        "NVML_FI_DEV_NVLINK_GET_VERSION (166)",
    ),
    (
        "link_effective_ber",
        "EFFBER",
        2**63,
        "Bit error rate after correction, NVML's encoding, NVLink 5 and newer.",
        "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER (220)",
    ),
    (
        "link_symbol_ber",
        "SYMBER",
        2**63,
        "Symbol error rate, NVML's encoding, NVLink 5 and newer.",
        "NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER (222)",
    ),
)


def _traffic(way: str, title: str, field: str, newer: str) -> tuple[Field, Field]:
    """Counter of one direction and the rate that a source derives from it."""
    doc = f"Payload {'sent' if way == 'tx' else 'received'} over this link."
    origin = f"NVML_FI_DEV_NVLINK_{field}, KiB, else NVML_FI_DEV_NVLINK_{newer}"
    key = f"link_{way}_bytes"
    low, high = 0, _MAX_BYTES_PER_S
    return (
        Field(
            key=key,
            block="link",
            kind=Kind.COUNTER,
            unit="bytes",
            low=low,
            high=ANY_COUNT,
            title="",
            doc=doc,
            origin=origin,
        ),
        Field(
            key=f"{key}_per_s",
            block="link",
            kind=Kind.RATE,
            unit="bytes/s",
            low=low,
            high=high,
            title=title,
            doc=doc,
            origin=f"difference of {key}",
        ),
    )


LINK_FIELDS: Final = (
    *(
        Field(key, "link", Kind.ID, "", low=0, high=high, title=title, doc=doc, origin=origin)
        for key, title, high, doc, origin in _CODES
    ),
    Field(
        "link_speed_bytes_per_s",
        "link",
        Kind.RATE,
        "bytes/s",
        low=0,
        high=_MAX_BYTES_PER_S,
        title="SPEED",
        doc="What the link can carry per direction; 0 while it is inactive.",
        origin="NVML_FI_DEV_NVLINK_GET_SPEED (164), MB/s",
    ),
    *_traffic("tx", "TX", "THROUGHPUT_DATA_TX (138)", "COUNT_XMIT_BYTES (202)"),
    *_traffic("rx", "RX", "THROUGHPUT_DATA_RX (139)", "COUNT_RCV_BYTES (204)"),
    *(
        Field(
            key,
            "link",
            Kind.COUNTER,
            "",
            low=0,
            high=ANY_COUNT,
            title="",
            doc=f"{doc}, {since}.",
            origin=origin,
        )
        for key, doc, since, origin in (
            (key, doc, since, f"NVML_FI_DEV_NVLINK_{origin}") for key, doc, since, origin in _ERRORS
        )
    ),
)
"""Entities are `UUID/LINK`; only links that the GPU has."""
