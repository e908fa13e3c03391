"""Numbers of the driver by their declared type, from requests that are made once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from gpumon.probe.driver.driver import Batch, Driver, NoValueError

if TYPE_CHECKING:
    import ctypes

FIELDS = [(100 + place, place, f"key{place}", 1.0) for place in range(7)]


class Library:
    """The driver's call, which writes the answers that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[int, tuple[int, int, str, Any]] = {}
        """Return code, type, member and number by field id."""
        self.asked: list[list[tuple[int, int]]] = []
        self.code: int = pynvml.NVML_SUCCESS
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer", lambda _name: self.call)

    def call(self, _handle: object, count: ctypes.c_int32, found: Any) -> int:
        values = found._obj
        self.asked.append([(v.fieldId, v.scopeId) for v in values])
        assert count.value == len(values)
        for value in values:
            code, kind, member, number = self.answers.get(value.fieldId, (0, 1, "uiVal", 7))
            value.nvmlReturn, value.valueType = code, kind
            union = value.value
            setattr(union, member, number)
            value.value = union
        return self.code


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    return Library(monkeypatch)


def batch(driver: Driver) -> Batch:
    return Batch(driver, "handle", "GPU-1", FIELDS)


def test_a_number_is_read_by_its_declared_type(library: Library) -> None:
    answers = [
        ("dVal", 2.5),
        ("uiVal", 2**32 - 1),
        ("ulVal", 2**63),
        ("ullVal", 2**64 - 1),
        ("sllVal", -(2**62)),
        ("siVal", -3),
        ("usVal", 2**16 - 1),
    ]
    library.answers = {100 + kind: (0, kind, *answer) for kind, answer in enumerate(answers)}
    found = batch(Driver()).read()
    assert [number for _, number in found] == [number for _, number in answers]
    assert library.asked == [[(100 + place, place) for place in range(7)]]


def test_what_the_gpu_lacks_is_asked_once_and_other_failures_are_told(library: Library) -> None:
    library.answers = {
        101: (pynvml.NVML_ERROR_NOT_SUPPORTED, 1, "uiVal", 0),
        102: (pynvml.NVML_ERROR_UNKNOWN, 1, "uiVal", 0),
        103: (0, 40, "uiVal", 0),
    }
    driver = Driver()
    asked = batch(driver)
    assert [answer for _, answer in asked.read()][:4] == [7, "not_supported", "failed", "failed"]
    assert driver.failures == {"GPU-1": "field 102: return code 999"}
    library.answers = {103: (0, 40, "uiVal", 0)}
    assert [answer for _, answer in asked.read()] == [7, 7, "failed", 7, 7, 7]
    assert library.asked[1] == [(100 + place, place) for place in (0, 2, 3, 4, 5, 6)]
    assert driver.failures == {"GPU-1": "a field of unknown type"}
    assert driver.calls == {"nvmlDeviceGetFieldValues": 2}


def test_a_call_that_fails_as_a_whole_is_the_reason_of_each_field(library: Library) -> None:
    library.code = pynvml.NVML_ERROR_GPU_IS_LOST
    assert {answer for _, answer in batch(Driver()).read()} == {"lost"}


def test_only_what_one_gpu_refused_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def clock(handle: str, kind: int) -> int:
        asked.append((handle, kind))
        if (handle, kind) == ("a", 1):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return 5

    monkeypatch.setattr(pynvml, "nvmlDeviceGetClockInfo", clock)
    driver = Driver()
    for _ in range(2):
        for handle, kind in (("a", 0), ("a", 1), ("b", 1)):
            with suppress(NoValueError):
                assert driver.call("nvmlDeviceGetClockInfo", f"GPU-{handle}", handle, kind) == 5
    assert asked == [("a", 0), ("a", 1), ("b", 1), ("a", 0), ("b", 1)]
