"""Frames to lines and back: nothing is lost but digits that mean nothing."""

from __future__ import annotations

import json
from array import array
from math import isnan, nan

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.fault import SourceError
from gpumon.model.missing import Reason
from gpumon.model.records.block import MISSING_INTEGER, Block
from gpumon.model.records.cluster import Allocation, Job, SlurmNode
from gpumon.model.records.frame import Frame, QueueRecords
from gpumon.model.records.queue import Partition, Reservation
from gpumon.sources.recording.decode import (
    Decoder,
    Header,
    LineError,
    QueueState,
    RecordingError,
    Sync,
    TickFrames,
)
from gpumon.sources.recording.encode import DECIMALS, Encoder
from gpumon.sources.recording.records import MAX_TEXT, TABLES, number, unpack

WORDS = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x24F, exclude_categories=("C", "Z")), max_size=12
)
KEYS = {
    name: sorted(key for key, field in CATALOGUE.items() if field.block == name)
    for name in ("gpu", "node", "process")
}


def values(key):
    field = CATALOGUE[key]
    if field.kind.is_integer:
        high = int(min(field.high, 2**63 - 1))
        return st.one_of(st.just(MISSING_INTEGER), st.integers(int(field.low), high))
    high = min(field.high, 2.0**52)
    return st.one_of(st.just(nan), st.floats(field.low, high, allow_nan=False))


@st.composite
def blocks(draw, name):
    keys = tuple(draw(st.lists(WORDS.filter(bool), max_size=4, unique=True)))
    columns = {}
    for key in draw(st.lists(st.sampled_from(KEYS[name]), max_size=4, unique=True)):
        column = draw(st.lists(values(key), min_size=len(keys), max_size=len(keys)))
        columns[key] = array("q" if CATALOGUE[key].kind.is_integer else "d", column)
    labels = {
        label: tuple(draw(st.lists(st.none() | WORDS, min_size=len(keys), max_size=len(keys))))
        for label in draw(st.lists(st.sampled_from(sorted(LABELS[name])), max_size=2, unique=True))
    }
    missing = {}
    if keys:
        spots = st.tuples(st.sampled_from(KEYS[name]), st.integers(0, len(keys) - 1))
        missing = draw(st.dictionaries(spots, st.sampled_from(Reason), max_size=4))
    return Block(keys, columns, labels, missing)


def required(kind):
    """The record type without its type hints, so that only what is named here is drawn."""
    return lambda *args, **named: kind(*args, **named)


NUMBERS = st.none() | st.floats(0, 2e9)
WHOLE = st.none() | st.integers(0, 2**63 - 1)
JOBS = st.builds(
    required(Job),
    job_id=WORDS,
    label=WORDS,
    name=WORDS,
    user=WORDS,
    account=WORDS,
    partition=WORDS,
    state=WORDS,
    reason=WORDS,
    nodes=st.lists(WORDS, max_size=2).map(tuple),
    allocations=st.lists(
        st.builds(
            required(Allocation),
            WORDS,
            st.integers(0, 16),
            st.none() | st.lists(st.integers(0, 7), max_size=3).map(tuple),
            WHOLE,
        ),
        max_size=2,
    ).map(tuple),
    gpu_count=WHOLE,
    submit_at=NUMBERS,
    start_at=NUMBERS,
    end_at=NUMBERS,
    time_limit_s=NUMBERS,
    is_interactive=st.booleans(),
    priority=WHOLE,
    work_dir=st.none() | WORDS,
)
QUEUES = st.builds(
    QueueRecords,
    jobs=st.lists(JOBS, max_size=3, unique_by=lambda job: job.job_id).map(tuple),
    nodes=st.lists(
        st.builds(required(SlurmNode), WORDS, WORDS, WORDS, WORDS, WHOLE),
        max_size=2,
        unique_by=lambda n: n.name,
    ).map(tuple),
    jobs_at=st.floats(0, 2e9),
    nodes_at=st.floats(0, 2e9),
    partitions=st.lists(
        st.builds(required(Partition), WORDS, WORDS, st.just(("a",)), WHOLE), max_size=1
    ).map(tuple),
    reservations=st.lists(
        st.builds(required(Reservation), WORDS, WORDS, NUMBERS, NUMBERS, st.just(())), max_size=1
    ).map(tuple),
)
FRAMES = st.builds(
    Frame,
    origin=st.sampled_from(["slurm", "ssh://gpu01"]),
    node=st.sampled_from(["", "n1", "n2"]),
    taken_at=st.floats(0, 2e9),
    lateness_s=st.floats(0, 100),
    blocks=st.fixed_dictionaries({}, optional={name: blocks(name) for name in KEYS}),
    errors=st.lists(st.builds(SourceError, WORDS, WORDS, WORDS), max_size=2).map(tuple),
    is_left=st.booleans(),
    stale_after_s=st.floats(0, 1e4),
    over_at=st.none() | st.floats(0, 2e9),
    queue=st.none() | QUEUES,
    host_names=st.lists(WORDS, max_size=2).map(tuple),
)


