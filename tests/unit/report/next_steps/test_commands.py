"""Commands are filled in with checked names only."""

from __future__ import annotations

import shlex

import pytest

from gpumon.model.job_name import job_name
from gpumon.report.next_steps.commands import MAX_PIDS, Subject, commands_for, why_unchanged
from gpumon.report.next_steps.roads import Ways
from gpumon.sources.address import Hop
from gpumon.sources.probes.road import Road

UUID = "GPU-7e0c8d2a-1111-2222-3333-444455556666"
WHOLE = Subject(job_name("4711"), "gpu01", UUID, (4242,), job_state="RUNNING")
HOSTILE = [
    "",
    "-oProxyCommand=id",
    "a b",
    "a;id",
    "$(id)",
    "`id`",
    "a\nb",
    "a|b",
    "a&b",
    "a>b",
    "a'b",
    'a"b',
    "../x",
    "\x1b[31m",
    "é",
    "*",
]


NEAR = Ways(Road("gpu01"))


@pytest.mark.parametrize(
    ("subject", "is_safe"),
    [
        (Subject(node="gpu01"), True),
        (Subject(node="-oProxyCommand=/tmp/x"), False),
        (Subject(node="gpu01,gpu02"), False),
        (Subject(node="gpu01;id"), False),
        (Subject(group=("user", "ada@ml")), True),
        (Subject(group=("user", "--all")), False),
        (Subject(group=("account", "a b")), False),
        (Subject(uuid="GPU-12ab-34", node="gpu01"), True),
        (Subject(uuid="GPU-$(id)", node="gpu01"), False),
        (Subject(job_name("812", "812_[5-9]"), "-v"), True),
        (Subject(job_name("4711; id")), True),
        (WHOLE, True),
    ],
)
def test_what_the_rules_of_commands_refuse_is_not_copied_either(subject, is_safe):
    assert subject.is_pasted_safely is is_safe


def lines(subject, ways=NEAR, **options):
    return [command.line for command in commands_for(subject, ways, **options)]


def test_a_rank_has_its_profiler_first_then_its_gpu_job_and_node():
    found = lines(WHOLE)
    assert found[:3] == [
        "ssh gpu01 py-spy dump --pid 4242",
        "ssh gpu01 py-spy record --pid 4242 --duration 30 -o rank-4242.svg",
        "ssh gpu01 nsys profile --gpu-metrics-devices=all --duration=30 -o rank-4242 sleep 30",
    ]
    assert f"ssh gpu01 nvidia-smi -q -i {UUID}" in found
    assert "scontrol -d show job 4711" in found
    assert "ssh gpu01 ncclras -v" in found
    assert "srun --jobid=4711 --overlap -w gpu01 -n 1 --pty bash" in found


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_gets_into_no_command(name):
    for subject in (
        WHOLE._replace(job=job_name(name)),
        WHOLE._replace(job=job_name("4711", name)),
        WHOLE._replace(node=name),
        WHOLE._replace(uuid=name),
        Subject(job_name(name), name, name),
    ):
        for command in commands_for(subject, NEAR, with_changes=True):
            assert not name or name not in command.line
            assert tuple(shlex.split(command.line)) == command.words
            assert all(char.isprintable() and char.isascii() for char in command.line)
    assert commands_for(Subject(job_name(name), name, name)) == ()


@pytest.mark.parametrize("pid", [0, -1, 2**22, 10**12])
def test_what_is_no_process_number_gets_into_no_command(pid):
    assert not any("py-spy" in line for line in lines(WHOLE._replace(pids=(pid,))))


def test_of_many_processes_the_first_are_listed():
    found = lines(WHOLE._replace(pids=tuple(range(1, 100))))
    assert sum("py-spy dump" in line for line in found) == MAX_PIDS


def test_what_changes_the_world_is_absent_unless_wanted():
    assert not any(line.startswith(("scancel", "scontrol requeue")) for line in lines(WHOLE))
    assert not any(command.change for command in commands_for(WHOLE))
    found = commands_for(WHOLE, with_changes=True)
    assert [c.line for c in found if c.change] == ["scontrol requeue 4711", "scancel 4711"]


def test_the_closest_name_is_copied():
    assert WHOLE.name == UUID
    assert WHOLE._replace(uuid=None).name == "4711"
    assert Subject(node="gpu01").name == "gpu01"
    assert Subject().name is None


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("user", ["squeue -u n", "sacct -D -X -u n ", "sshare -u n"]),
        ("account", ["squeue -A n", "sacct -D -X -a -A n ", "sshare -a -A n"]),
        ("partition", ["scontrol show partition n", "squeue -p n", "sinfo -N -l -p n"]),
        ("reservation", ["scontrol show reservation n", "squeue -R n"]),
    ],
)
def test_who_and_what_holds_jobs_has_the_commands_that_slurm_has_for_it(kind, wanted):
    subject = Subject(group=(kind, "n"))
    found = lines(subject, with_changes=True)
    assert len(found) == len(wanted)
    assert all(line.startswith(words) for line, words in zip(found, wanted, strict=True))
    assert subject.name == "n"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_group_with_a_name_that_a_shell_could_read_has_no_command(name):
    assert lines(Subject(group=("user", name))) == []


