"""Which nodes are started next, and which give their place to others that wait.

Pure decisions on the pool's slots; nothing here starts or ends a child.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.fault import SourceError
from gpumon.model.text import plain
from gpumon.sources.probes.clients import BUSY_LOOK_S
from gpumon.sources.probes.delay import JITTER_S
from gpumon.sources.probes.zoom import OFF, SEEN, Zoom

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.sources.probes.clients import Bound
    from gpumon.sources.probes.stream import Endpoint, Stream

MAX_STARTING: Final = 64
"""Probes that may be on their way up for the first time at once; each costs an ssh handshake."""

MAX_STARTING_AGAIN: Final = 4
"""Likewise of those that were tried before: nodes that hang must not hold up the others."""

YIELD_S: Final = 3.0
"""A start that has waited for so long costs nothing more, and leaves its place to the next one.
Where the machine is busy it may just be slow (`Pace.holds_place`)."""

MAX_WAITING: Final = 256
"""Children that have not come up may wait at once: an ssh takes 1.4 MB of its own."""

UNTRIED_S: Final = 5.0
"""Nodes that have not been tried for so long are reported, before a single sample is over."""

TURN_S: Final = 120.0
"""A node that others wait for is read for so long, or for `TURN_PERIODS`: rates need two reports,
and the shortest windows of detectors two minutes."""

TURN_PERIODS: Final = 5.0
"""Reports of one turn. A choice: two rates, and as much for a slow start."""

TURNS_PER_S: Final = 4.0
"""Turns that end and begin: their logins take a quarter of a core (`LOGIN_CPU_S`)."""

RETRY_S: Final = (1.0, 60.0)
"""First and longest pause before a failed probe is started again; it doubles in between."""

STEP_RETRY_S: Final = (30.0, 960.0)
"""Likewise for a step of a job, of which every start stays in the accounting. Only one that lived
for the longest pause makes the next one short again."""


class Slot:
    """One node's place in the pool."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Due to be started at once."""
        self.endpoint = endpoint
        self.stream: Stream | None = None
        self.tries = 0
        self.waits_since: float | None = None
        """Since when it waits for its first try; None: it was not checked yet."""
        self.started_at = 0.0
        self.is_again = False
        """Whether it was started after a failure."""
        self.read_since: float | None = None
        """Since when its probe reports, its turn; None: it does not."""
        self.has_yielded = False
        """Whether its turn is over, so that it waits for the next one."""
        self.overtaken = 0
        """How many that were started after it have come up before it."""
        self.start_cpu_s = 0.0
        """CPU time of its client here when it was last looked at on its way up."""
        self.has_computed = False
        """Whether that has grown since the first look: a client whose node hangs only waits."""
        self.reported_at = 0.0
        """When it last sent a report, or came up."""
        self.due_at = 0.0
        self.pauses_s = STEP_RETRY_S if endpoint.is_step else RETRY_S
        """First and longest pause before it is started again."""
        self.pause_s = self.pauses_s[0]
        self.is_settled = False
        """Whether it has reported with its GPUs, or failed, at least once."""
        self.names: frozenset[str] = frozenset({endpoint.node})
        """What the node is called, once it has reported."""
        self.gpus: dict[str, tuple[str, ...]] = {}
        """GPUs of the newest report, by node."""
        self.heard_at: dict[str, float] = {}
        """When each node of a step was last heard, infinite once its silence is known."""
        self.zoom_sent = OFF
        """What was last sent to its running probe about zoom."""
        self.processes_sent = SEEN
        """And about processes."""

    @property
    def uuids(self) -> tuple[str, ...]:
        """GPUs that its probe or probes see."""
        return tuple(uuid for uuids in self.gpus.values() for uuid in uuids)

    def hear(self, node: str, now: float, age_s: float) -> None:
        """Take note of a report; what a healed cable had held back is no sign of today."""
        if node in self.heard_at:
            is_fresh = age_s < JITTER_S
            self.heard_at[node] = now if is_fresh else max(self.heard_at[node], now - age_s)

    def begin(self, now: float) -> None:
        """Note that it is started."""
        self.is_again = bool(self.tries) and not self.has_yielded
        self.tries += 1
        self.has_yielded = False
        self.read_since = None
        self.overtaken, self.start_cpu_s, self.has_computed = 0, 0.0, False
        self.started_at = self.reported_at = now
        self.heard_at = dict.fromkeys(self.endpoint.nodes, now)
        self.zoom_sent, self.processes_sent = OFF, SEEN

    def rest(self, now: float) -> None:
        """Note that its turn is over; it waits behind all whose turn began earlier."""
        self.has_yielded = True
        self.due_at = now


class Pace:
    """How many starts are on their way at once: more where they leave CPUs idle.

    On a busy machine that computes for them further ones only make all of them later, until they
    are given up with their work undone.
    """

    def __init__(self, first: int, most: int) -> None:
        """`first` at first and on such a machine, up to `most` elsewhere."""
        self.first, self.most = min(first, most), most
        self.at_once = self.first
        self._judged_at = float("inf")
        self._computed_at = float("-inf")
        """When a start last took CPU time; those of nodes that hang take none."""
        self._are_slow = False

    def look(self, now: float, is_busy: bool, rising: Iterable[Slot]) -> None:
        """Let twice as many start, or no more than at first; `rising` are on their way."""
        self._judged_at = min(now, self._judged_at)
        if now - self._judged_at < BUSY_LOOK_S:
            return
        self._judged_at = now
        for slot in rising:
            before, slot.start_cpu_s = slot.start_cpu_s, slot.stream.cpu_s if slot.stream else 0.0
            # What it took at first was its program's own start.
            if slot.start_cpu_s > before > 0.0:
                slot.has_computed, self._computed_at = True, now
        self._are_slow = is_busy and now - self._computed_at < YIELD_S
        self.at_once = self.first if self._are_slow else min(self.most, 2 * self.at_once)

    def came_up(self, slot: Slot, slots: Iterable[Slot]) -> None:
        """Take note that a slot's probe has come up."""
        for other in slots:
            if other.stream and not other.stream.is_greeted:
                other.overtaken += other.started_at < slot.started_at

    def holds_place(self, slot: Slot, now: float) -> bool:
        """Whether a start on its way holds up others.

        One that waits for long does not: its node hangs. Where all are slow it is one that computes
        nothing, or that later ones have overtaken, as many as start at once.
        """
        age_s = now - slot.started_at
        if not self._are_slow:
            return age_s < YIELD_S
        return age_s < 2.0 * BUSY_LOOK_S or (slot.has_computed and slot.overtaken < self.at_once)


