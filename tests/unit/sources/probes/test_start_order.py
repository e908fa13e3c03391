"""Whose turn it is: on slots whose probes are stand-ins, then in pools of real children."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.sources.probes import clients, pool
from gpumon.sources.probes.clients import Bound, Clients, Limits
from gpumon.sources.probes.start_order import (
    MAX_STARTING,
    MAX_STARTING_AGAIN,
    TURN_PERIODS,
    TURN_S,
    TURNS_PER_S,
    UNTRIED_S,
    Pace,
    Places,
    Slot,
    Turns,
    in_turns,
    turn_s,
    untried,
)
from gpumon.sources.probes.zoom import Zoom
from tests.unit.sources.pools import LIVE, Run
from tests.worlds.probe import HELLO, REPORT, eventually, talker

if TYPE_CHECKING:
    from collections.abc import Callable

    Open = Callable[..., Run]

NEVER = float("inf")

PERIOD_S = 10.0
NOBODY = Zoom()


class Reads:
    """A stream as far as turns look at it."""

    def __init__(self, is_greeted: bool) -> None:
        self.is_greeted = is_greeted
        self.cpu_s = 0.0


class Site:
    """Nodes that come up at once, or hang for ever, and a pool that keeps to the turns."""

    def __init__(self, healthy: int, hanging: int, places: int) -> None:
        names = [f"h{n}" for n in range(healthy)] + [f"x{n}" for n in range(hanging)]
        self.slots = [Slot(talker("", name)) for name in names]
        self.places = Places(places, len(names))
        self.turns = Turns(Pace(MAX_STARTING, MAX_STARTING))
        self.now = 1000.0
        self.zoom = NOBODY
        self.reads: Counter[str] = Counter()
        self.read_s: Counter[str] = Counter()
        self.most = 0

    def step(self, seconds: float) -> None:
        """What the pool does at each look."""
        self.now += seconds
        given_up = [s for s in self.slots if s.stream and not s.stream.is_greeted]
        for slot in given_up:
            if self.now - slot.started_at > 20.0:
                slot.stream, slot.due_at = None, self.now + 60.0
        due = self.turns.due(self.slots, self.now, self.zoom)
        for slot in self.turns.ends(self.slots, due, self.places, self.now, PERIOD_S, self.zoom):
            slot.stream = None
            slot.rest(self.now)
        for slot in self.turns.starts(self.slots, due, self.places, self.now, is_busy=False):
            slot.begin(self.now)
            name = slot.endpoint.node
            reads: Any = Reads(name.startswith("h"))
            slot.stream = reads
            if name.startswith("h"):
                slot.read_since = self.now
                self.reads[name] += 1
        running = [slot for slot in self.slots if slot.stream]
        self.most = max(self.most, len(running))
        for slot in running:
            self.read_s[slot.endpoint.node] += seconds

    def watch(self, seconds: float, step_s: float = 1.0) -> None:
        for _ in range(int(seconds / step_s)):
            self.step(step_s)


def test_where_there_is_room_for_all_nobody_gives_way() -> None:
    site = Site(healthy=90, hanging=0, places=90)
    site.watch(2000.0)
    assert set(site.reads.values()) == {1}
    assert len(site.reads) == 90


def test_beyond_the_bound_every_node_gets_its_turn_and_no_more_run_at_once() -> None:
    site = Site(healthy=70, hanging=0, places=20)
    site.watch(4 * TURN_S + 30.0)
    assert len(site.reads) == 70
    assert site.most == 20
    before = Counter(site.reads)
    site.watch(8 * TURN_S)
    since = site.reads - before
    assert min(since.values()) >= 1
    assert max(since.values()) - min(since.values()) <= 1


def test_a_turn_is_long_enough_for_rates_and_windows() -> None:
    site = Site(healthy=30, hanging=0, places=10)
    site.watch(12 * TURN_S)
    whole = [site.read_s[f"h{n}"] / site.reads[f"h{n}"] for n in range(30)]
    assert min(whole) >= 0.6 * TURN_S
    assert TURN_S >= TURN_PERIODS * PERIOD_S


@pytest.mark.parametrize(
    ("places", "period_s", "seconds"),
    [(20, 2.0, TURN_S), (20, 60.0, 300.0), (1000, 2.0, 1000 / TURNS_PER_S)],
)
def test_slow_beats_and_many_clients_make_turns_longer(
    places: int, period_s: float, seconds: float
) -> None:
    assert turn_s(Places(places, 3000), period_s) == seconds


def test_nodes_that_hang_leave_half_of_few_places_to_the_others() -> None:
    site = Site(healthy=40, hanging=40, places=16)
    site.watch(15.0)
    rising = [s for s in site.slots if s.stream and not s.stream.is_greeted]
    assert len(rising) <= 8
    site.watch(20 * TURN_S)
    healthy = [site.reads[f"h{n}"] for n in range(40)]
    assert min(healthy) >= 2
    assert site.most <= 16


def test_a_node_that_hangs_is_tried_again_while_others_wait_for_their_turn() -> None:
    site = Site(healthy=40, hanging=1, places=10)
    site.watch(10 * TURN_S)
    assert next(s for s in site.slots if s.endpoint.node == "x0").tries >= 2


def test_turns_do_not_end_all_at_once() -> None:
    site = Site(healthy=100, hanging=0, places=50)
    site.watch(60.0)
    site.now += 10 * TURN_S
    before = sum(site.reads.values())
    site.watch(5.0, 0.05)
    assert sum(site.reads.values()) - before <= 5.0 * TURNS_PER_S + 1


def test_who_is_looked_at_comes_first_and_stays() -> None:
    site = Site(healthy=60, hanging=0, places=10)
    site.watch(5.0)
    site.zoom = Zoom(("h58", "h59"))
    site.watch(1.5 * TURN_S)
    watched = [s for s in site.slots if s.endpoint.node in ("h58", "h59")]
    assert all(slot.stream for slot in watched)
    site.watch(6 * TURN_S)
    assert [site.reads["h58"], site.reads["h59"]] == [1, 1]


def test_when_places_are_taken_away_the_longest_read_go_at_once() -> None:
    site = Site(healthy=30, hanging=0, places=30)
    site.watch(5.0)
    site.places = Places(12, 30)
    site.step(0.1)
    assert sum(1 for slot in site.slots if slot.stream) == 12


def test_a_step_of_a_job_is_never_ended_for_a_turn() -> None:
    site = Site(healthy=6, hanging=0, places=3)
    site.slots[0] = Slot(talker("", "h0")._replace(is_step=True))
    site.watch(10 * TURN_S)
    assert site.reads["h0"] == 1
    assert site.slots[0].stream


def test_second_tries_do_not_hold_up_a_turn_behind_them() -> None:
    """Sorted by age they may stand in front, beyond their budget."""
    turns, now = Turns(Pace(MAX_STARTING, MAX_STARTING)), 500.0
    slots = [Slot(talker("", f"n{n}")) for n in range(MAX_STARTING_AGAIN + 3)]
    for age, slot in enumerate(slots):
        slot.tries, slot.started_at = 3, float(age)
    slots[-1].has_yielded = True
    due = turns.due(slots, now, NOBODY)
    found = turns.starts(slots, due, Places(20, 40), now, is_busy=False)
    assert len(found) == MAX_STARTING_AGAIN + 1
    assert slots[-1] in found


def test_one_line_says_how_many_are_read_and_why() -> None:
    bound = Bound(250, "each ssh client takes 3 of the 1,024 files", "ask for more")
    error = in_turns("ssh://n[0001-1200]", Places(250, 1200), bound, 2.0)
    assert error.where == "ssh://n[0001-1200]"
    assert error.message == (
        "reads 250 of 1,200 nodes at a time, in turns of 2 min, because each ssh client takes "
        "3 of the 1,024 files; what was read before is stale"
    )
    assert error.hint == "watch fewer nodes, or ask for more"
    once = in_turns("ssh://n", Places(250, 1200), bound, None)
    assert once.message == (
        "reads 250 of 1,200 nodes at a time, because each ssh client takes 3 of the 1,024 files"
    )


def test_who_waits_for_the_first_try_is_counted_after_a_while() -> None:
    slots = [Slot(talker("", f"n{n}")) for n in range(3)]
    slots[0].tries = 1
    assert untried("ssh://n", slots, 9, 50.0) is None
    remark = untried("ssh://n", slots, 1234, 50.5 + UNTRIED_S)
    assert remark is not None
    assert (remark.where, remark.message) == (
        "n1",
        "waits to be tried, as does 1 more node: 1,234 others are starting",
    )
    slots[1].tries = slots[2].tries = 1
    assert untried("ssh://n", slots, 9, 99.0) is None


PLACES = 6
NARROW = Limits(processes=2 * PLACES)


@pytest.fixture
def narrow(run: Open, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Makes pools on a machine that takes six clients, whose nodes may be as slow as they are."""
    monkeypatch.setattr(pool, "GREETING_LIMIT_S", NEVER)
    monkeypatch.setattr(pool, "STALLED_S", NEVER)
    shared = Clients(NARROW, cpus=64, ticks=lambda: None)
    monkeypatch.setattr(clients, "of_this_machine", lambda: shared)
    return run


