"""Answers about parts of the jobs, put together."""

from __future__ import annotations

import pytest

from gpumon.detect.engine.engine import whole_of
from gpumon.detect.engine.finding_life import DetectorResult
from gpumon.detect.scene import Scene, working
from gpumon.detect.worker.validation import MAX_FINDINGS, RubbishError
from gpumon.model.finding import Coverage
from tests.bench.fleet import BenchFleet
from tests.worlds.tick import finding


def answer(begin, end, subjects=(), blind=(), seen=3, missing=(), why=()):
    claims = tuple(finding(subject) for subject in subjects)
    look = DetectorResult("d", claims, (begin, end), frozenset(blind))
    coverage = Coverage("d", seen, len(blind), missing, "ok", "", 0.0, frozenset(blind), dict(why))
    return look, coverage


def test_parts_that_make_a_whole_are_one_look():
    parts = [
        answer(0.0, 0.25, ["job:1"], seen=4),
        answer(0.25, 0.75, [], blind=["job:7"], why=[("job:7", "shared")], missing=("power_w",)),
        answer(0.75, 1.0, ["job:5", "job:6"], blind=["job:9"], missing=("power_w", "temp_c")),
    ]
    look, coverage = whole_of(parts)
    assert [claim.subject for claim in look.claims] == ["job:1", "job:5", "job:6"]
    assert all(look.had(f"job:{number}") for number in range(99))
    assert look.blind == coverage.blind_subjects == {"job:7", "job:9"}
    assert (coverage.subjects_seen, coverage.subjects_blind) == (10, 2)
    assert coverage.blind_reasons == {"job:7": "shared"}
    assert coverage.missing_fields == ("power_w", "temp_c")


def test_one_part_stays_a_part():
    look, coverage = whole_of([answer(0.75, 0.125, ["job:1"])])
    assert look.part == (0.75, 0.125)
    assert coverage.subjects_seen == 3


@pytest.mark.parametrize(
    "parts",
    [
        [answer(0.0, 0.3), answer(0.3, 0.6)],
        [answer(0.0, 0.5), answer(0.0, 0.5)],
        [answer(0.0, 0.5), answer(0.4, 1.0)],
        [answer(0.0, 0.5), answer(0.6, 1.0)],
        [answer(0.0, 0.5), answer(0.5, 0.2), answer(0.2, 1.0)],
        [answer(0.0, 0.5, ["job:1"]), answer(0.5, 1.0, ["job:1"])],
        [answer(0.0, 1.0, ["job:1", "job:1"])],
    ],
)
def test_what_does_not_go_together_is_rubbish(parts):
    with pytest.raises(RubbishError):
        whole_of(parts)


def test_all_parts_together_say_no_more_than_one_may():
    many = [f"job:{number}" for number in range(MAX_FINDINGS)]
    assert len(whole_of([answer(0.0, 0.5, many), answer(0.5, 1.0)])[0].claims) == MAX_FINDINGS
    with pytest.raises(RubbishError):
        whole_of([answer(0.0, 0.5, many), answer(0.5, 1.0, ["job:one-more"])])


def test_the_first_look_sees_all_jobs_part_by_part(engine, plugin, look):
    """Each part has the budget of one look: a whole fleet at once would take a fleet's time."""
    path = plugin(
        "counted",
        """
        class Counted(Base):
            name = "counted"
            def evaluate(self, view):
                assert len(view.jobs) < 1500
                yield from self.claim(view, summary=f"{len(view.running)} run")
        """,
    )
    fleet = BenchFleet(2300, 1, 0)
    fleet.tick()
    report = look(engine(path), fleet.tick())
    assert report.errors == ()
    assert len({found.subject for found in report.findings}) == 2300
    assert {found.summary for found in report.findings} == {"2300 run"}
    (coverage,) = report.coverage
    assert coverage.subjects_seen == 2300


