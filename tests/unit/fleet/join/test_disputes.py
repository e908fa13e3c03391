"""Two nodes of one target that claim the same GPU: who had it first keeps it."""

from __future__ import annotations

import pytest

from gpumon.fleet.join.join import join
from gpumon.fleet.sampler.newest import Newest
from tests.unit.fleet.factories import DEVICES, frame, gpu_block, job, node, queue, uuid

MINE = [0, 1, 2]


def frame_of(name, minors, at, origin="slurm", of=None):
    """A node's frame; `of` another node whose UUIDs it claims."""
    block = gpu_block(of or name, minors, temp_c=[40.0 + at] * len(minors))
    return frame(name, {"gpu": block}, at, origin)


def seen(newest, now, records=None):
    newest.forget(now)
    return join(newest.frames, records, newest.node_errors, now, 5.0, newest.left, newest.disputes)


def test_a_node_that_claims_another_one_s_gpus_does_not_get_them(said):
    newest = Newest()
    newest.take([frame_of("n1", MINE, 100.0), frame_of("n2", [7], 100.0)])
    newest.take([frame_of("n1", MINE, 101.0), frame_of("n9", [0, 2], 102.0, of="n1")])
    picture = seen(newest, 102.0)
    assert {gpu.uuid: gpu.node for gpu in picture.gpus.values()} == {
        **{uuid("n1", minor): "n1" for minor in MINE},
        uuid("n2", 7): "n2",
    }
    (error,) = picture.nodes["n9"].errors
    said(error.message, error.hint)
    assert error in newest.errors
    assert "claims GPU-n1-0 and 1 more, which n1 had first" in error.message
    assert picture.nodes["n1"].errors == ()


def test_the_jobs_whose_gpus_are_claimed_twice_say_so(said):
    newest = Newest()
    newest.take([frame_of("n1", MINE, 100.0), frame_of("n9", [1], 101.0, of="n1")])
    nodes = [node("n1", DEVICES), node("n9", DEVICES)]
    records = queue([job("7", {"n1": (0, 1)}), job("8", {"n9": (1,)})], nodes)
    views = {view.job.job_id: view for view in seen(newest, 101.0, records).jobs}
    assert views["7"].contradictions == ("n9 claims GPU-n1-1 of job 7, too",)
    said(*views["7"].contradictions)
    assert views["8"].contradictions == ()


@pytest.mark.parametrize("how", ["it tells another", "it is forgotten"])
def test_what_its_first_owner_claims_no_more_is_free(how):
    newest = Newest()
    newest.take([frame_of("n1", MINE, 100.0), frame_of("n9", MINE, 101.0, of="n1")])
    if how == "it tells another":
        newest.take([frame_of("n1", [5], 102.0)])
        now = 102.0
    else:
        newest.take([frame_of("n9", MINE, 4100.0, of="n1")])
        now = 4100.0
    picture = seen(newest, now)
    assert {picture.gpus[uuid("n1", minor)].node for minor in MINE} == {"n9"}
    assert newest.errors == ()


def test_one_gpu_by_two_targets_is_no_dispute():
    newest = Newest()
    newest.take(
        [frame_of("n1", MINE, 100.0), frame_of("10.0.0.1", MINE, 101.0, "ssh://10.0.0.1", "n1")]
    )
    assert not newest.disputes
    assert newest.errors == ()
    gpu = seen(newest, 101.0).gpus[uuid("n1", 0)]
    assert (gpu.node, gpu.origin) == ("n1", "ssh://10.0.0.1")


def test_a_claim_that_is_taken_back_leaves_no_word():
    newest = Newest()
    newest.take([frame_of("n1", MINE, 100.0), frame_of("n9", [0], 101.0, of="n1")])
    assert newest.errors
    newest.take([frame_of("n9", [4], 102.0)])
    assert newest.errors == ()
    assert seen(newest, 102.0).gpus[uuid("n9", 4)].node == "n9"


def test_a_node_that_names_no_gpu_for_a_moment_keeps_its_own():
    """As its probe starts again, which somebody who lies may wait for."""
    newest = Newest()
    newest.take([frame_of("n1", MINE, 100.0), frame_of("n9", MINE, 101.0, of="n1")])
    newest.take([frame_of("n1", [], 102.0), frame_of("n9", MINE, 102.5, of="n1")])
    newest.take([frame_of("n1", MINE, 103.0), frame_of("n9", MINE, 103.5, of="n1")])
    picture = seen(newest, 104.0)
    assert {gpu.node for gpu in picture.gpus.values()} == {"n1"}
    assert len(picture.nodes["n9"].errors) == 1
