"""Files of a user or a site, what people type, and what the detection worker answers."""

from __future__ import annotations

import argparse
import json
import socket
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gpumon.cli import quantities
from gpumon.cli.configuration import ConfigurationError, load
from gpumon.cli.since import since
from gpumon.detect.contract import DetectorError
from gpumon.detect.engine.finding_life import notes_from
from gpumon.detect.engine.notes_file import NotesFile
from gpumon.detect.learning import named
from gpumon.detect.learning.model import ModelError, read_model
from gpumon.detect.wire import protocol
from gpumon.detect.worker import validation
from gpumon.fleet.ledger.journal_reader import Pages
from gpumon.fleet.join.ranks import place
from gpumon.model.missing import Reason
from gpumon.model.records.cluster import Process
from gpumon.model.settings import SETTINGS, SettingError
from gpumon.report.facts.tick_index import Digest
from gpumon.report.facts.typed_time import instant_of
from gpumon.report.filter import units
from gpumon.report.filter.bind import row_filter
from gpumon.report.filter.names import completed
from gpumon.report.filter.parser import is_word, parse
from gpumon.report.filter.pattern import Pattern
from gpumon.report.filter.pattern_parser import PatternError
from gpumon.report.filter.tree import FilterError, written
from gpumon.report.tables.job import JOB_COLUMNS, search_text
from gpumon.sources import address
from gpumon.sources.slurm.commands import answer_cache, token
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.tui.look import saved_choices
from tests.fuzz import mutation, oracle, samples, workplace
from tests.fuzz.target import Target

if TYPE_CHECKING:
    from random import Random

NOW: Final = 1_795_260_000.0

CONFIGS: Final = (
    'targets = ["slurm"]\nperiod_s = 2\n\n[history]\nmax_mib = 512\n',
    '[detectors]\ndisabled = ["interactive_idle"]\n\n[detectors.parameters.partial_gpus_idle]\n'
    'idle_mem_ratio = 0.02\nword = "x"\n',
    '[prices]\ncurrency = "€"\nkwh = 0.3\n\n[prices.gpu_hour]\n"NVIDIA H100" = 2.5\ndefault = 1\n',
    '[terminal]\ntheme = "dark"\nascii = false\n', "prices.gpu_hour = { H100 = 2.5 }\n",
    '[ledger]\nis_kept = true\ndirectory = """\n[a]\n"""\n', "perod_s = 2\n[[detectors]]\nx = 1\n",
)  # fmt: skip
TARGET_URLS: Final = (
    "local", "slurm", "slurm?nodes=ssh,srun&cluster=north", "slurm+ssh://ada@login:22?nodes=none",
    "slurm+https://host:6820/prefix?token_file=/run/token", "slurm+http://localhost:6820",
    "slurm+http://10.0.0.1?insecure=1", "slurm+unix:///run/slurm/rest.sock", "ssh://ada@gpu[001-128]:22",
    "ssh://[fe80::1]:22", "demo:6x8?seed=2", "./day.gpumon", "slurm+https://[::1]:6820", "ssh://host",
)  # fmt: skip
TYPED: Final = (
    "90", "30m", "24h", "7d", "500M", "2G", "max", "x10", "6x8", "2026-01-31T12:00:00Z", "+90", "-10m",
    "1760000000", "now-2days", "7days", "2026-11-20", "2026-11-20T08:00", "10:35", "10.5", "1-02:03:04",
    "2h30m", "40GiB", "1.5GB/s", "80°C", "99%", "true", "a=1,b=2", "",
)  # fmt: skip
FILTERS: Final = (
    "alice idle", "sm<20&gpus>=8", "(a|b) !c", 'name~"^(a|b)$"', "user!~^a", "mem>40G", "age>2h30m",
    "sm?", "state==–", "name==train*", "name~(foo|ba[rz]){2,5}\\d+", "user==(x", "!(a|b)&&c||d", "power>=1kW",
)  # fmt: skip
PATTERNS: Final = (
    "^(a|b)*c$", "x{2,5}", "(){3}", "[^a-z\\d]+?", "(?:ab)?\\w\\W\\s", "a{64}{2}", "(a|){5}", "\\.", ".*",
    "(a{3}){3}", "[]a]", "a|b|", "(^a|b$)+",
)  # fmt: skip
JWT: Final = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3OTUyNTY2MDUsInN1biI6ImFkYSJ9.c2lnbmF0dXJl"
HEADS: Final = (
    '{"format": 2, "at": 1795256605.5, "since": 1795256605.5, "took_s": 0.25, "error": null, "bytes": 5}',
    '{"format": 2, "at": 1, "since": 1, "took_s": 5.0, "error": ["squeue", "is silent", "wait"], "bytes": 5}',
)  # fmt: skip
VARIABLES: Final = (
    '{"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "MASTER_ADDR": "gpu01", "MASTER_PORT": "29500"}',
    '{"SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}',
    '{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "slurm.pmix.3.0"}',
    '{"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "TORCHELASTIC_RUN_ID": "none", "RANK": "0"}',
)  # fmt: skip


