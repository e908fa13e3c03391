"""The NVIDIA driver through the official binding, every call noted before it is made.

The note is what a watcher on another thread reads when a call never returns. A call that the
hardware or the driver does not know is asked once and then left alone.
"""

import threading
import time
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
"""How calls say that there is no such thing or nothing new: no failure that anybody should see."""

MISMATCH = -1
"""Code of a call of which the binding knows only a newer form than the installed driver."""


class NoValueError(Exception):
    """A call gave no value; `reason` says why."""

    def __init__(self, reason: str, message: str, code: int = MISMATCH) -> None:
        """Keep the reason and NVML's return code beside the driver's own words."""
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
        question = (name, gpu) + tuple(a for a in arguments if isinstance(a, int))
        if question in self._unsupported:
            raise NoValueError(NOT_SUPPORTED, name)
        try:
            return self.ask(name, gpu, *arguments)
        except NoValueError as missing:
            if missing.reason == NOT_SUPPORTED:
                self._unsupported.add(question)
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
        """The same, and asked again next time whatever it answers."""
        thread = threading.get_ident()
        since = self.monotonic()
        self.calling[thread] = Calling(name, gpu, since)
        self.calls[name] = self.calls.get(name, 0) + 1
        try:
            return getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            reason = REASONS.get(error.value, FAILED)
            message = "%s: %s" % (name, error)
            if reason == FAILED and error.value not in NOTHING:
                self.failures[gpu] = message
            raise NoValueError(reason, message, error.value) from None
        except pynvml.NVMLLibraryMismatchError:
            raise NoValueError(NOT_SUPPORTED, name) from None
        finally:
            del self.calling[thread]
            took = self.monotonic() - since
            self.spent_s += took
            # Opening the driver takes longer than any reading, and happens once.
            if name != "nvmlInit" and (self.slowest is None or took > self.slowest[2]):
                self.slowest = (name, gpu, took)
            if thread in self.abandoned:
                raise AbandonedError(name)

    def account(self) -> Dict[str, Any]:
        """Calls since the start: how many, of which functions, and the slowest in milliseconds."""
        told: Dict[str, Any] = {"total": sum(self.calls.values()), "by": dict(self.calls)}
        if self.slowest is not None:
            name, gpu, took = self.slowest
            told["slowest"] = {"call": name, "gpu": gpu, "ms": round(took * 1000.0, 3)}
        return told

    def cost(self) -> Row:
        """What the node's row says of it: what watching the GPUs asks of the driver."""
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


Field = Tuple[int, int, str, float]
"""NVML field id, scope, catalogue key, factor to the key's unit."""


class Batch:
    """Fields of one GPU that are read together; those that it does not have drop out."""

    def __init__(self, driver: Driver, handle: Any, gpu: str, fields: Any) -> None:
        """Ask for all of `fields` at first."""
        self._driver = driver
        self._handle = handle
        self._gpu = gpu
        self.fields: List[Field] = list(fields)

    def read(self) -> List[Tuple[Field, Any]]:
        """Each field with its number, or with the reason why it has none.

        One call (nvmlDeviceGetFieldValues); a field that is not supported is answered this once.
        """
        fields = self.fields
        if not fields:
            return []
        ids = [(field, scope) for field, scope, _, _ in fields]
        try:
            found = self._driver.ask("nvmlDeviceGetFieldValues", self._gpu, self._handle, ids)
        except NoValueError as missing:
            # The call fails as a whole also where none of its fields has a value.
            answers: List[Any] = [missing.reason] * len(fields)
        else:
            answers = [_answer(value) for value in found]
            for (field, _, _, _), answer, value in zip(fields, answers, found):
                if answer == FAILED:
                    message = "field %d: return code %d" % (field, value.nvmlReturn)
                    self._driver.failures[self._gpu] = message
        if NOT_SUPPORTED in answers:
            self.fields = [f for f, answer in zip(fields, answers) if answer != NOT_SUPPORTED]
        return list(zip(fields, answers))


_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Parts of the union nvmlValue_t by nvmlValueType (nvml.h)."""

plain_member = object.__getattribute__
"""The binding's own way to a structure's member looks for text in it, at five times the cost; of
links alone a pass reads thousands."""


def _answer(value: Any) -> Any:
    """Number of an nvmlFieldValue by its declared type (nvml.h, nvmlValueType), or a reason."""
    code = plain_member(value, "nvmlReturn")
    if code != pynvml.NVML_SUCCESS:
        return REASONS.get(code, FAILED)
    kind = plain_member(value, "valueType")
    if kind >= len(_MEMBERS):
        return FAILED
    return getattr(plain_member(value, "value"), _MEMBERS[kind])
