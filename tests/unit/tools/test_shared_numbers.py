"""Numbers that mean the same are equal, and what tests hold them shows when they are others."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.changed_number import changed
from tools.shared_numbers import Shared, listed

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("number", listed(), ids=lambda number: number.constants[0])
def test_what_means_the_same_is_equal_and_its_tests_are_there(number: Shared) -> None:
    assert len(set(number.values())) == 1
    assert number.changed not in number.values()
    for test in number.tests:
        path, _, name = test.partition("::")
        assert (ROOT / "tests" / path).exists()
        assert not name or f"def {name}" in (ROOT / "tests" / path).read_text(encoding="utf-8")


def test_a_constant_is_changed_before_anything_is_made_of_it() -> None:
    tree = changed("A: Final = 3\nB = 2 * A\n", "A", "5")
    assert ast.unparse(tree) == "A: Final = 5\nB = 2 * A"
    with pytest.raises(ValueError, match="no constant is called C"):
        changed("A = 1\n", "C", "5")


def test_a_test_that_holds_a_number_fails_when_it_is_another_one() -> None:
    staleness = next(one for one in listed() if "staleness" in one.constants[0])
    assert staleness.is_held(staleness.constants[0])
