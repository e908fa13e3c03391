"""What a command is asked for is made once; nobody changes what a parser has read."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from gpumon import cli
from gpumon.cli.options import parser, request_of
from gpumon.cli.request import settings_with, wanted_of
from gpumon.model.settings import DEFAULTS, Chosen, Settings
from gpumon.sources.address import Target, parse
from tests.worlds.tick import fleet

MODULES = sorted(Path(cli.__file__).parent.rglob("*.py"))
PARSES = {"parse_args", "parse_known_args", "parse_intermixed_args", "Namespace"}
REACHES_IN = {"setattr", "delattr", "vars"}
DEMO = [Target("demo", "demo")]
SLURM = [Target("slurm", "slurm")]
LABELLED = [parse(url) for url in ("local", "dcgm+http://gpu01:9400/metrics")]
GATHERED = [parse("prometheus+http://mon:9090")]
SERVED = [parse("gpumon+http://localhost:9777")]


def called(node):
    """Name of what is called, empty for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def namespaces(function):
    """Names that hold what a parser has read."""
    given = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    for argument in given:
        if argument.annotation is not None and "Namespace" in ast.unparse(argument.annotation):
            yield argument.arg
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            parts = ast.walk(node.value) if node.value else ()
            if any(called(part) in PARSES for part in parts):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def is_change(node, held):
    """Whether a piece of code changes what one of these names holds, or keeps it for later."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        return called(node.value) in PARSES or getattr(node.value, "id", "") in held
    if called(node) in REACHES_IN:
        return bool(held & {getattr(argument, "id", "") for argument in node.args})
    if isinstance(node, ast.Assign):
        return getattr(node.value, "id", "") in held
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def changes(text):
    """Lines in which what a parser has read is changed, or kept for later."""
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    for function in functions:
        held = set(namespaces(function))
        yield from (node.lineno for node in ast.walk(function) if is_change(node, held))


@pytest.mark.parametrize(
    "text",
    [
        "def f(options: argparse.Namespace):\n    options.all = True",
        "def f(words):\n    o = parser().parse_args(words)\n    o.at = 3",
        "def f(words):\n    o = parser().parse_args(words)\n    o.at += 3",
        "def f(words):\n    o = parser().parse_intermixed_args(words)\n    setattr(o, 'at', 3)",
        "def f(words):\n    o = parser().parse_args(words)\n    vars(o)['at'] = 3",
        "def f(*, o: Namespace):\n    del o.at",
        "class A:\n  def f(self, o: argparse.Namespace):\n    self._options = o",
    ],
)
def test_the_check_itself_sees_a_change(text):
    assert len(list(changes(text))) == 1


def test_nothing_changes_what_a_parser_has_read():
    found = {path.name: list(changes(path.read_text())) for path in MODULES}
    assert len(found) > 20
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_request_cannot_be_changed():
    options = parser().parse_args(["--json", "demo"])
    request = request_of(options, settings_with(), DEMO, is_to_tty=False)
    for part, name in ((request, "is_json"), (request.wanted, "is_everyone"), (DEMO[0], "url")):
        with pytest.raises(AttributeError):
            setattr(part, name, None)


def everyone(origin):
    return Settings({**DEFAULTS.chosen, "all_jobs": Chosen(True, origin)})


@pytest.mark.parametrize(
    ("user", "settings", "targets", "uid", "is_everyone"),
    [
        (None, DEFAULTS, SLURM, 0, True),
        (None, DEFAULTS, SLURM, 1007, False),
        ("ada", DEFAULTS, SLURM, 0, False),
        (None, DEFAULTS, DEMO, 1007, True),
        (None, DEFAULTS, DEMO + SLURM, 1007, False),
        # Labels name no users, and another gpumon shows what it was told to.
        (None, DEFAULTS, LABELLED, 1007, True),
        (None, DEFAULTS, GATHERED, 1007, True),
        (None, DEFAULTS, SERVED, 1007, True),
        (None, DEFAULTS, [*LABELLED, *SLURM], 1007, False),
        (None, DEFAULTS, [parse("local")], 1007, False),
        (None, everyone("c.toml:3"), SLURM, 1007, True),
        ("ada", everyone("c.toml:3"), SLURM, 1007, False),
        ("ada", everyone("--all"), SLURM, 1007, True),
    ],
)
def test_whose_jobs_are_wanted(user, settings, targets, uid, is_everyone, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: uid)
    assert wanted_of(None, user, settings, targets).is_everyone == is_everyone


def test_a_named_job_counts_before_a_named_user_and_both_before_everyone():
    jobs = [view.job for view in fleet().jobs]
    someone = jobs[-1]

    def kept(job, user):
        return [j for j in jobs if wanted_of(job, user, DEFAULTS, DEMO).includes(j)]

    assert kept(None, None) == jobs
    assert kept(None, someone.user) == [j for j in jobs if j.user == someone.user] != jobs
    assert kept(someone.job_id, "nobody else") == [someone]


def test_whoever_has_no_name_here_has_a_number(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 424_242)
    monkeypatch.setattr(os, "geteuid", lambda: 424_242)
    assert wanted_of(None, None, DEFAULTS, SLURM).own == "424242"
