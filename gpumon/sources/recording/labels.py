"""What is true of a recording, beside it in `FILE.labels.json`."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from gpumon.base.own_file import write_whole
from gpumon.model.finding_classes import CLASSES
from gpumon.model.records.label import HEALTHY, Label
from gpumon.model.text import plain
from gpumon.sources.recording.decode import RecordingError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_BYTES: Final = 64 * 2**20
"""Largest file of labels: some 300,000 at 200 bytes each."""
_MOST_GPU_SECONDS: Final = 2.0**64
"""A whole number has no bound in JSON: beyond 64 bits it is no time of GPUs."""

_SHOWN: Final = 64
"""Characters of a wrong word that are repeated."""

_LONGEST_REASON: Final = 140
"""Characters of what is wrong with a label, which may repeat all of a text."""

_SUBJECT: Final = re.compile(
    r"(?:job:[A-Za-z0-9_+.-]{1,64}(?:/rank:[0-9]{1,7})?|gpu:[A-Za-z0-9_./-]{1,128}"
    r"|node:[A-Za-z0-9][A-Za-z0-9._-]{0,252}|(?:world|domain):[A-Za-z0-9_.:/+\[\]-]{1,256})\Z"
)
_FIELDS: Final = {"subject", "class", "start", "end"}


def labels_path(recording: Path) -> Path:
    """Where the labels of a recording lie."""
    return recording.with_name(recording.name + ".labels.json")


def write_labels(recording: Path, labels: Sequence[Label]) -> Path:
    """The file that the labels were written to, mode 0600, in place of an older one.

    Raises:
        OSError: It cannot be written.
    """
    path = labels_path(recording)
    rows = [_row(label) for label in labels]
    write_whole(path, json.dumps(rows, indent=1) + "\n")
    return path


def read_labels(recording: Path) -> list[Label]:
    """The labels of a recording.

    Raises:
        RecordingError: The file is not what is documented; the message names the entry.
        OSError: It cannot be read.
    """
    path = labels_path(recording)
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        message = f"{path} is longer than {MAX_BYTES >> 20} MiB"
        raise RecordingError(message)
    try:
        rows = json.loads(raw)
    except (ValueError, RecursionError):
        message = f"{path} is not JSON"
        raise RecordingError(message) from None
    if not isinstance(rows, list):
        message = f"{path} is not a list of labels"
        raise RecordingError(message)
    return [_label(path, number, row) for number, row in enumerate(rows, 1)]


def _row(label: Label) -> dict[str, object]:
    row: dict[str, object] = {
        "subject": label.subject,
        "class": label.finding_class,
        "start": _shown(label.start),
        "end": _shown(label.end),
    }
    if label.gpu_seconds is not None:
        row["gpu_seconds"] = round(label.gpu_seconds, 3)
    if label.also:
        row["also"] = list(label.also)
    return row


def _label(path: Path, number: int, row: Any) -> Label:  # noqa: ANN401 - what JSON can hold
    try:
        if not isinstance(row, dict) or not row.keys() >= _FIELDS:
            raise ValueError("subject, class, start and end are needed")
        also = row.get("also", [])
        if not isinstance(also, list):
            raise ValueError("also is a list of subjects")
        if not all(_is_subject(subject) for subject in (row["subject"], *also)):
            raise ValueError(
                "the subject is job:ID, job:ID/rank:N, world:ID, gpu:UUID, node:NAME or domain:NAME"
            )
        if row["class"] not in (*CLASSES, HEALTHY):
            raise ValueError(f"not a class of findings: {plain(str(row['class']), _SHOWN)!r}")
        start, end = _read(row["start"]), _read(row["end"])
        if end < start:
            raise ValueError("it ends before it starts")
        lost_s = row.get("gpu_seconds")
        if lost_s is not None and not (_is_number(lost_s) and 0.0 <= lost_s < _MOST_GPU_SECONDS):
            raise ValueError("gpu_seconds is a number from 0")
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        message = f"{path}: label {number}: {plain(str(error), _LONGEST_REASON)}"
        raise RecordingError(message) from None
    return Label(
        subject=row["subject"],
        finding_class=row["class"],
        start=start,
        end=end,
        gpu_seconds=lost_s,
        also=tuple(also),
    )


def _is_subject(value: object) -> bool:
    return isinstance(value, str) and _SUBJECT.match(value) is not None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _read(text: object) -> float:
    if not isinstance(text, str):
        raise ValueError("times are RFC 3339 with Z or an offset")
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("times are RFC 3339 with Z or an offset")
    return at.timestamp()