def test_what_a_fleet_lacks_is_told_once_and_again_when_it_changes(engine, plugin, look):
    """Names of 80,000 GPUs without NVLinks in every look are most of what would be told."""
    path = plugin(
        "dark",
        """
        class Dark(Base):
            name = "dark"
            subjects = "gpu"
            needs = ("link_state",)
            def evaluate(self, view):
                return ()
        """,
    )
    scene, watched = Scene(), engine(path)
    uuids = scene.node("n", 2)
    scene.job("7", uuids)
    both = {f"gpu:{uuid}" for uuid in uuids}
    for _ in range(3):
        (coverage,) = look(watched, scene.run(10, working(uuids))).coverage
        assert coverage.blind_subjects == both
        assert (coverage.subjects_blind, coverage.missing_fields) == (2, ("link_state",))
    scene.links(uuids[0], 2, link_state=1)
    for _ in range(2):
        (coverage,) = look(watched, scene.run(10, working(uuids))).coverage
        assert coverage.blind_subjects == {f"gpu:{uuids[1]}"}


DECLINES = """
class Modest(Base):
    name = "modest"
    needs = ("gpu_util_ratio",)
    answers = %s
    def evaluate(self, view):
        return ()
    def cannot_judge(self, view):
        return self.answers
"""


def test_who_declines_to_judge_says_why_beside_what_lacks_a_field(engine, plugin, look):
    answers = {"job:7": "another job shares its GPUs", "job:9": "it lacks its GPUs"}
    watched, scene = engine(plugin("modest", DECLINES % answers)), Scene()
    uuids = scene.node("n", 3)
    scene.job("7", uuids[:1])
    scene.job("8", uuids[1:2])
    # Of job 9 a field is missing: it is blind without a word.
    scene.job("9", uuids[2:])
    values = working(uuids)
    values[uuids[2]] = {"power_w": 100.0}
    (coverage,) = look(watched, scene.run(10, values)).coverage
    assert coverage.blind_reasons == {"job:7": "another job shares its GPUs"}
    assert coverage.blind_subjects == {"job:7", "job:9"}
    assert (coverage.subjects_seen, coverage.subjects_blind) == (1, 2)
    assert coverage.reasons == [("another job shares its GPUs", 1)]


@pytest.mark.parametrize("answers", [["job:7"], {"job:7": 3}, {"job:7": ""}, {"no subject": "why"}])
def test_a_reason_that_is_none_mutes(engine, plugin, look, answers):
    watched, scene = engine(plugin("modest", DECLINES % answers)), Scene()
    uuids = scene.node("n", 1)
    scene.job("7", uuids)
    report = look(watched, scene.run(10, working(uuids)))
    assert report.errors
    assert not any(one.blind_reasons for one in report.coverage)


WANTS = """
class Partly(Base):
    name = "partly"
    subjects = "gpu"
    needs = ("gpu_util_ratio",)
    wants = {"xid": "events", "link_state": "links"}
    def evaluate(self, view):
        return ()
"""


def test_what_is_judged_in_part_only_is_told_and_blinds_nobody(engine, plugin, look):
    watched, scene = engine(plugin("partly", WANTS)), Scene()
    uuids = scene.node("n", 2)
    scene.job("7", uuids)
    both = {f"gpu:{uuid}" for uuid in uuids}
    # The second look is told no names again: they are the same.
    for _ in range(3):
        (coverage,) = look(watched, scene.run(10, working(uuids))).coverage
        assert coverage.unseen == {"links": both}
        assert (coverage.subjects_seen, coverage.blind_subjects) == (2, frozenset())
    scene.links(uuids[0], 1)
    (coverage,) = look(watched, scene.run(10, working(uuids))).coverage
    assert coverage.unseen == {"links": {f"gpu:{uuids[1]}"}}
    scene.links(uuids[1], 1)
    (coverage,) = look(watched, scene.run(10, working(uuids))).coverage
    assert coverage.unseen == {}


def test_a_page_tells_no_events_where_a_probe_tells_that_there_are_none(engine, plugin, look):
    watched, scene = engine(plugin("partly", WANTS)), Scene()
    (uuid,) = scene.node("n", 1)
    scene.links(uuid, 1)
    scene.page("n")
    (coverage,) = look(watched, scene.run(10, working([uuid]))).coverage
    assert coverage.unseen == {"events": {f"gpu:{uuid}"}}
