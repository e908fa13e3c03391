from __future__ import annotations

import os
import signal
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.slurm.commands import commands as commands_module
from gpumon.sources.slurm.commands.commands import SlurmCommands, neutral_environment
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.json import cluster_name
from gpumon.sources.slurm.text.gres_conf import parse
from gpumon.sources.source import SystemClock
from tests.worlds.probe import PATIENCE_S, heard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpumon.model.fault import SourceError


class RunningClock(SystemClock):
    """Each look at it finds it 20 seconds later."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 20.0
        return self.seconds


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def failure(commands: SlurmCommands) -> SourceError:
    with pytest.raises(CommandFailedError) as caught:
        commands.show("job")
    return caught.value.error


def test_asks_for_everything_in_one_call(install: Path) -> None:
    program(install / "scontrol", 'for word in "$@"; do echo "$word"; done')
    words = SlurmCommands().show("job").split("\n")
    assert words == ["--verbose", "--all", "--details", "show", "job", ""]


def test_neutralises_the_environment_but_keeps_the_cluster(install: Path) -> None:
    program(install / "scontrol", "env")
    environ = {
        "PATH": os.environ["PATH"],
        "SLURM_CONF": "/somewhere/slurm.conf",
        "SLURM_JWT": "token",
        "SLURM_CLUSTERS": "other",
        "SLURM_TIME_FORMAT": "relative",
        "SLURM_JOB_ID": "7",
        "SCONTROL_FEDERATION": "1",
        "SQUEUE_FORMAT": "%i",
        "LC_ALL": "de_DE.UTF-8",
        "HOME": "/home/alice",
    }
    shown = dict(
        line.split("=", 1)
        for line in SlurmCommands(environ=environ).show("job").splitlines()
        if "=" in line
    )
    names = ("SLURM_CONF", "SLURM_JWT", "SLURM_TIME_FORMAT", "LC_ALL", "HOME")
    assert {name: shown.get(name) for name in names} == {
        "SLURM_CONF": "/somewhere/slurm.conf",
        "SLURM_JWT": "token",
        "SLURM_TIME_FORMAT": "%s",
        "LC_ALL": "C",
        "HOME": "/home/alice",
    }
    assert not {"SLURM_CLUSTERS", "SLURM_JOB_ID", "SCONTROL_FEDERATION", "SQUEUE_FORMAT"} & set(
        shown
    )


@pytest.mark.parametrize(
    "name", ["SLURM_CLUSTERS", "SCANCEL_STATE", "SCANCEL_USER", "SCANCEL_CTLD"]
)
def test_no_variable_leads_a_command_to_other_jobs_or_clusters(name: str) -> None:
    assert name not in neutral_environment({name: "x", "SLURM_CONF": "/etc/other"})
    argv, _ = SlurmCommands(("ssh", "--", "login"), environ={}).call(("scancel", "5_2"))
    assert argv[argv.index(name) - 1] == "-u"
    assert argv[-2:] == ("scancel", "5_2")


def test_neutral_environment_leaves_the_given_one_alone() -> None:
    environ = {"SQUEUE_FORMAT": "%i"}
    assert "SQUEUE_FORMAT" not in neutral_environment(environ)
    assert environ == {"SQUEUE_FORMAT": "%i"}


def test_a_hop_carries_the_environment_along(install: Path) -> None:
    program(install / "hop", 'shift; exec "$@"')
    program(install / "scontrol", 'echo "$SLURM_TIME_FORMAT ${SLURM_CLUSTERS-unset} $5"')
    environ = {"PATH": os.environ["PATH"]}
    commands = SlurmCommands(("hop", "login1"), environ=environ)
    assert commands.show("node") == "%s unset node\n"
    assert commands.available()
    assert not commands.is_local


def test_knows_whether_the_command_is_there(install: Path, tmp_path: Path) -> None:
    program(install / "scontrol", "")
    assert SlurmCommands().available()
    nowhere = SlurmCommands(environ={"PATH": str(tmp_path)})
    assert not nowhere.available()
    assert failure(nowhere).message == "scontrol is not found"


def test_a_hop_without_the_command_says_so(install: Path, said: Callable[..., None]) -> None:
    program(install / "hop", 'echo "env: scontrol: No such file or directory" >&2; exit 127')
    assert failure(SlurmCommands(("hop",))).message == "scontrol is not found"
    error = failure(SlurmCommands(("hop",)))
    said(error.message, error.hint)


def test_a_hop_that_fails_is_not_mistaken_for_the_controller(install: Path) -> None:
    program(install / "hop", 'echo "ssh: connect to host x: Connection refused" >&2; exit 255')
    error = failure(SlurmCommands(("hop",)))
    assert error.message.startswith("the login node cannot be reached: ssh: connect")


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
            "cannot reach Slurm's controller",
        ),
        (
            "Welcome to the database cluster\nUnable to contact slurm controller (connect failure)",
            "cannot reach Slurm's controller",
        ),
        (
            "slurm_load_jobs error: Socket timed out on send/recv operation",
            "cannot reach Slurm's controller",
        ),
        ("slurm_load_jobs error: Access/permission denied", "is refused by Slurm"),
        (
            "scontrol: error: Munge encode failed\nslurm_load_jobs error: Protocol failure",
            "is refused by Slurm",
        ),
        (
            "scontrol: fatal: Could not establish a configuration source",
            "finds no Slurm configuration",
        ),
        ("something else", "ended with status 1"),
    ],
)
def test_tells_failures_apart(
    install: Path, words: str, meaning: str, said: Callable[..., None]
) -> None:
    program(install / "scontrol", f"cat >&2 <<'END'\n{words}\nEND\nexit 1")
    error = failure(SlurmCommands())
    said(error.message, error.hint)
    assert error.where == "scontrol show job"
    assert error.message.startswith(f"{meaning}: ")
    assert error.hint


def test_what_a_command_says_is_shown_harmless_and_short(install: Path) -> None:
    program(install / "scontrol", "printf '\\033[31m%04000d' 0 >&2; exit 1")
    message = failure(SlurmCommands()).message
    assert message.isprintable()
    assert len(message) < 300


def test_a_file_that_may_not_run_says_so(install: Path) -> None:
    (install / "scontrol").write_text("#!/nowhere/interpreter\n")
    (install / "scontrol").chmod(0o755)
    environ = {"PATH": str(install)}
    assert failure(SlurmCommands(environ=environ)).message == "scontrol is not found"


def test_kills_the_whole_group_after_the_deadline(
    install: Path, tmp_path: Path, said: Callable[..., None]
) -> None:
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    program(install / "scontrol", f"exec 9>{tmp_path}/held; echo up >&9; sleep 600 & sleep 600")
    commands = SlurmCommands(clock=HeldClock(reader), timeout_s=30.0)
    error = failure(commands)
    assert error.message == "gave no answer within 30 s and was stopped"
    said(error.message, error.hint)
    # The end of the fifo comes only when neither the script nor its child holds it any more.
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_a_command_that_cannot_be_killed_is_not_waited_for(
    install: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one that hangs in the kernel, on a file system that is gone: its end is put off."""
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    program(install / "scontrol", f"exec 9>{tmp_path}/held; echo $$ >&9; exec sleep 600")
    monkeypatch.setattr(commands_module, "_kill_group", lambda _: None)
    monkeypatch.setattr(commands_module, "_REAP_S", 0.05)
    clock = HeldClock(reader)
    try:
        error = failure(SlurmCommands(clock=clock, timeout_s=9.0))
        assert error.message == "gave no answer within 9 s and was stopped"
        os.kill(int(clock.said), 0)
    finally:
        os.kill(int(clock.said), signal.SIGKILL)
        os.close(reader)


