"""What two clusters say at once is told apart, and what is wished of one reaches that one alone."""

from __future__ import annotations

import json

import pytest

from gpumon.model.records.accounting import EndedReport, RunningUse
from gpumon.model.records.frame import Frame, QueueRecords
from gpumon.model.records.queue import Partition, Reservation
from gpumon.sources.address import Sampling, parse
from gpumon.sources.clusters import Claims, OneOfSeveral
from gpumon.sources.open import open_sources
from gpumon.sources.source import SystemClock, Wish
from tests.unit.fleet.factories import DEVICES, frame, gpu_block, job, node, process_blocks
from tests.worlds.node import job_use


class StillSource:
    """A source that says what it was given, and keeps what was wished of it."""

    url = "slurm+http://one"

    def __init__(self, *frames, cluster="north"):
        self.cluster = cluster
        self.frames = list(frames)
        self.wishes = []
        self.is_closed = False

    def start(self, wake):
        wake()

    def poll(self):
        return self.frames

    def pending(self):
        return False

    def wish(self, wish):
        self.wishes.append(wish)

    def close(self):
        self.is_closed = True


def beside(source, *, number=0, claims=None):
    one = OneOfSeveral(number, "login", claims or Claims())
    return one.reads(source, source)


def queue():
    jobs = (
        job("42", {"g1": (0, 1)}, partition="gpu,long", reservation="maint"),
        job("43", {}, state="PENDING", nodes_required=("g1",), label="43_[1-4]"),
    )
    partition = Partition("gpu", "UP", ("g1",), 8)
    reservation = Reservation("maint", "ACTIVE", None, None, ("g1",), partition="gpu")
    return QueueRecords(
        jobs,
        (node("g1", DEVICES, partitions=("gpu",), leaf_switch="s0"),),
        1.0,
        1.0,
        (partition,),
        (reservation,),
        cluster="north",
    )


def test_records_tell_their_cluster():
    given = Frame("one", "", 1.0, 0.0, {}, queue=queue())
    (found,) = beside(StillSource(given)).poll()
    runs, waits = found.queue.jobs
    assert (runs.job_id, runs.label, runs.nodes) == ("42@north", "42@north", ("g1@north",))
    assert [one.node for one in runs.allocations] == ["g1@north"]
    assert (runs.partition, runs.reservation) == ("gpu@north,long@north", "maint@north")
    assert (waits.label, waits.nodes_required) == ("43_[1-4]@north", ("g1@north",))
    (listed,) = found.queue.nodes
    assert (listed.name, listed.partitions) == ("g1@north", ("gpu@north",))
    # By these other targets find it.
    assert (listed.host_name, listed.address) == ("g1", "g1")
    assert (listed.leaf_switch, listed.reservation) == ("s0@north", "")
    assert [one.name for one in found.queue.partitions] == ["gpu@north"]
    assert [one.nodes for one in found.queue.reservations] == [("g1@north",)]
    assert found.queue.cluster == ""


def test_processes_and_control_groups_are_of_the_jobs_of_their_cluster():
    blocks = {
        "gpu": gpu_block("g1", [0, 1]),
        **process_blocks(
            [
                (50, ["GPU-g1-0"], "42", "0", {"SLURM_JOB_ID": "42", "RANK": "1"}),
                (51, ["GPU-g1-1"], None, None, None),
            ]
        ),
        "cgroup": job_use("42"),
    }
    (found,) = beside(StillSource(frame("g1", blocks))).poll()
    assert found.node == "g1@north"
    owners = found.block("process")
    assert owners.labels["job_id"] == ("42@north", None)
    assert json.loads(owners.labels["rank_vars"][0]) == {"SLURM_JOB_ID": "42@north", "RANK": "1"}
    assert found.block("cgroup").keys == ("42@north",)
    assert found.block("gpu") == blocks["gpu"]


def test_two_clusters_of_one_name_are_two():
    claims = Claims()
    frames = [Frame("one", "", 1.0, 0.0, {}, queue=queue())]
    first = beside(StillSource(*frames), number=0, claims=claims)
    second = beside(StillSource(*frames), number=1, claims=claims)
    names = [one.poll()[0].queue.jobs[0].job_id for one in (first, second, first, second)]
    assert names == ["42@north", "42@north-2"] * 2


def test_one_that_does_not_tell_is_called_by_where_it_is_asked():
    (found,) = beside(StillSource(frame("g1", {}), cluster="")).poll()
    assert found.node == "g1@login"


def test_use_of_steps_comes_back_by_the_name_it_was_asked_by():
    running = RunningUse({"42": ()}, 1.0)
    given = Frame("one", "", 1.0, 0.0, {}, ended=EndedReport(None, running=running))
    (found,) = beside(StillSource(given)).poll()
    assert set(found.ended.running.steps) == {"42@north"}


def test_a_wish_reaches_the_cluster_that_it_is_about():
    source = StillSource()
    one = beside(source)
    one.wish(Wish(use_of="42@south"))
    assert source.wishes == []
    one.wish(Wish(use_of="42@north"))
    one.wish(Wish(zoom_nodes=("g1@north", "g2@south"), zoom_gpus=("GPU-1",)))
    one.wish(Wish(period_s=5.0))
    assert source.wishes == [
        Wish(use_of="42"),
        Wish(zoom_nodes=("g1",), zoom_gpus=("GPU-1",)),
        Wish(period_s=5.0),
    ]


def test_jobs_are_chosen_by_the_name_under_which_they_are_shown():
    one = OneOfSeveral(0, "login", Claims())
    is_wanted = one.renaming(lambda found: found.job_id == "42@north")
    source = StillSource()
    one.reads(source, source)
    assert is_wanted(job("42", {}))
    assert not is_wanted(job("43", {}))


@pytest.mark.parametrize(
    ("targets", "kinds"),
    [
        (["slurm"], ["SlurmSource"]),
        (["slurm", "slurm?cluster=north"], ["OneOfSeveral", "OneOfSeveral"]),
        (["slurm+ssh://a", "demo:1x1", "slurm+ssh://b"], ["OneOfSeveral", "DemoSource"]),
    ],
)
def test_one_cluster_keeps_the_names_that_slurm_gave(targets, kinds):
    sampling = Sampling(2.0, is_single=True, is_wanted=lambda _job: True)
    opened = open_sources(map(parse, targets), sampling, SystemClock())
    assert [type(one).__name__ for one in opened][: len(kinds)] == kinds
    assert [one.url for one in opened] == targets
    for one in opened:
        one.close()
