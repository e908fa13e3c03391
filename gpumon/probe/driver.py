"""The NVIDIA driver through the official binding, every call noted before it is made.

The note is what a watcher on another thread reads when a call never returns. A call that the
hardware or the driver does not know is asked once and then left alone.
"""

import time
from typing import Any, Dict, Optional, Set, Tuple

import pynvml

from gpumon.probe.rows import FAILED, LOST, NO_PERMISSION, NOT_SUPPORTED

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


class NoValueError(Exception):
    """A call gave no value; `reason` says why."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the reason beside the driver's own words."""
        super().__init__(message)
        self.reason = reason


class Driver:
    """Calls into NVML, from one thread only."""

    def __init__(self) -> None:
        """Nothing is called yet."""
        self.calling: Optional[Tuple[str, str, float]] = None
        self.calls = 0
        self._unsupported: Set[Tuple[Any, ...]] = set()

    def call(self, name: str, gpu: str, *arguments: Any) -> Any:
        """What the named function of the binding answers.

        Args:
            name: Function of the binding, for example `nvmlDeviceGetTemperature`.
            gpu: UUID or index for messages and for remembering what is not supported.
            arguments: Passed on.

        Raises:
            NoValueError: The driver gave no value.
        """
        question = (name, gpu) + tuple(a for a in arguments if isinstance(a, int))
        if question in self._unsupported:
            raise NoValueError(NOT_SUPPORTED, name)
        self.calling = (name, gpu, time.monotonic())
        self.calls += 1
        try:
            return getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            reason = REASONS.get(error.value, FAILED)
            if reason == NOT_SUPPORTED:
                self._unsupported.add(question)
            raise NoValueError(reason, "%s: %s" % (name, error)) from None
        except pynvml.NVMLLibraryMismatchError:
            # The binding knows only a newer form of this call than the installed driver has.
            self._unsupported.add(question)
            raise NoValueError(NOT_SUPPORTED, name) from None
        finally:
            self.calling = None

    def field_values(self, handle: Any, gpu: str, ids: Any) -> Dict[int, Any]:
        """Values of a batch of field ids by id; an id without a value maps to its reason.

        The driver answers the batch in one call where it can (nvmlDeviceGetFieldValues).
        """
        answers: Dict[int, Any] = {}
        for value in self.call("nvmlDeviceGetFieldValues", gpu, handle, ids):
            if value.nvmlReturn == pynvml.NVML_SUCCESS:
                answers[value.fieldId] = _number(value)
            else:
                answers[value.fieldId] = REASONS.get(value.nvmlReturn, FAILED)
        return answers


def _number(value: Any) -> float:
    """Number of an nvmlFieldValue by its declared type (nvml.h, nvmlValueType)."""
    union = value.value
    members = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    if value.valueType >= len(members):
        return float("nan")
    number = getattr(union, members[value.valueType])
    return float(number) if value.valueType == 0 else int(number)
