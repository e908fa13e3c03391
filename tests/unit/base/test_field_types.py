"""Types of fields as texts, and everything else of typing as it was."""

from __future__ import annotations

import subprocess
import sys
import typing
from typing import NamedTuple

import pytest

from gpumon.base import field_types

if typing.TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Leaves texts as they are until the test ends."""
    monkeypatch.setattr(typing, "_type_check", typing._type_check)
    return field_types.leave_as_text


def test_a_field_keeps_its_type_as_text_and_its_hints_are_the_same(
    left: Callable[[], None],
) -> None:
    left()

    class Reading(NamedTuple):
        at: float
        names: dict[str, int] | None = None

    assert Reading.__annotations__ == {"at": "float", "names": "dict[str, int] | None"}
    assert typing.get_type_hints(Reading) == {"at": float, "names": dict[str, int] | None}
    assert Reading(1.5) == (1.5, None)


def test_what_is_no_type_is_refused_as_before(left: Callable[[], None]) -> None:
    left()
    with pytest.raises(TypeError, match="field at"):
        NamedTuple("Wrong", [("at", (int,))])
    assert typing.get_type_hints(typing.TypedDict("T", {"a": "int"})) == {"a": int}
    assert typing.get_args(typing.Optional["int"])[0] == typing.ForwardRef("int")


def test_once_is_enough(left: Callable[[], None]) -> None:
    left()
    first = typing._type_check
    left()
    assert typing._type_check is first


def test_a_python_that_checks_otherwise_stays_as_it_is(
    left: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(typing, "_type_check")
    left()
    assert not hasattr(typing, "_type_check")


def test_the_program_leaves_them_and_a_caller_in_its_own_process_is_left_alone() -> None:
    code = (
        "import sys, typing; before = typing._type_check; from gpumon.cli import main\n"
        "main(['--version']); assert typing._type_check is before\n"
        "sys.argv[1:] = ['--version']\n"
        "import os; os._exit = lambda code: print(typing._type_check.__module__)\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "gpumon.base.field_types"