def running(one: Run) -> set[str]:
    return {name for name, slot in list(one.pool._slots.items()) if slot.stream}


def test_beyond_the_bound_nodes_take_turns_and_one_line_says_so(
    narrow: Open, said: Callable[..., None]
) -> None:
    nodes = [f"n{number}" for number in range(2 * PLACES)]
    one = narrow(*(talker(LIVE, node) for node in nodes))
    eventually(lambda: sum(bool(one.frames(n)) for n in nodes) == PLACES, "the first ones report")
    one.turn()
    first = running(one)
    assert len(first) == PLACES
    (line,) = one.frames("")[-1].errors
    assert line.where == "ssh://n"
    assert line.message.startswith(f"reads {PLACES} of {2 * PLACES} nodes at a time, in turns of ")
    assert "half of the 12 processes" in line.message
    said(line.message, line.hint)

    def all_read() -> bool:
        # The children come up in their own time; a turn ends in the clock's.
        assert len(running(one)) <= PLACES
        one.clock.time += TURN_S / 20
        one.turn()
        return all(one.frames(node) for node in nodes)

    eventually(all_read, "every node gets its turn")
    assert not any(frame.is_left or frame.errors for n in nodes for frame in one.frames(n))


def test_a_single_look_reads_all_nodes_whatever_the_bound(narrow: Open) -> None:
    nodes = [f"n{number}" for number in range(3 * PLACES)]
    one = narrow(*(talker(f"{HELLO} {REPORT} 1", node) for node in nodes), once=True)
    one.settle()
    assert all(len(one.frames(node)) == 1 for node in nodes)
    one.turn()
    assert one.frames("")[-1].errors == ()


def test_when_the_other_nodes_are_gone_the_line_is_taken_back(narrow: Open) -> None:
    ends = [talker(LIVE, f"n{number}") for number in range(2 * PLACES)]
    one = narrow(*ends)
    eventually(lambda: one.errors(""), "it is told")
    one.pool.replace(ends[:PLACES])
    eventually(lambda: not one.frames("")[-1].errors, "it is taken back")


def test_a_pool_that_is_over_leaves_its_share_to_the_others(narrow: Open) -> None:
    gone = narrow(*(talker(LIVE, f"a{number}") for number in range(PLACES)))
    gone.settle()
    one = narrow(*(talker(LIVE, f"b{number}") for number in range(PLACES)))
    eventually(lambda: one.errors(""), "they share")
    eventually(lambda: len(running(gone)) == PLACES // 2, "the first gives half of them back")
    gone.close()
    one.settle()
    assert len(running(one)) == PLACES
