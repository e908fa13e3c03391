"""The NVIDIA driver through the official binding, every call noted before it is made.

The note is what a watcher on another thread reads when a call never returns. A call that the
hardware or the driver does not know is asked once and then left alone.
"""

import ctypes
import struct
import threading
import time
from functools import lru_cache
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

import pynvml

from gpumon.probe.rows import FAILED, LOST, NO_PERMISSION, NOT_SAMPLED, NOT_SUPPORTED, Row

REASONS = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT: NOT_SUPPORTED,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION: NO_PERMISSION,
    pynvml.NVML_ERROR_GPU_IS_LOST: LOST,
}
"""NVML return codes by the reason they give to a missing value; INVALID_ARGUMENT is how drivers
answer field ids and metrics that are newer than they are."""

NOTHING = (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_TIMEOUT)
"""How calls report that there is no such thing or nothing new: no failure for a user to see."""

OPENING = ("nvmlInit", "nvmlDeviceGetHandleByIndex")
"""Calls that open the driver and a GPU: where no persistence daemon runs, the driver sets the GPU
up in them, which takes seconds (nvml.h)."""

MISMATCH = -1
"""Code of a call of which the binding knows only a newer form than the installed driver."""


class NoValueError(Exception):
    """A call gave no value; `reason` is why."""

    def __init__(self, reason: str, message: str, code: int = MISMATCH) -> None:
        """Take the reason and NVML's return code beside the driver's own words."""
        super().__init__(message)
        self.reason = reason
        self.code = code


class AbandonedError(Exception):
    """The call returned after its thread had been given up; the thread must unwind and end."""


class Calling(NamedTuple):
    """A call that has not returned yet."""

    name: str
    gpu: str
    since: float


