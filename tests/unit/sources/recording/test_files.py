"""Recordings on disk: whole, cut short, foreign, full, and after a SIGKILL at any moment."""

from __future__ import annotations

import gc
import json
import os
import random
import re
import resource
import signal
import stat
import subprocess
import sys
from array import array
from pathlib import Path

import pytest

from gpumon.model.records.block import Block
from gpumon.model.records.frame import Frame, QueueRecords
from gpumon.sources.recording import read as recording_read
from gpumon.sources.recording import source as recording_source
from gpumon.sources.recording.decode import RecordingError
from gpumon.sources.recording.read import RecordingFile
from gpumon.sources.recording.source import Playback, Recording
from gpumon.sources.recording.write import RecordingWriter

NAMES = ["a.gpumon", "a.gpumon.zst"]
CHILD = """
import sys
from array import array
from pathlib import Path
from gpumon.model.records.frame import Block, Frame
from gpumon.sources.recording.write import RecordingWriter
writer = RecordingWriter(Path(sys.argv[1]), 0.0, 1.0, ["local"])
for beat in range(1, 100000):
    energy = array("q", [beat * 1000 + gpu for gpu in range(8)])
    block = Block(tuple(f"GPU-{gpu}" for gpu in range(8)), {"energy_j": energy}, {}, {})
    writer.frames([Frame("local", "n1", float(beat), 0.0, {"gpu": block})])
    writer.end_tick(float(beat), 1.0)
    print(beat, flush=True)
"""


def frame(at, power=70.0):
    block = Block(("GPU-1",), {"power_w": array("d", [power])}, {}, {})
    return Frame("local", "n1", at, 0.0, {"gpu": block})


def write(path, ticks, **options):
    writer = RecordingWriter(path, 0.0, 1.0, ["local"], **options)
    for number in range(1, ticks + 1):
        writer.frames([frame(float(number), 70.0 + number)])
        writer.end_tick(float(number), 1.0)
    return writer


def frames_read(path, *since):
    playback = Playback(Recording(path), *since)
    return list(playback.by_tick()), [error.message for error in playback.problems]


@pytest.mark.parametrize("name", NAMES)
def test_what_was_written_is_read(tmp_path, name):
    path = tmp_path / name
    write(path, 200).close()
    read, problems = frames_read(path)
    assert [tick.at for tick in read] == [float(n) for n in range(1, 201)]
    assert [b.frames[0].block("gpu").value("power_w", 0) for b in read] == [
        70.0 + b.at for b in read
    ]
    assert problems == []
    assert Recording(path).span == (0.0, 200.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", NAMES)
def test_reading_begins_with_the_passage_of_a_time(tmp_path, name):
    path = tmp_path / name
    write(path, 200).close()
    read, problems = frames_read(path, 125.0)
    assert [read[0].at, read[-1].at] == [121.0, 200.0]
    assert problems == []
    assert len(Recording(path).files[0].passages) >= 4


@pytest.mark.parametrize("name", NAMES)
def test_up_to_a_time_one_picture_of_each_passage_is_enough(tmp_path, name):
    path = tmp_path / name
    write(path, 200).close()
    read, _ = frames_read(path, 0.0, float("inf"), 130.0)
    assert [tick.at for tick in read] == [1.0, 61.0, 121.0, *map(float, range(181, 201))]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_sigkill_at_any_moment_costs_nothing_before_the_last_flush(tmp_path, name):
    chance = random.Random(20260101)
    for trial in range(50):
        path = tmp_path / f"{trial}-{name}"
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True
        )
        last = 0
        for _ in range(chance.randrange(1, 150)):
            last = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        last = max([last, *map(int, child.stdout.read().split("\n")[:-1])])
        child.wait()
        child.stdout.close()
        read, problems = frames_read(path)
        assert [tick.at for tick in read][:last] == [float(n) for n in range(1, last + 1)]
        for tick in read:
            energy = tick.frames[0].block("gpu").columns["energy_j"]
            assert list(energy) == [int(tick.at) * 1000 + gpu for gpu in range(8)]
        assert all("cut off" in problem for problem in problems)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_cut_at_any_byte_is_read_up_to_there(tmp_path, name):
    path = tmp_path / name
    write(path, 80).close()
    whole = path.read_bytes()
    chance = random.Random(7)
    for _ in range(40):
        path.write_bytes(whole[: chance.randrange(len(whole))])
        try:
            read, problems = frames_read(path)
        except RecordingError:
            continue
        assert [tick.at for tick in read] == [float(n) for n in range(1, len(read) + 1)]
        assert len(set(problems)) <= 1  # Playing has read the beginning once before.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scanned", [15, 16, 1000])
