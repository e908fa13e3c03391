"""Which way leads to each node: in the order asked for, refusals remembered, one step per job."""

from __future__ import annotations

import socket

import pytest

from gpumon.model.fault import SourceError
from gpumon.model.records.block import Block
from gpumon.model.records.frame import Frame
from gpumon.sources.address import Hop
from gpumon.sources.slurm.poll.node_access import Reach
from tests.unit.fleet.factories import job, node, queue

REFUSED = SourceError("gpu01", "ssh: the key is refused")
SILENT = SourceError("gpu01", "ssh: it does not answer")
NODES = [node(f"gpu0{number}") for number in range(1, 5)]
BOTH = {"gpu01": (0, 1), "gpu02": (0, 1)}
REPORT = {"node": Block(("gpu",), {}, {}, {})}


def reach(*jobs, ways="ssh,srun", hop=None):
    made = Reach("slurm", ways.split(","), "alice", hop)
    made.learn(queue(list(jobs), NODES))
    return made


def running(made):
    """Nodes by the program that is to be started for them."""
    return sorted((e.argv[0], *e.reaches) for e in made.endpoints())


def failed(made, name, error, origin="slurm"):
    return made.take(Frame(origin, name, 0.0, 0.0, {}, (error,)))


def reported(made, name, origin="slurm"):
    return made.take(Frame(origin, name, 0.0, 0.0, REPORT))


def notes(made):
    return [error.message for frame in made.remarks(0.0) for error in frame.errors]


def test_ssh_comes_first_and_needs_no_step():
    made = reach(job("7", BOTH))
    assert running(made) == [("ssh", "gpu01"), ("ssh", "gpu02")]
    assert notes(made) == []


def test_nodes_that_refuse_ssh_are_read_by_one_step_of_the_users_job_which_is_told():
    made = reach(job("7", BOTH))
    assert failed(made, "gpu01", REFUSED).errors == ()
    assert failed(made, "gpu02", REFUSED).errors == ()
    assert running(made) == [("srun", "gpu01", "gpu02")]
    (note,) = notes(made)
    assert "job 7" in note
    assert "accounting" in note
    assert notes(made) == []


def test_a_step_waits_until_every_node_of_its_job_has_answered():
    made = reach(job("7", BOTH))
    failed(made, "gpu01", REFUSED)
    assert running(made) == [("ssh", "gpu01"), ("ssh", "gpu02")]
    reported(made, "gpu02")
    assert made.has_news
    assert running(made) == [("srun", "gpu01"), ("ssh", "gpu02")]


def test_a_second_step_of_a_job_is_never_started():
    made = reach(job("7", BOTH))
    failed(made, "gpu01", REFUSED)
    reported(made, "gpu02")
    first = [e for e in made.endpoints() if e.is_step]
    assert failed(made, "gpu02", REFUSED).errors == (REFUSED,)
    assert [e for e in made.endpoints() if e.is_step] == first
    assert ("ssh", "gpu02") in running(made)


def test_a_refusal_on_the_node_of_somebody_elses_job_is_told():
    made = reach(job("7", BOTH, user="bob"))
    assert failed(made, "gpu01", REFUSED).errors == (REFUSED,)
    assert running(made) == [("ssh", "gpu01"), ("ssh", "gpu02")]


def test_silence_is_no_refusal():
    made = reach(job("7", BOTH))
    assert failed(made, "gpu01", SILENT).errors == (SILENT,)
    assert running(made) == [("ssh", "gpu01"), ("ssh", "gpu02")]


def test_each_job_on_a_shared_node_has_its_step_because_a_step_sees_only_its_jobs_gpus():
    made = reach(job("7", {"gpu01": (0,)}), job("8", {"gpu01": (1,)}), ways="srun")
    found = made.endpoints()
    assert [e.reaches for e in found] == [("gpu01",), ("gpu01",)]
    assert len({e.origin for e in found}) == 2


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ("none", []),
        ("srun", [("srun", "gpu01", "gpu02")]),
        ("srun,ssh", [("srun", "gpu01", "gpu02"), ("ssh", "gpu03")]),
        ("ssh", [("ssh", "gpu01"), ("ssh", "gpu02"), ("ssh", "gpu03")]),
    ],
)
def test_the_order_is_the_users(ways, expected):
    theirs = job("8", {"gpu03": (0,)}, user="bob")
    assert running(reach(job("7", BOTH), theirs, ways=ways)) == expected


def test_a_failed_step_gives_way_to_ssh_and_is_not_tried_again():
    made = reach(job("7", BOTH), ways="srun,ssh")
    (step,) = made.endpoints()
    error = SourceError("job 7", "srun in job 7: Slurm refuses a step in this job")
    for name in BOTH:
        assert failed(made, name, error, step.origin).errors == ()
    assert [e for e in running(made) if e[0] == "ssh"] == [("ssh", "gpu01"), ("ssh", "gpu02")]
    made.learn(queue([job("7", BOTH)], NODES))
    assert not any(endpoint.is_step for endpoint in made.endpoints())
    assert notes(made) == []


def test_without_another_way_the_error_of_the_step_is_told():
    made = reach(job("7", BOTH), ways="srun")
    (step,) = made.endpoints()
    error = SourceError("job 7", "srun in job 7: the step was ended")
    assert failed(made, "gpu01", error, step.origin).errors == (error,)


