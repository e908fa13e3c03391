"""One tree of errors, each with a place in it and a line that says what it is."""

from __future__ import annotations

from gpumon.base.errors import DamagedError, GpumonError, InputError
from gpumon.cli.exits import DONE, NOTHING_READ, UNKNOWN_STATUS, USAGE, ended_by
from gpumon.cli.output import OutputError, ReaderGoneError
from gpumon.sources.address import TargetError
from tools.exceptions import Raised, exceptions, outside, raised


def test_everything_that_gpumon_raises_itself_is_of_one_tree() -> None:
    assert outside(raised()) == []


def test_one_beside_the_tree_is_found() -> None:
    alone = Raised("AloneError", ("ValueError",), "gpumon/alone.py", "Alone.")
    child = Raised("ChildError", ("InputError", "ValueError"), "gpumon/child.py", "A child.")
    assert outside((*raised(), alone, child)) == ["gpumon/alone.py: AloneError"]


def test_each_says_what_it_is() -> None:
    assert [one.name for one in raised() if not one.summary.endswith(".")] == []


def test_the_page_has_each_with_the_exit_code_of_its_branch() -> None:
    rows = {row.split("`")[1]: row for row in exceptions().splitlines() if "Error`" in row}
    shown = {one.name for one in raised() if not one.name.startswith("_")}
    assert rows.keys() - {"gpumon/base/errors.py"} >= shown
    assert "| 2 |" in rows["TargetError"]
    assert "| 1 |" in rows["RecordingError"]
    assert "| 0 |" in rows["ReaderGoneError"]


def test_a_branch_decides_how_a_command_ends(capsys) -> None:
    assert ended_by(TargetError("no target"), is_check=False) == USAGE
    assert ended_by(DamagedError("no recording"), is_check=False) == NOTHING_READ
    assert ended_by(OutputError("it is full"), is_check=False) == NOTHING_READ
    assert ended_by(ReaderGoneError("its reader is gone"), is_check=True) == DONE
    assert capsys.readouterr().err == (
        "gpumon: no target\ngpumon: no recording\ngpumon: standard output: it is full\n"
    )


def test_to_a_monitoring_check_each_of_them_is_unknown() -> None:
    kinds: tuple[GpumonError, ...] = (InputError("x"), DamagedError("x"), GpumonError("x"))
    assert {ended_by(one, is_check=True) for one in kinds} == {UNKNOWN_STATUS}
