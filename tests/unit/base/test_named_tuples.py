"""Named tuples made with less work, held against those that Python makes."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys
import typing
from typing import Generic, NamedTuple, TypeVar

import pytest

from gpumon.base import named_tuples

T = TypeVar("T")

BODY = '''
class Reading(NamedTuple):
    """What was read."""

    at: float
    names: dict[str, int] | None = None
    parts: "tuple[str, ...]" = ()

    limit = 7

    @property
    def is_named(self) -> bool:
        """Whether it has names."""
        return bool(self.names)

    @classmethod
    def now(cls) -> "Reading":
        return cls(1.0)


class One(NamedTuple):
    only: int


class Shown(NamedTuple):
    a: int
    b: int = 2

    def __repr__(self) -> str:
        return "shown"
'''


@pytest.fixture(params=["from __future__ import annotations\n", ""], ids=["texts", "types"])
def both(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, typing.Any], dict[str, typing.Any]]:
    """The classes as Python makes them, and as they are made quickly until the test ends."""
    usual, quick = ({"__name__": __name__, "NamedTuple": NamedTuple} for _ in range(2))
    # Not with the future that this file has imported.
    code = compile(request.param + BODY, "body", "exec", dont_inherit=True)
    exec(code, usual)
    monkeypatch.setattr(typing.NamedTupleMeta, "__new__", typing.NamedTupleMeta.__new__)
    named_tuples.build_quickly()
    exec(code, quick)
    return usual, quick


def told(made: type[typing.Any]) -> dict[str, object]:
    """All that a class says of itself."""
    new = made.__new__
    return {
        "names": (made.__name__, made.__qualname__, made.__module__, made.__doc__),
        "bases": (made.__bases__, type(made), made.__orig_bases__),
        "fields": (made._fields, made._field_defaults, made.__match_args__),
        "hints": typing.get_type_hints(made),
        "signature": re.sub("ForwardRef|[()'\"]", "", str(inspect.signature(made))),
        "new": (new.__name__, new.__qualname__, new.__module__, new.__doc__, new.__defaults__),
        "field": [vars(made)[field].__doc__ for field in made._fields],
        "has": sorted(vars(made)),
        "slots": made.__slots__,
    }


@pytest.mark.parametrize("name", ["Reading", "One", "Shown"])
def test_a_class_says_the_same_of_itself(
    both: tuple[dict[str, typing.Any], dict[str, typing.Any]], name: str
) -> None:
    usual, quick = both
    assert told(quick[name]) == told(usual[name])


@pytest.mark.parametrize(
    "doing",
    [
        "Reading(1.5)",
        "Reading(1.5, {'a': 1}).is_named",
        "Reading(names={}, at=2)",
        "Reading.now()",
        "Reading.limit",
        "One(3)",
        "Shown(1)",
        "Reading(1)._replace(at=3, parts=('x',))",
        "Reading._make([1, 2, 3])",
        "Reading(1)._asdict()",
        "Reading(1).__getnewargs__()",
        "Reading(1) == (1, None, ())",
        "hash(One(3)), One(3).only, One(3)[0], len(One(3))",
        "hasattr(One(3), '__dict__')",
    ],
)
def test_its_objects_are_the_same(
    both: tuple[dict[str, typing.Any], dict[str, typing.Any]], doing: str
) -> None:
    usual, quick = (eval(doing, one) for one in both)
    assert (quick, repr(quick)) == (usual, repr(usual))
    assert type(quick).__name__ == type(usual).__name__


@pytest.mark.parametrize(
    "doing",
    [
        "Reading()",
        "Reading(1, 2, 3, 4)",
        "Reading(1, other=2)",
        "One(3)._replace(other=1)",
        "Reading._make([1])",
        "setattr(One(3), 'only', 4)",
    ],
)
def test_what_does_not_fit_is_refused_with_the_same_words(
    both: tuple[dict[str, typing.Any], dict[str, typing.Any]], doing: str
) -> None:
    raised = []
    for one in both:
        with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
            eval(doing, one)
        raised.append((caught.type, str(caught.value)))
    assert raised[0] == raised[1]


@pytest.mark.parametrize(
    "body",
    [
        "class Wrong(NamedTuple):\n    at: (int,)",
        "class Wrong(NamedTuple):\n    a: int = 1\n    b: int",
        "class Wrong(NamedTuple):\n    _a: int",
        "class Wrong(NamedTuple):\n    a: int\n    def __new__(cls): ...",
        "class Wrong(NamedTuple, int):\n    a: int",
    ],
)
def test_what_is_no_such_class_is_refused_as_ever(
    monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    raised = []
    monkeypatch.setattr(typing.NamedTupleMeta, "__new__", typing.NamedTupleMeta.__new__)
    for make in (lambda: None, named_tuples.build_quickly):
        make()
        with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
            exec(
                compile(body, "body", "exec", dont_inherit=True),
                {"NamedTuple": NamedTuple, "__name__": __name__},
            )
        raised.append((caught.type, str(caught.value)))
    assert raised[0] == raised[1]


def test_generic_ones_empty_ones_and_those_of_a_call_stay_pythons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typing.NamedTupleMeta, "__new__", typing.NamedTupleMeta.__new__)
    named_tuples.build_quickly()

    class Pair(NamedTuple, Generic[T]):
        one: T

    class Empty(NamedTuple):
        pass

    assert Pair[int](1).one == 1
    assert Empty() == ()
    assert NamedTuple("Called", [("at", int)])(1).at == 1


class Stored(NamedTuple):
    at: float
    name: str = "x"


def test_they_are_copied_and_stored_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing.NamedTupleMeta, "__new__", typing.NamedTupleMeta.__new__)
    named_tuples.build_quickly()

    class Stored(NamedTuple):
        at: float
        name: str = "x"

    Stored.__qualname__ = "Stored"
    monkeypatch.setattr(sys.modules[__name__], "Stored", Stored)
    one = Stored(2.0)
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert type(pickle.loads(pickle.dumps(one))) is Stored


def test_once_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing.NamedTupleMeta, "__new__", typing.NamedTupleMeta.__new__)
    named_tuples.build_quickly()
    first = typing.NamedTupleMeta.__new__
    named_tuples.build_quickly()
    assert typing.NamedTupleMeta.__new__ is first


@pytest.mark.parametrize("name", ["NamedTupleMeta", "_type_check"])
def test_a_python_that_makes_them_otherwise_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before = typing.NamedTupleMeta.__new__
    meta = typing.NamedTupleMeta
    monkeypatch.delattr(typing, name)
    named_tuples.build_quickly()
    assert meta.__new__ is before


def test_the_program_does_so_and_a_caller_in_its_own_process_is_left_alone() -> None:
    code = (
        "import sys, typing; meta = typing.NamedTupleMeta; before = meta.__new__\n"
        "from gpumon.cli import main\n"
        "main(['--version']); assert meta.__new__ is before\n"
        "sys.argv[1:] = ['--version']\n"
        "import os; os._exit = lambda code: print(meta.__new__.__module__)\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "gpumon.base.named_tuples"
