"""A fault is green only where its tests passed and the right words were said."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.fault_matrix import complaints, made, shown_of
from tools.fault_rows import FAULTS, Fault

ROOT = Path(__file__).parents[3]
EVERY = [fault for faults in FAULTS.values() for fault in faults]
FAULT = Fault("a disk fills up", "the rest", r"no space", "a line", ("tests/a/test_b.py::test_c",))


def results(inner="", said="no space left", name="test_c[1]"):
    """One test in JUnit's XML."""
    told = f'<properties><property name="said" value="{said}"/></properties>' if said else ""
    case = f'<testcase classname="tests.a.test_b" name="{name}">{told}{inner}</testcase>'
    return made(f"<testsuites><testsuite>{case}</testsuite></testsuites>")


def test_words_that_were_said_by_a_test_that_passed_are_green():
    assert shown_of(FAULT, results()) == "no space left"


@pytest.mark.parametrize(
    "found",
    [
        results(said="it failed"),
        results(said=""),
        results("<failure/>"),
        results("<skipped/>"),
        results(name="test_other"),
        {},
    ],
)
def test_other_words_or_a_test_that_did_not_pass_are_not(found):
    assert shown_of(FAULT, found) is None


def test_a_slurm_that_could_not_be_had_today_makes_nothing_red():
    moving = results("<skipped/>", said="", name="test_c[26.05]")
    assert shown_of(FAULT, moving) is None
    whole = '<testcase classname="tests.a.test_b" name="{}">{}</testcase>'
    told = '<properties><property name="said" value="no space"/></properties>'
    both = whole.format("test_c[24.11]", told) + whole.format("test_c[26.05]", "<skipped/>")
    assert shown_of(FAULT, made(f"<testsuite>{both}</testsuite>")) == "no space"


def test_each_that_is_not_green_is_named():
    assert len(complaints({})) == len(EVERY)
    assert EVERY[0].what in complaints({})[0]


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.what)
def test_a_fault_is_made_by_tests_that_there_are_and_that_tell_what_is_said(fault):
    for name in fault.tests:
        file, _, test = name.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        (found,) = [
            one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name == test
        ]
        assert "said" in {arg.arg for arg in found.args.args}, name