TASK = Subject(job_name("812", "812_4"), "gpu01", job_state="RUNNING")
"""The task that has its array's own number."""


def changes(subject):
    return [c.line for c in commands_for(subject, NEAR, with_changes=True) if c.change]


def test_an_array_task_that_has_its_arrays_number_is_named_alone_everywhere():
    found = lines(TASK)
    assert "scontrol -d show job 812_4" in found
    assert "sstat -j 812_4.batch" in found
    assert "sacct -D -j 812_4 -o jobid,state,exitcode,elapsed,alloctres%60" in found
    assert "srun --jobid=812 --overlap -w gpu01 -n 1 --pty bash" in found
    assert changes(TASK) == ["scontrol requeue 812_4", "scancel 812_4"]
    assert TASK.name == "812_4"


def test_another_array_task_is_named_by_its_label_but_where_steps_are_asked_for():
    other = TASK._replace(job=job_name("813", "812_1"))
    assert "sstat -a -j 813" in lines(other)
    assert "srun --jobid=813 --overlap -w gpu01 -n 1 --pty bash" in lines(other)
    assert changes(other) == ["scontrol requeue 812_1", "scancel 812_1"]


def test_tasks_that_wait_together_are_named_as_their_row_shows_them():
    waiting = Subject(job_name("812", "812_[5-9,14%2]"), job_state="PENDING")
    assert lines(waiting) == ["scontrol -d show job 812_5"]
    assert changes(waiting) == ["scancel '812_[5-9,14]'"]
    assert waiting.name == "812_[5-9,14]"


def test_of_a_list_of_tasks_that_slurm_has_cut_nothing_is_cancelled():
    cut = Subject(job_name("812", "812_[0,3,6,9,1...]"), job_state="PENDING")
    assert changes(cut) == []
    assert "cuts" in why_unchanged(cut)
    assert cut.name is None


def test_a_job_that_is_over_is_not_cancelled_since_its_number_may_be_its_arrays():
    over = Subject(job_name("812"))
    assert changes(over) == []
    assert "not waiting or running" in why_unchanged(over)


def test_a_component_is_ended_with_the_whole_or_alone_and_each_says_so():
    second = Subject(job_name("901", "900+1"), "gpu01", job_state="RUNNING")
    found = [c for c in commands_for(second, with_changes=True) if c.change]
    assert [c.line for c in found] == ["scontrol requeue 900", "scancel 900", "scancel 900+1"]
    assert ["all components" in c.doc for c in found] == [True, True, False]
    assert "srun --jobid=900 --het-group=1 --overlap -w gpu01 -n 1 --pty bash" in lines(second)
    assert "sstat -a -j 901" in lines(second)
    # Slurm takes the first one for the whole.
    assert changes(second._replace(job=job_name("900", "900+0"))) == [
        "scontrol requeue 900",
        "scancel 900",
    ]
    assert changes(second._replace(job_state="PENDING")) == ["scancel 900"]


def test_commands_take_the_ways_by_which_node_and_queue_are_read():
    hop = Hop("login", "bob", 2222)
    ways = Ways(Road("gpu01-mgmt", hop=hop), Road(*hop))
    found = lines(WHOLE, ways, with_changes=True)
    assert "ssh -J bob@login:2222 gpu01-mgmt py-spy dump --pid 4242" in found
    assert "ssh -J bob@login:2222 gpu01-mgmt" in found
    assert "ssh -p 2222 bob@login scontrol -d show job 4711" in found
    shell = "srun --jobid=4711 --overlap -w gpu01 -n 1 --pty bash"
    assert f"ssh -t -p 2222 bob@login {shell}" in found
    assert "ssh -p 2222 bob@login scancel 4711" in found


def test_on_this_machine_no_way_is_needed_and_where_none_is_known_none_is_made_up():
    assert "py-spy dump --pid 4242" in lines(WHOLE, Ways(Road("gpu01", is_here=True)))
    unknown = lines(WHOLE, Ways())
    assert not any("ssh" in line or "py-spy" in line for line in unknown)
    assert "scontrol show node gpu01" in unknown


def test_a_list_of_tasks_reaches_slurm_behind_the_shells_of_both_machines():
    waiting = Subject(job_name("812", "812_[5-9]"), job_state="PENDING")
    line = lines(waiting, Ways(slurm=Road("login")), with_changes=True)[-1]
    _, _, *remote = shlex.split(line)
    assert shlex.split(" ".join(remote)) == ["scancel", "812_[5-9]"]


def test_commands_of_another_cluster_name_it_and_none_asks_its_own():
    """A job's number may be another job's in the cluster that the commands belong to."""
    ways = Ways(cluster="north")
    found = commands_for(WHOLE._replace(job_state="RUNNING"), ways, with_changes=True)
    of_slurm = [one.words for one in found if one.about in ("job", "node")]
    assert of_slurm
    assert all(words[1:3] == ("-M", "north") for words in of_slurm)
    assert not [words for words in of_slurm if words[0] == "sstat"]
    changes = [one.name for one in found if one.change]
    assert changes[0].startswith("scontrol -M north requeue ")
    assert changes[1].startswith("scancel -M north ")
