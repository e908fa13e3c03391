"""A run whose lab was skipped is no pass."""

from __future__ import annotations

from tools.lab_ran import complaints

OLD = '<testcase classname="tests.lab.test_cluster" name="test_a[22.05]" time="1"/>'
NEW = '<testcase classname="tests.lab.test_cluster" name="test_a[24.11-alice]" time="1"/>'
RAN = OLD + NEW
SKIPPED = """<testcase classname="tests.lab.test_cluster" name="test_b" time="0">
<skipped type="pytest.skip" message="the lab needs root">...</skipped></testcase>"""
OTHER = """<testcase classname="tests.unit.lab.test_standin" name="test_c" time="0">
<skipped type="pytest.skip" message="no C compiler">...</skipped></testcase>"""


def run(*cases: str) -> list[str]:
    return complaints(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")


def test_a_lab_that_ran_is_fine_whatever_else_was_skipped() -> None:
    assert run(RAN, OTHER) == []


def test_a_skipped_test_of_the_lab_is_named_with_its_reason() -> None:
    assert run(RAN, SKIPPED) == ["skipped: tests.lab.test_cluster::test_b: the lab needs root"]


def test_a_run_without_the_lab_is_no_run() -> None:
    assert run(OTHER) == ["no test of the lab was run"]


def test_a_version_of_slurm_that_no_test_ran_on_is_named() -> None:
    assert run(OLD, OTHER) == ["no test of the lab was run on Slurm 24.11"]


def test_a_suite_that_changes_any_day_may_have_no_slurm() -> None:
    gone = SKIPPED.replace("test_b", "test_b[26.05]")
    assert run(RAN, gone) == []
    assert run(RAN, gone.replace("26.05", "24.11")) != []
