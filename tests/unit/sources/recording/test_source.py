"""What is known of a recording without playing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.records.frame import Frame
from gpumon.sources.recording.decode import Decoder, TickFrames, tick_frames_of
from gpumon.sources.recording.encode import Encoder
from gpumon.sources.recording.source import Recording
from gpumon.sources.recording.write import RecordingWriter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["r.gpumon", "r.gpumon.zst"])
def test_how_long_it_is_follows_from_its_beats_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    writer = RecordingWriter(path, 0.0, 10.0, ["x"])
    for at in range(10, 910, 10):
        writer.frames([Frame("x", "n", float(at), 0.0, {})])
        writer.end_tick(float(at), 10.0)
    writer.close()
    monkeypatch.setattr(Decoder, "_frame", lambda *_: pytest.fail("a frame was decoded"))
    assert Recording(path).span == (0.0, 900.0)


def test_a_beat_is_told_from_other_lines_and_from_garbage() -> None:
    encoder = Encoder()
    assert tick_frames_of(encoder.end_tick(7.0, 1.0)) == TickFrames(7.0, 1.0)
    assert tick_frames_of(encoder.sync(7.0)) is None
    assert tick_frames_of(b'{"kind":"beat","at":"soon"}') is None
    assert tick_frames_of(b'{"kind":"beat"') is None
