"""Real answers, files and recordings that inputs are made of, where other tests have them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpumon.model.records.block import Block
from gpumon.sources.recording.encode import Encoder
from gpumon.sources.recording.source import Playback, Recording

if TYPE_CHECKING:
    from gpumon.model.records.frame import Frame, QueueRecords

ROOT: Final = Path(__file__).parents[2]
SLURM: Final = ROOT / "tests" / "unit" / "sources" / "slurm" / "data"
STATE: Final = ROOT / "tests" / "data" / "state-0.1"
LAB: Final = ROOT / "tests" / "tui" / "recordings" / "lab.gpumon.zst"
MODEL: Final = ROOT / "detectors" / "gpumon_detectors" / "learned" / "model.json"


@cache
def answers(kind: str) -> tuple[str, ...]:
    """Texts of `scontrol show` of one kind, of every version."""
    return tuple(path.read_text(encoding="utf-8") for path in sorted(SLURM.glob(f"{kind}-*.txt")))


@cache
def records(kind: str) -> tuple[str, ...]:
    """The records of such texts, one by one, and what is ahead of them."""
    return tuple(part for text in answers(kind) for part in re.split(r"\n\n", text) if part.strip())


@cache
def replies(kind: str) -> tuple[str, ...]:
    """Whole answers of slurmrestd of one kind, of every version."""
    return tuple(path.read_text(encoding="utf-8") for path in sorted(SLURM.glob(f"{kind}-*.json")))


@cache
def members(kind: str, key: str = "") -> tuple[str, ...]:
    """The records of such answers, each as JSON."""
    found = (json.loads(text)[key or kind] for text in replies(kind))
    return tuple(json.dumps(one) for listed in found for one in listed)


@cache
def lab_frames() -> tuple[Frame, ...]:
    """Some frames of the lab's recording: real Slurm, processes and kernel, the stand-in driver."""
    playback = Playback(Recording(LAB))
    frames: list[Frame] = []
    while playback.next_at is not None and len(frames) < 60:
        playback.advance(playback.next_at, playback.next_at)
        frames += playback.take()
    return tuple(frames)


@cache
def probe_lines() -> tuple[str, ...]:
    """What the probes of these frames have sent, one line each, with at most four rows a block."""
    return tuple(json.dumps(_as_reported(frame)) for frame in lab_frames() if frame.blocks)


def _as_reported(frame: Frame) -> dict[str, Any]:
    blocks = {}
    for name, block in frame.blocks.items():
        rows = range(min(4, len(block.keys)))
        missing: dict[str, dict[str, str]] = {}
        for (field, row), why in block.missing.items():
            if row in rows:
                missing.setdefault(field, {})[str(row)] = str(why)
        blocks[name] = {
            "keys": [block.keys[row] for row in rows],
            "at": [frame.taken_at % 100_000.0 for _ in rows],
            "columns": {key: [block.value(key, row) for row in rows] for key in block.columns},
            "labels": {key: [texts[row] for row in rows] for key, texts in block.labels.items()},
            "missing": {
                key: "failed" if len(reasons) == len(rows) > 1 else reasons
                for key, reasons in missing.items()
            },
        }
    at = frame.taken_at % 100_000.0
    errors = [{"where": "host", "message": "reading ports failed", "hint": "look at dmesg"}]
    return {"at": at, "late_s": 0.25, "errors": errors, "blocks": blocks}


@cache
def recorded_passages() -> tuple[tuple[str, ...], ...]:
    """Short recordings: a header, a sync line, frames of one node with few rows, a period."""
    by_node: dict[str, list[Frame]] = {}
    for frame in lab_frames():
        blocks = {name: _few(block) for name, block in frame.blocks.items()}
        short = frame._replace(blocks=blocks, queue=_short(frame.queue))
        by_node.setdefault(frame.node, []).append(short)
    own = (STATE / "plain.gpumon").read_text(encoding="utf-8").splitlines()
    passages = [tuple(line for line in own if len(line) < 6000)]
    for frames in by_node.values():
        for first in range(0, max(1, len(frames) - 2), 3):
            encoder = Encoder()
            lines = [encoder.header(1795256605.0, 1.0, ["slurm"]), encoder.sync(1795256605.0)]
            lines += [encoder.frame(frame) for frame in frames[first : first + 3]]
            lines += [encoder.end_tick(1795256609.0, 1.0), encoder.lost(1795256610.0, 3)]
            lines += [encoder.sync(1795256611.5), encoder.frame(frames[first])]
            passages.append(tuple(b"".join(lines).decode().splitlines()))
    return tuple(passages)


def _short(queue: QueueRecords | None) -> QueueRecords | None:
    """The queue with its first records."""
    if queue is None:
        return None
    return queue._replace(
        jobs=queue.jobs[:2], nodes=queue.nodes[:1], partitions=queue.partitions[:1],
        reservations=queue.reservations[:1],
    )  # fmt: skip


def _few(block: Block) -> Block:
    """The block with its first two rows."""
    rows = min(2, len(block.keys))
    return Block(
        block.keys[:rows],
        {key: column[:rows] for key, column in block.columns.items()},
        {key: texts[:rows] for key, texts in block.labels.items()},
        {(field, row): why for (field, row), why in block.missing.items() if row < rows},
    )
