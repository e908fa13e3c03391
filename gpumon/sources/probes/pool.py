"""Many probes on one thread: starts them, reads them, renews their leases, starts them again."""

from __future__ import annotations

import os
import selectors
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpumon.model.fault import SourceError, shortage
from gpumon.model.records.frame import Frame
from gpumon.model.staleness import STALE_PERIODS
from gpumon.model.text import plain
from gpumon.sources.probes import clients as machine
from gpumon.sources.probes.decode import GarbageError
from gpumon.sources.probes.program import start_options
from gpumon.sources.probes.start_order import (
    MAX_STARTING,
    YIELD_S,
    Pace,
    Places,
    Slot,
    Turns,
    in_turns,
    untried,
)
from gpumon.sources.probes.stream import Stream
from gpumon.sources.probes.zoom import SEEN, UNSEEN, Zoom

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumon.sources.probes.clients import Clients
    from gpumon.sources.probes.stream import Endpoint
    from gpumon.sources.source import Clock, Wish

LEASE_PERIOD_S: Final = 5.0
"""Leases of 30 s are renewed this often."""

STALLED_S: Final = 45.0
"""A probe that came up and sends nothing for so long, or five periods, is started again: its lines
come each period, also while its driver hangs."""

GREETING_LIMIT_S: Final = 20.0
"""A probe that has not said hello by then is given up and tried again."""

SILENT_S: Final = 30.0
"""A node of a step that is not heard for so long, or three periods, is reported silent: its probe
may have ended, which srun does not report while the others go on."""

STALLED_PERIODS: Final = 5
"""The periods of `STALLED_S`. A choice: one or two lines may be late."""

CLOSE_LIMIT_S: Final = 0.3
"""For the thread's end, seconds: a source has half a second for all (`Source.close`)."""
REAP_LIMIT_S: Final = 2.0
"""The thread collects killed children for so long, which `close` does not wait for."""


