"""What a start imports: nothing heavy before it is needed, and no floor one above it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

ROOT = Path(__file__).parent.parent.parent
HEAVY = (
    *("numpy", "textual", "rich", "sklearn", "scipy", "httpx", "psutil", "pynvml", "asyncio"),
    "tomllib",
)
DEAR = ("pathlib", "ipaddress", "urllib.parse", "subprocess", "dataclasses")
"""What takes a millisecond or more of a single answer, and nothing of it needs."""
RUN = """
import sys
from gpumon.cli import main
from gpumon.fleet.sampler import sampler
sampler.GRACE_S = 600.0
try:
    status = main(sys.argv[1:])
except SystemExit as end:
    status = end.code or 0
print([name for name in {heavy!r} if name in sys.modules], status, file=sys.stderr)
"""


def run(*words: str, heavy: tuple[str, ...] = HEAVY) -> tuple[str, str]:
    """Standard output of gpumon, and which heavy modules it imported with which exit code."""
    command = [sys.executable, "-c", RUN.format(heavy=heavy), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return done.stdout, done.stderr


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["doctor", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    out, report = run(*words)
    assert "gpumon" in out
    assert report == "[] 0\n"


@pytest.mark.parametrize("words", [["--json", "--for", "0"], ["--once", "--for", "0"]])
def test_a_single_look_imports_nothing_heavy(standin: Start, words: list[str]) -> None:
    node = standin("h100", gpus=2)
    out, report = run(*words, "local")
    assert report == "[] 0\n"
    if "--json" in words:
        gpus = [gpu for node in json.loads(out)["nodes"] for gpu in node["gpus"]]
        assert [gpu["uuid"] for gpu in gpus] == [node.state.values[f"gpu.{i}.uuid"] for i in (0, 1)]
    else:
        assert "0.0/80" in out


def test_a_single_answer_of_this_machine_imports_nothing_that_it_does_not_need(
    standin: Start,
) -> None:
    standin("h100", gpus=3)
    out, report = run("--json", "--for", "0", "local", heavy=DEAR)
    assert report == "[] 0\n"
    assert len(json.loads(out)["nodes"][0]["gpus"]) == 3


def test_a_single_look_at_the_demo_imports_nothing_heavy() -> None:
    _, report = run("--json", "--for", "0", "demo:2x4")
    assert report == "[] 0\n"


def test_the_check_itself_sees_a_heavy_import() -> None:
    command = [sys.executable, "-c", "import numpy\n" + RUN.format(heavy=HEAVY), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    assert done.stderr == "['numpy'] 0\n"


@pytest.mark.parametrize("first", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_module_can_be_imported(first: bool) -> None:
    """A cycle or a missing import shows only when a module is the `first` one to be imported."""
    folders = [ROOT / "gpumon", ROOT / "detectors" / "gpumon_detectors"]
    names = sorted(
        ".".join(file.relative_to(folder.parent).with_suffix("").parts)
        for folder in folders
        for file in folder.rglob("*.py")
        if file.name not in ("__main__.py", "__init__.py")
    )
    assert len(names) > 80
    code = """
import os, sys
for name in sys.argv[2:]:
    pid = os.fork() if sys.argv[1] == "first" else 0
    if pid == 0:
        try:
            __import__(name)
        except BaseException as error:
            print(name, repr(error), flush=True)
        if sys.argv[1] == "first":
            os._exit(0)
    else:
        os.waitpid(pid, 0)
"""
    warm = "import numpy, rich.text, textual.app, argparse, asyncio, pynvml, subprocess\n"
    command = [sys.executable, "-c", warm + code, "first" if first else "later", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)
    assert done.stdout == ""


def test_the_floors_keep_their_order() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    if not linter.exists() and shutil.which("lint-imports") is None:
        pytest.skip("import-linter is not installed")
    command = [str(linter if linter.exists() else "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
