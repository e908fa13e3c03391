"""Rolling recordings: segments by time and size, the oldest removed; labels beside a recording."""

from __future__ import annotations

import json
import stat
from array import array

import pytest

from gpumon.model.records.block import Block
from gpumon.model.records.frame import Frame
from gpumon.model.records.label import Label
from gpumon.sources.recording import folder as recording_folder
from gpumon.sources.recording import labels as recording_labels
from gpumon.sources.recording.decode import RecordingError
from gpumon.sources.recording.folder import RecordingFolder, is_running, own_folder, segments
from gpumon.sources.recording.labels import labels_path, read_labels, write_labels
from gpumon.sources.recording.source import Playback, Recording

START = 1_767_225_600.0


def run(folder, begin, ticks, period_s=60.0):
    for number in range(begin, begin + ticks):
        at = START + number * period_s
        block = Block(("GPU-1",), {"power_w": array("d", [70.0 + number])}, {}, {})
        folder.frames([Frame("local", "n1", at, 0.0, {"gpu": block})])
        folder.end_tick(at, period_s)


def times(path):
    return [(tick.at - START) / 60.0 for tick in Playback(Recording(path)).by_tick()]


def test_the_newest_is_kept_and_the_oldest_removed(tmp_path):
    path = tmp_path / "rolling"
    folder = RecordingFolder(path, START, 60.0, ["local"], retention_s=7200.0)
    stranger = path / "notes.txt"
    stranger.write_text("mine")
    run(folder, 0, 600)
    folder.close()
    read = times(path)
    assert read == [float(n) for n in range(int(read[0]), 600)]
    assert 120 <= len(read) <= 135
    assert stranger.read_text() == "mine"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(segment.stat().st_mode) for segment in segments(path)} == {0o600}


def test_it_never_grows_beyond_its_size(tmp_path):
    folder = RecordingFolder(tmp_path / "r", START, 60.0, ["local"], max_bytes=64 * 1024)
    largest = 0
    for hour in range(40):
        run(folder, hour * 20, 20)
        largest = max(largest, folder.size_bytes)
    folder.close()
    assert 16 * 1024 < largest <= 64 * 1024


def test_what_a_second_takes_on_disk_is_known_also_of_segments_that_are_gone(tmp_path):
    path = tmp_path / "r"
    folder = RecordingFolder(path, START, 60.0, ["local"])
    run(folder, 0, 300)
    folder.close()
    recording = Recording(path)
    size_bytes = sum(segment.stat().st_size for segment in segments(path))
    oldest, *others = segments(path)
    oldest.unlink()
    assert others
    assert recording.bytes_per_s == pytest.approx(size_bytes / (299 * 60.0))


def test_a_second_recorder_is_refused_and_the_first_seen(tmp_path):
    path = tmp_path / "r"
    assert not is_running(path)
    folder = RecordingFolder(path, START, 60.0, ["local"])
    assert is_running(path)
    with pytest.raises(RecordingError, match="another recorder"):
        RecordingFolder(path, START, 60.0, ["local"])
    folder.close()
    assert not is_running(path)
    RecordingFolder(path, START, 60.0, ["local"]).close()
    assert len(segments(path)) == 2


def test_a_full_disk_makes_it_pause_and_go_on(tmp_path, monkeypatch):
    path = tmp_path / "r"
    folder = RecordingFolder(path, START, 10.0, ["local"])
    run(folder, 0, 3, 10.0)
    real = recording_folder.RecordingWriter

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording_folder.RecordingWriter, "end_tick", full)
    monkeypatch.setattr(recording_folder, "RecordingWriter", full)
    run(folder, 3, 2, 10.0)
    assert folder.trouble.strerror == "No space left on device"
    monkeypatch.undo()
    assert recording_folder.RecordingWriter is real
    run(folder, 5, 6, 10.0)
    assert folder.trouble is None
    folder.close()
    assert [round(n * 6) for n in times(path)] == [0, 1, 2, 7, 8, 9, 10]


@pytest.mark.parametrize("error", [BlockingIOError(11, "try again"), OSError(5, "broken")])
def test_a_segment_that_cannot_begin_accuses_no_other_recorder(tmp_path, monkeypatch, error):
    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr(recording_folder, "RecordingWriter", fail)
    with pytest.raises(OSError, match=error.strerror) as raised:
        RecordingFolder(tmp_path / "r", START, 1.0, ["local"])
    assert raised.value is error
    assert not is_running(tmp_path / "r")


