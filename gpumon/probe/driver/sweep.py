"""Passes over all GPUs, on the one thread that enters the driver, and its successors.

A call that never returns takes its thread along, for no thread can be killed in it. Such a thread
is abandoned with the GPU that it was reading, and a successor goes on with the others.
"""

import threading
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

import pynvml

from gpumon.probe.driver.contexts import Held
from gpumon.probe.driver.driver import OPENING, AbandonedError, Calling, Driver, NoValueError
from gpumon.probe.driver.events import Events
from gpumon.probe.driver.gpu import ANCESTORS, Gpu, GpuReading, Wanted, every_key, unopened
from gpumon.probe.driver.troubles import (
    GPU_WAYS_OUT,
    REFUSED,
    STRANGE,
    UNEXPLAINED,
    WAYS_OUT,
    WEDGED,
    hidden_processes,
    passed_over,
    unread_fields,
)
from gpumon.probe.rows import FAILED, NOT_SUPPORTED, Row, too_many

STUCK_AFTER_S = 1.0
"""A call is reported when it has not returned for this long; documented ones take up to 20 ms."""

OPENING_STUCK_AFTER_S = {"nvmlInit": 8.0, "nvmlDeviceGetHandleByIndex": 5.0}
"""The same for calls that open: the driver and a GPU."""

OPENING_PATIENCE_S = 1.0
"""So long a report waits for one of those; then it reports them and goes without the GPUs."""

MOST_GPUS = 128
"""Most GPUs that are opened: eight times those of the largest machine. The driver's number is only
believed up to here."""

MOST_ABANDONED = 2
"""Threads that are given up. When the next one is stuck too, it is the driver and not a GPU."""

POLL_S = 0.1
"""How often a pass that takes long is checked."""

HURRY_AFTER_S = 1.0
"""Once a pass has taken this long, a slow driver is asked only what changes in every period."""

RETRY_S = 10.0
"""A driver that could not be opened is tried again this often."""

LEVELS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "board",
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
"""nvmlDeviceGetTopologyCommonAncestor in the words of `nvidia-smi topo -m`."""


def relate(driver: Driver, gpus: List[Gpu]) -> None:
    """Give every GPU the label that names what it shares with each other GPU: `UUID=PIX,…`."""
    if len(gpus) == 1:
        gpus[0].fixed.missing[ANCESTORS] = NOT_SUPPORTED
    found: Dict[str, List[str]] = {gpu.uuid: [] for gpu in gpus}
    for place, one in enumerate(gpus):
        for other in gpus[place + 1 :]:
            try:
                level = driver.call(
                    "nvmlDeviceGetTopologyCommonAncestor", one.uuid, one.handle, other.handle
                )
            except NoValueError as missing:
                one.fixed.missing[ANCESTORS] = other.fixed.missing[ANCESTORS] = missing.reason
                continue
            word = LEVELS.get(level, "?")
            found[one.uuid].append("%s=%s" % (other.uuid, word))
            found[other.uuid].append("%s=%s" % (one.uuid, word))
    for gpu in gpus:
        if found[gpu.uuid]:
            gpu.fixed.missing.pop(ANCESTORS, None)
            gpu.fixed.labels[ANCESTORS] = ",".join(found[gpu.uuid])


class Lane:
    """One thread in the driver."""

    def __init__(self) -> None:
        """Not started yet."""
        self.ident = 0
        self.on = ""
        """What it is working on: UUID, `index N`, `events`; empty: the driver as a whole."""


class Taken(NamedTuple):
    """What is known at one instant."""

    gpus: List[Row]
    contexts: List[Held]
    has_new_contexts: bool
    """Whether any of them is not as in the report before."""
    links: Optional[List[Row]]
    """None: as in the report before."""
    instances: Optional[List[Row]]
    """The same of MIG instances."""
    events: List[Row]
    errors: List[Dict[str, str]]


