from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.records.cluster import Allocation
from gpumon.sources.slurm.text.jobs import MAX_PATH, job_label, parse_jobs

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Job

DATA = Path(__file__).parents[1] / "data"

NEWER = """\
JobId=812 ArrayJobId=811 ArrayTaskId=3 JobName=train | a=b
   UserId=CORP\\alice smith(7001) GroupId=domain users(7001) MCS_label=N/A
   Priority=1 Nice=0 Account=vision QOS=normal WCKey=*
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:10:01 TimeLimit=1-00:00:00 TimeMin=N/A
   SubmitTime=1795240000 EligibleTime=1795240000
   StartTime=1795246690 EndTime=1795333090 Deadline=N/A
   Partition=gpu AllocNode:Sid=login:1
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=gpu[01-02,04]
   NumNodes=3 NumCPUs=12 NumTasks=12 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=6,mem=1G,node=3,billing=6,gres/gpu=6
   AllocTRES=cpu=12,mem=1G,node=3,billing=12,gres/gpu=6,gres/gpu:h100=6
   JOB_GRES=gpu:h100:6
     Nodes=gpu[01-02] CPU_IDs=0-1,32-33 Mem=0 GRES=gpu:h100:2(IDX:4-5)
     Nodes=gpu04 CPU_IDs={cpu_ids} Mem=0 GRES=gpu:h100:2(IDX:0,7)
   Command=/home/alice/run.sh NodeList=elsewhere JobState=FAILED
   SubmitLine=sbatch --comment UserId=root(0) run.sh
   WorkDir=/home/alice
   Comment=UserId=root(0) GroupId=root(0)
   TresPerNode=gres/gpu:2
"""


def h100s(node, count, indices, cpus=None):
    """What a job holds on a node whose GPUs Slurm calls h100."""
    return Allocation(node, count, indices, cpus, gpu_types=("h100",) * count)


def read(name: str) -> dict[str, Job]:
    found = parse_jobs((DATA / name).read_text(encoding="utf-8"))
    assert found.unreadable == 0
    assert found.announced == len(found.jobs)
    return {job.job_id: job for job in found.jobs}


def one(text: str) -> Job:
    found = parse_jobs(text)
    assert (len(found.jobs), found.unreadable) == (1, 0)
    return found.jobs[0]


def pending(*lines: str, tres: str = "cpu=1,node=1") -> str:
    return "\n   ".join(
        (
            "JobId=5 JobName=p",
            "UserId=bob(7002) GroupId=bob(7002)",
            "JobState=PENDING Reason=Resources Dependency=(null)",
            "Partition=gpu AllocNode:Sid=a:1",
            "NodeList=",
            f"ReqTRES={tres}",
            "AllocTRES=(null)",
            *lines,
        )
    )


def test_reads_uneven_allocations_of_a_real_answer() -> None:
    job = read("jobs-22.05.txt")["13"]
    assert job.nodes == ("gpu02", "gpu03")
    assert job.allocations == (
        h100s("gpu02", 4, (0, 1, 2, 3), 4),
        h100s("gpu03", 1, (1,), 1),
    )
    assert (job.gpu_count, job.state, job.user, job.partition) == (5, "RUNNING", "root", "gpu")
    assert (job.submit_at, job.start_at, job.end_at) == (1795247312.0, 1795247314.0, 1795250914.0)
    assert (job.time_limit_s, job.is_interactive, job.account) == (3600.0, False, "")


def test_labels_arrays_and_het_jobs_as_people_do() -> None:
    jobs = read("jobs-22.05.txt")
    assert [jobs[i].label for i in ("18", "19", "15", "6", "7", "13")] == [
        "15_0",
        "15_1",
        "15_[2-7%2]",
        "6+0",
        "6+1",
        "13",
    ]
    assert jobs["15"].gpu_count == 1
    assert jobs["7"].allocations == (h100s("gpu03", 1, (0,), 2),)
    assert jobs["6"].allocations == (Allocation("gpu01", 0, (), 1),)
    assert jobs["6"].gpu_count == 0


