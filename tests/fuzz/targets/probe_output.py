"""What probes send, what recordings hold, and what is made of both."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import zstandard

from gpumon.fleet.join.join import join
from gpumon.sources.probes.decode import CHANGING, MOST_ROWS, Decoder, GarbageError
from gpumon.sources.probes.early import Child
from gpumon.sources.probes.stream import Endpoint, Stream
from gpumon.sources.recording import decode as recorded
from gpumon.sources.recording.folder import segments
from gpumon.sources.recording.labels import read_labels
from gpumon.sources.recording.source import Playback, Recording
from tests.fuzz import mutation, oracle, samples, workplace
from tests.fuzz.target import Target

if TYPE_CHECKING:
    from random import Random

    from gpumon.model.records.frame import Frame

NOW: Final = 1_795_260_000.0
_NO_PID: Final = 2**30
"""A PID that no process has: a pretend child."""


def _counted(rng: Random, report: Any, at: float) -> Any:
    """The line as it comes a while later: counters have grown, or have not."""
    report["at"] = at
    for block in report["blocks"].values():
        block["at"] = [at for _ in block["keys"]]
        for key, column in block["columns"].items():
            if key.endswith(("_bytes", "_us", "_ticks", "_ops")) and rng.random() < 0.7:
                grown = rng.choice((0, 1, 1000, 10**6, 10**9, 10**15, -1, 2**62))
                block["columns"][key] = [None if v is None else v + grown for v in column]
    return report


def _with_events(rng: Random, report: Any) -> Any:
    """The line of a node whose driver, or kernel, reports Xids."""
    keys = [f"GPU-1/79/{number}" for number in range(rng.randint(1, 3))]
    ages = [rng.choice((0.0, 3.0, 4.02, None)) for _ in keys]
    columns = {"event_age_s": ages, "xid": [79 for _ in keys]}
    report["blocks"]["event"] = {
        "keys": keys,
        "at": [1.0 for _ in keys],
        "columns": columns,
        "labels": {},
        "missing": {},
    }
    return report


def _crowded(rng: Random, report: Any) -> Any:
    """The line of a node that claims more of something than any has."""
    name = rng.choice(list(report["blocks"]))
    block = report["blocks"][name]
    times = MOST_ROWS[name] // max(1, len(block["keys"])) + 2
    for part in ("keys", "at"):
        block[part] = block[part] * times
    for part in ("columns", "labels"):
        block[part] = {key: column * times for key, column in block[part].items()}
    return report


def _lines_made(rng: Random) -> list[bytes]:
    """Two or three lines of one probe."""
    pool = samples.probe_lines()
    chunk = rng.choice(pool)
    lines = []
    if rng.random() < 0.3:
        chunk = json.dumps(_with_events(rng, json.loads(chunk)))
    if rng.random() < 0.02:
        chunk = json.dumps(_crowded(rng, json.loads(chunk)))
    for number in range(rng.choice((1, 2, 2, 3))):
        report = _counted(
            rng, json.loads(chunk), 100.0 + number * rng.choice((0.0, 0.1, 1.0, 30.0))
        )
        if number and rng.random() < 0.3:
            # What it leaves out is as it was.
            for name in report["blocks"].keys() & CHANGING:
                del report["blocks"][name]["keys"]
        for _ in range(mutation.changes(rng) if rng.random() < 0.8 else 0):
            report = mutation.changed(rng, report, pool)
        lines.append(mutation.encoded(rng, mutation.dumped(rng, report)))
    return lines


def _lines(given: list[bytes]) -> None:
    decoder = Decoder("ssh://n1")
    frames: list[Frame] = []
    for number, line in enumerate(given):
        with suppress(GarbageError):
            frames.append(decoder.frame(line, "gpu01", NOW + number, 50.0 + number))
    oracle.frames(frames)
    if frames:
        _joined(frames[-1:])


def _joined(frames: list[Frame]) -> None:
    """The frames beside a queue of the lab, as one tick."""
    queue = next((frame.queue for frame in samples.lab_frames() if frame.queue is not None), None)
    join(frames, queue, {}, NOW + 5.0, 3.0)


class _Pretend:
    """A child of which one end is ours."""

    def __init__(self) -> None:
        (self.out, theirs_in), (theirs_out, self.into), (theirs_err, self.err) = (
            os.pipe(),
            os.pipe(),
            os.pipe(),
        )
        self.child = Child(_NO_PID, [theirs_in, theirs_out, theirs_err])

    def close(self) -> None:
        for end in (self.out, self.into, self.err):
            os.close(end)


def _speech_made(rng: Random) -> list[tuple[str, str]]:
    """What arrives on a probe's output, and whether it comes in pieces of a step's task."""
    hello = '{"gpumon_probe": 1, "nonce": "NONCE", "pid": 7, "python": "3.11.2", "node": "gpu01"}'
    report = '{"at": 1, "late_s": 0.5, "errors": [], "blocks": {}}'
    pool = (hello, report, "Welcome to the cluster", "~0.1.0.1.5 hello", "\x1b]0;title\x07" + hello)
    lines = [
        rng.choice((hello, hello, *pool)),
        *(rng.choice(pool) for _ in range(rng.randint(0, 4))),
    ]
    made = []
    for line in lines:
        changed = mutation.text(rng, (line,), "\n", 1) if rng.random() < 0.5 else line
        pieces = rng.choice(("", "", "1", "2"))
        made.append((changed[:8000], pieces))
    if rng.random() < 0.01:
        made += [("x" * 29_000, pieces)] * 10
    return made


def _speech(given: list[tuple[str, str]]) -> None:
    pretend = _Pretend()
    nodes = ("gpu01", "gpu02") if any(pieces for _, pieces in given) else ()
    sent = bytearray()

    def program(options: dict[str, object]) -> bytes:
        sent.extend(str(options["nonce"]).encode())
        return b""

    endpoint = Endpoint(
        "gpu01",
        (),
        program,
        lambda _code, words: (words, ""),
        nodes,
        is_step=True,
        early=lambda _options: pretend.child,
    )
    stream = Stream(endpoint, "slurm", {})
    nonce, frames = bytes(sent).decode(), []
    numbers = count()
    try:
        for line, pieces in given:
            sent_line = line.replace("NONCE", nonce)
            if pieces:
                half = len(sent_line) // int(pieces) + 1
                parts = [sent_line[at : at + half] for at in range(0, len(sent_line), half)] or [""]
                number = next(numbers)
                sent_line = "\n".join(
                    f"~0.{number}.{place}.{len(parts)}.{len(part.encode('utf-8', 'replace'))} {part}"
                    for place, part in enumerate(parts)
                )
            os.write(pretend.into, sent_line.encode("utf-8", "replace")[:30000] + b"\n")
            found, _ = stream.read(NOW, 50.0)
            frames += found
        stream.read(NOW, 51.0)
        oracle.well_formed((stream.trouble(), stream.has_reported))
    except GarbageError as error:
        oracle.well_formed(stream.trouble(str(error)))
    finally:
        stream.end()
        pretend.close()
    oracle.frames(frames)


def _recorded_made(rng: Random) -> list[bytes]:
    """Lines of a recording, of which some are changed, left out or there twice."""
    lines = list(rng.choice(samples.recorded_passages()))
    if len(lines) > 12:
        begin = rng.randrange(2, len(lines))
        lines = [*lines[:2], *lines[begin : begin + 6]]
    if rng.random() < 0.3:
        lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(lines))
    if rng.random() < 0.2:
        del lines[rng.randrange(len(lines))]
    if rng.random() < 0.2:
        lines[0] = lines[0].replace('"tool":"gpumon', '"tool":"another')
    made = [line.encode() for line in lines]
    for at in rng.choices(range(len(lines)), k=rng.choice((1, 1, 2, 3))):
        report = mutation.tree(rng, (lines[at],))
        made[at] = mutation.encoded(rng, mutation.dumped(rng, report))
    return made


def _recorded(given: list[bytes]) -> None:
    decoder = recorded.Decoder()
    frames: list[Frame] = []
    for line in given:
        try:
            read = decoder.read(line)
        except (recorded.LineError, recorded.RecordingError) as error:
            oracle.well_formed(str(error))
            continue
        if isinstance(read, recorded.QueueState):
            read = read.frame
        if read is not None and not hasattr(read, "blocks"):
            oracle.well_formed(read)
        elif read is not None:
            frames.append(read)  # type: ignore[arg-type]
    oracle.frames(frame._replace(queue=None) for frame in frames)
    for frame in frames:
        for table in ("jobs", "nodes", "partitions", "reservations") if frame.queue else ():
            for one in getattr(frame.queue, table):
                oracle.record(one)


def _file_made(rng: Random) -> tuple[str, bytes]:
    """A whole file, plain or packed in frames, damaged in its bytes or its lines."""
    lines = [line + b"\n" for line in _recorded_made(rng)]
    for at in range(rng.randint(0, 2)):
        lines.insert(
            rng.randrange(len(lines) + 1), b'{"kind":"sync","at":%d.5}\n' % (1795256610 + at)
        )
    if rng.random() < 0.3:
        lines.append(b'{"kind":"beat","at":1795256609.0,"period_s":1.0}\n')
    if rng.random() < 0.02:
        lines.insert(1, b" " * rng.choice((2**20, 2**23)) + b"\n")
    raw = b"".join(lines)
    is_packed = rng.random() < 0.5
    if is_packed:
        packer = zstandard.ZstdCompressor(level=1)
        cut = rng.randrange(1, len(lines) + 1)
        raw = packer.compress(b"".join(lines[:cut])) + packer.compress(b"".join(lines[cut:]))
    if rng.random() < 0.4:
        raw = mutation.damaged(rng, raw)
    return ("r.gpumon.zst" if is_packed else "r.gpumon"), raw


def _file(given: tuple[str, bytes]) -> None:
    path = workplace.file(f"recorded/{given[0]}", given[1])
    other = path.with_name("r.gpumon" if given[0] != "r.gpumon" else "r.gpumon.zst")
    if len(given[1]) % 4 == 0:
        other.write_bytes("\n".join(samples.recorded_passages()[1]).encode() + b"\n")
        path = path.parent
    else:
        other.unlink(missing_ok=True)
    try:
        recording = Recording(path)
    except recorded.RecordingError as error:
        _one_line(str(error))
        return
    oracle.well_formed((recording.header, recording.span, recording.bytes_per_s))
    coarse = recording.span.end - 2.0 if len(given[1]) % 3 == 0 else float("-inf")
    _played(Playback(recording, coarse_until=coarse), 0.0)
    playback = Playback(recording, recording.span.start + 1.0)
    _played(playback, playback.period_s)
    oracle.frames(frame._replace(queue=None) for frame in playback.take())
    for problem in playback.problems:
        _one_line(problem.message)


def _played(playback: Playback, step_s: float) -> None:
    """Go to the end, tick by tick."""
    while (at := playback.next_at) is not None:
        playback.advance(at, at + step_s)


def _one_line(line: str) -> None:
    if "\n" in line or len(line) > 1000:
        raise oracle.BrokenError(f"no line for a person: {line!r:.200}")


def _labels(given: bytes) -> None:
    path = workplace.file("l.gpumon", b"")
    workplace.file("l.gpumon.labels.json", given)
    try:
        labels = read_labels(path)
    except recorded.RecordingError as error:
        _one_line(str(error))
        return
    for label in labels:
        oracle.well_formed(label)
        oracle.not_nan(label.gpu_seconds)


def _labels_samples() -> tuple[str, ...]:
    return (
        *tuple(path.read_text() for path in sorted(samples.STATE.glob("*.labels.json"))),
        '[{"subject": "job:7", "class": "healthy", "start": "2026-11-20T10:35:00Z", "end":'
        ' "2026-11-20T10:35:00.5+01:00", "gpu_seconds": 7.5, "also": ["gpu:GPU-1"]}]',
    )


SEGMENTS: Final = (
    "20261120T103500Z.gpumon.zst",
    "20261120T103500Z-1.gpumon",
    "20269920T103500Z.gpumon",
)


def _segments(given: str) -> None:
    name = given.replace("/", "_").replace("\0", "_").encode("utf-8", "surrogatepass")[:200]
    place = workplace.folder() / "segments"
    place.mkdir(exist_ok=True)
    path = os.fsencode(place) + b"/" + (name if name not in (b"", b".", b"..") else b"x")
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    try:
        segments(place)
    finally:
        os.remove(path)  # noqa: PTH107 - the name need not be text


_PROBES: Final = "sources/probes/"
_RECORDING: Final = "sources/recording/"

TARGETS: Final = (
    Target(
        "probe.line",
        _lines_made,
        _lines,
        (_PROBES + "decode.py", _PROBES + "rates.py"),
        aside=("_limit",),
    ),
    Target(
        "probe.stream",
        _speech_made,
        _speech,
        (_PROBES + "stream.py",),
        aside=(
            "Stream.send",
            "Stream.write",
            "Stream.read_stderr",
            "Stream.has_",
            "Stream.end",
            "Stream._kill",
            "Endpoint.reaches",
            "Stream.reap",
            "Stream.abandon",
            "Stream._last_words",
            "Stream.__init__",
        ),
    ),
    Target(
        "recording.line",
        _recorded_made,
        _recorded,
        (_RECORDING + "decode.py", _RECORDING + "records.py"),
        aside=("pack", "_unknown", "Header."),
    ),
    Target(
        "recording.file",
        _file_made,
        _file,
        (_RECORDING + "read.py", _RECORDING + "source.py"),
        aside=("check_recording", "RecordedTarget", "_few"),
    ),
    Target(
        "recording.labels",
        lambda rng: mutation.encoded(
            rng, mutation.dumped(rng, mutation.tree(rng, _labels_samples()))
        ),
        _labels,
        (_RECORDING + "labels.py",),
        aside=("write_labels", "_row", "_shown", "labels_path"),
    ),
    Target("recording.folder", lambda rng: mutation.text(rng, SEGMENTS, "", 1), _segments, ()),
)
