"""What people type, what the detection worker answers, and what names ranks."""

from __future__ import annotations

import argparse
import json
import socket
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from gpumon.cli import quantities
from gpumon.cli.since import since
from gpumon.detect.contract import DetectorError
from gpumon.detect.wire import protocol
from gpumon.detect.worker import validation
from gpumon.fleet.join.ranks import place
from gpumon.model.missing import Reason
from gpumon.model.records.cluster import Process
from gpumon.model.settings import SETTINGS, SettingError
from gpumon.report.filter import units
from gpumon.report.filter.bind import row_filter
from gpumon.report.filter.names import completed
from gpumon.report.filter.parser import is_word, parse
from gpumon.report.filter.pattern import Pattern
from gpumon.report.filter.pattern_parser import PatternError
from gpumon.report.filter.tree import FilterError, written
from gpumon.report.tables.job import JOB_COLUMNS, search_text
from gpumon.report.text.typed_time import instant_of
from gpumon.sources import address
from tests.fuzz import mutation, oracle
from tests.fuzz.target import Target

if TYPE_CHECKING:
    from random import Random

NOW: Final = 1_795_260_000.0

TARGET_URLS: Final = (
    "local",
    "slurm",
    "slurm?nodes=ssh,srun&cluster=north",
    "slurm+ssh://ada@login:22?nodes=none",
    "slurm+https://host:6820/prefix?token_file=/run/token",
    "slurm+http://localhost:6820",
    "slurm+http://10.0.0.1?insecure=1",
    "slurm+unix:///run/slurm/rest.sock",
    "dcgm+http://gpu[001-003]:9400/metrics",
    "dcgm+https://[::1]:9401/a/b",
    "prometheus+https://mon:9090/select/0:1/prometheus?token_file=/run/t&tenant=a|b",
    "prometheus+http://[::1]:9090?login_file=/run/l&insecure=1",
    "ssh://ada@gpu[001-128]:22",
    "ssh://[fe80::1]:22",
    "demo:6x8?seed=2",
    "./day.gpumon",
    "slurm+https://[::1]:6820",
    "ssh://host",
)

TYPED: Final = (
    "90",
    "30m",
    "24h",
    "7d",
    "500M",
    "2G",
    "max",
    "x10",
    "6x8",
    "2026-01-31T12:00:00Z",
    "+90",
    "-10m",
    "1760000000",
    "now-2days",
    "7days",
    "2026-11-20",
    "2026-11-20T08:00",
    "10:35",
    "10.5",
    "1-02:03:04",
    "2h30m",
    "40GiB",
    "1.5GB/s",
    "80°C",
    "99%",
    "true",
    "a=1,b=2",
    "",
)

FILTERS: Final = (
    "alice idle",
    "sm<20&gpus>=8",
    "(a|b) !c",
    'name~"^(a|b)$"',
    "user!~^a",
    "mem>40G",
    "age>2h30m",
    "sm?",
    "state==–",
    "name==train*",
    "name~(foo|ba[rz]){2,5}\\d+",
    "user==(x",
    "!(a|b)&&c||d",
    "power>=1kW",
)

PATTERNS: Final = (
    "^(a|b)*c$",
    "x{2,5}",
    "(){3}",
    "[^a-z\\d]+?",
    "(?:ab)?\\w\\W\\s",
    "a{64}{2}",
    "(a|){5}",
    "\\.",
    ".*",
    "(a{3}){3}",
    "[]a]",
    "a|b|",
    "(^a|b$)+",
)

VARIABLES: Final = (
    '{"PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-gpu01-7@1", "MPI_LOCALRANKID": "1"}',
    '{"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "1", "PMI_RANK": "1"}',
    '{"RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1", "MV2_COMM_WORLD_RANK": "5"}',
    '{"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "MASTER_ADDR": "gpu01", "MASTER_PORT": "29500"}',
    '{"SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}',
    '{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "slurm.pmix.3.0"}',
    '{"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "TORCHELASTIC_RUN_ID": "none", "RANK": "0"}',
)


def _json(rng: Random, chunks: tuple[str, ...]) -> bytes:
    return mutation.encoded(rng, mutation.dumped(rng, mutation.tree(rng, chunks)))


def _check_line(error: Exception) -> None:
    """What is shown to a person: one line that harms no terminal."""
    for line in getattr(error, "problems", (str(error),)):
        oracle.well_formed(line)


def _setting(given: str) -> None:
    for setting in SETTINGS:
        with suppress(SettingError):
            found = setting.parsed(given)
            oracle.well_formed([v for v in [found] if isinstance(v, int | float)])


def _address(given: str) -> None:
    try:
        found = address.parse(given)
    except address.TargetError as error:
        _check_line(error)
        return
    oracle.well_formed(found._replace(path="", hosts=found.hosts[:9], rest=None))
    if sum(map(len, found.hosts)) > 64 * 2**20:
        raise oracle.BrokenError("names without bound")


def _typed(given: str) -> None:
    span = SimpleNamespace(start=NOW, end=NOW + 60.0)
    reads: tuple[Any, ...] = (quantities.duration, quantities.size, quantities.fleet, since)
    for read in reads:
        try:
            oracle.well_formed(read(given))
        except argparse.ArgumentTypeError as error:
            _check_line(error)
    with suppress(argparse.ArgumentTypeError):
        quantities.speed(given)
    with suppress(argparse.ArgumentTypeError):
        oracle.well_formed(quantities.placed(quantities.instant(given), span))  # type: ignore[arg-type]
    with suppress(ValueError):
        oracle.well_formed(instant_of(given, NOW, NOW))
    for unit in units.SCALES:
        oracle.well_formed(units.number(given, unit))
    _setting(given)


