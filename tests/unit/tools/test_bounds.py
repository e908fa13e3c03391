"""The page of bounds says what the code does, and a test meets each of them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tools.bounds import BOUNDS, GROUPS, OTHERS, Bound, constants, quantity, rows

TESTS = Path(__file__).resolve().parents[2]


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    found = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, found))


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.constant)
def test_each_bound_is_one_of_the_code_and_is_met_by_a_test(bound: Bound) -> None:
    file, _, name = bound.test.partition("::")
    assert name in names_in(file)
    assert bound.shown
    assert bound.said


def test_no_bound_of_the_code_is_left_out() -> None:
    listed = {bound.constant for bound in BOUNDS}
    loose = set(constants()) - listed - set(OTHERS)
    assert loose == set(), "tools/bounds.toml: add a row, or why it is no bound to [others]"


def test_what_is_no_bound_is_a_constant_and_has_no_row() -> None:
    assert set(OTHERS) - set(constants()) == set()
    assert set(OTHERS) & {bound.constant for bound in BOUNDS} == set()


def test_each_bound_has_one_row() -> None:
    assert len({bound.constant for bound in BOUNDS}) == len(BOUNDS)
    assert sum(len(rows(group)) for group in GROUPS) == len(BOUNDS)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (3 * 2**30, "bytes", "3 GiB"),
        (5 * 2**20, "bytes", "5 MiB"),
        (1536, "bytes", "1,536 bytes"),
        (0.2, "s", "0.2 s"),
        (90.0, "s", "90 s"),
        (7200.0, "s", "2 h"),
        (31 * 86400.0, "s", "31 days"),
        (12345, "", "12,345"),
    ],
)
def test_values_are_told_in_units_that_people_use(value: float, unit: str, shown: str) -> None:
    assert quantity(value, unit) == shown
