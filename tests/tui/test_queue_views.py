"""The views of what a queue tells, in every state, at the sizes people have."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gpumon.model.fault import SourceError
from gpumon.model.records.accounting import EndedJob, EndedJobs, StepUsage
from gpumon.model.records.cluster import Node, Process
from gpumon.model.records.ledger import Account, LedgerTotals
from gpumon.model.records.queue import Partition, Reservation
from gpumon.sources.source import Wish
from gpumon.tui.actions.action import NEED_NO_QUEUE, ROOTS
from gpumon.tui.screens.lists.jobs import JobsView
from gpumon.tui.screens.pages.job import JobScreen
from gpumon.tui.status import QUEUE_OLD_S
from tests.tui.test_hostile import NAMES
from tests.worlds.queue import HOUR, alone, cluster, slurm_node, waits
from tests.worlds.tick import AT, failed, fleet, job, job_with_gpus, tick, uuid_of

SIZES = [(80, 24), (160, 50)]
QUEUE_VIEWS = [view for view in ROOTS if view not in ("jobs", *NEED_NO_QUEUE)]
KEYS = {
    **{view: (str(number + 1),) for number, view in enumerate(ROOTS[:9])},
    "reservations": ("colon", *"reservations", "enter"),
    "processes": ("colon", *"ps", "enter"),
}


def ended(job_id: str, **changes) -> EndedJob:
    record = job(job_id, **{"state": "COMPLETED", "exit_code": "0:0", "end_at": AT - 60, **changes})
    step = StepUsage(
        job_id, "0", "train", "FAILED", "3:0", 60.0, 8, 40.0, 2.0**30, None, None, None
    )
    return EndedJob(record, 3600.0, 28800.0, "", 60.0, 2.0**31, 0.25, None, 9e6, (step,))


def with_ended(*jobs: EndedJob):
    return fleet(ended=EndedJobs(jobs, AT - 86405, AT - 5, 0))


async def test_an_array_is_one_line_and_as_many_jobs_as_it_has_tasks(stage):
    array = waits("4", label="4_[4-7%2]", gpu_count=1)
    async with stage(cluster(waits("1"), array)) as s:
        await s.press(*KEYS["pending"])
        assert "5 waiting jobs on 2 lines" in s.lines[0]
        assert "5 jobs wait for 12 GPUs" in s.below[1]


@pytest.mark.parametrize("size", SIZES)
async def test_pending_with_data(stage, size):
    seen = cluster(
        waits("1", "Resources", start_at=AT + 8040, priority=9999, time_limit_s=HOUR),
        waits("2", "JobHeldUser", priority=0, gpu_count=None),
        waits("3", time_limit_s=168 * HOUR),
    )
    async with stage(seen, size) as s:
        await s.press(*KEYS["pending"])
        assert "3 waiting jobs" in s.lines[0]
        assert "3 jobs wait for 16 GPUs · 8 free on 2 nodes" in s.below[1]
        rows = [line.split() for line in s.below[3:6]]
        assert [row[:2] for row in rows] == [["1", "1"], ["2", "3"], ["–", "2"]]
        assert "nothing free that fits" in s.line_with("in 2h14m")
        assert "! held by its owner" in s.text
        if size[0] > 120:
            assert "no node has 8 free, 2 have 4" in s.text
            assert "maintenance in 5h30m: too long" in s.text


async def test_pending_opens_a_job_that_tells_all_of_its_wait(stage):
    async with stage(cluster(waits("1", "Resources", time_limit_s=168 * HOUR)), (100, 30)) as s:
        await s.press(*KEYS["pending"], "enter")
        assert "pending › 1 train-llama" in s.lines[0]
        assert "The job waits (Resources): nothing free that fits." in s.text
        assert "→ asks for 8 GPUs on one node: no node has 8 free" in s.text
        assert "a limit under 5h30m would end before it" in " ".join(s.text.split())
        await s.press("escape")
        assert "› pending" in s.lines[0]


async def test_a_requeued_job_tells_its_wait_above_the_ranks_that_are_left(stage):
    view, gpus = job_with_gpus(
        "7", {"gpu01": 2}, state="PENDING", reason="BeginTime", restart_count=1, start_at=None
    )
    async with stage(tick((view,), gpus), (100, 30)) as s:
        s.app.push_screen(JobScreen("7", "7"))
        await s.pilot.pause()
        assert "requeued once" in s.text
        assert "The job waits (BeginTime): begin time to come." in s.text
        wait = next(i for i, line in enumerate(s.lines) if "The job waits" in line)
        assert wait < next(i for i, line in enumerate(s.lines) if line.split()[:1] == ["RANK"])


def charged(*jobs):
    """The cluster, with grace's job in the ledger: 27 minutes of a GPU were wasted."""
    seconds = {"useful": 26_280.0, "partial_gpus_idle": 1_620.0}
    held = Account("4711", "grace", "ml", "h100", "H100", AT - 3_487.5, AT - 3_487.5, seconds)
    return cluster(*jobs)._replace(ledger=LedgerTotals(AT, AT - 7_200, (held,), (held,)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", ["users", "accounts", "partitions"])
async def test_groups_with_data_open_their_jobs(stage, view, size):
    name = {"users": "grace", "accounts": "ml", "partitions": "h100"}[view]
    async with stage(charged(waits("1")), size) as s:
        await s.press(*KEYS[view])
        row = s.line_with(name)
        assert " 0.45h " in row
        assert s.below[2].split()[0].startswith(name)
        await s.press("enter")
        assert isinstance(s.app.screen, JobsView)
        assert f"{view} › {name}" in s.lines[0]
        assert "4711" in s.text
        await s.press("enter")
        assert isinstance(s.app.screen, JobScreen)
        assert f"{view} › {name} › 4711 finetune" in s.lines[0]
        await s.press("escape", "escape")
        assert s.lines[0].split()[2] == view


async def test_a_group_lists_its_own_jobs_only_and_says_when_they_are_gone(stage):
    async with stage(charged(waits("1"))) as s:
        await s.press(*KEYS["users"], "enter")
        assert "4690" not in s.text
        assert s.lines[0].endswith(" 1 job")
        await s.give(tick(number=2))
        assert "The queue lists no jobs of user grace." in s.text
        await s.press("tab")
        assert "› accounts" in s.lines[0]


@pytest.mark.parametrize("size", SIZES)
async def test_partitions_tell_nodes_gpus_and_states(stage, size):
    async with stage(cluster(), size) as s:
        await s.press(*KEYS["partitions"])
        row = s.line_with("h100*").split()
        assert row[:5] == ["h100*", "32", "16", "8", "8"]
        await s.press("c", "slash", *"state", "enter", "enter", "escape", "escape")
        assert "down" in s.line_with("a100")
        assert "– " in s.line_with("a100")


@pytest.mark.parametrize("size", SIZES)
async def test_reservations_warn_of_maintenance_and_open_what_crosses(stage, size):
    async with stage(cluster(waits("1", time_limit_s=9 * HOUR)), size) as s:
        await s.press(*KEYS["reservations"])
        assert "! maintenance in 5h30m for 3h30m (maint-oct): 3 jobs would run into it" in s.text
        row = s.line_with("! maint-oct")
        assert " 4 " in row
        assert " 3 " in row
        await s.press("enter")
        assert "reservations › maint-oct" in s.lines[0]
        assert "3 jobs" in s.lines[0]


@pytest.mark.parametrize("size", SIZES)
async def test_ended_asks_once_and_shows_the_answer(stage, size):
    async with stage(fleet(), size) as s:
        await s.press(*KEYS["ended"])
        assert s.feed.wishes == [Wish(ended_since=AT - 86400)]
        assert "No answer yet" in s.text
        assert "ended jobs" not in s.lines[0]
        await s.give(with_ended(ended("9"), ended("8", state="FAILED", exit_code="3:0")))
        assert s.feed.wishes == [Wish(ended_since=AT - 86400)]
        assert (
            "2 jobs ended in the last 24 h, 16.0 GPU-h within; asked 5s ago, r asks again" in s.text
        )
        assert " F " in s.line_with(" 8 ")
        await s.press("r")
        assert [wish.is_by_hand for wish in s.feed.wishes] == [False, True]


async def test_an_ended_job_opens_with_its_steps(stage):
    async with stage(with_ended(ended("9", name="eval")), (100, 30)) as s:
        await s.press(*KEYS["ended"], "enter")
        assert "ended › 9 eval" in s.lines[0]
        assert "CD completed" in s.text
        assert "held 8.00 GPU-h" in s.text
        assert "step 0 train" in s.text
        await s.press("escape")
        assert s.lines[0].endswith(" 1 ended job")


async def test_ended_with_nothing_in_the_window(stage):
    async with stage(with_ended()) as s:
        await s.press(*KEYS["ended"])
        assert "No job has ended in the last 24 h." in s.text
        assert "0 jobs ended in the last 24 h; asked 5s ago, r asks again" in s.text


async def test_nodes_that_are_silent_are_named_only_while_others_answer(stage):
    async with stage(fleet(), (120, 40)) as s:
        await s.press(*KEYS["nodes"])
        assert "! stale: 1 node no longer answers: gpu04" in s.text
        nodes = {
            name: node._replace(is_stale=True, taken_at=AT - 42)
            for name, node in fleet().nodes.items()
        }
        await s.give(fleet()._replace(nodes=nodes))
        assert "stale 42s: no node answers any more" in s.text
        assert "node no longer answers" not in s.text


async def test_a_waiting_job_names_no_trouble_of_nodes_that_are_not_its_own(stage):
    error = SourceError("gpu09", "connection refused", "is sshd up there?")
    node = Node("gpu09", (), None, False, None, (error,))
    seen = fleet()
    async with stage(seen._replace(nodes={**seen.nodes, "gpu09": node}), (120, 40)) as s:
        await s.press("colon", *"job 4730", "enter")
        assert "The job waits" in s.text
        assert "connection refused" not in s.text


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("pending", "No job waits."),
        ("ended", "No answer yet"),
        ("users", "The queue lists no jobs."),
        ("accounts", "The queue lists no jobs."),
        ("partitions", "The queue has no partition."),
        ("reservations", "The queue has no reservation."),
    ],
)
async def test_empty(stage, view, words):
    async with stage(tick()) as s:
        await s.press(*KEYS[view])
        assert words in s.text