def _json(rng: Random, chunks: tuple[str, ...]) -> bytes:
    return mutation.encoded(rng, mutation.dumped(rng, mutation.tree(rng, chunks)))


def _said(error: Exception) -> None:
    """What is told to a person: one line that harms no terminal."""
    for line in getattr(error, "problems", (str(error),)):
        oracle.well_formed(line)


def _config(given: bytes) -> None:
    path = workplace.file("config.toml", given)
    environ = {"GPUMON_CONFIG": str(path)}
    if len(given) % 3 == 0:
        words = given.decode("utf-8", "replace").replace("\0", "")[:80]
        environ |= {"GPUMON_PERIOD_S": words, "GPUMON_PRICES_GPU_HOUR": words, "GPUMON_TARGETS": words}
    try:
        found = load(environ)
    except ConfigurationError as error:
        _said(error)
        return
    for key, chosen in found.chosen.items():
        if not key.startswith("detectors.parameters"):
            # Its texts are its author's own.
            oracle.well_formed([v for v in [chosen.value] if isinstance(v, int | float)])


def _setting(given: str) -> None:
    for setting in SETTINGS:
        with suppress(SettingError):
            found = setting.parsed(given)
            oracle.well_formed([v for v in [found] if isinstance(v, int | float)])


def _address(given: str) -> None:
    try:
        found = address.parse(given)
    except address.TargetError as error:
        _said(error)
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
            _said(error)
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


def _token(given: str) -> None:
    oracle.well_formed(token.asker({"SLURM_JWT": given})[:0])
    try:
        found = token.read_token("", {"SLURM_JWT": given})
    except CommandFailedError as failed:
        oracle.well_formed(failed.error)
        return
    if found is not None:
        oracle.well_formed((found.user, found.expires_at))


def _token_made(rng: Random) -> str:
    import base64

    if rng.random() < 0.4:
        return mutation.text(rng, (JWT, f"SLURM_JWT={JWT}"), "", 1)
    claims = _json(rng, ('{"exp": 1795256605, "sun": "ada", "iat": 5}',))
    return f"h.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.s"


def _cache_made(rng: Random) -> bytes:
    head = _json(rng, HEADS) if rng.random() < 0.9 else mutation.text(rng, HEADS).encode("utf-8", "replace")
    return head + b"\n" + rng.choice((b"hello", b"hello", b"", b"\xff\xfe123", b"hello!"))


def _cached(given: bytes) -> None:
    """A file in the folder of shared answers, as another gpumon, or nobody, left it."""
    place_of = workplace.folder() / "answers"
    place_of.mkdir(mode=0o700, exist_ok=True)
    shared = answer_cache.SharedAnswers(place_of, "lab")
    clock = SimpleNamespace(now=lambda: NOW, monotonic=lambda: 5.0, wait=lambda _event, _s: True)
    if not _CACHE_NAME:
        shared.leave_note("job", "hello", clock)  # type: ignore[arg-type]
        _CACHE_NAME.extend(path.name for path in place_of.iterdir() if "." not in path.name)
    path = place_of / _CACHE_NAME[0]
    path.touch(mode=0o600)
    path.write_bytes(given)
    asked = []

    def call() -> str:
        asked.append(1)
        return "own"

    try:
        answer = shared.ask("job", 30.0, call, clock, SimpleNamespace())  # type: ignore[arg-type]
    except CommandFailedError:
        return
    oracle.well_formed((answer.at, answer.took_s, answer.since))
    if not asked and not 0.0 <= NOW - answer.at < 7 * 86400.0:
        raise oracle.BrokenError(f"an answer of {answer.at} is taken for today's")


