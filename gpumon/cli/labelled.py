"""Labelled recordings that commands read: opened, or what is wrong with them said."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumon.cli.exits import narrate
from gpumon.sources.recording.decode import RecordingError
from gpumon.sources.recording.labels import labels_path, read_labels
from gpumon.sources.recording.source import Recording

if TYPE_CHECKING:
    from pathlib import Path

    from gpumon.model.records.label import Label


class Labelled(NamedTuple):
    """A recording and what is true in it."""

    recording: Recording
    labels: list[Label]


def labelled(path: Path) -> Labelled | None:
    """A recording with its labels; None: one of them cannot be read, and that is said."""
    where = labels_path(path)
    try:
        labels = read_labels(path)
        where = path
        return Labelled(Recording(path), labels)
    except RecordingError as error:
        narrate(str(error))
    except OSError as error:
        narrate(f"{where}: {error.strerror}")
    return None
