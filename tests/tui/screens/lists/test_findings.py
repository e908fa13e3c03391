"""Findings with their life: the table, one finding with its evidence drawn, known and muted."""

from __future__ import annotations

import pytest

from gpumon.model.finding import Confidence, Evidence, Severity
from gpumon.tui.screens.base.page import Page
from gpumon.tui.screens.lists.findings import FindingScreen, FindingsView
from gpumon.tui.screens.pages.curves import CurvesScreen
from gpumon.tui.screens.pages.gpu import GpuScreen
from gpumon.tui.screens.pages.job import JobScreen
from tests.worlds.tick import AT, Past, finding, fleet, job_with_gpus, tick


def judged():
    """A fleet with a finding in each state."""
    made = fleet()
    held = made.job("4711")
    assert held is not None
    uuid = held.gpu_uuids[0]
    cause = finding(
        "job:4711",
        detector="hang",
        finding_class="hang",
        severity=Severity.CRITICAL,
        evidence=(Evidence("sm_active_ratio", f"gpu:{uuid}", "stood still"),),
    )
    return made._replace(
        history=Past(made.gpus),
        findings=(
            finding("job:4711"),
            cause,
            finding("job:4690", is_acknowledged=True, detector="a"),
            finding("job:4702", unknown_since=AT - 180, detector="b"),
        ),
        cleared=(finding("job:4690", cleared_at=AT - 600, last_seen=AT - 600, detector="c"),),
    )


async def test_what_is_open_comes_before_what_is_known_and_what_is_over(stage):
    async with stage(judged(), (120, 30)) as s:
        await s.press("f")
        assert isinstance(s.app.screen, FindingsView)
        assert "5 findings" in s.lines[0]
        rows = s.lines[3:8]
        assert "hang" in rows[0]
        assert "4711" in rows[0]
        assert " open " in rows[0]
        assert " open " in rows[1]
        assert "unknown for 3m" in rows[2]
        assert "acknowledged" in rows[3]
        assert "cleared " in rows[4]
        assert "‼ 1 critical" in s.lines[1]


async def test_what_is_only_suspected_is_not_counted_as_lost(stage):
    made = (
        finding("job:4711", gpu_seconds=7_200.0, confidence=Confidence.SUPPORTED),
        finding("job:4690", gpu_seconds=10_800.0, confidence=Confidence.HYPOTHESIS),
    )
    async with stage(fleet(findings=made), (120, 30)) as s:
        await s.press("f")
        assert "2.00 GPU-h, ~3.00 GPU-h lost" in s.lines[1]
        await s.resize(80, 24)
        assert "2.00 GPU-h, ~3.00 GPU-h lost" in s.lines[1]
        await s.give(fleet(findings=made[1:]))
        assert " ~3.00 GPU-h lost" in s.lines[1]


async def test_what_is_over_is_dim(stage):
    async with stage(judged(), (120, 30)) as s:
        await s.press("f")
        dim = s.app.look.tones["dim"].color
        assert s.style_of("cleared ").color == dim
        assert s.style_of("acknowledged").color == dim


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_table_fits_every_size(stage, size):
    async with stage(judged(), size) as s:
        await s.press("f")
        assert "FINDING" in s.text
        assert "SAYS" in s.text
        assert all(len(line) <= size[0] for line in s.lines)


async def test_one_finding_draws_its_evidence_with_onset_and_window(stage):
    async with stage(judged(), (120, 40)) as s:
        await s.press("f", "enter")
        assert isinstance(s.app.screen, FindingScreen)
        assert "stood still" in s.text
        assert "SM active gpu" in s.text
        assert "▲ onset" in s.text
        assert "▔" in s.text
        assert "100 %│" in s.text
        assert "this finding accounts for the others" in s.text
        await s.press("enter")
        assert isinstance(s.app.screen, JobScreen)


async def test_evidence_that_no_curve_shows_stays_words(stage):
    odd = finding("node:gpu01", evidence=(Evidence("squeue", "job:4711", "the queue says so"),))
    async with stage(fleet(findings=(odd,)), (100, 30)) as s:
        await s.press("f", "enter")
        assert "the queue says so" in s.text
        assert "│" not in s.text