def test_passages_are_found_wherever_a_scan_is_interrupted(tmp_path, monkeypatch, name, scanned):
    path = tmp_path / name
    write(path, 600).close()
    whole = recording_read.RecordingFile(path).passages
    monkeypatch.setattr(recording_read, "_SCAN_BYTES", scanned)
    assert recording_read.RecordingFile(path).passages == whole
    assert len(whole) > 5


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_that_somebody_cuts_while_it_is_read_ends_there(tmp_path, name):
    path = tmp_path / name
    write(path, 600).close()
    lines = recording_read.RecordingFile(path).lines()
    first = next(lines)
    os.truncate(path, 10)
    assert first.raw.startswith(b'{"kind":"header"')
    assert len(list(lines)) < 700
    os.truncate(path, 0)
    with pytest.raises(RecordingError, match="is empty"):
        recording_read.RecordingFile(path)


def test_a_line_that_was_cut_off_is_said(tmp_path, said):
    path = tmp_path / "a.gpumon"
    write(path, 3).close()
    path.write_bytes(path.read_bytes()[:-5])
    read, (problem,) = frames_read(path)
    assert [tick.at for tick in read] == [1.0, 2.0]
    assert problem == "line 8 is cut off: its recorder was ended, or is still writing"
    said(problem)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_continued_after_a_kill(tmp_path, name):
    path = tmp_path / name
    write(path, 5).abandon()
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size - 3)
    writer = RecordingWriter(path, 100.0, 1.0, ["local"], is_appended=True)
    writer.frames([frame(101.0)])
    writer.end_tick(101.0, 1.0)
    writer.close()
    read, problems = frames_read(path)
    assert [tick.at for tick in read] in ([1.0, 2.0, 3.0, 4.0, 101.0], [1.0, 2.0, 3.0, 101.0])
    assert len(problems) <= 1


def test_a_line_that_is_garbage_is_named_and_the_next_passage_read(tmp_path, said):
    path = tmp_path / "a.gpumon"
    write(path, 130).close()
    lines = path.read_bytes().split(b"\n")
    lines[9] = b"\x1b]0;owned\x07{"
    path.write_bytes(b"\n".join(lines))
    read, (problem,) = frames_read(path)
    assert problem.startswith("line 10 is not what a recorder writes")
    said(problem)
    assert "\x1b" not in problem
    assert [tick.at for tick in read if tick.frames][-1] == 130.0


def test_a_line_beyond_the_bound_is_passed_over(tmp_path, monkeypatch, said):
    path = tmp_path / "a.gpumon"
    write(path, 3).close()
    monkeypatch.setattr(recording_read, "MAX_LINE_BYTES", 2**20)
    monkeypatch.setattr(recording_read._split, "__defaults__", (2**20,))
    with path.open("ab") as file:
        file.write(b'{"kind":"' + b"x" * 2**21 + b'"}\n')
    read, (problem,) = frames_read(path)
    assert len(read) == 3
    assert problem == "line 9 is longer than 1 MiB"
    said(problem)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"hello\n", "is not a recording of gpumon"),
        (b"[1]\n", "is not a recording of gpumon"),
        (b'{"format":"other"}\n', "is not a recording of gpumon"),
        (b"\x00" * 5000, "is not a recording of gpumon"),
        (b"\x28\xb5\x2f\xfdxxxxxxxx", "is not a recording of gpumon"),
        (b'{"kind":"header","format":"gpumon-recording","version":2}\n', "recording of format 2"),
    ],
)
def test_a_foreign_file_is_refused_in_one_line(tmp_path, content, says, said):
    path = tmp_path / "a.gpumon"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=says) as refused:
        Recording(path)
    assert "\n" not in str(refused.value)
    said(str(refused.value))
    for options in ({"is_forced": True}, {"is_appended": True}):
        if content:
            with pytest.raises(RecordingError):
                RecordingWriter(path, 0.0, 1.0, [], **options)
            assert path.read_bytes() == content


def test_nothing_is_overwritten_unless_asked(tmp_path):
    path = tmp_path / "a.gpumon"
    write(path, 3).close()
    with pytest.raises(RecordingError, match="already exists"):
        RecordingWriter(path, 0.0, 1.0, [])
    write(path, 1, is_forced=True).close()
    assert len(frames_read(path)[0]) == 1


def test_a_link_is_not_followed_and_a_second_recorder_refused(tmp_path):
    real, link = tmp_path / "real.gpumon", tmp_path / "a.gpumon"
    writer = write(real, 1)
    with pytest.raises(RecordingError, match="another recorder"):
        RecordingWriter(real, 0.0, 1.0, [], is_appended=True)
    writer.close()
    link.symlink_to(real)
    before = real.read_bytes()
    with pytest.raises(OSError, match="symbolic"):
        RecordingWriter(link, 0.0, 1.0, [], is_forced=True)
    assert real.read_bytes() == before


