"""No dead code: what nothing mentions has a reason, and each reason is for something."""

from __future__ import annotations

import ast
from functools import cache

from tools.unused import Defined, defined, mentioned, reasons, unused


@cache
def found() -> list[Defined]:
    """Whatever nothing mentions; every module is parsed for it."""
    return unused()


def test_nothing_is_there_that_nothing_mentions() -> None:
    known = reasons()
    dead = [
        f"{one.place}:{one.line} {one.name}"
        for one in found()
        if not any(reason.holds(one) for reason in known)
    ]
    assert dead == [], "delete it, or give its reason in tools/unused.toml"


def test_each_reason_is_for_something() -> None:
    idle = [
        (name, reason.where)
        for reason in reasons()
        for name in reason.names
        if not any(reason._replace(names=(name,)).holds(one) for one in found())
    ]
    assert idle == []


def test_each_reason_says_why() -> None:
    assert all(len(reason.why.split()) > 4 for reason in reasons())


def test_functions_classes_constants_fields_and_attributes_are_found() -> None:
    code = "A = 1\nclass B:\n    c: int = 2\n    def d(self):\n        self.e = 3\n"
    assert {name for name, _ in defined(ast.parse(code))} == {"A", "B", "c", "d", "e"}


def test_reading_naming_and_importing_are_mentions_and_storing_is_none() -> None:
    code = "from m import f\ng(h=i.j)\nk = 'l.m:n'\no.p = 1\n"
    assert set(mentioned(ast.parse(code))) == {"f", "g", "h", "i", "j", "l", "m", "n", "o"}
