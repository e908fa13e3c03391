"""The scripts of docs/cli.md for Slurm's HealthCheckProgram and for Nagios, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

ROOT = Path(__file__).parents[3]
SCRIPTS = re.findall(r"```sh\n(#!/bin/sh\n.*?)```", (ROOT / "docs/cli.md").read_text(), re.DOTALL)
SCONTROL = """#!/bin/sh
[ "$1" = show ] && { echo "NodeName=$4 State=$STATE"; exit 0; }
for word in "$@"; do echo "$word"; done > "$ASKED"
"""


class Machine:
    """A node with gpumon and a Slurm of which only scontrol is there."""

    def __init__(self, folder: Path, node: Standin) -> None:
        self._folder, self._node = folder, node
        self.asked = folder / "asked"
        (folder / "bin").mkdir()
        for name, text in {"scontrol": SCONTROL, "hostname": "#!/bin/sh\necho gpu07\n"}.items():
            (folder / "bin" / name).write_text(text)
        (folder / "bin" / "gpumon").symlink_to(Path(sys.executable).parent / "gpumon")
        for file in (folder / "bin").iterdir():
            if not file.is_symlink():
                file.chmod(0o755)

    def run(self, script: str, state: str = "MIXED") -> subprocess.CompletedProcess[str]:
        """What a script prints and ends with."""
        path = f"PATH={self._folder}/bin:/usr/bin:/bin"
        script = re.sub(r"^PATH=.*$", path, script, flags=re.MULTILINE)
        env = {**self._node.env(), "STATE": state, "ASKED": str(self.asked), "LC_ALL": "C"}
        env.pop("SLURMD_NODENAME", None)
        home = os.environ.get("HOME", "/tmp")
        return subprocess.run(
            ["/bin/sh", "-c", script],
            env={**env, "HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(standin: Start, tmp_path: Path) -> Callable[[Callable[[Standin], None]], Machine]:
    def make(break_it: Callable[[Standin], None]) -> Machine:
        node = standin("h100", gpus=2)
        break_it(node)
        node.state.write()
        return Machine(tmp_path, node)

    return make


def test_both_scripts_stand_on_the_page() -> None:
    assert [script.count("scontrol update") for script in SCRIPTS] == [1, 0]


@pytest.mark.parametrize(
    ("break_it", "state", "reason"),
    [
        (lambda node: None, "MIXED", None),
        (lambda node: node.state.gpu(1, remap_pending=1), "MIXED", None),
        (lambda node: node.state.lose(1), "MIXED", "gpu07 GPU 1: fell off the bus"),
        (lambda node: node.state.lose(1), "MIXED+DRAIN", None),
        (lambda node: node.state.error("nvmlInitWithFlags", 999), "MIXED", None),
    ],
)
def test_slurm_s_health_check_drains_what_is_critical_and_nothing_else(
    break_it: Callable[[Standin], None],
    state: str,
    reason: str | None,
    machine: Callable[..., Machine],
) -> None:
    there = machine(break_it)
    done = there.run(SCRIPTS[0], state)
    assert done.returncode == 0
    if reason is None:
        assert not there.asked.exists()
        return
    words = there.asked.read_text().splitlines()
    assert words[:3] == ["update", "NodeName=gpu07", "State=DRAIN"]
    assert "GPU 1: fell off the bus" in words[3]


@pytest.mark.parametrize(
    ("break_it", "code", "begin"),
    [
        (lambda node: None, 0, "GPUS OK\n"),
        (lambda node: node.state.lose(1), 2, "GPUS CRITICAL: "),
        (
            lambda node: node.state.error("nvmlInitWithFlags", 999),
            3,
            "GPUS UNKNOWN: NVML: nvmlInit",
        ),
    ],
)
def test_the_check_for_nagios_says_one_line_and_ends_with_the_code(
    break_it: Callable[[Standin], None], code: int, begin: str, machine: Callable[..., Machine]
) -> None:
    done = machine(break_it).run(SCRIPTS[1])
    assert (done.returncode, done.stdout.count("\n")) == (code, 1)
    assert done.stdout.startswith(begin)