def plainly(block):
    """What can be compared: NaN equals itself, gauges to the decimals that are kept."""
    columns = {}
    for key, column in block.columns.items():
        decimals = DECIMALS.get(CATALOGUE[key].unit, 6)
        columns[key] = [
            v if isinstance(v, int) else None if isnan(v) else round(v, decimals) for v in column
        ]
    return block.keys, columns, dict(block.labels), dict(block.missing)


def same(one, other):
    assert one._replace(blocks={}) == other._replace(blocks={})
    assert {n: plainly(b) for n, b in one.blocks.items()} == {
        n: plainly(b) for n, b in other.blocks.items()
    }


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(FRAMES, max_size=3))
def test_what_was_written_is_read(frames):
    encoder, decoder = Encoder(), Decoder()
    assert isinstance(decoder.read(encoder.header(0.0, 1.0, [])), Header)
    for frame in frames:
        same(decoder.read(encoder.frame(frame)), frame)


def gpus(**columns):
    made = {k: array("q" if CATALOGUE[k].kind.is_integer else "d", v) for k, v in columns.items()}
    return Frame("local", "n1", 5.0, 0.0, {"gpu": Block(("GPU-1", "GPU-2"), made, {}, {})})


def ready():
    encoder, decoder = Encoder(), Decoder()
    decoder.read(encoder.header(0.0, 1.0, ["local"]))
    return encoder, decoder


def test_what_has_not_changed_is_not_written_again():
    encoder, _ = ready()
    first = json.loads(encoder.frame(gpus(power_w=[70.0, 80.0], energy_j=[10**15, 2**62])))
    assert first["blocks"]["gpu"]["columns"] == {
        "power_w": [70.0, 80.0],
        "energy_j": [10**15, 2**62],
    }
    second = json.loads(encoder.frame(gpus(power_w=[70.001, 80.0], energy_j=[10**15 + 7, 2**62])))
    assert second["blocks"] == {"gpu": {"columns": {"energy_j": {"plus": [7, 0]}}}}


def test_a_missing_counter_is_never_grown_from():
    encoder, decoder = ready()
    for counters in ([MISSING_INTEGER, 5], [7, 6], [9, MISSING_INTEGER], [10, 8]):
        decoded = decoder.read(encoder.frame(gpus(energy_j=counters)))
        assert list(decoded.blocks["gpu"].columns["energy_j"]) == counters


def test_after_a_sync_line_a_reader_needs_nothing_from_before():
    encoder, before = ready()
    queue = QueueRecords((), (SlurmNode("n1", "n1", "n1", "idle", 8),), 1.0, 1.0)
    before.read(encoder.frame(Frame("slurm", "", 1.0, 0.0, {}, queue=queue)))
    before.read(encoder.frame(gpus(power_w=[70.0, 80.0])))
    later = Decoder()
    sync, reported = encoder.sync(9.0).splitlines()
    assert later.read(sync) == Sync(9.0)
    assert later.read(reported) == QueueState(Frame("slurm", "", 1.0, 0.0, {}, queue=queue))
    decoded = later.read(encoder.frame(gpus(power_w=[70.0, 80.0])))
    assert list(decoded.blocks["gpu"].columns["power_w"]) == [70.0, 80.0]


def test_frames_are_passed_over_before_the_first_sync_line_and_after_garbage():
    encoder, decoder = ready()
    line = encoder.frame(gpus(power_w=[70.0, 80.0]))
    assert Decoder().read(line) is None
    with pytest.raises(LineError):
        decoder.read(b'{"kind":"frame"}')
    assert decoder.read(encoder.frame(gpus(power_w=[71.0, 80.0]))) is None
    decoder.read(encoder.sync(2.0))
    assert decoder.read(encoder.frame(gpus(power_w=[72.0, 80.0]))) is not None


