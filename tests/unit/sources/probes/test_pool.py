"""Many probes on one thread: starts, retries on an injected clock, and an end without orphans."""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.probes.decode import Decoder
from gpumon.sources.probes.pool import GREETING_LIMIT_S, LEASE_PERIOD_S, STALLED_S, ProbePool
from gpumon.sources.probes.start_order import (
    MAX_STARTING,
    MAX_STARTING_AGAIN,
    RETRY_S,
    UNTRIED_S,
    YIELD_S,
    Pace,
    Slot,
)
from gpumon.sources.probes.stream import Endpoint
from gpumon.sources.source import Wish
from tests.unit.sources.pools import LIVE, Clock, Run, others_have_ended
from tests.worlds.probe import HELLO, REPORT, children, eventually, is_alive, talker

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.frame import Frame

    Open = Callable[..., Run]

NEVER = float("inf")


def test_frames_name_target_and_node_and_wake_the_reader(run: Open) -> None:
    one = run(talker(LIVE), talker(LIVE, "n2"))
    one.settle()
    (frame,) = one.frames("n2")
    assert (frame.origin, frame.taken_at) == ("ssh://n", one.clock.now())
    assert len(one.frames("n1")) == 1
    eventually(lambda: one.wakes >= 2, "the reader is woken for each")
    assert one.pool.poll() == []


def test_a_node_is_awaited_from_the_order_on() -> None:
    one = Run([], once=False)
    try:
        assert not one.pool.pending()
        one.pool.replace([talker(LIVE)])
        assert one.pool.pending()
    finally:
        one.pool.close()


@pytest.mark.parametrize("script", [LIVE, "exit 1"])
def test_who_is_woken_for_the_last_node_finds_its_frame_and_nothing_awaited(script: str) -> None:
    one = Run([talker(script)], once=True)
    found: list[tuple[int, bool]] = []
    one.pool.start(lambda: found.append((len(one.pool._frames), one.pool.pending())))
    try:
        eventually(lambda: found, "it wakes")
    finally:
        one.pool.close()
    assert found == [(1, False)]


