"""NVLinks of one GPU: state, traffic, errors, and who is at the other end."""

from functools import lru_cache
from typing import Any, Dict, List, Tuple

import pynvml

from gpumon.probe import tiers
from gpumon.probe.driver.driver import Batch, Driver, NoValueError
from gpumon.probe.rows import NOT_SAMPLED, NOT_SHARED, NOT_SUPPORTED, Row

COUNT = ((pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0, "link_count", 1),)

MOST_LINKS = 64
"""More than any GPU has (NVML_NVLINK_MAX_LINKS is 36); a larger answer is garbage."""

BYTES = (
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, "link_tx_bytes", 1024),
    (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, "link_rx_bytes", 1024),
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, "link_tx_bytes", 1),
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, "link_rx_bytes", 1),
)
"""Field id, catalogue key, factor to bytes; the later ones only where the first do not answer."""

MB = 1000000
"""Bytes of the unit that a link's speed has (nvml.h: MBps)."""

STATE = (
    (pynvml.NVML_FI_DEV_NVLINK_GET_STATE, "link_state", 1),
    (pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, "link_speed_bytes_per_s", MB),
)

ERRORS = (
    (pynvml.NVML_FI_DEV_NVLINK_GET_VERSION, "link_version", 1),
    (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, "link_replay_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, "link_recovery_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC, "link_crc_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS, "link_receive_error_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS, "link_transmit_discard_count", 1),
    (
        pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS,
        "link_recovery_success_count",
        1,
    ),
    (
        pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS,
        "link_recovery_failed_count",
        1,
    ),
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, "link_recovery_event_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS, "link_effective_error_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER, "link_effective_ber", 1),
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_SYMBOL_ERRORS, "link_symbol_error_count", 1),
    (pynvml.NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER, "link_symbol_ber", 1),
)
"""Both generations' errors are asked for once; those that the GPU lacks drop out."""

PARTS = (
    ("bytes", tiers.MEDIUM, BYTES),
    ("state", tiers.MEDIUM, STATE),
    ("errors", tiers.SLOW, ERRORS),
)
"""What is read together, and how often; bytes of a GPU under zoom in every period."""

PERIOD_S = 10.0
"""Between two readings of bytes and states, from the second on: history stores a row of a link as
often (fleet.history.retention), and the sum over a GPU's links is read in every period."""

REMOTES = ["remote_type", "remote"]

EVERY = [key for _, _, fields in PARTS for _, key, _ in fields] + REMOTES
"""Every field and label of a link."""

REMOTE_TYPES = {
    pynvml.NVML_NVLINK_DEVICE_TYPE_GPU: "gpu",
    pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU: "npu",
    pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH: "switch",
}

REMOTES_PER_PERIOD = 4
"""Two calls per link: where one takes 20 ms, a GPU with 18 links would cost most of a second."""

LINK_ACTIVE = 1
"""State of a link that works (nvml.h: NVML_FEATURE_ENABLED)."""


@lru_cache(maxsize=None)
def _fields_of_all(fields: Tuple[Any, ...], count: int) -> List[Any]:
    """The fields of so many links; those of alike GPUs are one list, which nobody changes."""
    return [(field, link, key, factor) for field, key, factor in fields for link in range(count)]


class Part:
    """One group of fields of all links of a GPU."""

    def __init__(self, batch: Batch, keys: List[str], count: int) -> None:
        """Nothing is read yet."""
        self.batch = batch
        self.keys = keys
        self.at = float("-inf")
        self.has_rates = False
        """Whether it was read twice, for a first rate."""
        self.rows = [Row("", 0.0) for _ in range(count)]
        self._distinct: List[Any] = []
        """Fields of which no two report the same."""

    def read(self, now: float) -> None:
        """Read all links; what one lacks is missing with its reason."""
        if self.at > float("-inf") and self.batch.fields is not self._distinct:
            # Of two fields that report the same, only the first that answered is read again.
            first: Dict[Any, Any] = {}
            for field in self.batch.fields:
                first.setdefault((field[1], field[2]), field)
            self._distinct = self.batch.fields = list(first.values())
        rows = [Row("", now) for _ in self.rows]
        for (_, link, key, factor), answer in self.batch.read():
            row = rows[link]
            if isinstance(answer, str):
                row.missing.setdefault(key, answer)
            elif key not in row.values:
                row.values[key] = answer * factor
        for row in rows:
            if len(row.values) < len(self.keys):
                row.lose(self.keys, NOT_SUPPORTED)
            if row.missing:
                for key in row.missing.keys() & row.values.keys():
                    del row.missing[key]
        self.has_rates = self.at > float("-inf")
        self.at, self.rows = now, rows


