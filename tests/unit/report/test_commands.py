"""Commands are filled in with checked names only."""

from __future__ import annotations

import shlex

import pytest

from gpumon.report.commands import MAX_PIDS, Subject, commands_for

UUID = "GPU-7e0c8d2a-1111-2222-3333-444455556666"
WHOLE = Subject("4711", "gpu01", UUID, (4242,))
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


def lines(subject, **options):
    return [command.line for command in commands_for(subject, **options)]


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
        WHOLE._replace(job_id=name),
        WHOLE._replace(node=name),
        WHOLE._replace(uuid=name),
        Subject(name, name, name),
    ):
        for command in commands_for(subject, with_changes=True):
            assert not name or name not in command.line
            assert tuple(shlex.split(command.line)) == command.words
            assert all(char.isprintable() and char.isascii() for char in command.line)
    assert commands_for(Subject(name, name, name)) == ()


@pytest.mark.parametrize("pid", [0, -1, 2**22, 10**12])
def test_what_is_no_process_number_gets_into_no_command(pid):
    assert not any("py-spy" in line for line in lines(WHOLE._replace(pids=(pid,))))


def test_of_many_processes_the_first_are_listed():
    found = lines(WHOLE._replace(pids=tuple(range(1, 100))))
    assert sum("py-spy dump" in line for line in found) == MAX_PIDS


def test_what_changes_the_world_is_absent_unless_wanted():
    assert not any(line.startswith(("scancel", "scontrol requeue")) for line in lines(WHOLE))
    assert not any(command.is_change for command in commands_for(WHOLE))
    found = commands_for(WHOLE, with_changes=True)
    assert [c.line for c in found if c.is_change] == ["scontrol requeue 4711", "scancel 4711"]


def test_the_closest_name_is_copied():
    assert WHOLE.name == UUID
    assert WHOLE._replace(uuid=None).name == "4711"
    assert Subject(node="gpu01").name == "gpu01"
    assert Subject().name is None


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("user", ["squeue -u n", "sacct -X -u n ", "sshare -u n"]),
        ("account", ["squeue -A n", "sacct -X -a -A n ", "sshare -a -A n"]),
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