def test_many_start_but_only_some_at_once(run: Open, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 0.05; done; {LIVE}"
    starts: list[None] = []
    nodes = [f"n{number}" for number in range(2 * MAX_STARTING + 3)]
    one = run(*(talker(script, node, lambda: starts.append(None)) for node in nodes))
    eventually(lambda: len(starts) >= MAX_STARTING, "the first ones start")
    one.turn()
    assert len(starts) == MAX_STARTING
    assert one.pool.pending()
    gate.touch()
    one.settle()
    assert len(starts) == len(nodes)
    assert all(len(one.frames(node)) == 1 for node in nodes)


def test_a_failed_probe_is_started_again_after_pauses_that_double(run: Open) -> None:
    starts: list[None] = []
    one = run(talker("exit 7", on_start=lambda: starts.append(None)))
    for pause_s in (1, 2, 4, 8, 16, 32, 60, 60):
        count = len(starts) or 1
        eventually(lambda count=count: len(one.errors()) == count, "the failure is told")
        started = one.clock.time
        one.clock.time = started + 0.79 * pause_s
        one.turn()
        assert len(starts) == count
        one.clock.time = started + 1.21 * pause_s
        one.turn()
        assert len(starts) == count + 1
    assert set(one.errors()) == {"ended (7): "}
    assert RETRY_S == (1.0, 60.0)


def test_a_report_makes_the_next_pause_short_again(run: Open, tmp_path: Path) -> None:
    healed = tmp_path / "healed"
    script = f"if [ -e {healed} ]; then {HELLO} {REPORT} 1; fi; exit 1"
    starts: list[None] = []
    one = run(talker(script, on_start=lambda: starts.append(None)))
    for count in (1, 2, 3, 4):
        eventually(lambda count=count: len(one.errors()) == count, "the failure is told")
        if count == 3:
            healed.touch()
        one.clock.time += 60
        one.turn()
    eventually(lambda: len(one.errors()) == 5, "it ends after its second report")
    one.clock.time += 1.21 * RETRY_S[0]
    one.turn()
    assert len(starts) == 6


def test_one_look_takes_one_report_and_starts_nothing_again(run: Open) -> None:
    starts: list[str] = []
    good = talker(f"{HELLO} {REPORT} 1", "good", lambda: starts.append("good"))
    bad = talker("exit 2", "bad", lambda: starts.append("bad"))
    one = run(good, bad, once=True)
    one.settle()
    for _ in range(2):
        one.clock.time += 3600
        one.turn()
    assert sorted(starts) == ["bad", "good"]
    assert [frame.errors for frame in one.frames("good")] == [()]
    assert one.errors("bad") == ["ended (2): "]


def test_a_probe_that_ends_after_its_report_is_a_failure_unless_one_was_asked_for(
    run: Open,
) -> None:
    one = run(talker(f"{HELLO} {REPORT} 1; exit 5"))
    eventually(lambda: one.errors(), "its end is told")
    assert one.errors() == ["ended (5): "]


def test_replacing_starts_the_new_ends_the_gone_and_leaves_the_rest(run: Open) -> None:
    starts: list[str] = []
    ends = {
        node: talker(LIVE, node, lambda node=node: starts.append(node)) for node in ("a", "b", "c")
    }
    one = run(ends["a"], ends["b"])
    one.settle()
    a, b = (one.pool._slots[node].stream._process.pid for node in ("a", "b"))
    one.pool.replace([ends["b"], ends["c"]])
    eventually(lambda: one.frames("c"), "the new one reports")
    eventually(lambda: not is_alive(a), "the gone one ends")
    assert is_alive(b)
    assert sorted(starts) == ["a", "b", "c"]
    eventually(lambda: one.frames("a")[-1].is_left, "the gone one is said to be left")
    assert not any(frame.is_left for frame in one.frames("b"))
    one.pool.replace([])
    one.settle()
    eventually(lambda: not is_alive(b), "all have ended")


def test_the_failure_of_a_node_that_nobody_asks_for_any_more_is_taken_back(run: Open) -> None:
    one = run(talker("exit 7"), talker(LIVE, "n2"))
    eventually(one.errors, "the failure is told")
    one.settle()
    told = len(one.frames("n1"))
    one.pool.replace([talker(LIVE, "n2")])
    eventually(lambda: len(one.frames("n1")) > told, "it is taken back")
    last = one.frames("n1")[-1]
    assert (last.errors, dict(last.blocks), last.queue) == ((), {}, None)


def test_a_child_that_has_ended_is_collected_while_the_pool_lives(run: Open) -> None:
    before = children()
    one = run(talker(LIVE), talker(LIVE, "n2"))
    one.settle()
    one.pool.replace([talker(LIVE, "n2")])
    eventually(lambda: len(children() - before) == 1, "the zombie is collected")


def test_a_silent_node_is_given_up(run: Open, said: Callable[..., None]) -> None:
    one = run(talker("exec sleep 600"))
    one.turn()
    assert one.pool.pending()
    one.clock.time += GREETING_LIMIT_S - 1
    one.turn()
    assert one.errors() == []
    one.clock.time += 2
    one.turn()
    assert one.errors() == [f"no probe came up within {GREETING_LIMIT_S + 1:.0f} s"]
    error = one.frames()[0].errors[0]
    said(error.message, error.hint)
    assert "python3" in one.frames()[0].errors[0].hint


def test_wishes_and_leases_reach_every_probe(run: Open) -> None:
    # Its clock runs ahead of ours, which goes in leaps, so that no report looks delayed.
    report = REPORT.replace('"at":1', '"at":%s')
    echo = (
        f"{HELLO} at=0; while read word number; do at=$((at + 1000)); "
        f"[ $word = period ] && {report} $at $number; done"
    )
    one = run(talker(echo), talker(echo, "n2"))

    def heard(node: str) -> list[float]:
        return [frame.lateness_s for frame in one.frames(node)]

    eventually(lambda: heard("n1") == [1.0] and heard("n2") == [1.0], "the first period")
    one.turn()
    assert heard("n1") == [1.0]
    one.clock.time += LEASE_PERIOD_S
    one.turn()
    eventually(lambda: heard("n1") == [1.0, 1.0], "the lease is renewed")
    one.pool.wish(Wish(period_s=2.5))
    eventually(lambda: heard("n2") == [1.0, 1.0, 2.5], "the wish arrives without waiting")
    one.pool.wish(Wish(period_s=2.5))
    one.pool.wish(Wish())
    one.turn()
    assert heard("n2") == [1.0, 1.0, 2.5]


def test_start_options_reach_every_probe() -> None:
    given: list[dict[str, object]] = []

    def program(options: dict[str, object]) -> bytes:
        given.append(options)
        return f"{options['nonce']}\n".encode()

    where = talker(LIVE)._replace(program=program)
    options = {"gpm": False, "tiers": ["hot"]}
    pool = ProbePool("ssh://n", [where], 2.0, Clock(), once=False, options=options)
    pool.start(lambda: None)
    try:
        eventually(lambda: given, "it starts")
    finally:
        pool.close()
    assert {key: given[0][key] for key in ("gpm", "tiers", "period_s", "once")} == {
        "gpm": False,
        "tiers": ["hot"],
        "period_s": 2.0,
        "once": False,
    }


def test_rubbish_is_one_error_with_a_way_out_and_another_start(
    run: Open, said: Callable[..., None]
) -> None:
    starts: list[None] = []
    script = f"{HELLO} {REPORT} 1; echo; echo 'Your disk quota is exceeded'; exec sleep 600"
    one = run(talker(script, on_start=lambda: starts.append(None)))
    eventually(lambda: one.errors(), "the rubbish is told")
    assert len(one.errors()) == 1
    error = one.frames()[-1].errors[0]
    said(error.message, error.hint)
    assert one.errors()[0].startswith("this is not a probe's output: ")
    assert "login shell" in one.frames()[-1].errors[0].hint
    one.clock.time += 2
    one.turn()
    assert len(starts) == 2


def test_endless_noise_is_one_error(run: Open, said: Callable[[str], None]) -> None:
    one = run(talker("exec yes"))
    one.settle()
    (message,) = one.errors()
    said(message)
    assert "before the probe's hello" in message or "a line of more than" in message


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        (
            Endpoint("n1", ("/no/such/ssh",), lambda _: b"", lambda *_: ("", "")),
            "cannot start /no/such/ssh: No such file or directory",
        ),
        (
            talker(LIVE)._replace(program=lambda _: Path("/no/binding").read_bytes()),
            "cannot start sh: No such file or directory",
        ),
    ],
)
def test_what_cannot_be_started_is_told(
    run: Open, endpoint: Endpoint, message: str, said: Callable[..., None]
) -> None:
    one = run(endpoint)
    one.settle()
    assert one.errors() == [message]
    said(message)