def test_the_own_folder_is_named_by_what_is_recorded(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert own_folder(["slurm"], "login1") == tmp_path / "gpumon/recordings/slurm"
    assert own_folder(["local"], "gpu01").name == "local@gpu01"
    assert own_folder(["ssh://a@b:22/../.."], "x").name == "ssh-a@b-22"
    assert "/" not in own_folder(["../../etc"], "x").name


LABELS = [
    Label("job:48214", "partial_gpus_idle", START, START + 60.5),
    Label("job:7_1/rank:3", "straggler", START, START + 1),
    Label("gpu:GPU-56a30fe4-d39a", "healthy", START, START),
    Label("node:rack7-n12.cluster", "fabric_degraded", START, START + 7),
    Label("world:10.0.0.1:29500", "hang", START, START + 8, 64.25, ("job:9", "job:9/rank:2")),
    Label("domain:leaf-3", "telemetry_lost", START, START + 9),
]


def test_labels_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "a.gpumon"
    written = write_labels(path, LABELS)
    assert written == tmp_path / "a.gpumon.labels.json"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert json.loads(written.read_text())[0] == {
        "subject": "job:48214",
        "class": "partial_gpus_idle",
        "start": "2026-01-01T00:00:00.000Z",
        "end": "2026-01-01T00:01:00.500Z",
    }
    assert read_labels(path) == LABELS


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"subject": "node:-x"}, "label 1: the subject"),
        ({"subject": "user:x"}, "label 1: the subject"),
        ({"subject": "job:\x1b[2J"}, "label 1: the subject"),
        ({"class": "Bad Class"}, "label 1: not a class of findings: 'Bad Class'"),
        ({"class": "nvlink_crc"}, "label 1: not a class of findings: 'nvlink_crc'"),
        ({"class": "network_degraded"}, "label 1: not a class"),
        ({"class": ["hang"]}, "label 1: "),
        ({"class": "\x1b[2J\n"}, "label 1: not a class of findings: '[^\x1b\n]*'$"),
        ({"start": "2026-01-01T00:00:00"}, "RFC 3339"),
        ({"gpu_seconds": -1}, "label 1: gpu_seconds is a number from 0"),
        ({"gpu_seconds": True}, "gpu_seconds is a number"),
        ({"gpu_seconds": "7"}, "gpu_seconds is a number"),
        ({"gpu_seconds": 1e999}, "gpu_seconds is a number"),
        ({"gpu_seconds": 7 * 10**350}, "gpu_seconds is a number"),
        ({"subject": "job:1/rank:٣"}, "label 1: the subject"),
        ({"start": "\x1b[2J" + "7" * 5000}, r"label 1: [^\x1b]{1,160}$"),
        ({"also": ["job:1", "user:x"]}, "label 1: the subject"),
        ({"also": "job:1"}, "label 1: "),
        ({"also": 7}, "label 1: "),
        ({"end": "2020-01-01T00:00:00Z"}, "ends before"),
        ({"end": 7}, "label 1"),
    ],
)
def test_labels_that_are_none_are_refused(tmp_path, change, says):
    path = tmp_path / "a.gpumon"
    row = {"subject": "job:1", "class": "healthy"}
    row |= {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"}
    labels_path(path).write_text(json.dumps([row | change]))
    with pytest.raises(RecordingError, match=says):
        read_labels(path)


@pytest.mark.parametrize("content", ["", "{}", "[7]", "[{}]", "nonsense"])
def test_a_labels_file_that_is_none_is_refused(tmp_path, content):
    path = tmp_path / "a.gpumon"
    labels_path(path).write_text(content)
    with pytest.raises(RecordingError):
        read_labels(path)


def test_labels_that_are_too_long_are_refused_before_they_are_understood(tmp_path, monkeypatch):
    monkeypatch.setattr(recording_labels, "MAX_BYTES", 2**20)
    path = tmp_path / "a.gpumon"
    labels_path(path).write_text("[" + " " * 2**20 + "]")
    with pytest.raises(RecordingError, match="longer than 1 MiB"):
        read_labels(path)