@pytest.mark.parametrize("options", [{}, {"is_forced": True}, {"is_appended": True}])
@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("fcntl.flock", BlockingIOError(11, "locked")),
        ("fcntl.flock", OSError(37, "no locks here")),
        ("Encoder.header", OSError(5, "broken")),
        ("Encoder.header", KeyboardInterrupt()),
    ],
)
def test_what_cannot_begin_leaves_no_descriptor_open(tmp_path, monkeypatch, options, where, error):
    path = tmp_path / "a.gpumon"
    if options:
        write(path, 2).close()

    def fail(*_):
        raise error

    monkeypatch.setattr(f"gpumon.sources.recording.write.{where}", fail)
    is_locked = isinstance(error, BlockingIOError)
    with pytest.raises(RecordingError if is_locked else type(error)):
        RecordingWriter(path, 0.0, 1.0, [], **options)
    opened = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert [name for name in opened if name.startswith(str(tmp_path.resolve()))] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_leaves_what_was_flushed(tmp_path, name):
    path = tmp_path / name
    writer = write(path, 3)
    size = path.stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2, limits[1]))
    try:
        writer.frames([frame(4.0, 81.0)])
        with pytest.raises(OSError, match="too large"):
            writer.end_tick(4.0, 1.0)
        writer.abandon()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert path.stat().st_size == size
    read, problems = frames_read(path)
    assert [tick.at for tick in read] == [1.0, 2.0, 3.0]
    assert problems == []


