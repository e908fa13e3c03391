"""Cold one-shot commands side by side: wall time, CPU time and peak memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RUNNER = Path(__file__).parent / "runner.py"


class Cost(NamedTuple):
    """What one command costs, over all its runs."""

    runs: int
    wall_s: float
    """Median from fork to the end of the process."""
    wall_min_s: float
    cpu_s: float
    """Median of user and system time, with children that it waited for."""
    peak_rss_mib: float
    """Median of the largest process of the command: its own or that of a child."""


class CommandFailedError(RuntimeError):
    """A measured command did not end well, so its numbers would mean nothing."""


def measure(
    commands: Mapping[str, Sequence[str]], runs: int, warm_ups: int, env: Mapping[str, str]
) -> dict[str, Cost]:
    """Runs the commands in turns, so that a slow minute of the machine hits all of them.

    Raises:
        CommandFailedError: one of them ended with another exit status than 0.
    """
    samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(RUNNER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(env),
    ) as runner:
        assert runner.stdin is not None
        assert runner.stdout is not None
        for turn in range(warm_ups + runs):
            for name, words in commands.items():
                runner.stdin.write("\0".join(words) + "\n")
                runner.stdin.flush()
                code, wall_s, cpu_s, rss_kib = runner.stdout.readline().split()
                if code != "0":
                    raise CommandFailedError(f"{name} ended with {code}")
                if turn >= warm_ups:
                    samples[name].append((float(wall_s), float(cpu_s), int(rss_kib) / 1024))
        runner.stdin.close()
    return {name: _cost(taken) for name, taken in samples.items()}


def _cost(taken: Sequence[tuple[float, float, float]]) -> Cost:
    walls = [wall_s for wall_s, _, _ in taken]
    return Cost(
        len(taken),
        median(walls),
        min(walls),
        median(cpu_s for _, cpu_s, _ in taken),
        median(rss for _, _, rss in taken),
    )
