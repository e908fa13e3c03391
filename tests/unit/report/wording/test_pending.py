"""Why jobs wait: only what the queue says, in sentences that a person can act on."""

from __future__ import annotations

import pytest

from gpumon.model.records.queue import Reservation
from gpumon.report.facts.slurm_nodes import rooms
from gpumon.report.facts.tick_index import Digest
from gpumon.report.wording.pending import hints, place_of, start_words, wait_words
from gpumon.report.wording.queue_reasons import REASONS, meaning_of
from tests.worlds.queue import HOUR, cluster, slurm_node, waits
from tests.worlds.tick import AT


def hint_texts(job_id: str, tick) -> list[str]:
    return [hint.text for hint in hints(Digest(tick), tick.job(job_id))]


def test_gpus_are_counted_on_nodes_that_could_take_the_job():
    text = hint_texts("1", cluster(waits("1")))
    assert "asks for 8 GPUs on one node: no node has 8 free, 2 have 4" in text


def test_free_gpus_count_from_allocations_where_slurm_does_not_say():
    # gpu03 says nothing of what it has given away: job 4690 holds four of it.
    text = hint_texts("1", cluster(waits("1", gpu_count=8, node_count=2)))
    assert (
        "asks for 8 GPUs on 2 nodes, 4 on each: 2 nodes have 4 free: it lacks something other than "
        "GPUs" in text
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpu_count": 16}, "no node of h100 that may be used has 16 GPUs at all"),
        ({"gpu_count": 32, "node_count": 4}, "only 3 nodes of h100 that may be used have 8 GPUs"),
        ({"gpu_count": 64, "node_count": None}, "asks for 64 GPUs: 8 GPUs are free in h100"),
        ({"gpu_count": 1, "features": "[a*2&b*1]"}, "its constraint not counted"),
    ],
)
def test_other_sizes(changes, words):
    assert any(words in text for text in hint_texts("1", cluster(waits("1", **changes))))


@pytest.mark.parametrize("changes", [{"gpu_count": None}, {"gpu_count": 0}, {"partition": "?"}])
def test_nothing_is_said_of_what_is_not_known(changes):
    assert not any("asks for" in text for text in hint_texts("1", cluster(waits("1", **changes))))


def test_nodes_of_other_reservations_are_not_counted_and_own_ones_are():
    now = Reservation("class", "ACTIVE", AT - 60, AT + HOUR, ("gpu02",), (), ("eve",))
    other = cluster(waits("1"), reservations=(now,))
    assert any("no node has 8 free, 1 has 4" in text for text in hint_texts("1", other))
    mine = cluster(waits("1", gpu_count=4, reservation="class"), reservations=(now,))
    assert any("1 node has 4 free" in text for text in hint_texts("1", mine))


def test_a_plain_feature_narrows_the_nodes():
    nodes = (slurm_node("n1", features=("nvlink",)), slurm_node("n2"))
    tick = cluster(waits("1", features="nvlink", gpu_count=16, node_count=2), nodes=nodes)
    tick = tick._replace(queue=tick.queue._replace(partitions=()))
    assert any("only 1 node of h100" in text for text in hint_texts("1", tick))


def test_a_limit_that_crosses_a_maintenance_is_told_with_one_that_fits():
    text = hint_texts("1", cluster(waits("1", time_limit_s=168 * HOUR)))
    crossing = next(line for line in text if "crosses" in line)
    assert "time limit 7d00h crosses the maintenance maint-oct" in crossing
    assert "on 3 of 3 nodes: a limit under 5h30m would end before it" in crossing
    assert not any(
        "crosses" in line for line in hint_texts("1", cluster(waits("1", time_limit_s=HOUR)))
    )
    assert not any("crosses" in x for x in hint_texts("1", cluster(waits("1", time_limit_s=None))))


def test_partition_limits():
    text = hint_texts("1", cluster(waits("1", time_limit_s=72 * HOUR)))
    assert "asks for 3d00h, partition h100 allows 2d00h" in text
    assert "partition a100 is down" in hint_texts("1", cluster(waits("1", partition="a100")))


@pytest.mark.parametrize(
    ("dependency", "words"),
    [
        ("afterok:4711(unfulfilled)", "waits for 4711 to succeed: it runs, until "),
        ("afterany:2(unfulfilled)", "waits for 2 to end: it waits itself"),
        ("afterok:99(unfulfilled)", "waits for 99 to succeed: the queue no longer lists it"),
        ("afternotok:3:4711+30", "waits for 3 to fail: it has ended (completed)"),
        (
            "afterok:7(unfulfilled)",
            "waits for 7 to succeed: it has ended with exit 3, its nodes are not free yet",
        ),
        ("afterany:8", "waits for 8 to end: it has ended by signal 9, its nodes are not free yet"),
        ("singleton(unfulfilled)", "waits until no other job of ada has its name (singleton)"),
        ("strange text", "waits for strange text"),
    ],
)
def test_dependencies_say_what_the_other_job_does(dependency, words):
    ending = {"state": "COMPLETING", "end_at": AT - 40.0}
    other = (
        waits("2"),
        waits("3", state="COMPLETED"),
        waits("7", exit_code="3:0", **ending),
        waits("8", exit_code="0:9", **ending),
    )
    text = hint_texts("1", cluster(waits("1", dependency=dependency), *other))
    assert any(line.startswith(words) for line in text)


