"""One pass over all GPUs, on the single thread that ever enters the driver."""

import threading
import time
from typing import Any, Dict, List, Optional, Tuple

import pynvml

from gpumon.probe.driver import Driver, NoValueError
from gpumon.probe.gpu import Gpu
from gpumon.probe.rows import FAILED, Row

STUCK_AFTER_S = 1.0
"""A call is reported when it has not returned for this long; documented ones take up to 20 ms."""

INIT_STUCK_AFTER_S = 8.0
"""The same for opening the driver, which takes seconds where no persistence daemon runs."""

POLL_S = 0.1
"""How often a pass that takes long is looked at."""

RETRY_S = 10.0
"""A driver that could not be opened is tried again this often."""


class Sweeper:
    """Owns the driver. Other threads only read what it publishes."""

    def __init__(self) -> None:
        """Nothing is opened before the thread runs."""
        self.driver = Driver()
        self.labels: Dict[str, str] = {}
        self._lock = threading.Lock()
        self._gpus: List[Gpu] = []
        self._fresh: Dict[str, Tuple[Row, List[Tuple[int, Any]]]] = {}
        self._standing: List[Dict[str, str]] = []
        self._order: List[Row] = []
        self._open_at = 0.0
        self._go = threading.Event()
        self._done = threading.Event()

    def start(self) -> None:
        """Run on a daemon thread: a call that never returns must not keep the process alive."""
        threading.Thread(target=self._run, name="nvml", daemon=True).start()

    def ask(self) -> None:
        """Ask for another pass unless one is still under way."""
        self._done.clear()
        self._go.set()

    def wait(self) -> None:
        """Wait until the pass that was asked for is complete, or one of its calls is stuck.

        A slow driver makes reports late, but they stay whole.
        """
        while not self._done.wait(POLL_S):
            if self.stuck() is not None:
                return

    def take(self) -> Tuple[List[Row], List[Tuple[str, int, Any]], List[Dict[str, str]]]:
        """GPU rows, (UUID, PID, memory) contexts and errors as of now.

        A GPU without a new reading has a row in which every field is missing.
        """
        stuck = self.stuck()
        with self._lock:
            fresh, self._fresh = self._fresh, {}
            errors = list(self._standing)
            known = list(self._order)
        rows: List[Row] = []
        contexts: List[Tuple[str, int, Any]] = []
        for identity in known:
            if identity.key in fresh:
                row, held = fresh[identity.key]
                contexts.extend((row.key, pid, memory) for pid, memory in held)
            else:
                row = Row(identity.key, time.monotonic())
                row.values.update(identity.values)
                row.labels.update(identity.labels)
                row.lose(list(identity.missing), FAILED)
            rows.append(row)
        if stuck:
            errors.append(stuck)
        return rows, contexts, errors

    def stuck(self) -> Optional[Dict[str, str]]:
        """The call that has not returned for a while, None where there is none."""
        calling = self.driver.calling
        if calling is None:
            return None
        name, gpu, since = calling
        waited = time.monotonic() - since
        if waited < (INIT_STUCK_AFTER_S if name == "nvmlInit" else STUCK_AFTER_S):
            return None
        where = " (GPU %s)" % gpu if gpu else ""
        return {
            "where": "NVML",
            "message": "the driver has not answered %s%s for %.0f s" % (name, where, waited),
            "hint": "the driver may be wedged; look at dmesg and nvidia-smi on the node",
        }

    def _run(self) -> None:
        while True:
            self._go.wait()
            self._go.clear()
            if not self._gpus and time.monotonic() >= self._open_at:
                self._open_at = time.monotonic() + RETRY_S
                self._open()
            for gpu in self._gpus:
                self._read(gpu)
            self._done.set()

    def _read(self, gpu: Gpu) -> None:
        row = gpu.read()
        contexts = gpu.contexts(row) if row.values.get("mem_total_bytes") is not None else []
        with self._lock:
            self._fresh[gpu.uuid] = (row, contexts)

    def _open(self) -> None:
        with self._lock:
            self._standing = []
        try:
            self.driver.call("nvmlInit", "")
            count = self.driver.call("nvmlDeviceGetCount", "")
        except NoValueError as missing:
            self._fail("NVML", str(missing), _way_out(str(missing)))
            return
        for label, function in (
            ("driver_version", "nvmlSystemGetDriverVersion"),
            ("nvml_version", "nvmlSystemGetNVMLVersion"),
        ):
            try:
                text = self.driver.call(function, "")
                self.labels[label] = text.decode() if isinstance(text, bytes) else text
            except NoValueError:
                continue
        for index in range(count):
            try:
                gpu = Gpu(self.driver, index)
            except NoValueError as missing:
                self._fail("GPU index %d" % index, str(missing), "")
                continue
            self._gpus.append(gpu)
            with self._lock:
                self._order.append(_identity(gpu))

    def _fail(self, where: str, message: str, hint: str) -> None:
        with self._lock:
            self._standing.append({"where": where, "message": message, "hint": hint})


def _identity(gpu: Gpu) -> Row:
    """Row that stands in for a GPU without a reading: who it is, and which fields it lacks."""
    row = Row(gpu.uuid, 0.0)
    row.values.update(gpu.fixed.values)
    row.labels.update(gpu.fixed.labels)
    row.missing = {field: FAILED for field in gpu.every_field() if field not in row.values}
    return row


def _way_out(message: str) -> str:
    if str(pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)) in message:
        return "no NVIDIA driver library (libnvidia-ml.so.1) on this node"
    if str(pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)) in message:
        return "the NVIDIA kernel module is not loaded: modprobe nvidia"
    return "run nvidia-smi on the node to see what the driver says"