def test_a_missing_binding_is_told_in_its_own_words(run: Open, said: Callable[..., None]) -> None:
    def missing(_: dict[str, object]) -> bytes:
        raise FileNotFoundError("the package nvidia-ml-py is not installed beside gpumon")

    one = run(talker(LIVE)._replace(program=missing))
    one.settle()
    assert "nvidia-ml-py is not installed" in one.errors()[0]
    said(one.errors()[0])


def test_a_stopped_node_holds_up_nobody(run: Open) -> None:
    beat = f"{HELLO} while read wish; do {REPORT} 1; done"
    one = run(talker("kill -STOP $$", "stopped"), talker(beat, "live"))
    for count in (1, 2, 3):
        eventually(lambda count=count: len(one.frames("live")) >= count, "the other one reports")
        one.clock.time += LEASE_PERIOD_S
        one.turn()
    assert one.pool.pending()


def test_closing_ends_every_child_even_those_that_do_not_listen() -> None:
    before = children()
    deaf = "trap '' TERM HUP INT PIPE; sleep 600; sleep 600"
    one = Run([talker(f"{LIVE}", f"n{i}") for i in range(6)], once=False)
    one.pool.replace([*(talker(f"{HELLO} {REPORT} 1; {deaf}", f"d{i}") for i in range(6))])
    one.start()
    eventually(lambda: one.frames("d5"), "they run")
    started = children() - before
    assert started
    one.close()
    assert children() <= before
    assert not any(is_alive(pid) for pid in started)


def open_descriptors() -> set[int]:
    found = set()
    for number in range(256):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.add(number)
    return found


@pytest.mark.parametrize("is_started", [True, False])
def test_closing_gives_every_descriptor_back_and_may_be_repeated(is_started: bool) -> None:
    others_have_ended()
    before = open_descriptors()
    one = Run([talker(LIVE)], once=False)
    assert one.pool.poll() == []
    if is_started:
        one.start()
        one.settle()
    one.pool.close()
    eventually(lambda: not one.pool._thread.is_alive(), "the thread ends")
    assert open_descriptors() == before
    strangers = [os.pipe() for _ in range(8)]
    try:
        one.pool.close()
        one.pool.wish(Wish(period_s=9.0))
        one.pool.replace([])
        one.pool.poll()
        # The pool's own pipe is closed, its number may be one of these now.
        assert select.select([out for out, _ in strangers], [], [], 0)[0] == []
    finally:
        for pair in strangers:
            for number in pair:
                os.close(number)


def test_a_surprise_in_one_report_leaves_the_other_nodes_alone(
    run: Open, monkeypatch: pytest.MonkeyPatch, said: Callable[..., None]
) -> None:
    whole = Decoder.frame

    def stumbling(self: Decoder, line: bytes, node: str, now: float, heard_s: float) -> Frame:
        if node == "odd":
            raise ZeroDivisionError
        return whole(self, line, node, now, heard_s)

    monkeypatch.setattr(Decoder, "frame", stumbling)
    one = run(talker(LIVE, "odd"), talker(LIVE, "even"))
    one.settle()
    assert len(one.frames("even")) == 1
    assert ["ZeroDivisionError" in message for message in one.errors("odd")] == [True]
    error = one.frames("odd")[-1].errors[0]
    said(error.message, error.hint)


