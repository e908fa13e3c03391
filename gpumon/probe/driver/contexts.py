"""Processes that hold a context on one GPU: type, memory, and how busy they made its units."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import pynvml

from gpumon.probe.driver.driver import Driver, NoValueError
from gpumon.probe.rows import NOT_SAMPLED, NOT_SHARED, NOT_SUPPORTED, Row

COMPUTING = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2")
"""The newest form of the call, and the one that drivers of the 470 branch have."""

DRAWING = ("nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses_v2")
"""The same of processes with a graphics context: a desktop's server, what renders."""

COMPUTE, GRAPHICS, BOTH = "C", "G", "C+G"
"""Types of a process on a GPU, in the words of nvidia-smi."""

COUNTS = ["process_count", "compute_process_count"]
"""What a GPU's row has of them."""

USE = "nvmlDeviceGetProcessUtilization"

USES = (
    ("context_sm_util_ratio", "smUtil"),
    ("context_mem_util_ratio", "memUtil"),
    ("context_encoder_util_ratio", "encUtil"),
    ("context_decoder_util_ratio", "decUtil"),
)
"""What a sample of that call has of one process, in percent."""

NO_INSTANCE = 0xFFFFFFFF
"""The instance of a process on a GPU that is not cut (nvml.h)."""

Held = Tuple[int, Row]
"""PID and the row of its context."""


class Context(NamedTuple):
    """One process on the GPU, as the driver lists it."""

    pid: int
    type: str
    memory: Optional[int]
    gpu_instance: Optional[int]
    compute_instance: Optional[int]


def _context(entry: Any, kind: str) -> Context:
    return Context(
        pid=int(entry.pid),
        type=kind,
        memory=entry.usedGpuMemory,
        gpu_instance=_instance(entry, "gpuInstanceId"),
        compute_instance=_instance(entry, "computeInstanceId"),
    )


def _joined(computing: Sequence[Any], drawing: Sequence[Any]) -> List[Context]:
    """Those that compute first; a process in both lists is one of both types."""
    drawn = {int(entry.pid): entry for entry in drawing}
    computed = {int(entry.pid) for entry in computing}
    found = [_context(e, BOTH if int(e.pid) in drawn else COMPUTE) for e in computing]
    return found + [_context(e, GRAPHICS) for pid, e in drawn.items() if pid not in computed]


def _instance(entry: Any, name: str) -> Optional[int]:
    number = getattr(entry, name, NO_INSTANCE)
    return None if number is None or number == NO_INSTANCE else int(number)


SOON_S = 0.9
"""How long after its first answer the driver is asked once more, so that a user who watches for a
second sees a use: it samples at least once a second (nvml.h: every 1/6 s to 1 s, by product)."""


