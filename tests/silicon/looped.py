"""A stretch of a real recording, played again and again as one job of a queue that is made up.

A workload of half a minute becomes a job of as long as a rule looks back: gauges come again as they
were, counters go on by what they grew, and the output of a hang stays silent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import zstandard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

START: Final = 1795700000.0
"""Unix time at which every job begins."""

_SYNC_S: Final = 60
_NODE: Final = "gpu1"
_AGE: Final = "job_output_age_s"

Blocks = dict[str, dict[str, Any]]
"""Every block of one frame: its keys, columns, labels and reasons, nothing left out."""


class Part(NamedTuple):
    """Some minutes of one workload."""

    workload: str
    minutes: int
    is_silent: bool = False
    """Whether nothing is written to its output: the next turn of a stretch is no new line."""


def instants(recording: Path) -> Iterator[tuple[float, Blocks, set[tuple[str, str]]]]:
    """Time and blocks of each frame, and which columns are counters as far as is known.

    The next frame changes the blocks: to store them take a `_copy`.
    """
    blocks: Blocks = {}
    counters = {("node", "uptime_s")}
    with recording.open("rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        lines = reader.read().splitlines()
    for message in map(json.loads, lines):
        if message["kind"] != "frame":
            continue
        for name, change in message["blocks"].items():
            if "keys" in change:
                blocks[name] = {"keys": change["keys"], "columns": {}, "labels": {}, "missing": {}}
            block = blocks[name]
            for key, column in change.get("columns", {}).items():
                if isinstance(column, dict):
                    counters.add((name, key))
                    grown = zip(block["columns"][key], column["plus"], strict=True)
                    block["columns"][key] = [old + plus for old, plus in grown]
                else:
                    block["columns"][key] = column
            block["labels"].update(change.get("labels", {}))
            block["missing"] = change.get("missing", block["missing"])
            for gone in change.get("gone", ()):
                block["columns"].pop(gone, None)
                block["labels"].pop(gone, None)
        yield message["at"], blocks, counters


def stretches(
    recording: Path, workloads: Sequence[str]
) -> tuple[list[list[Blocks]], set[tuple[str, str]]]:
    """The frames of each workload, by the phases beside the recording, and the counters."""
    phases_path = recording.with_name(recording.name.removesuffix(".gpumon.zst") + ".phases.json")
    phases = {phase["workload"]: phase for phase in json.loads(phases_path.read_text())}
    found: list[list[Blocks]] = [[] for _ in workloads]
    counters: set[tuple[str, str]] = set()
    for at, blocks, known in instants(recording):
        counters = known
        for workload, frames in zip(workloads, found, strict=True):
            if phases[workload]["start"] <= at <= phases[workload]["end"]:
                frames.append(_copy(blocks))
    return found, counters


def _copy(blocks: Blocks) -> Blocks:
    """The same, whose columns may be put in the place of others; none is changed within."""
    return {
        name: {**block, "columns": dict(block["columns"]), "labels": dict(block["labels"])}
        for name, block in blocks.items()
    }


def _news(blocks: Blocks, before: Blocks | None) -> Blocks:
    """What a line has of blocks after one that had others; None: it is the first.

    All that is as it was is left out, as a recorder does.
    """
    if before is None or any(
        block["keys"] != before.get(name, {}).get("keys") for name, block in blocks.items()
    ):
        return blocks
    news: Blocks = {}
    for name, block in blocks.items():
        known, changed = before[name], {}
        for kind in ("columns", "labels"):
            changed[kind] = {
                key: values
                for key, values in block[kind].items()
                if key not in known[kind] or known[kind][key] != values
            }
        gone = [k for kind in ("columns", "labels") for k in known[kind] if k not in block[kind]]
        news[name] = {**changed, "gone": gone}
        if block["missing"] != known["missing"]:
            news[name]["missing"] = block["missing"]
    return news


class _Counters:
    """Counters that never go back, in any order of the parts."""

    def __init__(self, counters: set[tuple[str, str]]) -> None:
        self._counters = counters
        self._last: dict[tuple[str, str, str], float] = {}

    def go_on(self, now: Blocks, before: Blocks | None, first: Blocks, last: Blocks) -> None:
        """Put what they have grown to in the place of what was recorded.

        Args:
            now: The frame, which is changed.
            before: The one before it in the recording; None: the stretch begins again.
            first: The first frame of the stretch.
            last: Its last one; between the two lies what it grows by on average.
        """
        for name, key in self._counters:
            block = now.get(name, {"columns": {}})
            if key not in block["columns"]:
                continue
            column = []
            for entity, count in zip(block["keys"], block["columns"][key], strict=True):
                place = (name, key, entity)
                if count is not None and place in self._last:
                    ends = (_value_of(one, name, key, entity) for one in (before, now, first, last))
                    count = self._last[place] + _growth(*ends)
                if count is not None:
                    self._last[place] = count
                column.append(count if key == "uptime_s" or count is None else int(count))
            block["columns"][key] = column


def _grow_older(blocks: Blocks, first: Blocks, seconds: int) -> None:
    """Have the output be so many seconds older than in the first frame."""
    ages = first["cgroup"]["columns"][_AGE]
    older = [None if age is None else age + seconds for age in ages]
    blocks["cgroup"]["columns"][_AGE] = older


def _growth(
    before: float | None, now: float | None, first: float | None, last: float | None
) -> float:
    if before is not None and now is not None and now >= before:
        return now - before
    return (last - first) / 20 if first is not None and last is not None and last >= first else 0


def _value_of(blocks: Blocks | None, name: str, key: str, entity: str) -> float | None:
    block = (blocks or {}).get(name)
    if block is None or key not in block["columns"] or entity not in block["keys"]:
        return None
    value: float | None = block["columns"][key][block["keys"].index(entity)]
    return value


def write_job(
    recording: Path, out: Path, job_id: str, parts: Sequence[Part], every_s: int = 1
) -> None:
    """Write a recording of one job on one GPU that does these parts, one after the other.

    Args:
        recording: A real one, with its phases beside it.
        out: The file to write.
        job_id: As its processes' control groups name it.
        parts: What it does.
        every_s: Seconds between two ticks.
    """
    found, counters = stretches(recording, [part.workload for part in parts])
    going = _Counters(counters)
    lines: list[dict[str, Any]] = [
        {"kind": "header", "format": "gpumon-recording", "version": 1, "tool": "gpumon 0.1.0",
         "started_at": START, "period_s": every_s, "targets": ["slurm"]},
    ]  # fmt: skip
    second, before = 0, None
    for part, frames in zip(parts, found, strict=True):
        for place in range(part.minutes * 60):
            turn = place % len(frames)
            blocks = _copy(frames[turn])
            going.go_on(blocks, frames[turn - 1] if turn else None, frames[0], frames[-1])
            if part.is_silent:
                _grow_older(blocks, frames[0], place)
            if second % _SYNC_S == 0:
                lines += [{"kind": "sync", "at": START + second}, _queue(job_id, START + second)]
                before = None
            if second % every_s == 0:
                at = START + second
                lines += [
                    {"kind": "frame", "origin": "slurm", "node": _NODE, "at": at, "late_s": 0,
                     "blocks": _news(blocks, before), "host_names": [_NODE]},
                    {"kind": "beat", "at": at, "period_s": every_s},
                ]  # fmt: skip
                before = blocks
            second += 1
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    out.write_text(text)


def _queue(job_id: str, at: float) -> dict[str, Any]:
    job = {
        "job_id": job_id, "label": job_id, "name": "run", "user": "ada", "account": "a",
        "partition": "p", "state": "RUNNING", "reason": "", "nodes": [_NODE], "gpu_count": 1,
        "allocations": [{"node": _NODE, "gpu_count": 1, "gpu_indices": [0], "cpu_count": 8}],
        "submit_at": START - 100, "start_at": START - 2, "time_limit_s": 86400.0,
        "node_count": 1, "cpu_count": 8,
    }  # fmt: skip
    node = {
        "name": _NODE, "host_name": _NODE, "address": _NODE, "state": "ALLOCATED", "gpu_count": 1,
        "gpu_files": ["/dev/nvidia0"], "partitions": ["p"], "cpu_count": 16,
    }  # fmt: skip
    partition = {"name": "p", "state": "UP", "nodes": [_NODE], "gpu_count": 1}
    queue = {
        "jobs_at": at, "nodes_at": at, "jobs": {job_id: job}, "jobs_order": [job_id],
        "nodes": {_NODE: node}, "partitions": {"p": partition}, "reservations": {},
    }  # fmt: skip
    return {"kind": "frame", "origin": "slurm", "node": "", "at": at, "late_s": 0, "queue": queue}