_CACHE_NAME: Final[list[str]] = []


def _notes(given: bytes) -> None:
    path = workplace.file("notes.json", given)
    found = NotesFile(path).read()
    known, mutes = notes_from(found)
    for mute in mutes:
        oracle.well_formed(mute.until)
    json.dumps([known, mutes], allow_nan=False)
    saved_choices.written(saved_choices.habits_of(found))


def _notes_samples() -> tuple[str, ...]:
    return tuple((samples.STATE / name).read_text() for name in ("notes.json", "terminal.json"))


def _ledger_made(rng: Random) -> bytes:
    (path,) = (samples.STATE / "ledger").glob("*.ndjson")
    lines = tuple(line for line in path.read_text().split("\n") if line)
    made = [rng.choice(lines) for _ in range(rng.randint(1, 3))]
    return b"\n".join(_json(rng, (line,)) for line in made) + rng.choice((b"", b"\n"))


def _ledger(given: bytes) -> None:
    path = workplace.file("ledger/2026-11-22.ndjson", given)
    pages = Pages(path.parent)
    for at in (None, NOW, 1795367000.0):
        for entry in pages.entries(at):
            oracle.well_formed(entry)
            json.loads(entry.line())
            json.loads(json.dumps([entry.seconds], allow_nan=False))
    pages.resumed().until("48210", 1795359009.45795, "GPU-1")


@cache
def _small_model() -> tuple[str, ...]:
    model = json.loads(samples.MODEL.read_text())
    found = []
    for key, one in model["classes"].items():
        one["trees"]["trees"], one["lost"]["trees"] = one["trees"]["trees"][:2], one["lost"]["trees"][:1]
        found.append(json.dumps({**model, "classes": {key: one}}))
    return tuple(found)


def _model(given: bytes) -> None:
    path = workplace.file("model.json", given)
    try:
        model = read_model(path)
    except ModelError as error:
        oracle.well_formed(str(error))
        return
    from gpumon.detect.features.table import COLUMN

    for one in model.classes:
        for fill in (np.nan, 0.5, 3.0):
            features = np.full((1, len(COLUMN)), fill)
            one.can_tell(features)
            one.unlike(features)
            oracle.well_formed(one.verdict(one.rows(features)[0]).probability)
    oracle.well_formed(model.mark)


PATTERN_FILE: Final = (
    '{"format": "gpumon-named-patterns/1", "patterns": [{"name": "loader_stall", "version": 1, "owner": "ada",'
    ' "at": 1795256605.0, "traits": [{"key": "util_15m", "value": 0.2, "usual": 0.9}], "jobs": 4,'
    ' "gpu_seconds": 7200.0, "exemplar": "42"}]}',
)  # fmt: skip


def _named(given: bytes) -> None:
    path = workplace.file("patterns.json", given)
    try:
        found = named.read_named(path)
    except named.NamedError as error:
        oracle.well_formed(str(error))
        return
    oracle.well_formed(found)
    json.dumps(named.plain(found), allow_nan=False)


MESSAGES: Final = (
    '{"kind": "result", "key": "hot", "part": [0.0, 0.5], "findings": [], "coverage": []}',
    '{"kind": "begin", "key": "hot", "doing": "load"}',
)  # fmt: skip
FINDING: Final = (
    '["liar", "hot", "job:7", "warning", "established", "hot", [["temp_c", "gpu:GPU-1", "91 C", 91.0]],'
    ' [1300.0, 2000.0, 70], 1.0, 2.0, ["cool it"], 700.0]'
)