class HeldClock(RunningClock):
    """Runs on once the command has said that it is up."""

    def __init__(self, reader: int) -> None:
        super().__init__()
        self._reader = reader
        self._is_up = False
        self.said = b""

    def monotonic(self) -> float:
        if self.seconds and not self._is_up:
            self.said = os.read(self._reader, 20)
            self._is_up = True
        return super().monotonic()


def test_stops_a_command_that_prints_without_end(install: Path, said: Callable[..., None]) -> None:
    program(install / "scontrol", "yes")
    error = failure(SlurmCommands(max_bytes=2 * 1024 * 1024))
    assert error.message == "printed more than 2 MiB and was stopped"
    said(error.message, error.hint)


def test_much_on_standard_error_does_not_block(install: Path) -> None:
    program(install / "scontrol", "yes | head -c 1000000 >&2; echo JobId=1")
    assert SlurmCommands().show("job") == "JobId=1\n"


def test_a_child_that_keeps_the_pipes_open_does_not_hold_up_the_answer(install: Path) -> None:
    program(install / "scontrol", "sleep 3 & echo JobId=1")
    assert SlurmCommands(clock=SystemClock()).show("job") == "JobId=1\n"


def test_close_ends_a_running_command_and_refuses_new_ones(install: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "up")
    program(install / "scontrol", f"echo up > {tmp_path}/up; sleep 600")
    commands = SlurmCommands()
    errors: list[SourceError] = []
    thread = threading.Thread(target=lambda: errors.append(failure(commands)))
    thread.start()
    heard(tmp_path / "up")
    commands.close()
    thread.join(PATIENCE_S)
    assert [error.message for error in errors] == ["was stopped because gpumon ends"]
    assert failure(commands).message == "was stopped because gpumon ends"


