"""A fact has one place; what is alike by chance, or by choice, has a reason."""

from __future__ import annotations

import ast

import pytest

from tools import repeated


def test_no_fact_stands_in_two_modules_without_a_reason() -> None:
    loose = repeated.unreasoned(repeated.repeated(), repeated.reasons())
    assert loose == [], (
        "`python -m tools.repeated` says where; a reason goes into tools/repeated.toml"
    )
    assert all(repeated.reasons().values())


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ("A = ('sm', 'tensor', 'dram')", "f(['sm', 'tensor', 'dram'])", "'sm', 'tensor', 'dram'"),
        ("A = {'b', 'a', 'c'}", "B = {'c', 'a', 'b'}", "'a', 'b', 'c'"),
        ("_MAX_PORT: Final = 65535", "MAX_PORT = 65535", "MAX_PORT = 65535"),
        ("A = {1: 'a', 2: 'b', 3: 'c'}", "B = {3: 'c', 1: 'a', 2: 'b'}", "1: 'a', 2: 'b', 3: 'c'"),
    ],
)
def test_what_two_modules_define_is_found(first: str, second: str, what: str) -> None:
    assert what in repeated.found_in({"m": ast.parse(first), "n": ast.parse(second)})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("A = ('sm', 'dram')", "B = ('sm', 'dram')"),
        ("A = (1, 2, 3)", "B = (1, 2, 3)"),
        ("A = 3", "B = 3"),
        ("A = 3", "A = 4"),
        ("A = (x, 'b', 'c')", "B = (x, 'b', 'c')"),
    ],
)
def test_what_is_alike_by_chance_is_not(first: str, second: str) -> None:
    assert repeated.found_in({"m": ast.parse(first), "n": ast.parse(second)}) == {}