def test_a_job_beyond_its_time_limit_has_no_end_in_the_past():
    """Slurm lets it go on for OverTimeLimit."""
    late = waits("7", state="RUNNING", end_at=AT - 40.0)
    text = hint_texts("1", cluster(waits("1", dependency="afterok:7(unfulfilled)"), late))
    assert "waits for 7 to succeed: it runs" in text


def test_every_job_of_a_dependency_is_told():
    text = hint_texts("1", cluster(waits("1", dependency="afterok:4711:4690,afterany:5")))
    assert len([line for line in text if line.startswith("waits for")]) == 3


def test_places_go_by_priority_and_age_within_the_partition():
    tick = cluster(
        waits("1", priority=10, submit_at=AT - 5),
        waits("2", priority=10, submit_at=AT - 9),
        waits("3", priority=99, gpu_count=None),
        waits("4", priority=0, reason="JobHeldUser"),
        waits("5", priority=None),
        waits("6", partition="a100,h100"),
    )
    digest = Digest(tick)
    places = {view.job.job_id: place_of(digest, view) for view in tick.jobs}
    assert [places[x].position for x in ("3", "2", "1")] == [1, 2, 3]
    assert places["1"].of == 3
    assert places["1"].gpus_before == 8
    assert places["4"] is None
    assert places["5"] is None
    assert places["6"].of == 1
    assert any(
        "3 of 3 by priority in h100: 2 jobs and 8 GPUs" in text for text in hint_texts("1", tick)
    )


def test_expected_start_is_told_or_said_to_be_unknown():
    tick = cluster(waits("1", start_at=AT + 8040, expected_nodes=("gpu02",)), waits("2"))
    assert start_words(Digest(tick), tick.job("1")) == "in 2h14m"
    assert any("expects to start it at" in t and "on gpu02" in t for t in hint_texts("1", tick))
    assert start_words(Digest(tick), tick.job("2")) == ""
    assert any("not known" in text for text in hint_texts("2", tick))


def test_begin_time():
    tick = cluster(waits("1", eligible_at=AT + HOUR), waits("2", eligible_at=AT - HOUR))
    assert any(text.startswith("may not start before") for text in hint_texts("1", tick))
    assert not any(text.startswith("may not start before") for text in hint_texts("2", tick))


def test_the_reason_is_given_as_slurm_says_it_and_in_words():
    tick = cluster(waits("1", "JobHeldUser"), waits("2", "Brand New"), waits("3", ""))
    first, *rest = wait_words(Digest(tick), tick.job("1"))
    assert first == "The job waits (JobHeldUser): held by its owner."
    assert rest[-1] == "scontrol release lets it go"
    assert wait_words(Digest(tick), tick.job("2"))[0] == "The job waits: Brand New."
    assert "no reason" in wait_words(Digest(tick), tick.job("3"))[0]


@pytest.mark.parametrize(
    ("reason", "words", "is_stuck"),
    [
        ("QOSMaxGRESPerUser", "QOS limit: GRES a user", False),
        ("AssocGrpCpuLimit", "account limit: CPUs", False),
        ("AssocGrpGRESRunMinutes", "account limit: GRES run minutes", False),
        ("AssocMaxWallDurationPerJobLimit", "account limit: time a job", True),
        ("QOSMinCpuNotSatisfied", "QOS minimum: CPUs", True),
        ("MaxJobsPerAccount", "QOS limit: running jobs an account", False),
        ("QOSMaxSubmitJobPerUserLimit", "QOS limit: submitted jobs a user", False),
        ("ReqNodeNotAvail, UnavailableNodes:gpu[01-02]", "its nodes not available", False),
        ("DependencyNeverSatisfied", "its dependency failed", True),
    ],
)
def test_reasons_and_limits(reason, words, is_stuck):
    meaning = meaning_of(reason)
    assert meaning.words == words
    assert meaning.is_stuck == is_stuck


def test_every_reason_fits_its_column():
    assert [code for code, m in REASONS.items() if len(m.words) + 2 * m.is_stuck > 26] == []


def test_a_tick_without_queue_records_says_only_what_the_job_says():
    tick = cluster(waits("1"))._replace(queue=None)
    assert hint_texts("1", tick) == [
        "when it starts is not known: the scheduler has not planned it"
    ]


def test_nobody_is_told_a_place_among_jobs_that_are_not_in_view():
    tick = cluster(waits("1", dependency="afterok:99(unfulfilled)"))
    whole = Digest(tick)
    part = Digest(tick._replace(queue=tick.queue._replace(is_filtered=True)))
    view = tick.job("1")
    assert place_of(whole, view) is not None
    assert place_of(part, view) is None
    joined = " ".join(hint.text for hint in hints(part, view))
    assert "its place by priority is not known: gpumon --all" in joined
    assert "it is not among the jobs in view" in joined
    assert "the queue no longer lists it" in " ".join(hint.text for hint in hints(whole, view))


def test_free_gpus_are_not_counted_from_a_part_of_the_jobs():
    tick = cluster(waits("1", gpu_count=8, node_count=2))
    part = tick._replace(queue=tick.queue._replace(is_filtered=True))
    # gpu03 says nothing of what it has given away, and others may hold it.
    assert rooms(Digest(tick))["gpu03"].free == 4
    assert rooms(Digest(part))["gpu03"].free is None


@pytest.mark.parametrize(
    "reason",
    [
        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority",
    ],
)
def test_the_longest_reason_has_plain_words(reason):
    assert meaning_of(reason).words == "nodes down or reserved"
