"""One step for a job: how srun is called, and many nodes on one output."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.probes.decode import GarbageError
from gpumon.sources.probes.program import START_SCRIPT, remote_program
from gpumon.sources.probes.start_order import STEP_RETRY_S
from gpumon.sources.slurm.poll.srun import AGAIN, WAYS_OUT, endpoint, explain
from tests.unit.sources.pools import Run
from tests.worlds.probe import Probe, eventually, talker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpumon.model.records.frame import Frame
    from gpumon.sources.probes.stream import Endpoint

TWO = ("gpu01", "gpu03")

PIECE = "piece() { printf '~%d.%d.0.1.%d %s\\n' $1 $2 ${#3} \"$3\"; };"
HELLOS = """hello() {
piece $1 0 "{\\"gpumon_probe\\":1,\\"nonce\\":\\"$nonce\\",\\"node\\":\\"$2\\"}"; };
report() { piece $1 $2 "{\\"at\\":1,\\"late_s\\":$3,\\"errors\\":[],\\"blocks\\":{}}"; };"""
SPEAK = PIECE + HELLOS


def step(script: str, nodes: tuple[str, ...] = TWO) -> Endpoint:
    """A step of two tasks as a shell script."""
    spoken = talker(SPEAK + script, "job 7")
    return spoken._replace(nodes=nodes, origin="slurm#job=7", is_step=True)


def frames_of(probe: Probe) -> list[Frame]:
    frames: list[Frame] = []
    while not probe.has_ended:
        frames += probe.read()
    return frames


def test_one_task_on_each_named_node_that_takes_nothing_away() -> None:
    argv = endpoint("7", "6_1", TWO, "slurm").argv
    assert argv[0] == "srun"
    before, after = argv[: argv.index("--")], argv[argv.index("--") :]
    assert after == ("--", "sh", "-c", START_SCRIPT)
    wanted = {"--jobid=7", "--overlap", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"}
    assert wanted | {"--nodelist=gpu01,gpu03", "--mem=0"} <= set(before)
    assert not any(word.startswith(("--gres", "--input", "--gpus")) for word in argv)


def test_a_component_of_a_heterogeneous_job_is_named_by_its_leader() -> None:
    argv = endpoint("8", "7+1", TWO, "slurm").argv
    assert argv[1:3] == ("--jobid=7", "--het-group=1")


def test_the_environment_of_a_surrounding_job_does_not_change_the_step() -> None:
    environ = {
        "PATH": "/usr/bin",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JOB_ID": "3",
        "SLURM_NTASKS": "9",
        "SLURM_GRES": "none",
        "SRUN_CPUS_PER_TASK": "4",
    }
    environment = endpoint("7", "7", TWO, "slurm", environ=environ).environ
    assert environment is not None
    assert environment["PATH"] == "/usr/bin"
    assert environment["SLURM_CONF"] == "/etc/slurm.conf"
    assert not {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_GRES", "SRUN_CPUS_PER_TASK"} & set(
        environment
    )


def test_behind_a_hop_the_script_stays_one_word() -> None:
    argv = endpoint("7", "7", TWO, "slurm", prefix=("ssh", "--", "login")).argv
    assert argv[:4] == ("ssh", "--", "login", "srun")
    # What ssh makes of the words, read by a login shell.
    line = " ".join(argv[argv.index("sh") :]).replace("sh -c", "printf '<%s>'", 1)
    for shell in ("sh", "csh", "fish"):
        if shutil.which(shell):
            said = subprocess.run([shell, "-c", line], capture_output=True, text=True, check=True)
            assert said.stdout == f"<{START_SCRIPT}>"


def test_the_probes_are_told_that_they_share_their_output() -> None:
    program = endpoint("7", "7", TWO, "slurm").program({"nonce": "n"})
    assert program == remote_program({"nonce": "n", "shared_output": True})


def test_reports_of_many_nodes_arrive_under_their_names() -> None:
    script = "hello 1 gpu03; hello 0 gpu01; report 0 1 5; report 1 1 6; report 0 2 7"
    with Probe(step(script)) as probe:
        frames = frames_of(probe)
        assert probe.stream.has_reported
    assert [(f.node, f.lateness_s) for f in frames] == [("gpu01", 5), ("gpu03", 6), ("gpu01", 7)]
    assert {frame.origin for frame in frames} == {"slurm#job=7"}


def test_not_every_node_has_reported_when_one_has() -> None:
    with Probe(step("hello 0 gpu01; report 0 1 5")) as probe:
        assert len(frames_of(probe)) == 1
        assert not probe.stream.has_reported


def test_noise_and_broken_reports_between_pieces_are_passed_over() -> None:
    script = (
        'echo Prolog says hello; hello 0 gpu01; echo noise; piece 0 1 \'{"at":1,"late_s":\'; '
        "printf '~0.2.0.2.4 lostreport'; echo; report 0 3 5"
    )
    with Probe(step(script)) as probe:
        assert [frame.lateness_s for frame in frames_of(probe)] == [5.0]


@pytest.mark.parametrize("hello", ["hello 0 gpu09", "hello 0 gpu01; hello 1 gpu01"])
def test_a_probe_on_another_node_than_asked_for_is_refused(hello: str) -> None:
    with Probe(step(hello)) as probe, pytest.raises(GarbageError, match="calls its node"):
        probe.until_end()


def test_a_pool_waits_for_every_node_of_a_step() -> None:
    run = Run(
        [step("hello 0 gpu01; report 0 1 5; read go; hello 1 gpu03; report 1 1 6; cat")], False
    )
    run.start()
    try:
        run.settle()
        assert run.frames("gpu01")
        assert run.frames("gpu03")
    finally:
        run.close()


@pytest.mark.slow
def test_a_step_that_ended_is_told_for_each_node_and_seldom_started_again() -> None:
    starts: list[int] = []
    ending = talker(
        SPEAK + "hello 0 gpu01; report 0 1 5; exit 9", "job 7", lambda: starts.append(1)
    )
    run = Run([ending._replace(nodes=TWO, is_step=True)], False)
    run.start()
    try:
        for number, pause_s in enumerate((30.0, 60.0, 120.0), 1):
            eventually(lambda many=number: len(run.errors("gpu03")) == many, "the end is told")
            assert run.errors("gpu01") == run.errors("gpu03") == ["ended (9): "] * number
            run.clock.time += 0.7 * pause_s
            run.turn()
            assert len(starts) == number
            run.clock.time += 0.6 * pause_s
        eventually(lambda: len(starts) == 4, "a fourth start")
    finally:
        run.close()


def test_one_look_starts_one_step() -> None:
    starts: list[int] = []
    ending = talker("exit 9", "job 7", lambda: starts.append(1))
    run = Run([ending._replace(nodes=TWO, is_step=True)], True)
    run.start()
    try:
        run.settle()
        run.clock.time += 3600.0
        run.turn()
        assert len(starts) == 1
    finally:
        run.close()


TOLD = """told() {
piece $1 $2 "{\\"at\\":$3,\\"late_s\\":0,\\"errors\\":[],\\"blocks\\":{}}"; };"""
"""A report that was made at a time of the node's clock."""