class Contexts:
    """Lists the processes of one GPU."""

    def __init__(self, driver: Driver, handle: Any, gpu: str) -> None:
        """Nothing is listed yet."""
        self._driver = driver
        self._handle = handle
        self._gpu = gpu
        self._listed: List[Context] = []
        self._held: List[Held] = []
        """Their rows, made once for what was listed and sampled last."""
        self._is_held = False
        self._reason = NOT_SAMPLED
        self._graphics_reason = ""
        """Why it is not known which processes draw, else empty."""
        self._mem_used: Any = None
        self._use: Dict[int, Any] = {}
        """Newest sample of each process that used anything."""
        self._use_reason = NOT_SAMPLED
        self._sampled: List[int] = []
        self._last_sample = 0
        self._has_use = False
        self._is_forgotten = False
        """Whether no user has watched processes since use was asked for last."""
        self._first_at = float("inf")
        """When use was first asked for, until it has been asked for again; else infinity."""

    def read(self, row: Row, is_due: bool, is_shown: bool = True) -> List[Held]:
        """Contexts as last listed, the same list while none is new, and their numbers in `row`.

        They are listed again when their turn has come, and at once when the GPU's memory in use has
        changed: no process comes or goes without that. How busy each makes the GPU is asked only
        while a user watches processes: it is one of the dearest calls, and no rule needs it.
        """
        mem_used = row.values.get("mem_used_bytes")
        if is_due or mem_used != self._mem_used:
            self._list()
            self._mem_used = mem_used
        if not is_shown:
            self._forget_use()
        elif is_due or self._is_forgotten:
            is_first = not self._has_use
            self._sample()
            self._first_at = row.at if is_first and self._has_use else float("inf")
        elif row.at - self._first_at >= SOON_S:
            self._sample(is_soon=True)
            self._first_at = float("inf")
        if self._reason:
            row.lose(COUNTS, self._reason)
            self._held, self._is_held = self._held and [], False
            return self._held
        row.values["compute_process_count"] = sum(c.type != GRAPHICS for c in self._listed)
        if self._graphics_reason:
            row.missing["process_count"] = self._graphics_reason
        else:
            row.values["process_count"] = len(self._listed)
        if not self._is_held:
            self._held = [(context.pid, self._row(context, row.at)) for context in self._listed]
            self._is_held = True
        return self._held

    def _forget_use(self) -> None:
        """Begin with the next sample as with the first: what lies between would be its mean."""
        if not self._is_forgotten:
            self._is_forgotten, self._is_held, self._has_use = True, False, False
            self._use, self._use_reason, self._first_at = {}, NOT_SAMPLED, float("inf")

    def _list(self) -> None:
        self._is_held = False
        try:
            computing = self._running(COMPUTING)
        except NoValueError as missing:
            self._reason = missing.reason
            return
        self._reason = self._graphics_reason = ""
        drawing: Sequence[Any] = ()
        try:
            drawing = self._running(DRAWING)
        except NoValueError as missing:
            # Where nothing can draw, nothing does: boards of data centres, GPUs cut by MIG.
            if missing.reason != NOT_SUPPORTED:
                self._graphics_reason = missing.reason
        self._listed = _joined(computing, drawing)

    def _running(self, functions: Sequence[str]) -> Sequence[Any]:
        """One of the driver's lists, by the first form of the call that it has.

        Raises:
            NoValueError: It has none, or does not answer.
        """
        first, *others = functions
        try:
            found: Sequence[Any] = self._driver.call(first, self._gpu, self._handle)
        except NoValueError as missing:
            if missing.reason != NOT_SUPPORTED or not others:
                raise
            return self._running(others)
        return found

    def _sample(self, is_soon: bool = False) -> None:
        """Learn the use since the last sample, by the last sample's own timestamp.

        Its clock is none of ours (wall clock or since boot, as the driver likes). The first answer
        averages all samples that the driver still had, so it only gives where the next begins.
        Where that is asked for soon, no answer may also mean that the driver has no sample since.
        """
        self._is_forgotten = False
        if not self._listed:
            return
        self._is_held = False
        first = not self._has_use
        try:
            found = self._driver.call_since(USE, self._gpu, self._handle, self._last_sample)
        except NoValueError as missing:
            if missing.code not in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS):
                self._use_reason = missing.reason
                return
            # Nothing was busy since then: the binding has two ways to report it.
            found = []
            first = False
        fresh = [sample for sample in found if sample.timeStamp > self._last_sample]
        if is_soon and not fresh:
            return
        self._last_sample = max([s.timeStamp for s in fresh] + [self._last_sample])
        self._has_use = True
        self._use_reason = NOT_SAMPLED if first else ""
        self._sampled = [context.pid for context in self._listed]
        self._use = {}
        for sample in sorted(fresh, key=lambda sample: sample.timeStamp):
            self._use[int(sample.pid)] = sample

    def _row(self, context: Context, at: float) -> Row:
        pid = context.pid
        row = Row("%d/%s" % (pid, self._gpu), at)
        if self._graphics_reason:
            row.missing["type"] = self._graphics_reason
        else:
            row.labels["type"] = context.type
        if context.memory is None:
            row.missing["context_mem_used_bytes"] = NOT_SHARED
        else:
            row.values["context_mem_used_bytes"] = context.memory
        for key, number in (
            ("context_gpu_instance", context.gpu_instance),
            ("context_compute_instance", context.compute_instance),
        ):
            if number is None:
                row.missing[key] = NOT_SUPPORTED
            else:
                row.values[key] = number
        reason = self._use_reason
        if not reason and pid not in self._sampled:
            # It came after the last sample, which therefore has nothing of it.
            reason = NOT_SAMPLED
        sample = self._use.get(pid)
        for key, name in USES:
            if reason:
                row.missing[key] = reason
            else:
                row.values[key] = getattr(sample, name) * 0.01 if sample else 0.0
        return row