class Places(NamedTuple):
    """How many of the nodes may be read at once."""

    nodes: int
    of: int

    @property
    def is_tight(self) -> bool:
        """Whether they are read in turns."""
        return self.nodes < self.of


class Turns:
    """Decides by the clock that it is handed."""

    def __init__(self, pace: Pace) -> None:
        """At the pace given."""
        self.pace = pace
        self.next_at = 0.0
        """When the next turn may end."""

    def due(self, slots: Sequence[Slot], now: float, zoom: Zoom) -> list[Slot]:
        """Those that want to be started: zoomed, never tried, then those that began longest ago."""

        def rank(slot: Slot) -> tuple[bool, bool, float]:
            return slot.names.isdisjoint(zoom.nodes), slot.tries > 0, slot.started_at

        return sorted((s for s in slots if not s.stream and s.due_at <= now), key=rank)

    def starts(
        self,
        slots: Sequence[Slot],
        due: Sequence[Slot],
        places: Places,
        now: float,
        is_busy: bool,
    ) -> list[Slot]:
        """Those of the due ones that there is room for now; `is_busy`: hardly a CPU is idle."""
        running = [slot for slot in slots if slot.stream]
        rising = [slot for slot in running if slot.stream and not slot.stream.is_greeted]
        self.pace.look(now, is_busy, rising)
        early = [slot for slot in rising if self.pace.holds_place(slot, now)]
        # Where places are few, nodes that hang get no more than half of them.
        waiting = min(MAX_WAITING, max(1, places.nodes // 2)) if places.is_tight else MAX_WAITING
        # All together, because a host between takes no more at once; of these few second tries.
        room = min(
            self.pace.at_once - len(early),
            waiting - len(rising),
            places.nodes - len(running),
        )
        again = MAX_STARTING_AGAIN - sum(slot.is_again for slot in early)
        found: list[Slot] = []
        for slot in due:
            is_again = bool(slot.tries) and not slot.has_yielded
            if len(found) >= room:
                break
            if is_again and again <= 0:
                continue
            again -= is_again
            found.append(slot)
        return found

    def ends(
        self,
        slots: Sequence[Slot],
        due: Sequence[Slot],
        places: Places,
        now: float,
        period_s: float,
        zoom: Zoom,
    ) -> list[Slot]:
        """Those whose turn is over because others wait, or at once because there are too many."""
        running = [slot for slot in slots if slot.stream]
        free = places.nodes - len(running)
        if not places.is_tight or (free >= 0 and (free >= len(due) or now < self.next_at)):
            return []
        # A step is started once: each start of it stays in the accounting.
        readers = [slot for slot in running if not slot.endpoint.is_step]
        readers.sort(key=lambda slot: (slot.read_since is None, slot.read_since or 0.0))
        if free < 0:
            return readers[:-free]
        watched = [slot for slot in slots if not slot.names.isdisjoint(zoom.nodes)]
        spared = set(watched) if 2 * len(watched) <= places.nodes else set()
        limit_s = turn_s(places, period_s)
        for slot in readers:
            if slot.read_since is not None and slot not in spared:
                if now - slot.read_since < limit_s:
                    return []
                self.next_at = now + 1.0 / TURNS_PER_S
                return [slot]
        return []


def turn_s(places: Places, period_s: float) -> float:
    """How long a node is read before another one takes its place."""
    return max(TURN_S, TURN_PERIODS * period_s, places.nodes / TURNS_PER_S)


def in_turns(url: str, places: Places, bound: Bound, period_s: float | None) -> SourceError:
    """That not all nodes are read at once, and why; no period: each is read once."""
    turns, age = "", ""
    if period_s is not None:
        turns = f", in turns of {turn_s(places, period_s) / 60.0:.0f} min"
        age = "; what was read before is stale"
    message = (
        f"reads {places.nodes:,} of {places.of:,} nodes at a time{turns}, "
        f"because {bound.because}{age}"
    )
    ways_out = ("watch fewer nodes", *([bound.way_out] if bound.way_out else []))
    return SourceError(plain(url), plain(message), plain(", or ".join(ways_out)))


def untried(url: str, due: Sequence[Slot], rising: int, now: float) -> SourceError | None:
    """How many nodes have waited for long to be asked for the first time; None: none has."""
    for slot in due:
        if not slot.tries and slot.waits_since is None:
            slot.waits_since = now
    waiting = [s for s in due if s.waits_since is not None and now - s.waits_since > UNTRIED_S]
    waiting = [slot for slot in waiting if not slot.tries]
    if not waiting:
        return None
    count = len(waiting) - 1
    more = f", as do {count:,} more nodes" if count > 1 else ", as does 1 more node" * count
    others = f": {rising:,} others are starting" if rising else ""
    return SourceError(
        plain(waiting[0].endpoint.node or url), plain(f"waits to be tried{more}{others}")
    )
