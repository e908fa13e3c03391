"""A job without a finding says what could not be looked for: silence is no praise."""

from __future__ import annotations

from gpumon.model.finding import Coverage
from tests.worlds.tick import finding, fleet, job_with_gpus, tick

OK = Coverage("partial_gpus_idle", 3, 0, (), "ok")
WAITING = Coverage("memory_leak", 0, 0, (), "waiting", "observed for 60 s of 1800 s", 1800.0)
MUTED = Coverage("hang", 0, 0, (), "muted", "raised ValueError")
WATCHING = "1 of 2 detectors need longer: memory_leak 30m"
OFF = Coverage("slow_drift", 0, 0, (), "off", "off by default")
FAULTY = "✗ not looked for: hang; detectors at fault (f says why)"


def quiet(*coverage):
    return fleet(findings=(), coverage=coverage)


async def test_a_detector_at_fault_is_named_on_the_page_of_a_job(stage):
    async with stage(quiet(OK, MUTED), (80, 24)) as s:
        await s.press("enter")
        assert FAULTY in s.text
        await s.press("f")
        assert FAULTY in s.text


async def test_detectors_that_still_watch_are_counted_where_there_is_no_finding(stage):
    async with stage(quiet(OK, WAITING), (80, 24)) as s:
        await s.press("enter")
        text = " ".join(" ".join(s.lines).split())
        assert "no finding yet: watched for " in text
        assert WATCHING in text


async def test_a_finding_needs_no_such_words(stage):
    made = fleet(findings=(finding("job:4711"),), coverage=(OK, WAITING))
    async with stage(made, (80, 24)) as s:
        await s.press("enter")
        assert "4711" in s.lines[0]
        assert "need longer" not in s.text


async def test_a_job_that_all_looked_at_says_nothing_of_detectors(stage):
    async with stage(quiet(OK), (80, 24)) as s:
        await s.press("enter")
        assert "detectors" not in s.text


async def test_a_job_that_nobody_sees_is_not_said_to_be_watched(stage):
    async with stage(quiet(OK, WAITING), (80, 24)) as s:
        await s.press("slash", *"4702", "enter", "enter")
        assert "4702" in s.lines[0]
        assert "need longer" not in s.text


async def test_many_ranks_are_counted_in_thousands(stage):
    view, gpus = job_with_gpus("1", {f"n{number}": 8 for number in range(128)})
    async with stage(tick((view,), gpus), (80, 24)) as s:
        await s.press("enter")
        assert s.lines[0].endswith("1,024 ranks, 1,024 GPUs")


async def test_what_cannot_be_looked_for_in_a_job_is_named_with_what_it_lacks(stage):
    lacking = ("nic_speed_gbps",)
    blind = Coverage("network_degraded", 0, 1, lacking, "ok", "", 0.0, {"job:4690"})
    elsewhere = Coverage("throttled", 5, 1, ("sm_clock_mhz",), "ok", "", 0.0, {"job:1"})
    async with stage(quiet(OK, blind, elsewhere), (80, 24)) as s:
        await s.press("enter")
        assert "4690" in s.lines[0]
        assert "not looked for: network_degraded (no " in s.text
        assert "throttled" not in s.text


async def test_what_is_off_by_default_is_named_and_not_counted(stage):
    async with stage(quiet(OK, WAITING, OFF), (80, 24)) as s:
        await s.press("enter")
        text = " ".join(" ".join(s.lines).split())
        assert "not looked for: slow_drift (off)" in text
        assert WATCHING in text
    async with stage(quiet(OK, OFF), (80, 24)) as s:
        assert "watching" not in s.text
        await s.press("f", "f")
        assert "slow_drift: off" in s.text


async def test_who_needs_values_oftener_is_named_with_that(stage):
    note = "values come every 60 s, and it needs one every 20 s"
    coarse = Coverage("recompiling", 0, 1, (), "ok", note, 0.0, {"job:4690"})
    async with stage(quiet(OK, coarse), (80, 24)) as s:
        await s.press("enter")
        text = " ".join(" ".join(s.lines).split())
        assert f"not looked for: recompiling ({note})" in text


async def test_who_declines_to_judge_is_named_with_why(stage):
    why = {
        "job:4690": "another job shares its GPUs",
        "job:1": "unlike everything it learnt from: x",
    }
    declines = Coverage("learned", 3, 2, (), "ok", "", 0.0, set(why), why)
    async with stage(quiet(OK, declines), (80, 24)) as s:
        await s.press("enter")
        text = " ".join(" ".join(s.lines).split())
        assert "not looked for: learned (another job shares its GPUs)" in text
    async with stage(quiet(OK, declines), (160, 24)) as s:
        await s.press("f", "f")
        assert "blind for 2; not 1: another job shares its GPUs; not 1: unlike everything" in s.text
