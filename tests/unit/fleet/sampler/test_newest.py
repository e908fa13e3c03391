"""What is kept of every node: the newest that it said, however late the rest comes."""

from __future__ import annotations

from gpumon.fleet.sampler.newest import Newest
from gpumon.model.fault import SourceError
from gpumon.model.records.frame import Frame
from tests.unit.fleet.factories import frame, gpu_block


def said(at, temp_c=50.0, node="n1", origin="slurm"):
    return frame(node, {"gpu": gpu_block(node, [0], temp_c=[temp_c])}, at, origin)


def kept(newest):
    return {(f.origin, f.node): f.taken_at for f in newest.frames}


def beat(newest, now, *frames):
    newest.take(frames)
    newest.forget(now)


def test_a_frame_that_was_held_back_does_not_replace_a_newer_one():
    newest = Newest()
    beat(newest, 111.0, said(110.0))
    beat(newest, 112.0, said(104.0), said(107.0))
    assert kept(newest) == {("slurm", "n1"): 110.0}
    beat(newest, 113.0, said(112.5))
    assert kept(newest) == {("slurm", "n1"): 112.5}


def test_within_one_beat_the_newer_frame_is_kept_in_any_order():
    newest = Newest()
    beat(newest, 100.0, said(99.0))
    beat(newest, 103.0, said(100.5), said(100.0))
    assert kept(newest) == {("slurm", "n1"): 100.5}


def test_other_nodes_and_origins_are_not_compared():
    newest = Newest()
    beat(newest, 111.0, said(110.0), said(105.0, node="n2"), said(104.0, origin="ssh"))
    assert sorted(kept(newest).values()) == [104.0, 105.0, 110.0]


def test_what_comes_late_heals_no_newer_error():
    newest = Newest()
    beat(newest, 111.0, said(110.0))
    silent = SourceError("ssh", "it does not answer")
    beat(newest, 116.0, Frame("slurm", "n1", 115.0, 0.0, {}, errors=(silent,)))
    beat(newest, 117.0, said(108.0))
    assert newest.errors == (silent,)
    beat(newest, 118.0, said(117.5))
    assert newest.errors == ()


def test_after_the_clock_was_set_back_frames_count_again():
    newest = Newest()
    beat(newest, 7200.0, said(7200.0))
    beat(newest, 3600.0, said(3600.0))
    beat(newest, 3601.0, said(3601.0))
    assert kept(newest) == {("slurm", "n1"): 3601.0}


def test_of_steps_that_are_over_nothing_is_kept_but_what_they_said():
    newest = Newest()
    for job in range(100):
        over = Frame(f"slurm#job={job}", "n1", 100.0 + job, 0.0, {}, is_left=True)
        beat(newest, 100.0 + job, over)
    assert newest.left == {}
    beat(newest, 300.0, said(299.0, origin="slurm#job=7"))
    beat(newest, 301.0, Frame("slurm#job=7", "n1", 300.5, 0.0, {}, is_left=True))
    assert newest.left == {("slurm#job=7", "n1"): 300.5}
    beat(newest, 4200.0)
    assert newest.left == {}


DEAD = SourceError("n1 NVML", "nvmlInit: Driver Not Loaded", "modprobe nvidia")
ODD = SourceError("n1 GPU index 3", "nvmlDeviceGetUUID: Unknown Error")


def test_a_node_that_answers_while_its_driver_does_not_is_no_answer():
    newest = Newest()
    beat(
        newest,
        10.0,
        frame("n1", {"node": gpu_block("n1", [])}, 9.0, "local")._replace(errors=(DEAD,)),
    )
    state = newest.target("local", 10.0)
    assert (state.is_ok, state.error, state.age_s) == (False, DEAD, 1.0)


def test_with_one_gpu_that_is_read_it_is_one_beside_what_fails():
    for error in (DEAD, ODD):
        newest = Newest()
        beat(newest, 10.0, said(9.0, origin="local")._replace(errors=(error,)))
        assert newest.target("local", 10.0)[1:3] == (True, error)


def test_a_target_whose_frames_name_a_road_behind_it_is_one_target_that_recovers():
    """As another gpumon's does, of which only exporters' pages are passed on."""
    url, newest = "gpumon+http://there:9777", Newest()
    newest.take([Frame(url, "", 10.0, 0.0, {}, (SourceError("there", "cannot be read", "wait"),))])
    assert not newest.target(url, 11.0)[1]
    page = Frame(f"{url}#dcgm+http:1f", "gpu01", 12.0, 0.0, {"gpu": gpu_block("gpu01", [0])})
    newest.take([page])
    assert newest.target(url, 13.0)[1:] == (True, None, 1.0)
    newest.take([page._replace(blocks={}, errors=(SourceError("gpu01", "is silent", ""),))])
    assert newest.target(url, 13.0).error == SourceError("gpu01", "is silent", "")


def failed(at, over_at, node="n1", origin="slurm"):
    error = SourceError(origin, "cannot be reached")
    return Frame(origin, node, at, 0.0, {}, (error,), over_at=over_at)


def over(newest):
    return {(f.origin, f.node): f.over_at for f in newest.frames}


def test_a_failure_says_when_what_its_node_told_before_is_over():
    newest = Newest()
    beat(newest, 100.0, said(100.0), said(100.0, node="n2"))
    beat(newest, 101.0, failed(101.0, 102.25), failed(101.0, 102.25, node="n3"))
    assert over(newest) == {("slurm", "n1"): 102.25, ("slurm", "n2"): None}
    beat(newest, 102.0, failed(102.0, 102.0))
    assert over(newest)["slurm", "n1"] == 102.0
    # A server's samples are older than its last failure when it is back.
    beat(newest, 103.0, said(101.5))
    assert over(newest)["slurm", "n1"] is None


def test_a_failure_of_no_single_node_is_one_of_its_target_alone():
    newest = Newest()
    own, other = "gpumon+http://s", "gpumon+http://t"
    beat(newest, 100.0, said(100.0, origin=own), said(100.0, origin=f"{own}#dcgm+http:1"))
    beat(newest, 100.0, said(100.0, origin=other))
    beat(newest, 101.0, failed(101.0, 102.0, "", f"{own}#dcgm+http:1"))
    assert [at for at in over(newest).values() if at is not None] == [102.0]
    beat(newest, 101.0, failed(101.0, 102.5, "", own))
    assert sorted(at for at in over(newest).values() if at is not None) == [102.5, 102.5]
    assert over(newest)[other, "n1"] is None