def timed(script: str, label: str, nodes: tuple[str, ...]) -> Endpoint:
    """A step of a job whose reports tell when they were made."""
    spoken = talker(SPEAK + TOLD + script, label)
    return spoken._replace(nodes=nodes, origin="slurm#job=7", is_step=True)


def pass_on(run: Run, clock: Path, seconds: float) -> None:
    """Let time pass for the pool, and for the steps that read what the file says of it."""
    clock.write_text(f"{run.clock.time + seconds:.0f}\n")
    run.clock.time += seconds
    run.turn()


def is_reported_now(run: Run, node: str) -> bool:
    return any(frame.taken_at == run.clock.now() for frame in run.frames(node))


@pytest.mark.slow
def test_a_step_that_lived_for_long_is_soon_started_again(tmp_path: Path) -> None:
    starts: list[int] = []
    clock = tmp_path / "clock"
    clock.write_text("1000\n")
    script = (
        "hello 0 gpu01; hello 1 gpu03; n=0; while [ $n -lt 50 ]; do read wish; "
        f"n=$((n+1)); read at <{clock}; told 0 $n $at; told 1 $n $at; done; read wish; exit 9"
    )
    spoken = talker(SPEAK + TOLD + script, "job 7", lambda: starts.append(1))
    run = Run([spoken._replace(nodes=TWO, is_step=True)], False)
    run.start()
    try:
        for number in (1, 2, 3):
            eventually(lambda many=number: len(starts) == many, "a start after a short pause")
            eventually(lambda: is_reported_now(run, "gpu03"), "a report")
            while len(run.errors("gpu03")) < number:
                pass_on(run, clock, STEP_RETRY_S[1] / 40)
                eventually(lambda: is_reported_now(run, "gpu03"), "a report or the end")
            assert run.errors("gpu03")[-1] == "ended (9): "
            pass_on(run, clock, 1.3 * STEP_RETRY_S[0])
    finally:
        run.close()