class ProbePool:
    """Runs the probes of one target."""

    def __init__(
        self,
        url: str,
        endpoints: Sequence[Endpoint],
        period_s: float,
        clock: Clock,
        once: bool,
        options: Mapping[str, object] | None = None,
        max_starting: int = MAX_STARTING,
        clients: Clients | None = None,
    ) -> None:
        """Nothing runs before `start`.

        Args:
            url: Target, the origin of every frame.
            endpoints: Probes to run; `replace` changes them later.
            period_s: Period of the probes.
            clock: Time for lateness, pauses and arrival.
            once: One report each and no second start.
            options: Further start options of the probes.
            max_starting: Probes that may be on their way up at once.
            clients: Shares out how many may run; None: with all other pools of this process.
        """
        self.url = url
        self._clock = clock
        self._once = once
        self._options = dict(options or {})
        self._clients = clients or machine.of_this_machine()
        self._turns = Turns(Pace(self._clients.first_starts, max_starting))
        self._period_s = period_s
        self._zoom, self._processes = Zoom(), SEEN
        self._slots = {endpoint.node: Slot(endpoint) for endpoint in endpoints}
        self._clients_each = _most_clients(endpoints)
        self._wanted: tuple[Endpoint, ...] | None = None
        self._frames: deque[Frame] = deque()
        self._selector = selectors.DefaultSelector()
        self._leaving: list[Stream] = []
        """Ended, and not collected yet."""
        self._bell_out, self._bell_in = os.pipe()
        self._bell = threading.Lock()
        self._is_over = False
        for end in (self._bell_out, self._bell_in):
            os.set_blocking(end, False)
        self._selector.register(self._bell_out, selectors.EVENT_READ, None)
        self._closing = threading.Event()
        self._wake: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name=f"probes {url}", daemon=True)
        self._lease_at = 0.0
        self._remarks: tuple[SourceError, ...] = ()
        """What is reported of nodes that wait."""
        self._remark_at = 0.0
        """When that may be reported again."""

    def start(self, wake: Callable[[], None]) -> None:
        """Start the probes without waiting for them."""
        self._wake = wake
        self._thread.start()

    def replace(self, endpoints: Sequence[Endpoint]) -> None:
        """Run these probes from now on; those already running go on."""
        with self._bell:
            self._wanted = tuple(endpoints)
        self._ring()

    def poll(self) -> list[Frame]:
        """Frames that arrived since the last poll."""
        frames = []
        while self._frames:
            frames.append(self._frames.popleft())
        return frames

    def pending(self) -> bool:
        """Whether a node has neither reported nor failed yet."""
        return self._wanted is not None or any(
            not slot.is_settled for slot in list(self._slots.values())
        )

    def wish(self, wish: Wish) -> None:
        """Take a new period for every probe, and which nodes to zoom."""
        zoom = Zoom(wish.zoom_nodes, wish.zoom_gpus) if wish.is_about_zoom else self._zoom
        period_s = self._period_s if wish.period_s is None else wish.period_s
        processes = self._processes
        if wish.shows_processes is not None:
            processes = SEEN if wish.shows_processes else UNSEEN
        if (period_s, zoom, processes) != (self._period_s, self._zoom, self._processes):
            self._period_s, self._zoom, self._processes = period_s, zoom, processes
            self._lease_at = 0.0
            self._ring()

    def close(self) -> None:
        """End every probe; a child that does not go in time is abandoned."""
        self._closing.set()
        self._ring()
        if self._thread.ident is None:
            self._end_all()
        else:
            self._thread.join(CLOSE_LIMIT_S)

    def _ring(self) -> None:
        """Wake the thread; at the end its pipe's number may belong to another file."""
        with self._bell, suppress(BlockingIOError):
            if not self._is_over:
                os.write(self._bell_in, b"!")

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._adopt()
                self._start_due()
                self._renew()
                for key, _ in self._selector.select(self._next_due()):
                    if key.data is None:
                        os.read(self._bell_out, 4096)
                    else:
                        self._serve(key.data, key.fd)
                self._give_up_silent()
                self._leaving = [stream for stream in self._leaving if not stream.reap(0)]
        finally:
            self._end_all()

    def _end_all(self) -> None:
        with self._bell:
            if self._is_over:
                return
            self._is_over = True
            self._clients.share(id(self), 0)
            self._selector.close()
            os.close(self._bell_in)
            os.close(self._bell_out)
        streams = [slot.stream for slot in self._slots.values() if slot.stream]
        for stream in streams:
            stream.end()
        deadline = time.monotonic() + REAP_LIMIT_S
        for stream in streams + self._leaving:
            if not stream.reap(max(0.0, deadline - time.monotonic())):
                stream.abandon()

    def _adopt(self) -> None:
        wanted = self._wanted
        if wanted is None:
            return
        names = {endpoint.node for endpoint in wanted}
        for node in [node for node in self._slots if node not in names]:
            self._leave(self._slots.pop(node))
        for endpoint in wanted:
            if endpoint.node not in self._slots:
                self._slots[endpoint.node] = Slot(endpoint)
        self._clients_each = _most_clients(wanted)
        # Only now: until the new nodes have their slots, `pending` must say that they are awaited.
        with self._bell:
            if self._wanted is wanted:
                self._wanted = None
        # Who waits for the first report of every node may have nothing left to wait for.
        self._wake()

    def _places(self) -> Places:
        """How many of the nodes may be read at once, now that other pools want theirs, too."""
        each, nodes = self._clients_each, len(self._slots)
        return Places(max(1, self._clients.share(id(self), each * nodes) // each), nodes)

    def _start_due(self) -> None:
        """Start those that are due; where not all may run, some make place for them."""
        now, turns, slots = self._clock.monotonic(), self._turns, list(self._slots.values())
        places = self._places()
        due = turns.due(slots, now, self._zoom)
        if not (due or places.is_tight or self._remarks):
            return
        for slot in turns.ends(slots, due, places, now, self._period_s, self._zoom):
            self._drop(slot)
            slot.rest(now)
        # A node alone waits for no other one.
        is_busy = len(slots) > 1 and self._clients.is_busy(now)
        for slot in turns.starts(slots, due, places, now, is_busy):
            self._start(slot, now)
        rising = sum(1 for s in slots if s.stream and not s.stream.is_greeted)
        remarks = [untried(self.url, due, rising, now)]
        if places.is_tight and (due or not self._once):
            period_s = None if self._once else self._period_s
            remarks.insert(0, in_turns(self.url, places, self._clients.bound, period_s))
        self._remark(tuple(remark for remark in remarks if remark), now)

    def _remark(self, remarks: tuple[SourceError, ...], now: float) -> None:
        """Report new remarks on nodes that wait, and take back what is over."""
        if remarks == self._remarks or (remarks and now < self._remark_at):
            return
        self._remarks, self._remark_at = remarks, now + LEASE_PERIOD_S
        # Of no single node and an origin of its own: no report of a node takes it back.
        self._frames.append(
            Frame(origin=f"{self.url}#waits", node="", taken_at=self._clock.now(), errors=remarks)
        )
        self._wake()

    def _start(self, slot: Slot, now: float) -> None:
        slot.begin(now)
        options = start_options(self._options, self._period_s, once=self._once)
        try:
            slot.stream = Stream(slot.endpoint, self.url, options)
        except OSError as error:
            where = slot.endpoint.node or self.url
            message = f"cannot start {slot.endpoint.argv[0]}: {error.strerror or error}"
            _, way_out = shortage(error, is_start=True) or ("", "")
            self._fail(slot, SourceError(plain(where), plain(message), way_out))
            return
        for descriptor in (slot.stream.stdout, slot.stream.stderr):
            self._selector.register(descriptor, selectors.EVENT_READ, slot)
        slot.stream.write()
        if slot.stream.has_outgoing:
            self._selector.register(slot.stream.stdin, selectors.EVENT_WRITE, slot)

    def _serve(self, slot: Slot, descriptor: int) -> None:
        stream = slot.stream
        if stream is None:
            return
        if descriptor == stream.stdin:
            stream.write()
            if not stream.has_outgoing:
                self._selector.unregister(descriptor)
        elif descriptor == stream.stderr:
            if not stream.read_stderr():
                self._selector.unregister(descriptor)
        else:
            try:
                self._read(slot, stream)
            except Exception as error:  # noqa: BLE001 - one node must not silence all others
                words, way_out = shortage(error) or (repr(error), "please report this line")
                message = f"gpumon could not handle its report: {words}"
                self._fail(slot, stream.trouble(message, way_out))

    def _read(self, slot: Slot, stream: Stream) -> None:
        try:
            frames, goes_on = stream.read(self._clock.now(), self._clock.monotonic())
        except GarbageError as error:
            self._fail(
                slot,
                stream.trouble(
                    f"this is not a probe's output: {error}",
                    "look at what the login shell of this node prints",
                ),
            )
            return
        if frames:
            slot.reported_at = self._clock.monotonic()
            if slot.read_since is None:
                slot.read_since = slot.reported_at
                self._turns.pace.came_up(slot, self._slots.values())
            lived_s = self._clock.monotonic() - slot.started_at
            if lived_s >= slot.pauses_s[1] or not slot.endpoint.is_step:
                slot.pause_s = slot.pauses_s[0]
            self._deliver(slot, frames)
            self._meet(slot, stream, frames)
        if goes_on:
            return
        if self._once and stream.has_reported:
            self._drop(slot)
            slot.due_at = float("inf")
        else:
            self._fail(slot, stream.trouble())

    def _deliver(self, slot: Slot, frames: list[Frame]) -> None:
        """Hand over frames; in this order, so that the woken reader finds frames and no waiting."""
        self._frames.extend(frames)
        slot.is_settled |= slot.stream is None or slot.stream.has_reported
        self._wake()

    def _meet(self, slot: Slot, stream: Stream, frames: list[Frame]) -> None:
        """Learn the nodes' names and GPUs; one that is zoomed gets the wish at once."""
        now, wall_now = self._clock.monotonic(), self._clock.now()
        for frame in frames:
            slot.hear(frame.node, now, wall_now - frame.taken_at)
            names = {slot.endpoint.node, frame.node, *frame.host_names}
            slot.names |= (names | {name.partition(".")[0] for name in names}) - {""}
            slot.gpus[frame.node] = frame.block("gpu").keys
        sent = slot.zoom_sent, slot.processes_sent
        if (self._zoom.words(slot.names, slot.uuids), self._processes) != sent:
            self._send_wishes(slot, stream)

    def _send_wishes(self, slot: Slot, stream: Stream) -> None:
        """Say the period, which renews the lease, and what is new about zoom."""
        zoom = self._zoom
        words = zoom.words(slot.names, slot.uuids)
        if words != slot.zoom_sent:
            slot.zoom_sent = words
            stream.send(words)
        if self._processes != slot.processes_sent:
            slot.processes_sent = self._processes
            stream.send(self._processes)
        stream.send(f"period {zoom.period_s(slot.names, self._period_s)}")

    def _fail(self, slot: Slot, error: SourceError) -> None:
        """Report the failure and plan the next start."""
        self._drop(slot)
        # Spread by a fifth, so that a fleet that failed together does not come back together.
        pause_s = slot.pause_s * (0.8 + 0.4 * os.urandom(1)[0] / 255)
        slot.due_at = float("inf") if self._once else self._clock.monotonic() + pause_s
        slot.pause_s = min(slot.pause_s * 2, slot.pauses_s[1])
        origin, now = slot.endpoint.origin or self.url, self._clock.now()
        nodes = slot.endpoint.reaches
        self._deliver(
            slot,
            [Frame(origin=origin, node=node, taken_at=now, errors=(error,)) for node in nodes],
        )

    def _leave(self, slot: Slot) -> None:
        """End the probe of a node that is not wanted any more, and what failed there with it.

        A frame reports that this was on purpose, so that the node does not seem in trouble.
        """
        self._drop(slot)
        if slot.is_settled or slot.gpus:
            origin, now = slot.endpoint.origin or self.url, self._clock.now()
            for name in slot.endpoint.reaches:
                self._frames.append(Frame(origin=origin, node=name, taken_at=now, is_left=True))

    def _drop(self, slot: Slot) -> None:
        if slot.stream is None:
            return
        for descriptor in (slot.stream.stdin, slot.stream.stdout, slot.stream.stderr):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        slot.stream.end()
        if not slot.stream.reap(0):
            self._leaving.append(slot.stream)
        slot.stream = None

    def _renew(self) -> None:
        now = self._clock.monotonic()
        if now < self._lease_at:
            return
        self._lease_at = now + LEASE_PERIOD_S
        for slot in self._slots.values():
            if slot.stream:
                self._send_wishes(slot, slot.stream)

    def _give_up_silent(self) -> None:
        now = self._clock.monotonic()
        for slot in self._slots.values():
            if slot.stream and not slot.stream.is_greeted:
                waited_s = now - slot.started_at
                if waited_s > GREETING_LIMIT_S:
                    message = f"no probe came up within {waited_s:.0f} s"
                    hint = "log in by hand and see whether python3 -c pass returns"
                    self._fail(slot, slot.stream.trouble(message, hint))
            elif slot.stream and slot.endpoint.nodes:
                self._name_silent(slot, slot.stream, now)
            elif slot.stream and not self._once:
                limit_s = max(STALLED_S, STALLED_PERIODS * self._period_s)
                if now - slot.reported_at > limit_s:
                    message = f"no report for {limit_s:.0f} s"
                    hint = "is the network up, and does the node still answer?"
                    self._fail(slot, slot.stream.trouble(message, hint))

    def _name_silent(self, slot: Slot, stream: Stream, now: float) -> None:
        """Report the nodes of a step that have fallen silent while others go on.

        Where none goes on the step is lost. While the last one has been silent for half the time,
        too, it is not known yet which of both is so.
        """
        limit_s = max(SILENT_S, STALE_PERIODS * self._period_s)
        origin, taken_at = slot.endpoint.origin or self.url, self._clock.now()
        silent_s = {node: now - at for node, at in slot.heard_at.items() if at < float("inf")}
        if silent_s and min(silent_s.values()) > limit_s:
            message = f"no report through {slot.endpoint.node} for {limit_s:.0f} s"
            self._fail(slot, stream.trouble(message, "is the network up?"))
        elif silent_s and min(silent_s.values()) < limit_s / 2:
            for node in [node for node, seconds in silent_s.items() if seconds > limit_s]:
                slot.heard_at[node] = float("inf")
                if self._is_heard_otherwise(slot, node, now - limit_s):
                    continue
                message = f"no report through {slot.endpoint.node} for {limit_s:.0f} s"
                error = SourceError(plain(node), plain(message), "is the node up?")
                self._deliver(
                    slot,
                    [Frame(origin=origin, node=node, taken_at=taken_at, errors=(error,))],
                )

    def _is_heard_otherwise(self, slot: Slot, node: str, since: float) -> bool:
        """Whether a step of the node's own has brought a report of it since then."""
        return any(
            other.stream is not None
            and other.stream.has_reported
            and since < other.heard_at.get(node, since) < float("inf")
            for other in self._slots.values()
            if other is not slot and other.endpoint.origin == slot.endpoint.origin
        )

    def _next_due(self) -> float:
        """Seconds until the next turn; what waits for room waits for one that yields."""
        now = self._clock.monotonic()
        dues = [self._lease_at, now + 1.0]
        dues += [self._turns.next_at] if self._turns.next_at > now else []
        for slot in self._slots.values():
            if slot.stream is None and slot.due_at > now:
                dues.append(slot.due_at)
            elif slot.stream is not None and not slot.stream.is_greeted:
                yields_at = slot.started_at + YIELD_S
                dues += [yields_at] if yields_at > now else []
        return max(0.01, min(dues) - now)


def _most_clients(endpoints: Sequence[Endpoint]) -> int:
    """Processes that the dearest of the nodes takes here."""
    return max((endpoint.clients for endpoint in endpoints), default=1)
