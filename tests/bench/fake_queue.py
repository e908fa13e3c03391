"""A `squeue` with as many jobs as asked for, for a peer that lists jobs: it answers from a file.

The files are made beforehand, one for each of a few answers; from one to the next one job in twenty
has another state of its time.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

ANSWERS = 4
_SEPARATOR = "###turm###"
"""What turm asks squeue to put behind each field."""

_COMMAND = """#!/bin/sh
read now _ < /proc/uptime
exec cat {folder}/jobs-$((${{now%.*}} / 2 % {answers}))
"""


def queue_env(folder: Path, jobs: int) -> dict[str, str]:
    """The environment in which `squeue` lists that many jobs."""
    chance = random.Random(1)
    times = [f"{1 + number % 23}:{number % 60:02d}:07" for number in range(jobs)]
    for answer in range(ANSWERS):
        now = [f"{t[:-1]}{answer}" if chance.random() < 0.05 else t for t in times]
        lines = (_line(number, now[number]) for number in range(jobs))
        (folder / f"jobs-{answer}").write_text("\n".join(lines) + "\n")
    command = folder / "squeue"
    command.write_text(_COMMAND.format(folder=folder, answers=ANSWERS))
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def _line(number: int, used: str) -> str:
    job_id, node = str(100_000 + number), f"n{number:05d}"
    fields = (
        job_id, f"train-{number % 37}", "RUNNING", f"user{number % 200:03d}", used, "10-00:00:00",
        "2026-01-01T00:00:00", "cpu=128,node=1,gres/gpu=8", f"part{number % 5}", node,
        f"/home/out-{job_id}", f"/home/err-{job_id}", "/home/train.sh", "R", "None", job_id,
        "N/A", node, "/home",
    )  # fmt: skip
    return "".join(f"{field}{_SEPARATOR}" for field in fields)