def test_a_step_none_of_whose_nodes_is_heard_is_lost_as_a_whole() -> None:
    starts: list[int] = []
    script = "hello 0 gpu01; hello 1 gpu03; report 0 1 5; report 1 1 5; cat >/dev/null"
    spoken = talker(SPEAK + script, "job 7", lambda: starts.append(1))
    run = Run([spoken._replace(nodes=TWO, is_step=True)], False)
    run.start()
    try:
        run.settle()
        run.turn()
        run.clock.time += 31.0
        run.turn()
        message = "no report through job 7 for 30 s"
        assert run.errors("gpu01") == run.errors("gpu03") == [message]
        assert len(starts) == 1
        run.clock.time += 40.0
        eventually(lambda: len(starts) == 2, "another step")
    finally:
        run.close()


@pytest.mark.slow
def test_a_node_of_a_step_that_falls_silent_is_named_once() -> None:
    run = Run([step("hello 0 gpu01; report 0 1 5; hello 1 gpu03; n=1; "
                    "while read wish; do n=$((n+1)); report 0 $n 5; done")], False)  # fmt: skip
    run.start()
    try:
        eventually(lambda: len(run.frames("gpu01")) == 2, "what the first wish brings, too")
        for _ in range(10):
            count = len(run.frames("gpu01"))
            run.clock.time += 5.0
            eventually(lambda many=count: len(run.frames("gpu01")) > many, "the next report")
        run.turn()
        assert run.errors("gpu01") == []
        assert run.errors("gpu03") == ["no report through job 7 for 30 s"]
    finally:
        run.close()


def test_what_a_healed_cable_had_held_back_makes_no_node_silent_that_has_a_step_of_its_own(
    tmp_path: Path,
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("1000\n")
    beat = f"n=1; while read wish; do n=$((n+1)); read at <{clock}; "
    whole = (
        "hello 0 gpu01; hello 1 gpu03; told 0 1 1000; told 1 1 1000;"
        f"{beat} [ $at = 1045 ] && told 1 2 1010 && told 1 3 1020; told 0 $n $at; done"
    )
    part = f"hello 0 gpu03; told 0 1 1040; {beat} told 0 $n $at; done"
    run = Run([], False)
    both = timed(whole, "job 7", TWO)
    alone = timed(part, "job 7 on gpu03", ("gpu03",))
    run.pool.replace([both])
    run.start()

    def pass_by(steps: int, *beating: str) -> None:
        for _ in range(steps):
            pass_on(run, clock, 5.0)
            for node in beating:
                eventually(lambda node=node: is_reported_now(run, node), "the next report")
        run.turn()

    try:
        eventually(lambda: len(run.frames("gpu01")) == 2, "what the first wish brings, too")
        assert run.frames("gpu03")
        pass_by(8, "gpu01")
        assert run.errors("gpu03") == ["no report through job 7 for 30 s"]
        run.pool.replace([both, alone])
        eventually(lambda: len(run.frames("gpu03")) == 3, "the step of its own")
        pass_by(12, "gpu01", "gpu03")
        late_s = [frame.lateness_s for frame in run.frames("gpu03") if frame.lateness_s]
        assert late_s == [35.0, 25.0]
        assert run.errors("gpu03") == ["no report through job 7 for 30 s"]
    finally:
        run.close()


def test_closing_leaves_the_step_the_time_to_pass_the_end_of_input_on(tmp_path) -> None:
    told = tmp_path / "told"
    script = f"hello 0 gpu01; report 0 1 5; cat >/dev/null; sleep 0.1; echo end >{told}"
    run = Run([step(script)], False)
    run.start()
    eventually(lambda: run.frames("gpu01"), "the first report")
    run.close()
    eventually(told.exists, "the end of input")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            "srun: error: Unable to create step for job 7: Access/permission denied",
            "srun in job 7: Slurm refuses a step in this job",
            "own user",
        ),
        ("srun: error: Unable to confirm allocation for job 7: Invalid job id specified",
         "srun in job 7: the job has ended", AGAIN),
        ("slurmstepd: error: *** STEP 7.1 ON gpu01 CANCELLED AT 2026-01-01T00:00:00 ***",
         "srun in job 7: the step was ended", "ends with its job"),
        ("srun: error: something new", "srun in job 7 ended (1): error: something new", AGAIN),
        ("", "srun in job 7 ended (1): no reason given", AGAIN),
    ],
)  # fmt: skip
def test_every_failure_has_a_message_and_a_way_out(
    words: str, message: str, hint: str, said: Callable[..., None]
) -> None:
    told, way_out = explain("7")(1, words)
    said(told, way_out)
    assert told == message
    assert hint in way_out


def test_no_sign_hides_behind_an_earlier_one() -> None:
    signs = [sign for sign, _, _ in WAYS_OUT]
    for place, sign in enumerate(signs):
        assert not any(earlier in sign for earlier in signs[:place])