def _finding_samples() -> tuple[str, ...]:
    from gpumon.model.finding import Confidence, Evidence, Finding, Severity, Window

    good = Finding(
        "liar", "hot", "job:7", Severity.WARNING, Confidence.ESTABLISHED, "hot",
        (Evidence("temp_c", "gpu:GPU-1", "91 C", 91.0),), Window(1300.0, 2000.0, 70), 1.0, 2.0,
        ("cool it",), 700.0,
    )  # fmt: skip
    return (json.dumps(good), json.dumps(good._replace(subject="gpu:GPU-1", owners=(7001,), gpus=("GPU-1", "GPU-2"), onset=900.0)))


COVERAGE: Final = '["hot", 3, 1, ["temp_c"], "partial", "half of it is seen"]'
DECLARED: Final = (
    '{"name": "hot", "version": "1", "finding_classes": ["hot"], "needs": ["temp_c"], "supported_after_s":'
    ' 60.0, "established_after_s": 600.0, "subjects": "job", "categories": [["hot", "degraded"]]}'
)


def _judged_made(rng: Random) -> str:
    pool = rng.choice((_finding_samples(), (COVERAGE,), ('{"job:7": "too young"}',), ("[0.0, 0.5]",), (DECLARED,)))
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
    from gpumon.fleet.join.devices import _variables

    variables = _variables(given)
    for step in (None, "0", "batch"):
        process = Process("gpu01", 7, "python", 7001, "3", step, variables, Reason.NO_PERMISSION, ("GPU-1",), {})
        oracle.well_formed(place(process))


_FILTER: Final = "report/filter/"
_LEARNING: Final = "detect/learning/"

TARGETS: Final = (
    Target("config", lambda rng: mutation.encoded(rng, mutation.text(rng, CONFIGS)), _config,
           ("cli/configuration.py", "model/settings.py"), aside=("places", "Settings.", "Setting.parsed")),
    Target("typed", lambda rng: mutation.text(rng, TYPED, "", 2), _typed,
           ("cli/quantities.py", "cli/since.py", "report/facts/typed_time.py",
            _FILTER + "units.py"), aside=("Since.seen_from",)),
    Target("address", lambda rng: mutation.text(rng, TARGET_URLS, "", 2), _address,
           ("sources/address.py", "sources/rest_address.py"), aside=("Target.hop",)),
    Target("filter", lambda rng: mutation.text(rng, FILTERS, " ", 2), _filter,
           (_FILTER + "parser.py", _FILTER + "names.py")),
    Target("filter.pattern", lambda rng: mutation.text(rng, PATTERNS, "", 3), _pattern,
           (_FILTER + "pattern.py", _FILTER + "pattern_parser.py")),
    Target("token", _token_made, _token, ("sources/slurm/commands/token.py",), aside=("_read", "missing")),
    Target("answer_cache", _cache_made, _cached, ("sources/slurm/commands/answer_cache.py",),
           aside=("remove_leftovers", "_remove", "folder_of", "_take", "_asked", "SharedAnswers.note",
                  "_write", "_open_folder", "_is_ours", "_locked", "_told", "SharedAnswers.ask_newer",
                  "SharedAnswers.leave_note", "SharedAnswers._opened", "_renew")),
    Target("notes", lambda rng: _json(rng, _notes_samples()), _notes, ("tui/look/saved_choices.py",)),
    Target("ledger", _ledger_made, _ledger, ("fleet/ledger/journal_reader.py",)),
    Target("model", lambda rng: _json(rng, _small_model()), _model,
           (_LEARNING + "model.py", _LEARNING + "trees.py", _LEARNING + "json_file.py")),
    Target("named_patterns", lambda rng: _json(rng, PATTERN_FILE), _named, (_LEARNING + "named.py",),
           aside=("newest", "with_name", "without_newest", "named_patterns", "Named.matches")),
    Target("worker.findings", _judged_made, _judged, ("detect/worker/validation.py",)),
    Target("worker.wire", _wire_made, _wire, ("detect/wire/protocol.py",), aside=("send", "receive")),
    Target("ranks", lambda rng: mutation.dumped(rng, mutation.tree(rng, VARIABLES)), _ranks,
           ("fleet/join/ranks.py",), aside=("places", "ranks_of")),
)  # fmt: skip
