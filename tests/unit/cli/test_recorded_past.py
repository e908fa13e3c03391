"""A terminal begins with what its user's own rolling recording of the same targets knows."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

import pytest

from gpumon.cli import recorded_past
from gpumon.cli.recorded_past import filled_by_sources, recorded
from gpumon.fleet.history.history import History
from gpumon.fleet.replay.filling import FillingPast
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.sources.address import Sampling, parse
from gpumon.sources.demo import DemoSource
from gpumon.sources.open import open_source
from gpumon.sources.recording import folder as recording_folder
from gpumon.sources.recording.folder import RecordingFolder, own_folder
from tests.worlds.clocks import Hasty

URLS = ["slurm", "local"]
START = 1_767_225_600.0
BEATS = 60


@pytest.fixture
def recorder(tmp_path, monkeypatch):
    """A rolling recording of a minute that still runs, and the source that it recorded."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(recorded_past, "OPEN_S", 60.0)
    monkeypatch.setattr(recorded_past, "FILL_S", 60.0)
    clock = Hasty(START)
    source = DemoSource("demo:2x2", 2, 2, 1, clock, 1.0)
    folder = RecordingFolder(own_folder(URLS, socket.gethostname()), START, 1.0, URLS)
    for beat in range(BEATS):
        clock.time = START + beat
        folder.frames(source.poll())
        folder.end_tick(clock.time, 1.0)
    clock.time = START + BEATS
    yield folder, source, clock
    if folder._writer is not None:
        folder.close()


def test_a_sampler_begins_with_what_the_recording_knows_and_says_since_when(recorder):
    _, source, clock = recorder
    remember = recorded(History, URLS, clock.now)
    ticks, ended = [], threading.Event()
    sampler = Sampler([source], clock, 1.0, remember)

    def take(tick):
        ticks.append(tick)
        sampler._closing.set()
        ended.set()

    sampler.start(take)
    assert ended.wait(60)
    sampler.close()
    uuid = next(iter(ticks[0].gpus))
    times, _ = ticks[0].history.window(uuid, "power_w", START, clock.time)
    assert (times[0], ticks[0].observed_since) == (START, START)
    assert len(times) > BEATS - 5


def test_a_recording_that_nobody_continues_is_no_past(recorder):
    folder, _, clock = recorder
    folder.close()
    assert recorded(History, URLS, clock.now)().begins_at is None


def test_a_recording_of_other_targets_is_no_past(recorder):
    assert recorded(History, ["slurm"], recorder[2].now)().begins_at is None


def test_a_recording_that_cannot_be_read_is_no_past(recorder):
    folder, _, clock = recorder
    for segment in folder.folder.glob("*.zst"):
        segment.write_bytes(b"x")
    assert recorded(History, URLS, clock.now)().begins_at is None


def test_a_folder_that_hangs_is_no_past(recorder, monkeypatch):
    held = threading.Event()
    monkeypatch.setattr(recording_folder, "is_running", lambda _folder: held.wait())
    monkeypatch.setattr(recorded_past, "OPEN_S", 0.0)
    assert recorded(History, URLS, recorder[2].now)().begins_at is None
    held.set()


def test_what_sources_remember_is_put_before_unless_a_recording_is_there_already():
    source = open_source(parse("prometheus+http://mon"), Sampling(1.0, False, bool), Hasty(START))
    targets = [parse("prometheus+http://mon")]
    assert isinstance(filled_by_sources(History, [source], targets)(), FillingPast)
    assert filled_by_sources(History, [], targets) is History
    begun = History()
    begun.begins_at = START
    assert filled_by_sources(lambda: begun, [source], targets)() is begun


@pytest.mark.parametrize(
    ("other", "is_alone"),
    [("slurm?nodes=none", True), ("slurm", False), ("local", False), ("dcgm+http://a", False)],
)
def test_a_late_past_takes_no_place_where_anybody_else_measures(other, is_alone):
    targets = [parse("prometheus+http://mon"), parse(other)]
    source = open_source(targets[0], Sampling(1.0, False, bool), Hasty(START))
    assert filled_by_sources(History, [source], targets)()._is_alone == is_alone


WITHOUT = """
import sys
from gpumon.cli.recorded_past import recorded
from gpumon.fleet.history.history import History

recorded(History, ["local"])()
print(*(name for name in sys.modules if ".recording" in name or "backfill" in name))
"""


def test_who_has_never_recorded_does_without_what_reads_recordings(tmp_path):
    command = [sys.executable, "-c", WITHOUT]
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=600, env=environ
    )
    assert done.stdout.split() == []
