"""Recordings of the wide world: read back without a complaint, and the same for one seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.cli.commands.simulate import simulate
from gpumon.sources.recording.labels import read_labels
from gpumon.sources.recording.source import Playback, Recording

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def written(path: Path, seed: int) -> Path:
    words = ["--seed", str(seed), "--for", "20m", "--nodes", "9x4", "--period", "60"]
    assert simulate([str(path), "--force", *words]) == 0
    return path


def test_every_frame_is_within_the_catalogue(tmp_path: Path) -> None:
    for seed in (61, 62):
        playback = Playback(Recording(written(tmp_path / f"{seed}.gpumon", seed)))
        periods = list(playback.by_tick())
        assert len(periods) == 21
        assert not playback.problems
        assert all(frame.errors == () for period in periods for frame in period.frames)


def test_one_seed_gives_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, same, other = (
        written(tmp_path / f"{name}.gpumon", seed) for name, seed in (("a", 7), ("b", 7), ("c", 8))
    )
    capsys.readouterr()
    assert one.read_bytes() == same.read_bytes()
    assert read_labels(one) == read_labels(same)
    assert one.read_bytes() != other.read_bytes()