def frame_line(**block):
    message = {"kind": "frame", "origin": "o", "node": "n", "at": 1.0, "late_s": 0.0}
    return json.dumps(message | {"blocks": {"gpu": {"keys": ["GPU-1"], **block}}}).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"7",
        b'"frame"',
        b"{}",
        b"\xff\xfe",
        b'{"kind":"frame","origin":"o","node":"n","at":NaN,"late_s":0}',
        b'{"kind":"frame","origin":"o","node":7,"at":1,"late_s":0}',
        b'{"kind":"beat","at":"now","period_s":1}',
        b'{"kind":"beat","at":1e400,"period_s":1}',
        frame_line(columns={"power_w": [1.0, 2.0]}),
        frame_line(columns={"power_w": ["70"]}),
        frame_line(columns={"energy_j": [1.5]}),
        frame_line(columns={"energy_j": {"plus": [1]}}),
        frame_line(labels={"name": 7}),
        frame_line(missing={"power_w": {"not_supported": [1]}}),
        frame_line(missing={"power_w": {"because": [0]}}),
        frame_line(keys=7),
        b"[" * 100_000,
    ],
)
def test_garbage_is_told_from_a_line(line):
    _, decoder = ready()
    with pytest.raises(LineError):
        decoder.read(line)


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "kind",
                        "blocks",
                        "gpu",
                        "keys",
                        "columns",
                        "power_w",
                        "at",
                        "origin",
                        "node",
                        "late_s",
                        "queue",
                        "jobs",
                        "jobs_order",
                        "errors",
                    ]
                ),
                inner,
                max_size=6,
            )
        ),
        max_leaves=20,
    ).map(lambda value: json.dumps(value).encode())
)
def test_nothing_that_a_line_says_is_an_accident(line):
    _, decoder = ready()
    try:
        decoder.read(line)
    except (LineError, RecordingError):
        return


def test_a_file_is_as_hostile_as_a_node():
    _, decoder = ready()
    hostile = "\x1b]0;owned\x07\u202e[bold]"
    raw = frame_line(
        keys=[hostile],
        labels={"name": [hostile], "no_such": ["x"]},
        columns={"power_w": [-5.0], "no_such": [1]},
    )
    block = decoder.read(raw).blocks["gpu"]
    assert block.keys == ("�]0;owned��[bold]",)
    assert block.labels == {"name": block.keys}
    assert block.value("power_w", 0) is None
    assert block.reason("power_w", 0) is Reason.GARBAGE
    assert set(block.columns) == {"power_w"}


@pytest.mark.parametrize("reported", [[float("nan"), 80.0], [80.0, float("nan")], [1e9, 80.0]])
def test_what_is_no_number_or_beyond_the_range_is_garbage_of_its_node_alone(reported):
    _, decoder = ready()
    same = {"keys": ["a", "b"], "missing": {"sm_active_ratio": {"not_shared": [0, 1]}}}
    wrong = reported.index(next(value for value in reported if value != 80.0))
    first = decoder.read(frame_line(**same, columns={"power_w": reported})).blocks["gpu"]
    line = frame_line(**same, columns={"power_w": [80.0, 90.0]})
    other = decoder.read(line.replace(b'"node": "n"', b'"node": "m"')).blocks["gpu"]
    assert (first.value("power_w", wrong), first.value("power_w", 1 - wrong)) == (None, 80.0)
    assert first.reason("power_w", wrong) is Reason.GARBAGE
    assert {*first.missing} - {("power_w", wrong)} == {*other.missing}
    assert {*other.missing.values()} == {Reason.NOT_SHARED}


def test_a_reason_is_read_for_the_rows_that_a_block_has():
    _, decoder = ready()
    missing = {"sm_active_ratio": {"not_shared": [0, 1]}}
    decoder.read(frame_line(keys=["a", "b"], missing=missing))
    with pytest.raises(LineError):
        decoder.read(frame_line(keys=["a"], missing=missing))


def test_long_texts_are_cut():
    _, decoder = ready()
    block = decoder.read(frame_line(labels={"name": ["x" * 100_000]})).blocks["gpu"]
    assert len(block.labels["name"][0]) == MAX_TEXT


def test_unknown_kinds_of_lines_are_for_later_versions():
    _, decoder = ready()
    assert decoder.read(b'{"kind":"weather"}') is None


def test_a_beat_has_a_period_that_can_be_lived_with():
    _, decoder = ready()
    assert decoder.read(b'{"kind":"beat","at":3,"period_s":0}') == TickFrames(3.0, 0.1)


def test_a_recording_tells_every_part_of_a_frame():
    """What a frame or a queue learns to say must be written too."""
    assert Frame._fields == (
        "origin",
        "node",
        "taken_at",
        "lateness_s",
        "blocks",
        "errors",
        "queue",
        "host_names",
        "ended",  # asked for on a screen only, and left out
        "is_left",
        "stale_after_s",
        "over_at",
    )
    reported = {"jobs_at", "nodes_at", "is_filtered", "cluster"}
    assert {*QueueRecords._fields} == {*TABLES, *reported}