def test_somebody_else_can_write_one_without_beats(tmp_path):
    path = tmp_path / "a.gpumon"
    header = {"kind": "header", "format": "gpumon-recording", "version": 1, "tool": "theirs"}
    header |= {"started_at": 0, "period_s": 10, "targets": ["x"]}
    rows = [header]
    for at in (0, 10, 20):
        fields = {"kind": "frame", "origin": "x", "at": at, "late_s": 0}
        rows += [fields | {"node": "n1"}, fields | {"node": "n2"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read, problems = frames_read(path)
    assert [(tick.at, len(tick.frames)) for tick in read] == [(0.0, 2), (10.0, 2), (20.0, 2)]
    assert problems == []


def test_a_queue_that_was_told_again_is_no_picture_of_its_own(tmp_path):
    path = tmp_path / "a.gpumon"
    writer = RecordingWriter(path, 0.0, 1.0, ["slurm"])
    writer.frames([Frame("slurm", "", 1.0, 0.0, {}, queue=QueueRecords((), (), 1.0, 1.0))])
    writer.end_tick(1.0, 1.0)
    writer.frames([frame(60.0)])
    writer.end_tick(60.0, 1.0)
    writer.close()
    assert Recording(path).span.end == 60.0
    assert [len(tick.frames) for tick in frames_read(path)[0]] == [1, 1]


@pytest.fixture
def locked(tmp_path):
    """A folder that its owner may only read."""
    tmp_path.chmod(0o500)
    return tmp_path


@pytest.fixture
def ordinary_user():
    """Whoever runs the tests, without root's right to write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


def test_a_folder_that_may_not_be_written_is_an_error(locked, ordinary_user):
    with pytest.raises(PermissionError):
        RecordingWriter(locked / "a.gpumon", 0.0, 1.0, [])


HUGE = "1" + "0" * 400


@pytest.mark.parametrize("key", ["started_at", "period_s"])
def test_a_number_that_no_float_holds_makes_no_header(tmp_path, key):
    path = tmp_path / "a.gpumon"
    RecordingWriter(path, 0.0, 1.0, ["local"]).close()
    text = path.read_text()
    path.write_text(re.sub(f'"{key}":[0-9.]+', f'"{key}":{HUGE}', text, count=1))
    with pytest.raises(RecordingError, match="not a recording"):
        Recording(path)


def test_a_sync_line_of_a_time_that_no_float_holds_begins_no_passage(tmp_path):
    path = tmp_path / "a.gpumon"
    RecordingWriter(path, 0.0, 1.0, ["local"]).close()
    before = len(Recording(path).files[0].passages)
    with path.open("a") as file:
        file.write(f'{{"kind":"sync","at":{HUGE}}}\n')
    assert len(Recording(path).files[0].passages) == before


def test_a_pipe_that_nobody_writes_is_refused_at_once(tmp_path):
    path = tmp_path / "a.gpumon"
    os.mkfifo(path)
    with pytest.raises(RecordingError, match="is not a file"):
        Recording(path)


def test_a_few_bytes_that_stand_for_a_very_long_text_end_the_reading_in_one_line(
    tmp_path, monkeypatch, said
):
    """What stands before them is read, and what stands behind them is not."""
    import zstandard

    path = tmp_path / "a.gpumon.zst"
    write(path, 3).close()
    bomb = b'{"kind":"sync","at":4.0}\n' + 64 * 2**20 * b" " + b"\n"
    with path.open("ab") as file:
        file.write(zstandard.ZstdCompressor().compress(bomb))
    assert path.stat().st_size < 32 * 2**10
    read, problems = frames_read(path)
    assert [tick.at for tick in read] == [1.0, 2.0, 3.0]
    (problem,) = problems
    assert "become more than 500 times as much text" in problem
    said(problem)


@pytest.mark.parametrize("count", [3, 50, 700])
def test_of_more_passages_than_any_recorder_makes_some_are_taken_together(
    tmp_path, monkeypatch, count
):
    """Whatever their number, each picture is still read, once."""
    monkeypatch.setattr(recording_read, "_MOST_MARKS", 20)
    path = tmp_path / "a.gpumon"
    write(path, 1).close()
    lines = path.read_bytes().splitlines(keepends=True)
    header, rest = lines[0], [line for line in lines[1:] if b'"sync"' not in line]
    with path.open("wb") as file:
        file.write(header)
        for number in range(count):
            file.write(b'{"kind":"sync","at":%d.0}\n' % number)
            file.write(b"".join(rest) if number in (0, count - 1) else b"")
    passages = Recording(path).files[0].passages
    assert len(passages) == count + 1 if count <= 40 else 20 < len(passages) <= 41
    read, problems = frames_read(path)
    assert (len(read), problems) == (2, [])


def test_many_sync_lines_are_looked_at_by_their_first_bytes(tmp_path, monkeypatch):
    """What opening reads grows with the file, not with the square of its marks."""
    path = tmp_path / "a.gpumon"
    write(path, 1).close()
    with path.open("ab") as file:
        for number in range(3000):
            file.write(b'{"kind":"sync","at":%d.0}\n' % number)
    asked = []
    real = recording_read._Slice.read
    monkeypatch.setattr(
        recording_read._Slice, "read", lambda self, size=-1: asked.append(size) or real(self, size)
    )
    Recording(path)
    assert sum(asked) < 60 * path.stat().st_size


def test_a_passage_that_asks_for_much_memory_is_said(tmp_path):
    """As `zstd --long=27` makes them."""
    import zstandard

    path = tmp_path / "a.gpumon.zst"
    write(path, 3).close()
    wide = zstandard.ZstdCompressionParameters(window_log=24)
    made = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    text = b'{"kind":"sync","at":4.0}\n'
    with path.open("ab") as file:
        file.write(made.compress(text) + made.flush())
    read, problems = frames_read(path)
    (problem,) = problems
    assert [tick.at for tick in read] == [1.0, 2.0, 3.0]
    assert "asks for more than 8 MiB" in problem
    assert "--long" in problem


def test_a_recording_that_asks_for_much_memory_from_its_first_byte_is_refused(tmp_path):
    import zstandard

    path = tmp_path / "a.gpumon.zst"
    plain = tmp_path / "a.gpumon"
    write(plain, 3).close()
    wide = zstandard.ZstdCompressionParameters(window_log=24)
    made = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    path.write_bytes(made.compress(plain.read_bytes()) + made.flush())
    with pytest.raises(RecordingError, match="asks for more than 8 MiB"):
        RecordingFile(path)


@pytest.mark.parametrize("more", [0, 9])
def test_of_many_lines_that_are_garbage_the_first_are_named(tmp_path, more):
    count = recording_source.MAX_PROBLEMS + more
    path = tmp_path / "a.gpumon"
    write(path, 60).close()
    lines = path.read_bytes().split(b"\n")
    begins = [n for n, line in enumerate(lines) if line.startswith(b'{"kind":"sync"')]
    tail = [b'{"kind":"sync","at":%d}' % (1000 + n) for n in range(count)]
    spoilt = [line for sync in tail for line in (sync, b"{")]
    path.write_bytes(b"\n".join(lines[: begins[-1]] + spoilt) + b"\n")
    _, problems = frames_read(path)
    named = [one for one in problems if "is not what a recorder writes" in one]
    assert len(named) == recording_source.MAX_PROBLEMS
    rest = problems[len(named) :]
    assert len(rest) == (more > 0)
    assert all("the others are not named" in one for one in rest)


def test_asking_how_long_it_is_leaves_no_file_open(tmp_path):
    path = tmp_path / "r.gpumon"
    write(path, 7).close()
    gc.disable()
    try:
        assert Recording(path).span == (0.0, 7.0)
        opened = [link.resolve() for link in Path("/proc/self/fd").iterdir() if link.exists()]
    finally:
        gc.enable()
    assert path not in opened