def test_bytes_that_are_no_text_do_no_harm(install: Path) -> None:
    program(install / "scontrol", "printf 'JobId=1 JobName=\\377'")
    assert SlurmCommands().show("job") == "JobId=1 JobName=\ufffd"


@pytest.mark.parametrize(
    "script",
    [
        "echo 'scontrol: error: No topology information available' >&2",
        "true",
        "echo 'invalid entity:topology for keyword:show' >&2; exit 1",
    ],
)
def test_a_slurm_without_topology_is_no_trouble(install: Path, script: str) -> None:
    program(install / "scontrol", script)
    assert SlurmCommands().topology().strip() == ""


def test_a_silent_controller_is_no_empty_topology_although_the_command_ends_well(
    install: Path,
) -> None:
    said = "slurm_load_topo error: Unable to contact slurm controller (connect failure)"
    program(install / "scontrol", f"echo '{said}' >&2")
    with pytest.raises(CommandFailedError) as caught:
        SlurmCommands().topology()
    assert caught.value.error.where == "scontrol show topology"
    assert caught.value.error.message.startswith("cannot reach Slurm's controller")


@pytest.mark.parametrize(
    "script",
    [
        "echo 'slurm_load_topo error: Unexpected message received' >&2",
        "echo 'scontrol: fatal: out of memory' >&2; exit 1",
        "exit 139",
    ],
)
def test_a_topology_that_could_not_be_told_is_not_taken_for_none(
    install: Path, script: str
) -> None:
    program(install / "scontrol", script)
    with pytest.raises(CommandFailedError) as caught:
        SlurmCommands().topology()
    assert caught.value.error.where == "scontrol show topology"
    assert caught.value.error.hint


def test_the_topology_is_asked_for_whole(install: Path) -> None:
    program(install / "scontrol", 'echo "$* $SLURM_TOPO_LEN"')
    environ = {"PATH": os.environ["PATH"], "SLURM_TOPO_LEN": "20"}
    assert SlurmCommands(environ=environ).topology() == "show topology \n"


@pytest.mark.parametrize(
    "script",
    [
        "echo 'error: topology_g_topology_unpack: unpack error' >&2; kill -SEGV $$",
        "echo 'slurm_load_topo error: Header lengths are longer than data received' >&2",
    ],
)
def test_a_topology_of_another_kind_cannot_be_read_of_another_cluster(
    install: Path, script: str
) -> None:
    """The command reads only what the plugin of its own cluster can."""
    program(install / "scontrol", script)
    assert SlurmCommands(cluster="north").topology() == ""
    with pytest.raises(CommandFailedError):
        SlurmCommands().topology()


@pytest.mark.parametrize("prefix", [(), ("hop",)])
def test_every_command_asks_the_cluster_that_is_named(
    install: Path, prefix: tuple[str, ...]
) -> None:
    program(install / "hop", '"$@"')
    program(install / "scontrol", 'echo "scontrol $@"')
    program(install / "sacct", 'echo "sacct $@"')
    commands = SlurmCommands(prefix, cluster="north")
    assert commands.show("job").startswith("scontrol -M north --verbose --all")
    assert commands.ask(("sacct", "-X"), "sacct")[0] == "sacct -M north -X\n"
    assert commands.call(("sstat", "-a"))[0][-2:] == ("sstat", "-a")
    assert commands.identity != SlurmCommands(prefix).identity


def test_the_far_gres_conf_tells_whose_it_is(install: Path, tmp_path: Path) -> None:
    program(install / "hop", 'eval "$*"')
    (tmp_path / "slurm.conf").write_text('# ClusterName=old\n  clustername = "North"\n')
    (tmp_path / "gres.conf").write_text("NodeName=g1 Name=gpu File=/dev/nvidia0\n")
    environ = {**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    conf = SlurmCommands(("hop",), environ=environ).far_gres_conf()
    assert cluster_name.ahead_of(conf) == "north"
    assert parse(conf).gpu_files("g1") == ("/dev/nvidia0",)
    assert parse(conf).notes == ()
    (tmp_path / "slurm.conf").unlink()
    assert cluster_name.ahead_of("NodeName=g1 Name=gpu\n") == ""
