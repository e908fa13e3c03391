from __future__ import annotations

from gpumon.detect.scene import job_record
from gpumon.fleet.join.membership import Membership
from gpumon.model.records.cluster import JobView
from gpumon.model.records.tick import Interval


def held(job_id, uuids, start_at=None, *, unknown=0, state="RUNNING"):
    record = job_record(job_id, start_at or 0.0, (), len(uuids) + unknown)
    record = record._replace(start_at=start_at, state=state)
    return JobView(record, tuple(uuids), unknown, (), ())


def test_an_interval_starts_at_slurms_start_of_the_job():
    table = Membership()
    table.update(100.0, [held("1", ["a", "b"], 70.0)])
    assert table.snapshot()["1"] == (Interval("a", 70.0, None), Interval("b", 70.0, None))


def test_without_slurms_start_it_starts_at_the_first_picture():
    table = Membership()
    table.update(100.0, [held("1", ["a"])])
    table.update(110.0, [held("1", ["a"])])
    assert table.snapshot()["1"] == (Interval("a", 100.0, None),)


def test_a_start_in_the_future_is_cut_to_the_picture():
    table = Membership()
    table.update(100.0, [held("1", ["a"], 130.0)])
    assert table.snapshot()["1"] == (Interval("a", 100.0, None),)


def test_a_job_that_ends_keeps_its_intervals_up_to_its_last_picture():
    table = Membership()
    table.update(100.0, [held("1", ["a"], 100.0)])
    table.update(110.0, [held("1", ["a"], 100.0)])
    table.update(120.0, [])
    assert table.snapshot()["1"] == (Interval("a", 100.0, 110.0),)


def test_the_next_job_of_a_gpu_ends_the_interval_earlier_than_the_queue_told():
    table = Membership()
    table.update(100.0, [held("1", ["a"], 90.0)])
    table.update(129.0, [held("1", ["a"], 90.0)])
    table.update(130.0, [held("2", ["a"], 105.0)])
    assert table.snapshot()["1"] == (Interval("a", 90.0, 105.0),)
    assert table.snapshot()["2"] == (Interval("a", 105.0, None),)


def test_jobs_that_share_a_gpu_keep_their_own_intervals():
    table = Membership()
    table.update(100.0, [held("1", ["a"], 90.0)])
    table.update(110.0, [held("1", ["a"], 90.0), held("2", ["a"], 105.0)])
    assert table.snapshot()["1"] == (Interval("a", 90.0, None),)
    assert table.snapshot()["2"] == (Interval("a", 105.0, None),)


def test_a_resize_opens_an_interval_for_the_new_gpu_alone():
    table = Membership()
    table.update(100.0, [held("1", ["a"], 50.0)])
    table.update(110.0, [held("1", ["a", "b"], 50.0)])
    assert table.snapshot()["1"] == (Interval("a", 50.0, None), Interval("b", 110.0, None))


def test_a_shrunk_job_lets_go_of_a_gpu_at_its_last_picture_with_it():
    table = Membership()
    table.update(100.0, [held("1", ["a", "b"], 50.0)])
    table.update(110.0, [held("1", ["a"], 50.0)])
    assert table.snapshot()["1"] == (Interval("b", 50.0, 100.0), Interval("a", 50.0, None))


def test_a_gpu_that_telemetry_names_later_was_held_from_the_start():
    table = Membership()
    table.update(100.0, [held("1", ["a"], 50.0, unknown=1)])
    table.update(110.0, [held("1", ["a", "b"], 50.0)])
    assert table.snapshot()["1"] == (Interval("a", 50.0, None), Interval("b", 50.0, None))


def test_a_requeued_job_begins_anew():
    table = Membership()
    table.update(100.0, [held("1", ["a"], 50.0)])
    table.update(110.0, [held("1", ["a"], 104.0)])
    assert table.snapshot()["1"] == (Interval("a", 50.0, 100.0), Interval("a", 104.0, None))


def test_a_suspended_job_holds_nothing_until_the_picture_that_shows_it_running_again():
    table = Membership()
    table.update(100.0, [held("1", ["a"], 50.0)])
    table.update(110.0, [held("1", ["a"], 50.0, state="SUSPENDED")])
    table.update(120.0, [held("1", ["a"], 50.0)])
    assert table.snapshot()["1"] == (Interval("a", 50.0, 100.0), Interval("a", 120.0, None))


def test_ended_intervals_are_forgotten_after_the_span():
    table = Membership(span_s=60.0)
    table.update(100.0, [held("1", ["a"], 100.0)])
    table.update(110.0, [held("1", ["a"], 100.0)])
    table.update(120.0, [])
    table.update(170.0, [])
    assert "1" in table.snapshot()
    table.update(171.0, [])
    assert table.snapshot() == {}


def test_a_snapshot_never_changes():
    table = Membership()
    table.update(100.0, [held("1", ["a"], 100.0)])
    before = table.snapshot()
    table.update(110.0, [])
    assert before == {"1": (Interval("a", 100.0, None),)}


def test_ended_jobs_are_forgotten_one_by_one_when_their_time_has_come():
    table = Membership(span_s=100.0)
    table.update(0.0, [held("1", ["a"]), held("2", ["b"]), held("3", ["c"])])
    table.update(10.0, [held("2", ["b"]), held("3", ["c"])])
    table.update(50.0, [held("3", ["c"])])
    table.update(60.0, [held("3", ["c"]), held("4", ["d"])])
    table.update(105.0, [held("3", ["c"])])
    assert set(table.snapshot()) == {"2", "3"}
    table.update(300.0, [])
    table.update(420.0, [])
    assert dict(table.snapshot()) == {}
