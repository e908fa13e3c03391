"""GPUs and their processes from the newest frames, each GPU under its UUID."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpumon.model.cluster import Gpu, Process
from gpumon.model.missing import Reason
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.model.frame import Block, Frame


def gpus_of(
    frames: Iterable[tuple[str, Frame]], now: float, stale_after_s: float
) -> dict[str, Gpu]:
    """Every GPU by UUID; one that two targets report is taken from the fresher frame.

    Args:
        frames: Canonical node name and newest frame of that node, per origin.
        now: Unix time of the picture.
        stale_after_s: Age beyond which values are no longer shown as the present.
    """
    gpus: dict[str, Gpu] = {}
    for node, frame in frames:
        block = frame.block("gpu")
        held = _processes(frame, node)
        is_stale = now - frame.taken_at > stale_after_s
        for row, uuid in enumerate(block.keys):
            known = gpus.get(uuid)
            if known is not None and known.taken_at >= frame.taken_at:
                continue
            processes = tuple(held.get(uuid, ()))
            gpus[uuid] = Gpu(
                uuid, node, block, row, frame.taken_at, frame.origin, is_stale, processes
            )
    return gpus


def _processes(frame: Frame, node: str) -> Mapping[str, list[Process]]:
    """Processes by the UUID of each GPU on which they hold a context."""
    contexts, owners = frame.block("context"), frame.block("process")
    if not contexts.keys:
        return {}
    memory: dict[str, dict[str, float]] = {}
    uuids: dict[str, list[str]] = {}
    for row, key in enumerate(contexts.keys):
        pid, _, uuid = key.partition("/")
        uuids.setdefault(pid, []).append(uuid)
        used = contexts.value("context_mem_used_bytes", row)
        if used is not None:
            memory.setdefault(pid, {})[uuid] = used
    held: dict[str, list[Process]] = {}
    rows = {pid: row for row, pid in enumerate(owners.keys)}
    for pid, on in uuids.items():
        if pid.isdecimal():
            process = _process(node, int(pid), owners, rows.get(pid), tuple(on), memory.get(pid))
            for uuid in on:
                held.setdefault(uuid, []).append(process)
    return held


def _process(
    node: str,
    pid: int,
    block: Block,
    row: int | None,
    uuids: tuple[str, ...],
    memory: Mapping[str, float] | None,
) -> Process:
    if row is None:
        nothing: dict[str, str] = {}
        return Process(
            node, pid, None, None, None, None, nothing, Reason.NO_PROCESS, uuids, memory or {}
        )
    uid = block.value("uid", row)
    variables = _variables(block.label("rank_vars", row))
    return Process(
        node,
        pid,
        block.label("name", row),
        None if uid is None else int(uid),
        block.label("job_id", row) or variables.get("SLURM_JOB_ID"),
        block.label("step", row),
        variables,
        block.reason("rank_vars", row),
        uuids,
        memory or {},
        block.value("start_time_s", row),
    )


def _variables(text: str | None) -> dict[str, str]:
    """Rank variables of a process; a text that is no JSON object names none."""
    try:
        variables = json.loads(text) if text else {}
    except ValueError:
        return {}
    if not isinstance(variables, dict):
        return {}
    return {plain(str(key)): plain(str(value)) for key, value in variables.items()}
