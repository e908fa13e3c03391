"""Reading /proc/PID/stat: any program's name, any damage, and scans that several share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.probe.kernel.process_stat import AllProcesses, ProcessStat, Use, process_stat
from tests.worlds.proc import stat_line, write_stat

if TYPE_CHECKING:
    from pathlib import Path

NO_NAMES = "S (1) 2 \u00b2 -3 x 12345678901234567890123\n"


@pytest.mark.parametrize("name", ["python", "a) S 1 (b", "", "x\ny", ") R 3"])
def test_any_name_of_a_program_leaves_the_numbers_readable(name: str) -> None:
    line = stat_line(7, name, state="D", parent=3, cpu=11, waited=5, start=99, pages=4)
    assert process_stat(line.encode()) == ProcessStat("D", 3, 99, Use(11, 5, 4))


def test_a_short_file_tells_what_is_there() -> None:
    line = stat_line(7, parent=3, start=99).rsplit(" ", 2)[0]
    assert process_stat(line.encode()) == ProcessStat("S", 3, 99, None)


@pytest.mark.parametrize("text", ["", "7 (a) S 1 2", "7 (a) S -1 " + "0 " * 30, ")" + " x" * 30])
def test_what_names_no_parent_or_start_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"stat file|no number"):
        process_stat(text.encode())


@given(st.text(alphabet=NO_NAMES, max_size=200))
def test_no_text_is_too_strange(text: str) -> None:
    try:
        found = process_stat(text.encode())
    except ValueError:
        return
    assert found.parent >= 0
    assert found.start_ticks >= 0
    assert found.use is None or min(found.use) >= 0


def test_whoever_asks_within_five_seconds_shares_a_look(tmp_path: Path) -> None:
    write_stat(tmp_path / "proc", 7)
    every = AllProcesses(str(tmp_path))
    first = every.snapshot(10.0)
    write_stat(tmp_path / "proc", 8)
    assert every.snapshot(14.9) is first
    second = every.snapshot(15.0)
    assert (set(first.stats), set(second.stats)) == ({7}, {7, 8})
    assert (first.reason, first.is_refused) == ("", False)


def test_a_proc_without_processes_is_a_failure(tmp_path: Path) -> None:
    assert AllProcesses(str(tmp_path)).snapshot(1.0).reason == "failed"
