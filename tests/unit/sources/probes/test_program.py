"""The start command and the program behind it, in real shells and real Pythons."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.probes.program import LOCAL_START, START_COMMAND, local_program, remote_program
from gpumon.sources.probes.stream import Endpoint
from tests.worlds.probe import Probe, children, run, sampled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

OPTIONS: dict[str, object] = {"nonce": "n0nce", "period_s": 0.12, "once": True}
SHELLS = ("sh", "dash", "bash", "csh", "fish", "zsh")
OLD_PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))


def shell_path(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def reports(text: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith(b"{")]


@pytest.mark.parametrize("make", [local_program, remote_program])
def test_the_program_is_framed_by_its_length(make: Callable[[dict[str, object]], bytes]) -> None:
    length, _, body = make(OPTIONS).partition(b"\n")
    assert int(length) == len(body)
    compile(body, "program", "exec")


def test_the_program_that_travels_is_small_enough_for_a_slow_link() -> None:
    assert len(remote_program(OPTIONS)) < 300_000


def test_options_are_data_and_never_code() -> None:
    nasty = {**OPTIONS, "nonce": "'\"\\\n); import os #é"}
    body = local_program(nasty).partition(b"\n")[2]
    last = ast.parse(body).body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    assert ast.literal_eval(last.value.args[1]) == nasty


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_starts_the_probe(shell: str, standin: Start) -> None:
    path = shell_path(shell)
    standin("h100", gpus=2)
    done = run([path, "-c", START_COMMAND], remote_program(OPTIONS))
    assert (done.err, done.code) == (b"", 0)
    hello, report = reports(done.out)
    assert hello["nonce"] == "n0nce"
    assert len(report["blocks"]["gpu"]["keys"]) == 2


@pytest.mark.parametrize("shell", SHELLS)
def test_a_node_without_python_says_so_in_one_line(
    shell: str, tmp_path: Path, said: Callable[..., None]
) -> None:
    path = shell_path(shell)
    if Path("/usr/libexec/platform-python").exists():
        pytest.skip("this machine has a platform-python")
    (tmp_path / "sh").symlink_to(shell_path("sh"))
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = run([path, "-c", START_COMMAND], remote_program(OPTIONS), env=environ)
    assert done == (b"", b"gpumon: no python3 on this node\n", 127)
    said(done[1].decode().strip())


def test_the_shells_are_gone_once_the_probe_runs(standin: Start) -> None:
    standin("h100", gpus=1)
    where = Endpoint("n1", ("sh", "-c", START_COMMAND), remote_program, lambda *_: ("", ""))
    with Probe(where) as probe:
        probe.frame()
        command = Path(f"/proc/{probe.pid}/cmdline").read_bytes().split(b"\0")
        assert b"-u" in command
        assert children(probe.pid) == set()


def test_no_moment_of_a_probe_that_travelled_takes_30_mib(standin: Start) -> None:
    """Not even when it compiles itself, as every node does that has nothing but Python."""
    standin("h100", gpus=8)
    where = Endpoint("n1", ("sh", "-c", START_COMMAND), remote_program, lambda *_: ("", ""))
    with Probe(where) as probe:
        probe.frame(sampled)
        status = Path(f"/proc/{probe.pid}/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    assert int(peak) < 30 * 1024


@pytest.mark.parametrize("python", OLD_PYTHONS, ids=lambda path: path.parts[-3])
def test_every_python_3_runs_the_program_that_travels(python: Path, standin: Start) -> None:
    """Pythons that happen to be installed here; 3.6 is what RHEL 8 has."""
    standin("h100", gpus=2)
    done = run([str(python), *LOCAL_START[1:]], remote_program(OPTIONS))
    assert (done.err, done.code) == (b"", 0)
    _, report = reports(done.out)
    assert len(report["blocks"]["gpu"]["keys"]) == 2


@pytest.mark.parametrize("name", ["json.py", "socket.py", "pynvml.py", "typing.py"])
def test_files_of_the_user_are_not_imported(name: str, tmp_path: Path, standin: Start) -> None:
    """A login starts in the home folder, where anything may lie; so may anything on PYTHONPATH."""
    standin("h100", gpus=1)
    (tmp_path / name).write_text("raise SystemExit('imported the file of a user')\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    start = ["sh", "-c", START_COMMAND]
    done = run(start, remote_program(OPTIONS), cwd=tmp_path, env=environ)
    assert (done.err, done.code) == (b"", 0)
    assert len(reports(done.out)) == 2


def test_the_folders_of_the_installation_hide_no_module_of_python(
    tmp_path: Path, standin: Start
) -> None:
    """An old backport beside gpumon, such as typing, must not replace Python's own."""
    standin("h100", gpus=1)
    code = (
        "import sys; from gpumon.sources.probes import program; from pathlib import Path\n"
        f"program._binding = lambda: Path({str(tmp_path)!r}) / 'pynvml.py'\n"
        f"sys.stdout.buffer.write(program.local_program({OPTIONS!r}))"
    )
    shutil.copy(Path(__import__("pynvml").__file__), tmp_path / "pynvml.py")
    (tmp_path / "typing.py").write_text("raise SystemExit('imported the backport')\n")
    program = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    done = run(LOCAL_START, program)
    assert (done.err, done.code) == (b"", 0)
    assert len(reports(done.out)) == 2


def test_nothing_is_written_on_the_node(tmp_path: Path, standin: Start) -> None:
    standin("h100", gpus=1)
    home = tmp_path / "home"
    home.mkdir()
    environ = {**os.environ, "HOME": str(home), "TMPDIR": str(home)}
    run(["sh", "-c", START_COMMAND], remote_program(OPTIONS), cwd=home, env=environ)
    assert list(home.iterdir()) == []