async def test_a_finding_that_is_not_open_at_the_shown_instant_says_so(stage):
    async with stage(fleet(), (100, 30)) as s:
        later = judged()
        await s.give(later._replace(at=AT + 1))
        await s.press("f", "enter")
        await s.press("comma")
        assert "is not open at this instant" in s.text
        await s.press("L")
        assert "stood still" in s.text


async def test_acknowledge_tells_the_feed_and_can_be_taken_back(stage):
    async with stage(judged(), (120, 30)) as s:
        await s.press("f", "a")
        assert s.feed.noted == [(("hang", "hang", "job:4711"), True)]
        assert "hang is acknowledged" in s.lines[-2]
        assert s.text.count("next evaluation") == 1
        await s.press("G", "k", "a")
        assert s.feed.noted[-1] == (("a", "partial_gpus_idle", "job:4690"), False)


async def test_what_was_done_to_a_finding_is_shown_for_a_while_and_no_longer(stage):
    async with stage(judged(), (80, 24)) as s:
        await s.press("f", "a")
        assert "the detectors' next evaluation shows it" in s.text
        s.now[0] += 60.0
        await s.give(judged()._replace(at=AT + 60))
        assert "next evaluation" not in s.text


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("1h", (AT + 3600, "hang", "job:4711")),
        ("2 d class", (AT + 2 * 86400, "hang", None)),
        ("30m subject", (AT + 1800, None, "job:4711")),
    ],
)
async def test_mute_for_a_while(stage, typed, expected):
    async with stage(judged(), (120, 30)) as s:
        await s.press("f", "m", *[{" ": "space"}.get(char, char) for char in typed], "enter")
        assert s.feed.mutes == [expected]
        assert "muted until" in s.text
        await s.press("m", *"off", "enter")
        assert s.feed.mutes[-1] == (0.0, *expected[1:])
        assert "muted until" not in s.text


@pytest.mark.parametrize("typed", ["", "soon", "0h", "40d", "1h job"])
async def test_what_is_no_time_to_be_silent_is_refused(stage, typed):
    async with stage(judged(), (120, 30)) as s:
        await s.press("f", "m", *[{" ": "space"}.get(char, char) for char in typed], "enter")
        assert "is not a time to mute for" in s.lines[-2]
        assert not s.feed.mutes


class Answers:
    """Takes answers to findings."""

    def __init__(self):
        self.asked = []

    def store(self, tick, finding, *, is_right):
        self.asked.append((tick.at, finding.identity, is_right))
        return "kept as said"


async def until(s, words):
    """Wait until words are in the status line."""
    for _ in range(1000):
        if words in s.text:
            return
        await s.pilot.pause(0.01)
    raise AssertionError(s.text)


@pytest.mark.parametrize("keys", [("f",), ("f", "enter")], ids=["in the list", "on its page"])
@pytest.mark.parametrize(
    ("answer", "is_right"), [("yes", True), ("y", True), ("No", False), ("off", None)]
)
async def test_a_finding_is_said_to_be_right_or_wrong(stage, keys, answer, is_right):
    async with stage(judged(), (120, 30)) as s:
        s.app.cases = Answers()
        await s.press(*keys)
        at_hand = s.app.screen.current_finding()
        await s.press("V")
        assert "is it right? yes, no, or off" in s.text
        await s.press(*answer, "enter")
        await until(s, "kept as said")
        assert s.app.cases.asked == [(AT, at_hand.identity, is_right)]


@pytest.mark.parametrize("typed", ["", "x", "yesno"])
async def test_what_is_no_answer_is_refused_and_nothing_is_stored(stage, typed):
    async with stage(judged(), (120, 30)) as s:
        s.app.cases = Answers()
        await s.press("f", "V", *typed, "enter")
        assert "is not an answer; write yes, no" in s.lines[-2]
        await s.press("escape")
        assert s.app.cases.asked == []


