"""Processes that end between two of the driver's lists of them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from gpumon.probe.holders.processes import Processes
from tests.worlds.proc import stat_line

if TYPE_CHECKING:
    from pathlib import Path


def begun(root: Path, pid: int, name: str, start: int = 100) -> Path:
    folder = root / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(stat_line(pid, name, start=start))
    (folder / "comm").write_text(name)
    return folder


def test_one_that_was_read_and_has_ended_is_left_out_until_it_is_still_listed(
    tmp_path: Path,
) -> None:
    """The driver's list is up to five seconds old; only what it has for longer is strange."""
    folder = begun(tmp_path, 77, "train")
    begun(tmp_path, 78, "serve")
    known = Processes(str(tmp_path))
    known.rows([77, 78], 1.0)
    shutil.rmtree(folder)
    seen = []
    for now in (2.0, 3.0, 6.0, 7.0, 11.0):
        rows = known.rows([77, 78], now)
        seen.append([row.missing.get("name", row.labels.get("name")) for row in rows])
    gone, still = ["serve"], ["no_process", "serve"]
    assert seen == [gone, gone, gone, gone, still]


def test_another_one_of_the_same_number_is_shown_at_once(tmp_path: Path) -> None:
    folder = begun(tmp_path, 77, "train")
    known = Processes(str(tmp_path))
    known.rows([77], 1.0)
    shutil.rmtree(folder)
    assert known.rows([77], 2.0) == []
    assert known.ended == {77}
    begun(tmp_path, 77, "serve", start=700)
    (again,) = known.rows([77], 3.0)
    assert again.labels["name"] == "serve"
    assert known.ended == set()
