"""The probe alone, started as on a node, with nobody but a reader at the other end."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from gpumon.sources.probes.program import (
    LOCAL_START,
    START_COMMAND,
    local_program,
    remote_program,
    start_options,
)
from tests.bench import tree

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTLE_S = 3.0


class ProbeCost(NamedTuple):
    """What a running probe costs."""

    cpu_ratio: float
    """Share of one core."""
    rss_mib: float
    peak_mib: float
    """Most memory at any moment, the start included."""
    line_bytes: float
    """Mean length of a report."""
    calls_per_s: float
    """Calls into the driver."""


def measure(env: Mapping[str, str], seconds: float, *, is_shipped: bool) -> ProbeCost:
    """A probe at 1 Hz: `is_shipped` starts it as over ssh, else as the child of this machine."""
    words = ["sh", "-c", START_COMMAND] if is_shipped else list(LOCAL_START)
    program = remote_program if is_shipped else local_program
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(env)
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines: list[bytes] = []
        reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
        reader.start()
        process.stdin.write(program({**start_options({}, 1.0, once=False), "nonce": "bench"}))
        process.stdin.flush()
        time.sleep(SETTLE_S)
        first = len(lines)
        used = list(tree.measure(process.pid, seconds).values())
        reports = lines[first:]
        peak_mib = _peak_mib(process.pid)
        process.stdin.close()
        process.wait()
        reader.join()
    calls = [json.loads(line)["calls"]["total"] for line in reports]
    return ProbeCost(
        sum(share for share, _, _ in used),
        sum(rss for _, rss, _ in used),
        peak_mib,
        sum(map(len, reports)) / max(1, len(reports)),
        (calls[-1] - calls[0]) / max(1, len(calls) - 1),
    )


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def _read(stdout: IO[bytes], lines: list[bytes]) -> None:
    lines.extend(stdout)