class Sweeper:
    """Owns the driver. Other threads only read what it publishes."""

    def __init__(self, wanted: Optional[Wanted] = None, driver: Optional[Driver] = None) -> None:
        """Nothing is opened before the thread runs."""
        self.driver = driver or Driver()
        self.labels: Dict[str, str] = {}
        self.zoom: Any = frozenset()
        """UUIDs of the GPUs that a user watches."""
        self.shows_processes = True
        """Whether a user may be watching processes."""
        self.awaited = ""
        """Call for which the last wait did not go on, and since when: `nvmlInit for 3 s`."""
        self._wanted = wanted or Wanted()
        self._lock = threading.Lock()
        self._events = Events(self.driver)
        self._events_shown: List[Row] = []
        self._gpus: List[Gpu] = []
        self._unopened: List[int] = []
        self._refused: Dict[int, Row] = {}
        """By index the GPUs that the driver counts and does not open."""
        self._fresh: Dict[str, GpuReading] = {}
        self._reported: Optional[Dict[str, GpuReading]] = None
        self._unresolved: Dict[str, Dict[str, str]] = {}
        self._is_open = False
        self._open_at = float("-inf")
        self._turn = 0
        self._pass_at = 0.0
        self._todo: Deque[Tuple[str, Callable[[], None]]] = deque()
        self._lane = Lane()
        self._held: Dict[str, Lane] = {}
        self._go = threading.Event()
        self._done = threading.Event()

    def start(self) -> None:
        """Run on a daemon thread: a call that never returns must not keep the process alive."""
        self._start(self._run)

    def _start(self, run: Callable[[Lane], None]) -> None:
        threading.Thread(target=run, args=(self._lane,), name="nvml", daemon=True).start()

    def ask(self) -> None:
        """Ask for another pass unless one is still under way."""
        self._done.clear()
        self._go.set()

    def wait(self, is_patient: bool = False) -> None:
        """Wait until the pass that was asked for is complete, or the driver as a whole hangs.

        A slow driver makes reports late, but they stay whole. Opening it takes longer than a report
        waits for the rest of the node, so only a patient caller waits for that to its end.
        """
        self.awaited = ""
        while not self._done.wait(POLL_S):
            if self.supervise():
                return
            if not is_patient:
                self.awaited = self._slow_opening()
                if self.awaited:
                    return

    def _slow_opening(self) -> str:
        """The call that opens the driver or a GPU, once it has taken a while, and for how long."""
        call = self.driver.calling.get(self._lane.ident)
        waited = 0.0 if call is None else self.driver.monotonic() - call.since
        if call is None or call.name not in OPENING or waited < OPENING_PATIENCE_S:
            return ""
        of = " of GPU %s" % call.gpu if call.gpu else ""
        return "%s%s for %.0f s" % (call.name, of, waited)

    def supervise(self) -> bool:
        """Abandon the thread when it is stuck with a GPU; True: nothing more can be expected."""
        with self._lock:
            lane = self._lane
            calling = self.driver.calling.get(lane.ident)
            if calling is None or not self._is_stuck(calling):
                return False
            if not lane.on or len(self._held) >= MOST_ABANDONED:
                return True
            self._held[lane.on] = lane
            self.driver.abandoned.add(lane.ident)
            self._lane = Lane()
        self._start(self._succeed)
        return False

    def take(self) -> Taken:
        """Everything as of now; a GPU without a new reading has a row without values."""
        errors = self.stuck()
        with self._lock:
            fresh, self._fresh = self._fresh, {}
            errors = list(self._unresolved.values()) + errors
            gpus = list(self._gpus)
            refused = [self._refused[index] for index in sorted(self._refused)]
            events = self._events_shown
        rows = [_now(row, self.driver.monotonic()) for row in refused]
        contexts: List[Held] = []
        links: List[Row] = []
        instances: List[Row] = []
        readings: Dict[str, GpuReading] = {}
        for gpu in gpus:
            reading = fresh.get(gpu.uuid)
            if reading is None and self.awaited:
                # It is read as soon as all are open.
                continue
            if reading is None:
                reading = unread(gpu, self.driver.monotonic())
            else:
                errors += unread_fields(gpu, reading, self.driver)
            errors += passed_over(gpu)
            readings[gpu.uuid] = reading
            rows.append(reading.row)
            contexts.extend(reading.contexts)
            links.extend(reading.links)
            instances.extend(reading.instances)
        errors += hidden_processes(readings.values())
        rows.sort(key=_index)
        before, self._reported = self._reported, readings
        return Taken(
            gpus=rows,
            contexts=contexts,
            has_new_contexts=is_new(before, readings, "contexts"),
            links=links if is_new(before, readings, "links") else None,
            instances=instances if is_new(before, readings, "instances") else None,
            events=events,
            errors=errors,
        )

    def stuck(self) -> List[Dict[str, str]]:
        """The calls that have not returned for a while, and whether that is the whole driver."""
        found = [call for call in list(self.driver.calling.values()) if self._is_stuck(call)]
        errors = [self._stuck(call) for call in sorted(found, key=lambda call: call.since)]
        if len(found) > MOST_ABANDONED:
            message = "the driver as a whole hangs: %d calls do not return" % len(found)
            errors.append({"where": "NVML", "message": message, "hint": WEDGED})
        return errors

    def _stuck(self, call: Calling) -> Dict[str, str]:
        waited = self.driver.monotonic() - call.since
        message = "%s has not returned for %.0f s" % (call.name, waited)
        where = "GPU %s" % self._spoken(call.gpu) if call.gpu else "NVML"
        return {"where": where, "message": message, "hint": WEDGED}

    def _spoken(self, gpu: str) -> str:
        """What calls note as their GPU; a UUID follows the index that people know it by."""
        found = [known.index for known in list(self._gpus) if known.uuid == gpu]
        return "%d %s" % (found[0], gpu) if found else gpu

    def _is_stuck(self, call: Calling) -> bool:
        limit_s = STUCK_AFTER_S
        if not self._held:
            # Beside a GPU that hangs, another one waits for it, and not for its own start.
            limit_s = OPENING_STUCK_AFTER_S.get(call.name, limit_s)
        return self.driver.monotonic() - call.since >= limit_s

    def _run(self, lane: Lane) -> None:
        """Make a pass whenever one is asked for, until this thread is abandoned."""
        lane.ident = threading.get_ident()
        while True:
            self._go.wait()
            self._go.clear()
            self._plan()
            if not self._work(lane):
                return
            self._done.set()

    def _succeed(self, lane: Lane) -> None:
        """Finish the pass that another thread is stuck in, then go on in its place."""
        lane.ident = threading.get_ident()
        self._pass_at = self.driver.monotonic()
        if self._work(lane):
            self._done.set()
            self._run(lane)

    def sweep(self) -> None:
        """One whole pass on the caller's own thread."""
        self._lane.ident = threading.get_ident()
        self._plan()
        self._work(self._lane)

    def _plan(self) -> None:
        """Line up what this pass has to do; another GPU is first each time."""
        self._todo.clear()
        self._pass_at = self.driver.monotonic()
        if not self._is_open:
            if self.driver.monotonic() >= self._open_at:
                self._open_at = self.driver.monotonic() + RETRY_S
                self._todo.append(("", self._open))
            return
        self._turn += 1
        self._todo.append(("events", self._poll_events))
        self._todo.extend(self._opening(index) for index in self._unopened)
        waiting = [g.uuid for g in self._gpus if g.uuid in self.zoom and g.needs_throughput]
        chosen = waiting[self._turn % len(waiting)] if waiting else ""
        first = (self._turn - 1) % len(self._gpus) if self._gpus else 0
        for gpu in self._gpus[first:] + self._gpus[:first]:
            self._todo.append(self._reading(gpu, gpu.uuid == chosen))

    def _work(self, lane: Lane) -> bool:
        """Do what is lined up; False when this thread was abandoned meanwhile."""
        try:
            while self._todo:
                key, do = self._todo.popleft()
                if key in self._held:
                    continue
                lane.on = key
                self._do(key, do)
                lane.on = ""
                if lane is not self._lane:
                    break
        except AbandonedError:
            pass
        if lane is self._lane:
            return True
        with self._lock:
            # What it held is taken back: the next pass reads it again.
            self._held = {key: held for key, held in self._held.items() if held is not lane}
            self.driver.abandoned.discard(lane.ident)
        return False

    def _do(self, key: str, do: Callable[[], None]) -> None:
        """Do one thing; a strange answer must not end the thread, which every report waits for."""
        own = "failed " + key
        try:
            do()
        except AbandonedError:
            raise
        except Exception as error:  # noqa: BLE001 - it is reported, and the others go on
            message = "reading %s failed: %r" % (self._spoken(key) or "the driver", error)
            with self._lock:
                self._unresolved[own] = {"where": "NVML", "message": message, "hint": STRANGE}
        else:
            with self._lock:
                self._unresolved.pop(own, None)

    def _opening(self, index: int) -> Tuple[str, Callable[[], None]]:
        return "index %d" % index, lambda: self._open_gpu(index)

    def _reading(self, gpu: Gpu, may_wait: bool) -> Tuple[str, Callable[[], None]]:
        return gpu.uuid, lambda: self._read(gpu, may_wait)

    def _read(self, gpu: Gpu, may_wait: bool = False) -> None:
        is_hurried = self.driver.monotonic() - self._pass_at > HURRY_AFTER_S
        reading = gpu.read(gpu.uuid in self.zoom, may_wait, is_hurried, self.shows_processes)
        with self._lock:
            self._fresh[gpu.uuid] = reading

    def _poll_events(self) -> None:
        self._events.poll()
        rows = self._events.rows()
        with self._lock:
            self._events_shown = rows
            if self._events.dropped:
                message = "%d events were too many to show" % self._events.dropped
                hint = "the kernel log of the node has them all: dmesg"
                self._unresolved["events"] = {"where": "NVML", "message": message, "hint": hint}

    def _open(self) -> None:
        try:
            self.driver.call("nvmlInit", "")
            count = self.driver.call("nvmlDeviceGetCount", "")
        except NoValueError as missing:
            hint = WAYS_OUT.get(missing.code, UNEXPLAINED)
            self._fail("NVML", str(missing), hint)
            return
        with self._lock:
            self._unresolved.clear()
        for label, function in (
            ("driver_version", "nvmlSystemGetDriverVersion"),
            ("nvml_version", "nvmlSystemGetNVMLVersion"),
        ):
            try:
                text = self.driver.call(function, "")
                self.labels[label] = text.decode() if isinstance(text, bytes) else text
            except NoValueError:
                continue
        if count > MOST_GPUS:
            error = too_many(
                "NVML", "GPUs", count, MOST_GPUS, "nvidia-smi -L on the node lists all"
            )
            with self._lock:
                self._unresolved["count"] = error
        self._unopened = list(range(min(count, MOST_GPUS)))
        self._is_open = True
        self._todo.extend(self._opening(index) for index in self._unopened)

    def _open_gpu(self, index: int) -> None:
        """Learn who a GPU is; one that refuses is not asked again, a stuck one when it answers."""
        try:
            gpu = Gpu(self.driver, index, self._wanted)
            self._check_is_new(gpu)
            self._events.register(gpu.handle, gpu.uuid, gpu.fixed)
        except NoValueError as missing:
            self._unopened.remove(index)
            with self._lock:
                self._refused[index] = unopened(index, missing)
            hint = GPU_WAYS_OUT.get(missing.code, REFUSED)
            self._fail("GPU index %d" % index, str(missing), hint)
            return
        self._unopened.remove(index)
        with self._lock:
            self._gpus = sorted([*self._gpus, gpu], key=lambda known: known.index)
        self._todo.append(self._reading(gpu, may_wait=False))
        if not self._unopened:
            self._todo.appendleft(("topology", lambda: relate(self.driver, self._gpus)))

    def _check_is_new(self, gpu: Gpu) -> None:
        """Refuse a GPU that reports the UUID of another one: counts of both would mix."""
        for known in self._gpus:
            if known.uuid == gpu.uuid:
                message = "it has the UUID of index %d, %s" % (known.index, gpu.uuid)
                raise NoValueError(FAILED, message, pynvml.NVML_ERROR_UNKNOWN)

    def _fail(self, where: str, message: str, hint: str) -> None:
        with self._lock:
            self._unresolved[where] = {"where": where, "message": message, "hint": hint}


def is_new(
    before: Optional[Dict[str, GpuReading]], readings: Dict[str, GpuReading], part: str
) -> bool:
    """Whether a part was read again for any GPU since `before`, or was never reported."""
    if before is None or before.keys() != readings.keys():
        return True
    return any(
        getattr(before[key], part) is not getattr(reading, part)
        for key, reading in readings.items()
    )


def _now(row: Row, now: float) -> Row:
    """The same row as of now, which its reader may add to."""
    copied = Row(row.key, now)
    copied.add(row)
    return copied


def _index(row: Row) -> float:
    return row.values["index"]


def unread(gpu: Gpu, now: float) -> GpuReading:
    """What replaces a GPU without a reading: who it is, and that the rest failed."""
    row = Row(gpu.uuid, now)
    row.add(gpu.fixed)
    row.lose(every_key(), FAILED)
    links = gpu.links.without(FAILED, now)
    return GpuReading(row, [], links, gpu.instances.without(FAILED, now))
