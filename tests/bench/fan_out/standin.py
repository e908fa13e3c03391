"""Nodes behind a stand-in `ssh`: one small process each, which speaks the probe's protocol."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.sources.probes.program import START_COMMAND, remote_program
from tests.bench.node import busy_node
from tests.lab.standin.driver import CompilerMissingError

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE: Final = Path(__file__).parent / "ssh.c"
REPORTS: Final = 6
"""The last one of so many reports of a real probe is what every node says."""
HANGS: Final = "lst"
"""Ways to hang after login, in turn: silent, stalls after hello, stalls amid its second report."""


def roles(nodes: int, black_holed: int, hanging: int, is_worst_first: bool) -> str:
    """One letter a node, as the stand-in reads them; the bad ones spread, or all in front."""
    bad = "b" * black_holed + "".join(HANGS[n % len(HANGS)] for n in range(hanging))
    found = list(bad + "h" * (nodes - len(bad)))
    if not is_worst_first:
        random.Random(1).shuffle(found)
    return "".join(found)


def environment(folder: Path, who: str, login_ms: float) -> dict[str, str]:
    """Environment in which `ssh` is the stand-in, for the roles given.

    Raises:
        CompilerMissingError: There is no C compiler.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise CompilerMissingError("no C compiler (cc): the stand-in ssh cannot be built")
    programs = folder / "bin"
    programs.mkdir()
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(programs / "ssh"), str(SOURCE)]
    subprocess.run(command, check=True)
    (folder / "roles").write_text(who)
    (folder / "driver").mkdir()
    with busy_node(folder / "driver") as env:
        (folder / "report").write_text(_template(_report(env)))
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "FAN_OUT_ROLES": str(folder / "roles"),
        "FAN_OUT_REPORT": str(folder / "report"),
        "FAN_OUT_LOGIN_MS": str(login_ms),
    }


def _report(env: Mapping[str, str]) -> str:
    """A report of a real probe on the pretend machine, its links included."""
    words = ["sh", "-c", START_COMMAND]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, env=dict(env)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(remote_program({"period_s": 1.0, "once": False, "nonce": "bench"}))
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(REPORTS + 1)]
        process.stdin.close()
    return lines[-1].decode().rstrip("\n")


def _template(report: str) -> str:
    """The report with a place for the clock, and GPUs and a boot of each node's own."""
    message = json.loads(report)
    message["at"] = "@AT@"
    text = json.dumps(message, separators=(",", ":")).replace('"@AT@"', "@AT@")
    return re.sub(r"GPU-[0-9a-f]{5}", "GPU-@NODE", text)
