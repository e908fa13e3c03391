"""Xids and other events of the driver, asked for without waiting, on the thread of all calls."""

import ctypes
from collections import deque
from typing import Any, Deque, Dict, List, Tuple

import pynvml

from gpumon.probe.driver.driver import Driver, NoValueError
from gpumon.probe.rows import NOT_SUPPORTED, Row

XID = pynvml.nvmlEventTypeXidCriticalError
WANTED = XID | pynvml.nvmlEventTypeDoubleBitEccError | 0x8000
"""Xids, uncorrected ECC errors and 0x8000, a changed recovery action, where the GPU has them."""

MOST_SHOWN = 64
"""Events in one report; of a storm the newest are shown and the rest is counted."""

MOST_PER_PERIOD = 512
"""Events that are taken from the driver in one period: a storm must not hold up the readings."""

SHOWN_S = 30.0
"""An event stays in the reports for so long, so that a monitor that skips one misses nothing."""

Event = Tuple[float, int, str, int, int]
"""Node's time, sequence, UUID, type bits, data (the Xid)."""


class Events:
    """One event set for all GPUs; what happened before a GPU was registered is not reported."""

    def __init__(self, driver: Driver) -> None:
        """The set is made for the first GPU."""
        self.dropped = 0
        self._driver = driver
        self._set: Any = None
        self._uuids: Dict[int, str] = {}
        self._sequence = 0
        self._shown: Deque[Event] = deque()

    def register(self, handle: Any, gpu: str, row: Row) -> None:
        """Listen to a GPU; `watched_events` of its row names to what, or why to nothing."""
        try:
            known = self._driver.call("nvmlDeviceGetSupportedEventTypes", gpu, handle)
            wanted = int(known) & WANTED
            if not wanted:
                raise NoValueError(NOT_SUPPORTED, "no events")
            if self._set is None:
                self._set = self._driver.call("nvmlEventSetCreate", "")
            self._driver.call("nvmlDeviceRegisterEvents", gpu, handle, wanted, self._set)
        except NoValueError as missing:
            row.missing["watched_events"] = missing.reason
            return
        row.values["watched_events"] = wanted
        self._uuids[_address(handle)] = gpu

    def poll(self) -> None:
        """Take what has happened since the last period."""
        if not self._uuids:
            return
        for _ in range(MOST_PER_PERIOD):
            try:
                found = self._driver.ask("nvmlEventSetWait_v2", "", self._set, 0)
            except NoValueError:
                # A timeout means that there is nothing; after other answers the next period asks.
                return
            gpu = self._uuids.get(_address(found.device), "")
            self._sequence += 1
            now = self._driver.monotonic()
            event = (now, self._sequence, gpu, int(found.eventType), int(found.eventData))
            self._shown.append(event)
            if len(self._shown) > MOST_SHOWN:
                self._shown.popleft()
                self.dropped += 1

    def rows(self) -> List[Row]:
        """One row per event of late, keyed `UUID/XID/SEQUENCE`."""
        now = self._driver.monotonic()
        while self._shown and now - self._shown[0][0] > SHOWN_S:
            self._shown.popleft()
        rows = []
        for at, sequence, gpu, kind, data in list(self._shown):
            row = Row("%s/%d/%d" % (gpu, data, sequence), at)
            row.values["event_type"] = kind
            row.values["event_age_s"] = round(now - at, 3)
            if kind == XID:
                row.values["xid"] = data
            else:
                row.missing["xid"] = NOT_SUPPORTED
            rows.append(row)
        return rows


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