@pytest.mark.parametrize("view", QUEUE_VIEWS)
async def test_before_the_first_sample_without_a_queue_and_failed(stage, view):
    async with stage() as s:
        await s.press(*KEYS[view])
        assert "Waiting for the first sample" in s.text
        await s.give(tick(queue_at=None, targets=()))
        assert "none of the targets is a queue" in s.text
        await s.give(failed())
        assert "The queue could not be read." in s.text
        assert "slurm: squeue: command not found" in s.text


@pytest.mark.parametrize("view", ROOTS)
async def test_a_stale_queue_is_shown_in_every_view_and_in_the_status(stage, view):
    old = cluster(waits("1"))._replace(queue_at=AT - QUEUE_OLD_S - 1)
    async with stage(old) as s:
        await s.press(*KEYS[view])
        assert "stale 91s: the queue has not answered since" in s.text
        assert "! queue stale 91s" in s.lines[-2]


async def test_a_node_tells_what_slurm_says_of_it(stage):
    seen = cluster()
    nodes = (*seen.queue.nodes[1:], slurm_node("gpu01", "mixed+drain", gpus_used=8))
    drained = nodes[-1]._replace(reason="bad link", reason_user="root", reason_at=AT - 8040)
    seen = seen._replace(queue=seen.queue._replace(nodes=(*nodes[:-1], drained)))
    async with stage(seen, (100, 30)) as s:
        await s.press("colon", *"node gpu01", "enter")
        assert "partitions h100" in s.text
        assert "GPUs held 8 of 8" in s.text
        assert "! Slurm's reason: bad link (root, 2h14m ago)" in s.text