def test_a_cancelled_array_without_tasks_goes_by_its_number_as_squeue_has_it() -> None:
    (job,) = parse_jobs(
        NEWER.format(cpu_ids="0").replace("=811 ArrayTaskId=3", "=812 ArrayTaskId=4294967294")
        + "   StdOut=/home/alice/slurm-812_4294967294.out\n"
    ).jobs
    assert (job.label, job.stdout_path) == ("812", None)


def test_reads_gpus_per_task_and_interactive_jobs() -> None:
    jobs = read("jobs-22.05.txt")
    assert jobs["14"].allocations == (h100s("gpu02", 4, (4, 5, 6, 7), 4),)
    assert jobs["22"].is_interactive
    assert jobs["20"].time_limit_s is None
    assert jobs["20"].end_at is None


def test_a_completing_job_still_holds_gpus_that_nobody_names() -> None:
    job = read("jobs-22.05.txt")["21"]
    assert job.state == "COMPLETING"
    assert job.allocations == (Allocation("gpu03", 2, None),)


LEAVING = """\
JobId=40 JobName=train
   UserId=alice(7001) GroupId=alice(7001) MCS_label=N/A
   JobState=COMPLETING Reason=None Dependency=(null)
   Partition=gpu AllocNode:Sid=head:0
   NodeList={nodes}
   NumNodes=2 NumCPUs=6 NumTasks=3 CPUs/Task=2 ReqB:S:C:T=0:0:*:*
   {key}=cpu=6,node=3,billing=6,gres/gpu=15,gres/gpu:h100=15
   JOB_GRES=gpu:h100:15
     Nodes=gpu[01-03] CPU_IDs=0-1 Mem=0 GRES=
   {asked}
"""
"""As 22.05 and 24.11 tell of a job that has left one of its three nodes."""


@pytest.mark.parametrize("key", ["TRES", "AllocTRES"])
@pytest.mark.parametrize(
    ("nodes", "asked", "gpu_count"),
    [
        ("gpu[02-03]", "TresPerNode=gres:gpu:5", 10),
        ("gpu03", "TresPerNode=gres/gpu:5", 5),
        # Which of them had how many is told nowhere.
        ("gpu[02-03]", "TresPerJob=gres/gpu:15", None),
        ("gpu03", "TresPerTask=gres/gpu:5", None),
        ("gpu[01-03]", "TresPerJob=gres/gpu:15", 15),
    ],
)
def test_a_completing_job_holds_what_is_on_the_nodes_that_it_has_not_left(
    nodes: str, asked: str, gpu_count: int | None, key: str
) -> None:
    job = one(LEAVING.format(nodes=nodes, asked=asked, key=key))
    assert job.gpu_count == gpu_count
    assert all(part.node in job.nodes for part in job.allocations)
    assert sum(part.gpu_count for part in job.allocations) <= (gpu_count or 0)
    if job.nodes == ("gpu03",) and gpu_count:
        assert job.allocations == (Allocation("gpu03", 5, None),)


def test_finished_jobs_stay_and_hold_nothing() -> None:
    jobs = read("jobs-22.05.txt")
    for job_id, state in (("10", "COMPLETED"), ("23", "FAILED"), ("16", "CANCELLED")):
        assert (jobs[job_id].state, jobs[job_id].allocations) == (state, ())
    assert jobs["23"].reason == "NonZeroExitCode"
    assert jobs["16"].gpu_count == 24


def test_reads_newer_versions_and_groups_of_equal_nodes() -> None:
    job = one(NEWER.format(cpu_ids="0-3"))
    assert job.label == "811_3"
    assert job.name == "train | a=b"
    assert job.user == "CORP\\alice smith"
    assert job.account == "vision"
    assert job.state == "RUNNING"
    assert job.nodes == ("gpu01", "gpu02", "gpu04")
    assert job.allocations == (
        h100s("gpu01", 2, (4, 5), 4),
        h100s("gpu02", 2, (4, 5), 4),
        h100s("gpu04", 2, (0, 7), 4),
    )
    assert job.gpu_count == 6


def test_a_field_that_later_versions_add_to_the_ids_does_not_matter() -> None:
    text = NEWER.format(cpu_ids="0").replace("JobId=812 ", "JobId=812 SLUID=s8FXKTA79XAR00 ")
    assert one(text).label == "811_3"


