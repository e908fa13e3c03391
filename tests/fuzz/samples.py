"""Real answers, files and recordings that inputs are made of; they lie where other tests have them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpumon.sources.recording.source import Playback, Recording

if TYPE_CHECKING:
    from gpumon.model.records.frame import Frame

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
    """The records of such texts, one by one, and what stands ahead of them."""
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
    """What the probes of these frames have said, one line each, with at most four rows a block."""
    return tuple(json.dumps(_told(frame)) for frame in lab_frames() if frame.blocks)


def _told(frame: Frame) -> dict[str, Any]:
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
            "missing": {key: "failed" if len(told) == len(rows) > 1 else told
                        for key, told in missing.items()},
        }  # fmt: skip
    at = frame.taken_at % 100_000.0
    errors = [{"where": "host", "message": "reading ports failed", "hint": "look at dmesg"}]
    return {"at": at, "late_s": 0.25, "errors": errors, "blocks": blocks}


@cache
def recorded_lines(most_bytes: int = 6000) -> tuple[str, ...]:
    """Lines of gpumon's own recordings, those that are not too long."""
    lines = (STATE / "plain.gpumon").read_text(encoding="utf-8").splitlines()
    lab = Recording(LAB).files[0].lines()
    lines += [line.raw.decode() for line, _ in zip(lab, range(200), strict=False)]
    first = [line for line in lines if line.startswith('{"kind":"header"')][:2]
    return (*first, *(line for line in lines if len(line) <= most_bytes))