async def test_jobs_that_have_ended_stand_dim_at_the_end(stage):
    seen = fleet()
    over = alone(job("4600", state="FAILED", exit_code="1:0", name="broken"))
    found = (*seen.findings, seen.findings[0]._replace(subject="job:4600"))
    async with stage(seen._replace(jobs=(over, *seen.jobs), findings=found)) as s:
        assert s.below[7].split()[1] == "4600"
        assert "failed" in s.below[7]
        assert "partial" not in s.below[7]


async def test_processes_of_no_job_stand_above_the_gpus(stage):
    stray = Process("gpu02", 77, "python", 0, None, None, {}, None, (uuid_of("gpu02", 5),), {})
    async with stage(cluster()._replace(strays=(stray,))) as s:
        await s.press(*KEYS["gpus"])
        assert "! 1 process is on GPUs that no job holds: gpu02 python 77" in s.text


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (place % 2)) for place, n in enumerate(NAMES)],
)
async def test_hostile_names_in_every_view(stage, name):
    asked = waits(
        "1", name, name=name, user=name, account=name, partition=name, dependency=name, qos=name
    )
    own = Reservation(name, name, AT + 9, AT + 99, (name,), (name, "MAINT"), (name,))
    part = Partition(name, name, (name,), 8)
    seen = cluster(asked, partitions=(part,), reservations=(own,))
    seen = seen._replace(ended=EndedJobs((ended("9", name=name, user=name),), AT - 9, AT, 0))
    async with stage(seen) as s:
        for view in QUEUE_VIEWS:
            await s.press(*KEYS[view])
            for keys in ((), ("G", "enter"), ("escape", "colon", *"user ", "tab"), ("escape",)):
                await s.press(*keys)
                assert not any(ord(c) < 32 and c != "\n" for c in s.text)
                assert "\u202e" not in s.text
                for strip in s.app.screen._compositor.render_strips():
                    assert cell_len("".join(segment.text for segment in strip)) == 80