class Driver:
    """Calls into NVML. One thread at a time, except that a stuck one may be abandoned in it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Nothing is called yet; `monotonic` gives the node's time in seconds."""
        self.monotonic = monotonic
        self.calling: Dict[int, Calling] = {}
        self.abandoned: Set[int] = set()
        self.calls: Dict[str, int] = {}
        self.spent_s = 0.0
        """Time in calls that have returned."""
        self.slowest: Optional[Tuple[str, str, float]] = None
        self.failures: Dict[str, str] = {}
        """By GPU, what failed last for another reason than the known ones."""
        self._unsupported: Set[Tuple[Any, ...]] = set()
        self._refused: Set[str] = set()
        """Functions of which anything is not supported."""

    def call(self, name: str, gpu: str, *arguments: Any) -> Any:
        """What the named function of the binding answers; what is not supported is remembered.

        Args:
            name: Function of the binding, for example `nvmlDeviceGetTemperature`.
            gpu: UUID or index for messages and for remembering what is not supported.
            arguments: Passed on.

        Raises:
            NoValueError: The driver gave no value.
            AbandonedError: This thread was given up meanwhile.
        """
        # Most functions are never refused; for them no question has to be put together.
        if name in self._refused and _question(name, gpu, arguments) in self._unsupported:
            raise NoValueError(NOT_SUPPORTED, name)
        try:
            return self.make(name, gpu, getattr(pynvml, name), *arguments)
        except NoValueError as missing:
            if missing.reason == NOT_SUPPORTED:
                self._unsupported.add(_question(name, gpu, arguments))
                self._refused.add(name)
            raise

    def call_since(self, name: str, gpu: str, handle: Any, since: int) -> Any:
        """The same for a call that takes the time of the last sample, which is never the same."""
        if (name, gpu) in self._unsupported:
            raise NoValueError(NOT_SUPPORTED, name)
        try:
            return self.ask(name, gpu, handle, since)
        except NoValueError as missing:
            if missing.reason == NOT_SUPPORTED:
                self._unsupported.add((name, gpu))
            raise

    def ask(self, name: str, gpu: str, *arguments: Any) -> Any:
        """The same, and asked again next time, also after a failure."""
        return self.make(name, gpu, getattr(pynvml, name), *arguments)

    def make(self, name: str, gpu: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """The same by a function that makes the call which is named.

        Raises:
            NoValueError: The driver has no value, and why.
            AbandonedError: The call came back after the thread was given up.
        """
        thread = threading.get_ident()
        since = self.monotonic()
        self.calling[thread] = Calling(name, gpu, since)
        self.calls[name] = self.calls.get(name, 0) + 1
        try:
            return function(*arguments)
        except pynvml.NVMLError as error:
            reason = REASONS.get(error.value, FAILED)
            message = "%s: %s" % (name, error)
            if reason == FAILED and error.value not in NOTHING:
                self.failures[gpu] = message
            raise NoValueError(reason, message, error.value) from None
        except pynvml.NVMLLibraryMismatchError:
            raise NoValueError(NOT_SUPPORTED, name) from None
        except UnicodeError:
            message = "%s: its answer is not UTF-8" % name
            self.failures[gpu] = message
            raise NoValueError(FAILED, message, pynvml.NVML_ERROR_UNKNOWN) from None
        finally:
            del self.calling[thread]
            took = self.monotonic() - since
            self.spent_s += took
            # Opening takes longer than any reading, and happens once.
            if name not in OPENING and (self.slowest is None or took > self.slowest[2]):
                self.slowest = (name, gpu, took)
            if thread in self.abandoned:
                raise AbandonedError(name)

    def account(self) -> Dict[str, Any]:
        """Calls since the start: how many, of which functions, and the slowest in milliseconds."""
        counts: Dict[str, Any] = {"total": sum(self.calls.values()), "by": dict(self.calls)}
        if self.slowest is not None:
            name, gpu, took = self.slowest
            counts["slowest"] = {"call": name, "gpu": gpu, "ms": round(took * 1000.0, 3)}
        return counts

    def cost(self) -> Row:
        """What the node's row has of it: what watching the GPUs asks of the driver."""
        row = Row("", self.monotonic())
        row.values["probe_calls"] = sum(self.calls.copy().values())
        row.values["probe_driver_us"] = int(self.spent_s * 1e6)
        if self.slowest is None:
            row.lose(["probe_slowest_call_s", "slowest_call"], NOT_SAMPLED)
        else:
            name, gpu, took = self.slowest
            row.values["probe_slowest_call_s"] = round(took, 6)
            row.labels["slowest_call"] = ("%s %s" % (name, gpu)).strip()
        return row


def _question(name: str, gpu: str, arguments: Tuple[Any, ...]) -> Tuple[Any, ...]:
    """What is asked of a GPU, without its handle."""
    return (name, gpu) + tuple(a for a in arguments if isinstance(a, int))


Field = Tuple[int, int, str, float]
"""NVML field id, scope, catalogue key, factor to the key's unit."""

FIELD_VALUES = "nvmlDeviceGetFieldValues"

_VALUE = struct.Struct("=IIqqII8s")
"""Of nvmlFieldValue_t: field, scope, time, latency, type, return code and value (nvml.h). A member
at a time through ctypes would cost as much as the call."""

_UNASKED = (0, 0, 0, 0, b"")
"""What the driver fills in."""

_NUMBERS = tuple(struct.Struct("=" + code) for code in "dIQQqiH")
"""The value by nvmlValueType (nvml.h)."""


@lru_cache(maxsize=64)
def _packed(asked: Tuple[Tuple[int, int], ...]) -> bytes:
    """The request for these fields and scopes; alike GPUs ask for the same."""
    return b"".join([_VALUE.pack(field, scope, *_UNASKED) for field, scope in asked])


class Request:
    """Fields as the driver takes them, made once: the binding would make them at every call."""

    def __init__(self, fields: List[Field]) -> None:
        """Room for the answers lies in the request (nvml.h, nvmlFieldValue_t)."""
        asked = _packed(tuple([field[:2] for field in fields]))
        self._values = (pynvml.c_nvmlFieldValue_t * len(fields)).from_buffer_copy(asked)
        self._count = ctypes.c_int32(len(fields))

    def fill(self, handle: Any) -> None:
        """Ask the driver for all of them, as the binding's nvmlDeviceGetFieldValues does."""
        function = pynvml._nvmlGetFunctionPointer(FIELD_VALUES)
        pynvml._nvmlCheckReturn(function(handle, self._count, ctypes.byref(self._values)))

    def answers(self) -> List[Any]:
        """Of each field its number by its declared type, or why it has none."""
        success, known = pynvml.NVML_SUCCESS, len(_NUMBERS)
        return [
            REASONS.get(code, FAILED)
            if code != success
            else _NUMBERS[kind].unpack_from(value)[0]
            if kind < known
            else FAILED
            for _, _, _, _, kind, code, value in _VALUE.iter_unpack(self._values)
        ]

    def failure(self) -> str:
        """What the last field reported that failed for another reason than the known ones."""
        failed = [
            (field, code)
            for field, _, _, _, _, code, _ in _VALUE.iter_unpack(self._values)
            if code != pynvml.NVML_SUCCESS and code not in REASONS
        ]
        return "field %d: return code %d" % failed[-1] if failed else "a field of unknown type"


class Batch:
    """Fields of one GPU that are read together; those that it does not have drop out."""

    def __init__(self, driver: Driver, handle: Any, gpu: str, fields: Any) -> None:
        """Ask for all of `fields` at first."""
        self._driver = driver
        self._handle = handle
        self._gpu = gpu
        self.fields: List[Field] = list(fields)
        self._asked: List[Field] = []
        """The fields of the request."""
        self._request = Request([])

    def read(self) -> List[Tuple[Field, Any]]:
        """Each field with its number, or with the reason why it has none.

        One call (nvmlDeviceGetFieldValues); a field that is not supported is answered this once.
        """
        fields = self.fields
        if not fields:
            return []
        if fields is not self._asked:
            self._asked, self._request = fields, Request(fields)
        request = self._request
        try:
            self._driver.make(FIELD_VALUES, self._gpu, request.fill, self._handle)
        except NoValueError as missing:
            # The call fails as a whole also where none of its fields has a value.
            answers: List[Any] = [missing.reason] * len(fields)
        else:
            answers = request.answers()
            if FAILED in answers:
                self._driver.failures[self._gpu] = request.failure()
        if NOT_SUPPORTED in answers:
            self.fields = [f for f, answer in zip(fields, answers) if answer != NOT_SUPPORTED]
        return list(zip(fields, answers))