class Links:
    """The NVLinks of one GPU."""

    def __init__(self, driver: Driver, handle: Any, gpu: str, wanted: Any) -> None:
        """Learn how many links there are; a GPU or driver that does not report it has none."""
        self._driver = driver
        self._handle = handle
        self._gpu = gpu
        ((_, answer),) = Batch(driver, handle, gpu, COUNT).read()
        count = 0 if isinstance(answer, str) else int(answer)
        self.driver_count = count
        """Links that the driver counts; none of them is read where these are too many."""
        self.count = count if 0 <= count <= MOST_LINKS else 0
        self._parts = {
            name: Part(
                Batch(driver, handle, gpu, _fields_of_all(fields, self.count)),
                sorted({key for _, key, _ in fields}),
                self.count,
            )
            for name, tier, fields in PARTS
            if tier in wanted
        }
        self._unnamed = list(self._all())
        self._remotes = [Row("", 0.0) for _ in self._all()]
        self._rows: List[Row] = []

    def _all(self) -> range:
        return range(self.count)

    def read(self, now: float, is_zoomed: bool) -> List[Row]:
        """One row per link, as last read; the very same list where nothing was read again.

        `at` of a row is the time of its byte counters.
        """
        is_new = False
        for name, tier, _ in PARTS:
            part = self._parts.get(name)
            period_s = tiers.PERIODS_S[tiers.HOT if is_zoomed and name == "bytes" else tier]
            if part is not None and part.has_rates and tier == tiers.MEDIUM and period_s:
                period_s = PERIOD_S
            if part is not None and self.count and now - part.at >= period_s - tiers.SLACK_S:
                part.read(now)
                is_new = True
        if self._name_some() or is_new:
            self._rows = [self._row(link, now) for link in self._all()]
        return self._rows

    def _row(self, link: int, now: float) -> Row:
        counted = self._parts.get("bytes")
        row = Row("%s/%d" % (self._gpu, link), now if counted is None else counted.at)
        for part in self._parts.values():
            row.add(part.rows[link])
        row.add(self._remotes[link])
        if len(self._parts) < len(PARTS):
            row.lose(EVERY, NOT_SHARED)
        return row

    def last(self, now: float) -> List[Row]:
        """The rows as last read, without asking the driver anything."""
        return self._rows or self.without(NOT_SAMPLED, now)

    def without(self, reason: str, now: float) -> List[Row]:
        """The same rows with nothing in them but the reason why, the same list for the same one."""
        if not self._rows or self._rows[0].missing.get("link_state") != reason:
            self._rows = [Row("%s/%d" % (self._gpu, link), now) for link in self._all()]
            for row in self._rows:
                row.lose(EVERY, reason)
            for part in self._parts.values():
                part.at = float("-inf")
        return self._rows

    def _name_some(self) -> bool:
        """Ask a few more active links who is at their other end, which does not change."""
        state = self._parts.get("state")
        asked = 0
        if state is None:
            return False
        for link in list(self._unnamed):
            remote = self._remotes[link]
            if state.rows[link].values.get("link_state") != LINK_ACTIVE:
                remote.missing.update(dict.fromkeys(REMOTES, NOT_SUPPORTED))
            elif asked == REMOTES_PER_PERIOD:
                remote.missing.update(dict.fromkeys(REMOTES, NOT_SAMPLED))
            else:
                asked += 1
                self._remotes[link] = self._remote(link)
                self._unnamed.remove(link)
        return asked > 0

    def _remote(self, link: int) -> Row:
        row = Row("", 0.0)
        for label, call, pick in (
            (
                "remote_type",
                "nvmlDeviceGetNvLinkRemoteDeviceType",
                lambda kind: REMOTE_TYPES.get(kind, "unknown"),
            ),
            ("remote", "nvmlDeviceGetNvLinkRemotePciInfo", lambda info: info.busId),
        ):
            try:
                found = pick(self._driver.call(call, self._gpu, self._handle, link))
                row.labels[label] = found.decode() if isinstance(found, bytes) else found
            except NoValueError as missing:
                row.missing[label] = missing.reason
        return row