@pytest.mark.parametrize("cut", ["0-3,112,115-", "0-3,", ",".join(map(str, range(100, 140)))])
def test_a_list_of_cpus_that_slurm_cut_off_is_unknown(cut: str) -> None:
    assert one(NEWER.format(cpu_ids=cut)).allocations[2] == h100s("gpu04", 2, (0, 7), None)


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (("TresPerJob=gres:gpu:5",), 5),
        (("NumNodes=3-3 NumTasks=6", "TresPerNode=gres:gpu:8"), 24),
        (("NumNodes=1-4 NumTasks=6", "TresPerNode=gres/gpu:h100:2"), 2),
        (("NumNodes=1 NumTasks=6", "TresPerTask=gres/gpu=2"), 12),
        (("NumNodes=1 NumTasks=N/A", "TresPerTask=gres/gpu=2"), None),
        (("NumNodes=1", "TresPerSocket=gres:gpu:2"), None),
        (("NumNodes=1",), 0),
    ],
)
def test_counts_requested_gpus_where_accounting_leaves_them_out(
    lines: tuple[str, ...], count: int | None
) -> None:
    assert one(pending(*lines)).gpu_count == count


def test_counts_requested_gpus_once_where_accounting_names_them() -> None:
    text = pending("NumNodes=2", "TresPerNode=gres/gpu:8", tres="cpu=2,gres/gpu=16,gres/gpu:h=16")
    assert one(text).gpu_count == 16


def test_the_number_of_gpus_is_unknown_where_slurm_says_nothing() -> None:
    text = "JobId=5 JobName=p\n   UserId=bob(1) GroupId=x(1)\n   JobState=PENDING Reason=None"
    assert one(text).gpu_count is None


def test_tells_forged_records_by_their_number() -> None:
    found = parse_jobs((DATA / "jobs-22.05-forged.txt").read_text(encoding="utf-8"))
    assert found.announced == 2
    assert len(found.jobs) + found.unreadable == 4


def test_a_hostile_name_is_shown_harmless() -> None:
    jobs = parse_jobs((DATA / "jobs-22.05-forged.txt").read_text(encoding="utf-8")).jobs
    assert "tab\ufffdesc\ufffd[31m ünï" in [job.name for job in jobs]


def test_separators_that_are_no_line_feed_do_not_end_a_line() -> None:
    name = "a\u2028\x0b\x0c\x85   UserId=root(0) GroupId=x(0)"
    text = pending("NumNodes=1").replace("JobName=p", f"JobName={name}")
    assert one(text).user == "bob"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("JobId=812", "JobId=x"),
        ("JobId=812", "JobId=-1"),
        ("JobState=RUNNING", "JobState=$(x)"),
        ("JobState=RUNNING", "JobStat=RUNNING"),
        ("UserId=CORP", "User=CORP"),
        ("   NodeList=gpu[01-02,04]", "   NodeList=-oProxyCommand=x"),
        ("   NodeList=gpu[01-02,04]", "   NodeList=gpu[01-"),
    ],
)
def test_a_corrupt_record_is_counted_and_the_others_are_read(old: str, new: str) -> None:
    good = NEWER.format(cpu_ids="0")
    assert old in good
    found = parse_jobs(f"{good}\n{good.replace(old, new)}\n{good}")
    assert (len(found.jobs), found.unreadable, found.unplaced) == (2, 1, 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Nodes=gpu04", "Nodes=a;b"),
        ("GRES=gpu:h100:2(IDX:0,7)", "GRES=gpu:h100:2(IDX:0-9999999)"),
        ("Nodes=gpu04 CPU_IDs", "Nodes=gpu04 CPUS"),
    ],
)
def test_a_job_stays_though_what_it_holds_on_a_node_cannot_be_read(old: str, new: str) -> None:
    good = NEWER.format(cpu_ids="0")
    assert old in good
    found = parse_jobs(f"{good}\n{good.replace(old, new)}\n{good}")
    assert (len(found.jobs), found.unreadable, found.unplaced) == (3, 0, 1)
    whole, cut, _ = found.jobs
    assert cut == whole._replace(allocations=())
    assert (cut.gpu_count, cut.nodes) == (6, ("gpu01", "gpu02", "gpu04"))