def _filter(given: str) -> None:
    with suppress(FilterError):
        tree = parse(given)
        is_word(given)
        with suppress(FilterError):
            parse(written(tree))
        row_filter(given, JOB_COLUMNS, search_text)
    completed(given, JOB_COLUMNS)


def _pattern(given: str) -> None:
    with suppress(PatternError):
        pattern = Pattern(given)
        for text in ("", "abcabc" * 20, given, "a" * 600):
            pattern.found_in(text)


MESSAGES: Final = (
    '{"kind": "result", "key": "hot", "part": [0.0, 0.5], "findings": [], "coverage": []}',
    '{"kind": "begin", "key": "hot", "doing": "load"}',
)


def _finding_samples() -> tuple[str, ...]:
    from gpumon.model.finding import Confidence, Evidence, Finding, Severity, Window

    good = Finding(
        "liar",
        "hot",
        "job:7",
        Severity.WARNING,
        Confidence.ESTABLISHED,
        "hot",
        (Evidence("temp_c", "gpu:GPU-1", "91 C", 91.0),),
        Window(1300.0, 2000.0, 70),
        1.0,
        2.0,
        ("cool it",),
        700.0,
    )
    return (
        json.dumps(good),
        json.dumps(
            good._replace(subject="gpu:GPU-1", owners=(7001,), gpus=("GPU-1", "GPU-2"), onset=900.0)
        ),
    )


COVERAGE: Final = '["hot", 3, 1, ["temp_c"], "partial", "half of it is seen"]'

DECLARED: Final = (
    '{"name": "hot", "version": "1", "finding_classes": ["hot"], "needs": ["temp_c"], "supported_after_s":'
    ' 60.0, "established_after_s": 600.0, "subjects": "job", "categories": [["hot", "degraded"]]}'
)


def _judged_made(rng: Random) -> str:
    pool = rng.choice(
        (_finding_samples(), (COVERAGE,), ('{"job:7": "too young"}',), ("[0.0, 0.5]",), (DECLARED,))
    )
    return mutation.dumped(rng, mutation.tree(rng, pool))


def _judged(given: str) -> None:
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        return
    declared = validation.declaration_from(json.loads(DECLARED))
    bounds = validation.Bounds(2000.0, 1000.0, {"job:7": 4}, {"GPU-1", "GPU-2"}, {"gpu01"})
    readers: tuple[Any, ...] = (
        lambda: validation.finding_from(value, declared, bounds),
        lambda: validation.coverage_from(value, declared),
        lambda: validation.reasons_from(value),
        lambda: validation.part_from(value),
        lambda: validation.declaration_from(value),
    )
    for read in readers:
        try:
            oracle.well_formed(read())
        except (validation.RubbishError, DetectorError):
            continue


def _wire_made(rng: Random) -> bytes:
    payload = _json(rng, MESSAGES)
    length = len(payload) if rng.random() < 0.8 else rng.choice((0, 1, 2**28, 2**28 + 1, 2**32 - 1))
    head = length.to_bytes(4, "big") + rng.choice((0, 0, 0, 0, 1, 80, 2**31)).to_bytes(4, "big")
    raw = head + payload
    return mutation.damaged(rng, raw) if rng.random() < 0.2 else raw


def _wire(given: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(5.0)
        ours.setblocking(False)
        with suppress(BlockingIOError):
            ours.send(given)
        ours.close()
        with suppress(protocol.ProtocolError):
            while protocol.receive(theirs) is not None:
                continue


def _ranks(given: str) -> None:
    from gpumon.fleet.join.processes import _variables

    variables = _variables(given)
    for step, why in ((None, None), ("0", Reason.NO_PERMISSION), ("batch", Reason.FAILED)):
        process = Process("gpu01", 7, "python", 7001, "3", step, variables, why, ("GPU-1",), {})
        oracle.well_formed(place(process))


_FILTER: Final = "report/filter/"

TARGETS: Final = (
    Target(
        "typed",
        lambda rng: mutation.text(rng, TYPED, "", 2),
        _typed,
        ("cli/quantities.py", "cli/since.py", "report/text/typed_time.py", _FILTER + "units.py"),
        aside=("Since.seen_from",),
    ),
    Target(
        "address",
        lambda rng: mutation.text(rng, TARGET_URLS, "", 2),
        _address,
        (
            *("sources/address.py", "sources/rest_address.py"),
            *("sources/exporter_address.py", "sources/prometheus_address.py"),
        ),
        aside=("Target.hop",),
    ),
    Target(
        "filter",
        lambda rng: mutation.text(rng, FILTERS, " ", 2),
        _filter,
        (_FILTER + "parser.py", _FILTER + "names.py"),
    ),
    Target(
        "filter.pattern",
        lambda rng: mutation.text(rng, PATTERNS, "", 3),
        _pattern,
        (_FILTER + "pattern.py", _FILTER + "pattern_parser.py"),
    ),
    Target("worker.findings", _judged_made, _judged, ("detect/worker/validation.py",)),
    Target(
        "worker.wire", _wire_made, _wire, ("detect/wire/protocol.py",), aside=("send", "receive")
    ),
    Target(
        "ranks",
        lambda rng: mutation.dumped(rng, mutation.tree(rng, VARIABLES)),
        _ranks,
        ("fleet/join/ranks.py",),
        aside=("places", "ranks_of"),
    ),
)