async def test_a_fault_on_the_way_is_reported_in_one_line(stage):
    """Of gpumon's own, or of a machine that has no room: nothing is stored, the line says so."""

    class Faulty(Answers):
        def store(self, tick, finding, *, is_right):
            raise MemoryError

    async with stage(judged(), (120, 30)) as s:
        s.app.cases = Faulty()
        await s.press("f", "V", "y", "enter")
        await until(s, "not done: MemoryError")


async def test_where_nothing_is_stored_the_line_says_so(stage):
    """As in a replay."""
    async with stage(judged(), (120, 30)) as s:
        await s.press("f", "V")
        assert "stored only while a fleet is watched live" in s.text


async def test_findings_of_a_job_are_those_of_its_gpus_too(stage):
    view, gpus = job_with_gpus("1", {"n": 2})
    mine = finding(f"gpu:{gpus[0].uuid}", finding_class="throttled", detector="throttled")
    other = finding("job:2")
    async with stage(tick((view,), gpus, findings=(mine, other)), (120, 30)) as s:
        await s.press("enter", "f")
        assert "1 finding" in s.lines[0]
        assert "throttled" in s.text
        assert "n:0" in s.text


async def test_all_in_full_is_one_more_key_away(stage):
    async with stage(judged(), (120, 30)) as s:
        await s.press("f", "f")
        assert type(s.app.screen) is Page
        assert "3 of 8 GPUs ran nothing" in s.text


async def test_without_findings_it_says_what_to_look_at(stage):
    async with stage(fleet(findings=(), coverage=())) as s:
        await s.press("f")
        assert "No detector has reported yet." in s.text


async def test_curves_of_a_gpu_and_their_span(stage):
    made = judged()._replace(observed_since=AT - 7200)
    async with stage(made, (80, 24)) as s:
        await s.press("enter", "enter")
        assert isinstance(s.app.screen, GpuScreen)
        await s.press("v")
        assert isinstance(s.app.screen, CurvesScreen)
        assert "15m" in s.lines[0]
        assert "SM active" in s.text
        assert "memory used" in s.text
        assert any("\u2800" < char <= "\u28ff" for char in s.text)
        assert "08:53" in s.lines[-4]
        assert "NVLink" not in s.text
        await s.press("end")
        assert "NVLink" in s.text
        assert "08:53" in s.lines[-3]
        spans = []
        for _ in range(4):
            await s.press("w")
            spans.append(s.lines[0].split()[-1])
        assert spans == ["60m", "2h00m", "5m", "15m"]


async def test_curves_of_what_is_gone_say_so(stage):
    async with stage(judged(), (80, 24)) as s:
        await s.press("enter", "v")
        assert isinstance(s.app.screen, CurvesScreen)
        await s.give(tick()._replace(at=AT + 5))
        assert "Nothing is known of it at this instant" in s.text


async def test_a_counter_is_drawn_from_its_first_to_its_last_value(stage):
    made = judged()
    gpu = next(iter(made.gpus.values()))
    rising = finding(
        f"gpu:{gpu.uuid}",
        evidence=(Evidence("pcie_replay_count", f"gpu:{gpu.uuid}", "replays rose"),),
    )

    class Rising(Past):
        def window(self, uuid, key, start, end, block="gpu"):
            return [end - 60 + i for i in range(61)], [100.0 + i for i in range(61)]

    shown = made._replace(findings=(rising,), cleared=(), history=Rising(made.gpus))
    async with stage(shown, (100, 30)) as s:
        await s.press("f", "enter")
        assert "160" in s.line_with("│").split("│")[0]
        assert "100│" in s.text


async def test_without_a_curve_as_evidence_the_activity_meanwhile_is_drawn(stage):
    odd = finding("job:4711", evidence=(Evidence("squeue", "job:4711", "the queue says so"),))
    async with stage(judged()._replace(findings=(odd,), cleared=()), (100, 30)) as s:
        await s.press("f", "enter")
        assert "meanwhile" in s.text
        assert "▲ onset" in s.text