def test_nodes_that_were_never_answered_are_recorded_as_such():
    encoder, decoder = Encoder(), Decoder()
    decoder.read(encoder.header(1.0, 1.0, ["slurm"]))
    queue = QueueRecords((), (), 5.0, nan, is_filtered=True)
    read = decoder.read(encoder.frame(Frame("slurm", "", 6.0, 0.0, {}, queue=queue)))
    assert isinstance(read, Frame)
    assert read.queue is not None
    assert read.queue.jobs_at == 5.0
    assert read.queue.is_filtered
    assert isnan(read.queue.nodes_at)


def test_what_another_recorder_leaves_out_of_a_record_is_not_known():
    job = unpack(Job, {"job_id": "7_1", "state": "RUNNING", "nodes": ["n1"]})
    assert (job.label, job.name, job.user, job.nodes) == ("7_1", "", "", ("n1",))
    assert (job.gpu_count, job.start_at, job.time_limit_s, job.allocations) == (
        None,
        None,
        None,
        (),
    )
    node = unpack(SlurmNode, {"name": "n1", "state": "idle"})
    assert (node.host_name, node.address, node.gpu_count) == ("n1", "n1", None)
    assert unpack(Job, {"job_id": "8", "state": "PENDING", "label": ""}).label == ""


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (Job, {"state": "RUNNING"}),
        (Job, {"job_id": "7"}),
        (SlurmNode, {"name": "n1"}),
        (SlurmNode, {"state": "idle"}),
        (Allocation, {"gpu_count": 2}),
        (Allocation, {"node": "n1"}),
    ],
)
def test_a_record_of_which_nobody_knows_what_it_is_of_is_refused(kind, raw):
    with pytest.raises(TypeError):
        unpack(kind, raw)


def queue_line(jobs, **more):
    queue_fields = {"jobs_at": 5.0, "nodes_at": None, "jobs": jobs, **more}
    line = {"kind": "frame", "origin": "slurm", "node": "", "at": 5.0, "late_s": 0.0}
    return json.dumps({**line, "queue": queue_fields}).encode()


def test_records_of_a_queue_that_names_no_order_stand_as_they_were_told():
    decoder = Decoder()
    decoder.read(b'{"kind":"sync","at":1.0}')
    jobs = {number: {"job_id": number, "state": "RUNNING"} for number in ("31", "7")}
    reported = decoder.read(queue_line(jobs))
    assert [one.job_id for one in reported.queue.jobs] == ["31", "7"]
    more = {number: {"job_id": number, "state": "PENDING", "user": "eva"} for number in "97"}
    reported = decoder.read(queue_line(more))
    assert [(one.job_id, one.user) for one in reported.queue.jobs] == [
        ("31", ""),
        ("7", "eva"),
        ("9", "eva"),
    ]
    reported = decoder.read(queue_line({}, jobs_order=["9"]))
    assert [one.job_id for one in reported.queue.jobs] == ["9"]


def test_records_of_a_queue_in_a_list_are_refused_and_not_overlooked():
    decoder = Decoder()
    decoder.read(b'{"kind":"sync","at":1.0}')
    with pytest.raises(LineError, match="jobs of a queue is not an object of records by name"):
        decoder.read(queue_line([{"job_id": "31"}]))


def nodes_line(**node):
    return queue_line({}, nodes={"n4": {"name": "n4", "state": "MIXED", "gpu_count": 3, **node}})


@pytest.mark.parametrize(
    ("tool", "files"),
    [("somebody's", ("/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2")), ("gpumon 1.4", ())],
)
def test_gpus_of_a_foreign_recording_are_in_the_order_of_their_minors_unless_it_says(tool, files):
    """As the documentation says; what gpumon leaves out is not known."""
    header = {"kind": "header", "format": "gpumon-recording", "version": 1, "tool": tool}
    header |= {"started_at": 1.0, "period_s": 10.0, "targets": ["slurm"]}
    decoder = Decoder()
    decoder.read(json.dumps(header).encode())
    (node,) = decoder.read(nodes_line()).queue.nodes
    assert node.gpu_files == files
    (node,) = decoder.read(nodes_line(gpu_files=["/dev/nvidia2"])).queue.nodes
    assert node.gpu_files == ("/dev/nvidia2",)
    # Whoever begins at a sync line has read the file's header before.
    later = Decoder(is_own=tool.startswith("gpumon"))
    later.read(b'{"kind":"sync","at":1.0}')
    (node,) = later.read(nodes_line()).queue.nodes
    assert node.gpu_files == files


@pytest.mark.parametrize("reported", [2**64 - 1, 2**64 - 1024, -(2**64) + 1, 2**64])
def test_a_number_that_becomes_one_beyond_64_bits_is_none(reported):
    with pytest.raises(ValueError, match="for a number"):
        number(reported)


def test_the_largest_number_is_recorded_and_read_again():
    assert number(number(2**64 - 2048)) == 2.0**64 - 2048