def test_reads_allocations_of_versions_up_to_18_08() -> None:
    record = NEWER.format(cpu_ids="0")
    for new, old in (
        ("GRES=gpu:h100:2(IDX:4-5)", "GRES_IDX=gpu(IDX:1,3-4,6)"),
        ("GRES=gpu:h100:2(IDX:0,7)", "GRES_IDX=gpu(IDX:5)"),
    ):
        record = record.replace(new, old)
    (job,) = parse_jobs(record).jobs
    assert [(a.node, a.gpu_count, a.gpu_indices) for a in job.allocations] == [
        ("gpu01", 4, (1, 3, 4, 6)),
        ("gpu02", 4, (1, 3, 4, 6)),
        ("gpu04", 1, (5,)),
    ]
    assert job.gpu_count == 9


def test_errors_go_where_the_rest_goes_where_slurm_says_nothing_of_them() -> None:
    record = NEWER.format(cpu_ids="0") + "   StdErr=\n   StdOut=/scratch/%x-%j.log\n"
    (job,) = parse_jobs(record.replace("train | a=b", "train")).jobs
    assert job.stderr_path == job.stdout_path == "/scratch/train-812.log"
    (silent,) = parse_jobs(record.replace("   StdErr=\n", "")).jobs
    assert silent.stderr_path is None


def test_a_greeting_before_the_records_does_no_harm() -> None:
    assert one("Welcome to login1\n" + NEWER.format(cpu_ids="0")).job_id == "812"


@given(st.integers(0, 3000), st.text(max_size=20))
def test_damage_anywhere_never_raises(place: int, text: str) -> None:
    good = NEWER.format(cpu_ids="0-3")
    place %= len(good)
    parse_jobs(good[:place] + text + good[place + len(text) :])


def test_reads_an_answer_with_gpu_accounting_as_another_user_sees_it() -> None:
    jobs = read("jobs-22.05-accounting.txt")
    assert {job.label: job.gpu_count for job in jobs.values()} == {
        "1": 5,
        "2": 4,
        "3_0": 1,
        "3_1": 1,
        "3_[2-5%2]": 1,
        "4+0": 1,
        "4+1": 2,
        "6": 24,
        "7": 0,
        "8": 2,
        "11": 1,
        "12": 1,
    }
    assert jobs["8"].allocations == (
        h100s("gpu01", 1, (2,), 1),
        h100s("gpu03", 1, (3,), 1),
    )
    assert (jobs["11"].user, jobs["11"].account) == ("bob", "bio")
    assert (jobs["12"].reason, jobs["12"].start_at) == ("BeginTime", jobs["12"].submit_at + 3600)


def test_a_path_is_cut() -> None:
    text = NEWER.format(cpu_ids="0").replace("/home/alice\n", f"/home/{'x' * 5000}\n")
    job = one(text)
    assert job.work_dir is not None
    assert len(job.work_dir) == MAX_PATH


def test_more_memory_than_any_cluster_has_is_not_known() -> None:
    assert one(pending(tres="cpu=1,mem=7000000000000T,node=1")).mem_bytes is None
    assert one(pending(tres="cpu=1,mem=70000T,node=1")).mem_bytes == 70000 * 2.0**40


def test_gpus_of_a_request_for_any_number_of_nodes_are_not_known() -> None:
    text = pending("NumNodes=9999999999 NumTasks=1", "TresPerNode=gres/gpu:1000000000")
    assert one(text).gpu_count is None


def test_a_het_job_s_label_is_of_bounded_length() -> None:
    head = {"HetJobId": "7" * 5000, "HetJobOffset": "1"}
    assert len(job_label("7", head)) <= 256


def test_a_number_that_no_user_has_is_not_known() -> None:
    text = pending().replace("UserId=bob(7002)", "UserId=bob(77000000000000000000)")
    assert (one(text).user, one(text).user_id) == ("bob", None)
