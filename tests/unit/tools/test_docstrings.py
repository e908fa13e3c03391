"""Authors of detectors read every public name that they may use, in the words of its docstring."""

from __future__ import annotations

import ast

import pytest

import gpumon.plugin
from gpumon.detect.view import JobLook, View
from gpumon.plugin.testing import Scene
from tools import docstring_gaps, docstrings


def test_every_name_that_is_offered_has_a_line_and_a_sentence() -> None:
    lines = docstrings.offered().splitlines()
    assert {line.split("`")[1] for line in lines} == set(gpumon.plugin.__all__)
    assert [line for line in lines if not line.endswith(".")] == []


def test_methods_and_properties_are_all_there_with_their_parameters() -> None:
    for kind, text, name in (
        (View, docstrings.view(), "view"),
        (JobLook, docstrings.job(), "job"),
        (Scene, docstrings.scene(), "scene"),
    ):
        listed = {line.split("`")[1].partition("(")[0] for line in text.splitlines()}
        public = {f"{name}.{key}" for key in vars(kind) if not key.startswith("_")}
        assert public - listed == set()
    assert "- `view.table(entities, keys, seconds, since)`: " in docstrings.view()
    assert "- `job.subject`: How a finding names this job.\n" in docstrings.job()


def test_what_an_instance_is_given_at_its_start_is_there() -> None:
    assert "- `view.now`: " in docstrings.view()
    assert "- `job.ranks`: " in docstrings.job()


def test_no_public_function_leaves_out_what_its_code_shows() -> None:
    found = [
        f"{file.name}:{line}: {name} does not say: {what}"
        for folder in docstring_gaps.FOLDERS
        for file in sorted(folder.rglob("*.py"))
        for name, line, what in docstring_gaps.gaps(ast.parse(file.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("def f():\n    'It is.'\n    raise A.WrongError(1)", ["raises WrongError"]),
        ("def f():\n    '''It is.\n\n    Raises:\n        A: b.\n    '''\n    raise A", []),
        ("def f():\n    'It is.'\n    try:\n        raise A\n    except A:\n        pass", []),
        ("def f():\n    'It is.'\n    def g():\n        raise A", []),
        ("def _f():\n    'It is.'\n    raise A", []),
        ("def f() -> NDArray[int]:\n    'Its power.'", ["what stands along the NDArray[int]"]),
        ("def f() -> NDArray[int]:\n    'Its power, by GPU.'", []),
    ],
)
def test_what_a_docstring_leaves_out_is_found(code: str, what: list[str]) -> None:
    assert [said for _, _, said in docstring_gaps.gaps(ast.parse(code))] == what


def test_every_public_number_says_what_it_is() -> None:
    found = [
        f"{file.relative_to(docstring_gaps.ROOT)}:{line}: {name}"
        for folder in docstring_gaps.FOLDERS
        for file in sorted(folder.rglob("*.py"))
        for name, line in docstring_gaps.bare_numbers(ast.parse(file.read_text()))
    ]
    assert found == [], "a docstring below it: what it is, its unit, and why it is so large"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("A: Final = 7\nB = -0.5\n'Of both.'", ["A"]),
        ("A = 3 * HOUR_S", ["A"]),
        ("A = 7\n'Rooms. A choice.'\n_B = 8\nc = 9\nD = 'x'\nE = True\nF = [1]", []),
        ("A = HOUR_S", []),
        ("def f():\n    A = 7", []),
    ],
)
def test_numbers_without_a_word_are_found(code: str, names: list[str]) -> None:
    assert [name for name, _ in docstring_gaps.bare_numbers(ast.parse(code))] == names


def test_no_docstring_only_repeats_its_name() -> None:
    found = [
        f"{file.relative_to(docstring_gaps.ROOT)}:{line}: {name}"
        for folder in docstring_gaps.FOLDERS
        for file in sorted(folder.rglob("*.py"))
        for name, line in docstring_gaps.echoes(ast.parse(file.read_text()))
    ]
    assert found == [], "say the result, its shape, its unit, or what it does not do"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def open_rows():\n    'Open the row.'", ["open_rows"]),
        ("class JobView:\n    'A view.'\n    def name(self):\n        'Name of the job.'",
         ["JobView", "name"]),
        ("class A:\n    row_bytes: int\n    'Bytes of one row.'", ["row_bytes"]),
        ("def open_row():\n    'Show the page of the job.'", []),
        ("class A:\n    rank: int\n    'Rank within the world.'", []),
        ("def f():\n    pass", []),
    ],
)  # fmt: skip
def test_an_echo_is_found(code: str, names: list[str]) -> None:
    assert [name for name, _ in docstring_gaps.echoes(ast.parse(code))] == names
