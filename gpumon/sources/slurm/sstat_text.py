"""What running steps have used, from the text of `sstat --parsable`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpumon.model.accounting import StepUsage
from gpumon.sources.slurm.sacct_text import cpu_time_s, size_bytes, tres_item, whole_number
from gpumon.sources.slurm.sacct_usage import gpu_use

if TYPE_CHECKING:
    from collections.abc import Mapping

USE_FIELDS: Final = ("JobID", "NTasks", "AveCPU", "MaxRSS", "ConsumedEnergyRaw", "TRESUsageInTot")
"""Numbers and Slurm's own words, none of which holds a `|`."""

_STEP: Final = re.compile(r"([0-9]{1,10})\.([A-Za-z0-9+_]{1,32})")


def parse_use(text: str) -> tuple[StepUsage, ...] | None:
    """Every step of the text; a line that cannot be read is left out. None: it has no titles."""
    _, found, body = text.partition("|".join((*USE_FIELDS, "\n")))
    if not found:
        return None
    steps: list[StepUsage] = []
    for line in body.split("\n"):
        values = line.split("|")[:-1]
        match = _STEP.fullmatch(values[0]) if len(values) == len(USE_FIELDS) else None
        if match is not None:
            row = dict(zip(USE_FIELDS, values, strict=True))
            steps.append(_step(match[1], match[2], row))
    return tuple(steps)


def _step(job_id: str, step: str, row: Mapping[str, str]) -> StepUsage:
    """One step; what cannot be read of it is None."""
    tasks, cpu_s = whole_number(row["NTasks"]), cpu_time_s(row["AveCPU"])
    usage = row["TRESUsageInTot"]
    util_ratio, gpu_mem = gpu_use(
        size_bytes(tres_item(usage, "gres/gpuutil")), size_bytes(tres_item(usage, "gres/gpumem"))
    )
    return StepUsage(
        job_id=job_id,
        step=step,
        name="",
        state="RUNNING",
        exit_code="",
        elapsed_s=None,
        task_count=tasks,
        cpu_used_s=None if tasks is None or cpu_s is None else tasks * cpu_s,
        max_rss_bytes=size_bytes(row["MaxRSS"]),
        gpu_util_sum_ratio=util_ratio,
        gpu_mem_bytes=gpu_mem,
        energy_j=size_bytes(row["ConsumedEnergyRaw"]) or None,
    )
