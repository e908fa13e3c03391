"""Records are made by keyword: no two values change places unseen."""

from __future__ import annotations

import ast

import pytest

from tools import records

RECORD = """
class Sample(NamedTuple):
    at: float
    power_w: float
    temp_c: float
    util_ratio: float
    mem_bytes: float
    kind: ClassVar[str] = "gpu"

    @classmethod
    def empty(cls):
        return cls({})
"""
MADE = {
    "0.0, 1.0, 2.0, 3.0": 0,
    "0.0, 1.0, 2.0, 3.0, 4.0": 1,
    "0.0, 1.0, 2.0, 3.0, mem_bytes=4.0": 0,
}


def test_no_record_of_gpumon_takes_more_than_four_arguments_without_a_name() -> None:
    long = {
        module: [call.node.lineno for call in found]
        for module, found in records.long_calls().items()
    }
    assert long == {}, "python -m tools.records --mend names them"


@pytest.mark.parametrize(("arguments", "count"), MADE.items())
def test_arguments_without_a_name_are_counted(arguments: str, count: int) -> None:
    assert len(list(records.calls(ast.parse(RECORD.format(arguments))))) == count


def test_a_class_that_is_no_record_takes_what_it_likes() -> None:
    tree = ast.parse("class A:\n    pass\nA(1, 2, 3, 4, 5)")
    assert list(records.calls(tree)) == []


def test_arguments_get_their_names_with_brackets_lambdas_and_comments_around_them() -> None:
    before = RECORD.format("(0.0), # s\n (1.0 + 2) * 3, lambda a, b: a, 'é', (yield)")
    after = records.mended(before, list(records.calls(ast.parse(before))))
    assert after == RECORD.format(
        "at=(0.0), # s\n power_w=(1.0 + 2) * 3, temp_c=lambda a, b: a, util_ratio='é', "
        "mem_bytes=(yield)"
    )


def test_what_classmethods_make_counts_too() -> None:
    tree = ast.parse(RECORD.format("0, 1, 2, 3, 4"))
    (call,) = records.calls(tree)
    assert (call.record, call.is_row) == ("Sample", False)


def test_a_row_of_a_table_keeps_its_first_arguments_as_columns() -> None:
    before = RECORD + "\nTABLE = (Sample(0, 1, 2, 3, 4),)\n"
    after = records.mended(before, list(records.calls(ast.parse(before))))
    assert after.endswith("\nTABLE = (Sample(0, 1, 2, 3, mem_bytes=4),)\n")
