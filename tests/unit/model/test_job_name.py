"""Which words of a command mean one job and no other beside it."""

from __future__ import annotations

import pytest

from gpumon.model.job_name import MAX_TASKS, job_name


@pytest.mark.parametrize(
    ("number", "label", "target", "shown"),
    [
        ("101", "101", "101", "101"),
        ("101", "", "101", "101"),
        ("58", "58_2", "58_2", "58_2"),
        ("58", "58_[3-9]", "58_[3-9]", "58_3"),
        ("58", "58_[3-9%4]", "58_[3-9]", "58_3"),
        ("58", "58_[4-9:2,12%2]", "58_[4,6,8,12]", "58_4"),
        ("58", "58_[0-3:1]", "58_[0-3]", "58_0"),
        ("58", "58_[7]", "58_[7]", "58_7"),
        ("71", "70+1", "70+1", "70+1"),
        ("58", "58_[0,3,6...]", "", "58_0"),
        ("58", f"58_[0-{3 * MAX_TASKS}:3]", None, None),
    ],
)
def test_the_label_is_what_commands_take(number, label, target, shown):
    found = job_name(number, label)
    assert (found and found.label, found and found.shown) == (target, shown)


@pytest.mark.parametrize(
    ("number", "label"),
    [
        ("", ""),
        ("5;id", "5"),
        ("5", "5;id"),
        ("5", "5_[1;id]"),
        ("5", "5_[$(id)]"),
        ("5", "5_[]"),
        ("5", "5_[9-3]"),
        ("5", "-5"),
        ("0", "0"),
        ("5_2", "5_2"),
        ("5", "5_2\n"),
        ("5", "٥"),
    ],
)
def test_what_is_no_job_has_no_name(number, label):
    assert job_name(number, label) is None


@pytest.mark.parametrize(
    ("mine", "other", "is_covered"),
    [
        (("101", "101"), ("101", "101"), True),
        (("101", "101"), ("102", "102"), False),
        (("58", "58_2"), ("58", "58_2"), True),
        (("58", "58_2"), ("59", "58_1"), False),
        (("58", "58_2"), ("58", "58_[1-3]"), True),
        (("58", "58_2"), ("58", "58"), False),
        (("58", "58_[3-9]"), ("60", "58_4"), True),
        (("58", "58_[3-9]"), ("60", "58_10"), False),
        (("70", "70"), ("71", "70+1"), True),
        (("71", "70+1"), ("70", "70+0"), False),
        (("71", "70+1"), ("71", "70+1"), True),
    ],
)
def test_a_command_is_about_the_records_of_its_tasks_only(mine, other, is_covered):
    one, two = job_name(*mine), job_name(*other)
    assert one
    assert two
    assert one.covers(two) is is_covered


def test_the_whole_of_a_component_is_known_by_the_first_number():
    second = job_name("71", "70+1")
    assert second
    assert second.whole.label == "70"


def test_tasks_that_many_ranges_write_out_are_cut() -> None:
    name = job_name("5", f"5_[{','.join(['0-4000:2'] * 40)}]")
    assert name is not None
    assert name.is_cut
    assert len(name.tasks) <= MAX_TASKS