@pytest.mark.parametrize(
    ("was", "age_s", "becomes"),
    [(70.0, 0.4, 100.0), (70.0, 20.0, 80.0), (90.0, 20.0, 90.0), (NEVER, 20.0, NEVER),
     (NEVER, 0.4, 100.0)],
)  # fmt: skip
def test_only_a_fresh_report_ends_a_silence(was: float, age_s: float, becomes: float) -> None:
    slot = Slot(talker("", "job 7"))
    slot.heard_at = {"gpu03": was}
    slot.hear("gpu03", 100.0, age_s)
    slot.hear("gpu09", 100.0, 0.0)
    assert slot.heard_at == {"gpu03": becomes}


HANGS = "sleep 600"


def test_nodes_that_hang_at_login_do_not_keep_the_others_from_being_tried(run: Open) -> None:
    """Each leaves its place after three seconds, whatever their names are."""
    hanging = [f"a{number:03}" for number in range(2 * MAX_STARTING + 5)]
    one = run(*(talker(HANGS, node) for node in hanging), talker(LIVE, "z1"), talker(LIVE, "z2"))
    one.turn()
    assert one.frames("z1") == []
    for _ in range(3):
        one.clock.time += YIELD_S + 0.1
        one.turn()
    eventually(lambda: one.frames("z1") and one.frames("z2"), "the last ones are tried")
    assert not one.errors("a000")


def test_who_was_never_tried_goes_before_those_that_failed(run: Open) -> None:
    starts: list[str] = []
    nodes = [f"n{number}" for number in range(MAX_STARTING + 3)]
    run(*(talker("exit 1", n, lambda n=n: starts.append(n)) for n in nodes))
    eventually(lambda: len(starts) >= len(nodes), "all are tried")
    assert sorted(starts[: len(nodes)]) == sorted(nodes)


def test_second_starts_have_a_small_budget_of_their_own(run: Open, tmp_path: Path) -> None:
    """However many come due at once, a new node finds room."""
    down = tmp_path / "down"
    starts: list[str] = []
    script = f"[ -e {down} ] || exit 1; {HANGS}"
    nodes = [f"n{number}" for number in range(3 * MAX_STARTING_AGAIN)]
    endpoints = [talker(script, n, lambda n=n: starts.append(n)) for n in nodes]
    one = run(*endpoints)
    eventually(lambda: all(one.errors(node) for node in nodes), "all fail once")
    down.touch()
    one.clock.time += 1.5 * RETRY_S[0]
    one.pool.replace([*endpoints, talker(LIVE, "new")])
    one.settle()
    assert len(one.frames("new")) == 1
    assert len(starts) == len(nodes) + MAX_STARTING_AGAIN
    one.clock.time += YIELD_S + 0.1
    one.turn()
    assert len(starts) == len(nodes) + 2 * MAX_STARTING_AGAIN


def test_those_that_nobody_has_tried_yet_are_told_of(run: Open, said: Callable[..., None]) -> None:
    hanging = [f"a{number}" for number in range(MAX_STARTING)]
    one = run(
        *(talker(HANGS, node) for node in hanging), *(talker(LIVE, f"z{n}") for n in (1, 2, 3))
    )
    slots = one.pool._slots
    eventually(lambda: all(slots[node].stream for node in hanging), "they have begun")
    one.pool._turns.pace = Pace(0, 0)
    one.turn()
    one.clock.time += UNTRIED_S + 1.0
    one.turn()
    eventually(lambda: one.errors(""), "it is told")
    assert "waits to be tried, as do 2 more nodes" in one.errors("")[-1]
    assert one.frames("")[-1].errors[0].where == "z1"
    said(one.errors("")[-1])
    one.pool._turns.pace = Pace(MAX_STARTING, MAX_STARTING)
    one.turn()
    eventually(lambda: not one.frames("")[-1].errors, "and taken back, of whichever node it spoke")


@pytest.mark.parametrize("after", [HELLO, f"{HELLO} {REPORT} 1; printf half;"])
def test_a_probe_that_comes_up_and_stalls_is_started_again(after: str, run: Open) -> None:
    starts: list[None] = []
    script = f"{after} {HANGS}"
    one = run(talker(script, on_start=lambda: starts.append(None)))
    eventually(lambda: one.pool._slots["n1"].stream and one.pool._slots["n1"].stream.is_greeted,
               "it comes up")  # fmt: skip
    one.clock.time += STALLED_S - 1.0
    one.turn()
    assert one.errors() == []
    one.clock.time += 2.0
    eventually(lambda: one.errors(), "it is given up")
    assert one.errors()[-1] == "no report for 45 s"
    one.clock.time += 2 * RETRY_S[0]
    eventually(lambda: len(starts) > 1, "it is started again")
