"""Files of a user or a site."""

from __future__ import annotations

import json
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.cli.configuration import ConfigurationError, load
from gpumon.detect.engine.finding_life import notes_from
from gpumon.detect.engine.notes_file import NotesFile
from gpumon.detect.learning import cases, named
from gpumon.detect.learning.model import read_model
from gpumon.detect.learning.trees import ModelError
from gpumon.fleet.ledger.journal_reader import Pages
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
    '[terminal]\ntheme = "dark"\nascii = false\n',
    "prices.gpu_hour = { H100 = 2.5 }\n",
    '[ledger]\nis_kept = true\ndirectory = """\n[a]\n"""\n',
    "perod_s = 2\n[[detectors]]\nx = 1\n",
)

JWT: Final = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3OTUyNTY2MDUsInN1biI6ImFkYSJ9.c2lnbmF0dXJl"

HEADS: Final = (
    '{"format": 2, "at": 1795256605.5, "since": 1795256605.5, "took_s": 0.25, "error": null, "bytes": 5}',
    '{"format": 2, "at": 1, "since": 1, "took_s": 5.0, "error": ["squeue", "is silent", "wait"], "bytes": 5}',
)


def _json(rng: Random, chunks: tuple[str, ...]) -> bytes:
    return mutation.encoded(rng, mutation.dumped(rng, mutation.tree(rng, chunks)))


def _check_line(error: Exception) -> None:
    """What is shown to a person: one line that harms no terminal."""
    for line in getattr(error, "problems", (str(error),)):
        oracle.well_formed(line)


def _config(given: bytes) -> None:
    path = workplace.file("config.toml", given)
    environ = {"GPUMON_CONFIG": str(path)}
    if len(given) % 3 == 0:
        words = given.decode("utf-8", "replace").replace("\0", "")[:80]
        environ |= {
            "GPUMON_PERIOD_S": words,
            "GPUMON_PRICES_GPU_HOUR": words,
            "GPUMON_TARGETS": words,
        }
    try:
        found = load(environ)
    except ConfigurationError as error:
        _check_line(error)
        return
    for key, chosen in found.chosen.items():
        if not key.startswith("detectors.parameters"):
            # Its texts are its author's own.
            oracle.well_formed([v for v in [chosen.value] if isinstance(v, int | float)])


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
    head = (
        _json(rng, HEADS)
        if rng.random() < 0.9
        else mutation.text(rng, HEADS).encode("utf-8", "replace")
    )
    return head + b"\n" + rng.choice((b"hello", b"hello", b"", b"\xff\xfe123", b"hello!"))


def _cached(given: bytes) -> None:
    """A file in the folder of shared answers, as another gpumon, or none, left it."""
    place_of = workplace.folder() / "answers"
    place_of.mkdir(mode=0o700, exist_ok=True)
    shared = answer_cache.SharedAnswers(place_of, "lab")
    clock = SimpleNamespace(now=lambda: NOW, monotonic=lambda: 5.0, wait=lambda _event, _s: True)
    if not _CACHE_NAME:
        shared.leave_note("job", "hello", clock)
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
        shared.ask_newer("job", 30.0, 1795256605.5, lambda _held: None, clock, SimpleNamespace())  # type: ignore[arg-type]
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
    Pages(path.parent / "none").files()
    for at in (None, 1795360000.0 + len(given) % 9000):
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
        one["trees"]["trees"], one["lost"]["trees"] = (
            one["trees"]["trees"][:2],
            one["lost"]["trees"][:1],
        )
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
            one.can_judge(features)
            one.unlike(features)
            oracle.well_formed(one.verdict(one.rows(features)[0]).probability)
    oracle.well_formed(model.mark)


PATTERN_FILE: Final = (
    '{"format": "gpumon-named-patterns/1", "patterns": [{"name": "loader_stall", "version": 1, "owner": "ada",'
    ' "at": 1795256605.0, "traits": [{"key": "util_15m", "value": 0.2, "usual": 0.9}], "jobs": 4,'
    ' "gpu_seconds": 7200.0, "exemplar": "42"}]}',
)


def _named(given: bytes) -> None:
    path = workplace.file("patterns.json", given)
    try:
        found = named.read_named(path)
    except named.NamedError as error:
        oracle.well_formed(str(error))
        return
    oracle.well_formed(found)
    json.dumps(named.plain(found), allow_nan=False)


CASES_FILE: Final = (
    '{"format": "gpumon-cases/1", "cases": [{"finding_class": "comm_bound", "is_right": true,'
    ' "job_id": "42_3", "owner": "ada", "at": 1795256605.0, "lost": 0.4, "made_with": "26c8137ef9dc",'
    ' "features": {"util_15m": 0.98, "nvlink_15m": 0.4}}, {"finding_class": "straggler",'
    ' "is_right": false, "job_id": "7", "owner": "bob", "at": 1795256605.0, "lost": null,'
    ' "made_with": "older", "features": {}}]}',
)


def _cases(given: bytes) -> None:
    path = workplace.file("cases.json", given)
    try:
        found = cases.read_cases(path)
    except cases.CasesError as error:
        oracle.well_formed(str(error))
        return
    oracle.well_formed([one._replace(features=dict(one.features)) for one in found])
    for one in found:
        oracle.well_formed(one.is_usable)
        oracle.well_formed(float(np.nansum(one.row)))
    cases.cases_rewritten(path, lambda same: same)


_LEARNING: Final = "detect/learning/"

TARGETS: Final = (
    Target(
        "config",
        lambda rng: mutation.encoded(rng, mutation.text(rng, CONFIGS)),
        _config,
        ("cli/configuration.py", "model/settings.py"),
        aside=("places", "Settings.", "Setting.parsed"),
    ),
    Target(
        "token",
        _token_made,
        _token,
        ("sources/slurm/commands/token.py",),
        aside=("_read", "missing"),
    ),
    Target(
        "answer_cache",
        _cache_made,
        _cached,
        ("sources/slurm/commands/answer_cache.py",),
        aside=(
            "remove_leftovers",
            "_remove",
            "folder_of",
            "_take",
            "_asked",
            "SharedAnswers.note",
            "_write",
            "_open_folder",
            "_is_ours",
            "_locked",
            "_own_answer",
            "SharedAnswers.ask_newer",
            "SharedAnswers.leave_note",
            "SharedAnswers._opened",
            "_renew",
        ),
    ),
    Target(
        "notes", lambda rng: _json(rng, _notes_samples()), _notes, ("tui/look/saved_choices.py",)
    ),
    Target("ledger", _ledger_made, _ledger, ("fleet/ledger/journal_reader.py",)),
    Target(
        "model",
        lambda rng: _json(rng, _small_model()),
        _model,
        (_LEARNING + "model.py", _LEARNING + "trees.py", _LEARNING + "json_file.py"),
    ),
    Target(
        "named_patterns",
        lambda rng: _json(rng, PATTERN_FILE),
        _named,
        (_LEARNING + "named.py",),
        aside=("newest", "with_name", "without_newest", "named_patterns", "Named.matches"),
    ),
    Target(
        "cases",
        lambda rng: _json(rng, CASES_FILE),
        _cases,
        (_LEARNING + "cases.py",),
        aside=("with_case", "without_case", "case_of", "own_cases", "_is_same"),
    ),
)