def test_when_the_job_has_ended_its_step_and_what_it_said_are_forgotten():
    made = reach(job("7", BOTH), ways="srun")
    (step,) = made.endpoints()
    assert notes(made)
    made.learn(queue([job("7", BOTH, state="COMPLETED")], NODES))
    assert made.endpoints() == []
    cleared = made.remarks(5.0)
    assert {(frame.origin, frame.node) for frame in cleared} >= {
        (step.origin, "gpu01"),
        (step.origin, "gpu02"),
    }
    assert all(not frame.errors and frame.taken_at == 5.0 for frame in cleared)
    assert all(frame.is_left for frame in cleared if frame.node)


def test_a_node_is_called_left_only_once_no_job_in_view_is_there():
    made = reach(job("7", {"gpu01": (0, 1)}))
    gone = Frame("slurm", "gpu01", 5.0, 0.0, {}, is_left=True)
    assert not made.take(gone).is_left, "another way to the node took the probe's place"
    made.learn(queue([], NODES))
    assert made.take(gone).is_left


def test_a_requeued_job_may_have_a_new_step():
    made = reach(job("7", BOTH), ways="srun")
    made.endpoints()
    made.learn(queue([job("7", BOTH, start_at=900.0)], NODES))
    assert running(made) == [("srun", "gpu01", "gpu02")]


@pytest.mark.parametrize("name", ["-oProxyCommand=x", "gpu01;reboot", "gpu99", "a b"])
def test_a_node_that_slurm_does_not_list_or_that_is_no_name_is_never_reached(name):
    listed = [*NODES, node("-oProxyCommand=x"), node("gpu01;reboot"), node("a b")]
    made = Reach("slurm", ("ssh", "srun"), "alice")
    made.learn(queue([job("7", {name: (0,)})], listed))
    assert made.endpoints() == []


@pytest.mark.parametrize("label", ["7+1;x", "-7", "7_[1-3]", "7+"])
def test_no_step_in_a_job_whose_label_is_none(label):
    assert reach(job("7", BOTH, label=label), ways="srun").endpoints() == []


SILENCE = "no report through job 7 for 30 s"


def test_a_node_that_alone_fell_silent_in_a_step_is_read_by_one_of_its_own():
    made = reach(job("7", BOTH), ways="srun")
    (step,) = made.endpoints()
    failed(made, "gpu02", SourceError("gpu02", SILENCE), step.origin)
    assert made.has_news
    whole, part = made.endpoints()
    assert whole == step
    assert (part.reaches, part.origin, part.node) == (("gpu02",), step.origin, "job 7 on gpu02")
    failed(made, "gpu02", SourceError(part.node, "srun in job 7 ended (1)"), part.origin)
    assert made.endpoints() == [whole, part]


def test_a_step_that_was_lost_as_a_whole_needs_no_other_beside_it():
    made = reach(job("7", BOTH), ways="srun")
    (step,) = made.endpoints()
    failed(made, "gpu02", SourceError("gpu02", SILENCE), step.origin)
    assert len(made.endpoints()) == 2
    for name in BOTH:
        failed(made, name, SourceError("job 7", SILENCE), step.origin)
    assert made.endpoints() == [step]


def test_the_steps_of_single_nodes_end_with_their_job():
    made = reach(job("7", BOTH), ways="srun")
    (step,) = made.endpoints()
    failed(made, "gpu02", SourceError("gpu02", SILENCE), step.origin)
    made.learn(queue([job("7", BOTH, state="COMPLETED")], NODES))
    assert made.endpoints() == []


def test_many_jobs_with_steps_are_counted():
    made = reach(*(job(str(n), {"gpu01": (n,)}) for n in range(1, 8)), ways="srun")
    made.endpoints()
    (note,) = notes(made)
    assert "in jobs 1, 2, 3, 4 and 3 more" in note


@pytest.mark.parametrize("job_id", ["-7", "7;x", "", "7_1"])
def test_no_step_in_a_job_whose_number_is_none(job_id):
    assert reach(job(job_id, BOTH), ways="srun").endpoints() == []


def test_this_machine_needs_neither_ssh_nor_a_step_unless_it_is_behind_a_hop():
    here = socket.gethostname()
    listed = queue([job("7", {here: (0,)})], [node(here)])
    near, far = (Reach("slurm", ("ssh", "srun"), "alice", hop) for hop in (None, Hop("login")))
    for made in (near, far):
        made.learn(listed)
    assert near.endpoints()[0].argv[0] != "ssh"
    assert far.endpoints()[0].argv[0] == "ssh"


def test_behind_a_hop_steps_are_started_on_the_login_node():
    (step,) = reach(job("7", BOTH), ways="srun", hop=Hop("login", "alice")).endpoints()
    assert step.argv[0] == "ssh"
    assert step.argv[step.argv.index("--") : step.argv.index("srun") + 1] == ("--", "login", "srun")


def test_what_the_pool_says_of_no_single_node_is_told_as_it_is():
    made = reach()
    line = SourceError("slurm", "reads 9 of 40 nodes at a time", "watch fewer nodes")
    frame = Frame("slurm#waits", "", 5.0, 0.0, {}, (line,))
    made.has_news = False
    assert made.take(frame) == frame
    assert not made.has_news
