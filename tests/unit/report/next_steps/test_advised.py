"""What findings advise, as commands: for the job's owner first, then what only an admin can do."""

from __future__ import annotations

import shlex

import pytest

from gpumon.report.next_steps.advised import MOST_FINDINGS, advice_of, commands_of
from gpumon.report.next_steps.roads import NO_WAYS, Ways
from gpumon.sources.address import Hop
from gpumon.sources.probes.road import Road
from tests.worlds.tick import finding

UUID = "GPU-0b5c8d2a-1111-2222-3333-444455556666"
WAYS = Ways(Road("n17"))
STACK = "See where its processes wait: srun --jobid=63 --overlap -w n17 py-spy dump --pid 91"
ASK = f"Look closer, on n17: nvidia-smi -q -d PERFORMANCE -i {UUID}"
DRAIN = 'To keep new jobs away: scontrol update NodeName=n17 State=DRAIN Reason="hot GPU, see log"'


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (STACK, "srun --jobid=63 --overlap -w n17 py-spy dump --pid 91"),
        (DRAIN, "scontrol update NodeName=n17 State=DRAIN 'Reason=hot GPU, see log'"),
        ("Start elsewhere: sbatch --exclude=n17 …", "sbatch --exclude=n17"),
        ("Next time: sbatch --time=171; shorter jobs start earlier.", "sbatch --time=171"),
        ("Less: sbatch --mem=51G.", "sbatch --mem=51G"),
        ("Say $x; then: scontrol show job '$(id)'", "scontrol show job '$(id)'"),
    ],
)
def test_the_command_of_a_step(step, line):
    found = advice_of(step)
    assert found is not None
    assert shlex.join(found.words) == line


@pytest.mark.parametrize(
    "step",
    [
        "Report this to the administrators of n17.",
        "Look at both ends of the link: the switch's log.",
        "See what it does in a pause: srun --jobid=63 py-spy dump --pid PID",
        "Evaluate in a second job: sbatch --dependency=afterok:ID …",
        "Odd: scontrol show job 'x",
        "Hidden: scontrol show \x1b[31mjob 63",
        "Alone: dmesg .",
    ],
)
def test_what_cannot_be_typed_as_it_stands_is_none(step):
    assert advice_of(step) is None


def test_a_step_of_a_job_is_its_owners_whoever_is_advised_to_look():
    """Slurm lets no other user start one in it, not even root."""
    one = finding("job:63", finding_class="straggler", advice=(), machine_advice=(DRAIN, STACK))
    assert [command.about for command in commands_of((one,), WAYS)] == ["owner", "admin"]


def test_owners_come_first_then_admins_each_once_in_the_order_of_the_findings():
    grave = finding("job:63", finding_class="hang", advice=(STACK,), machine_advice=(DRAIN, ASK))
    mild = finding(
        "gpu:x", finding_class="throttled", advice=(ASK, "Wait."), machine_advice=(DRAIN,)
    )
    found = commands_of((grave, mild), WAYS)
    assert [(one.about, one.words[0]) for one in found] == [
        ("owner", "srun"), ("owner", "ssh"), ("admin", "scontrol"),
    ]  # fmt: skip
    assert found[1].line.endswith(f"nvidia-smi -q -d PERFORMANCE -i {UUID}")
    assert "See where its processes wait" in found[0].doc
    assert all(one.change is None for one in found)


def test_slurms_commands_go_over_the_login_node_and_those_of_a_node_need_a_way_there():
    hop = Road(*Hop("login3"))
    claims = (finding("job:63", advice=(STACK, ASK)),)
    slurm = commands_of(claims, Ways(None, hop))
    assert len(slurm) == 1
    assert slurm[0].line.startswith("ssh ")
    assert "login3" in slurm[0].line
    assert [one.words[0] for one in commands_of(claims, NO_WAYS)] == ["srun"]
    asked = commands_of(claims, Ways(None, None, "north"))
    assert asked[0].words[:3] == ("srun", "-M", "north")


def test_only_the_first_findings_are_listed():
    claims = [
        finding("job:1", advice=(f"Look: scontrol show job {n}",))
        for n in range(1, MOST_FINDINGS + 9)
    ]
    found = commands_of(claims, WAYS)
    assert [one.words[-1] for one in found] == [str(n) for n in range(1, MOST_FINDINGS + 1)]
