"""Files of /proc/PID, as a kernel writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def stat_line(
    pid: int,
    name: str = "python",
    *,
    state: str = "S",
    parent: int = 1,
    cpu: int = 0,
    waited: int = 0,
    start: int = 100,
    pages: int = 0,
) -> str:
    """Text of /proc/PID/stat; times in ticks, memory in pages."""
    used = f"{cpu} 0 {waited} 0"
    return f"{pid} ({name}) {state} {parent} 1 1 0 -1 0 1 2 3 4 {used} 20 0 1 0 {start} 9 {pages} 0"


def write_statm(proc: Path, pid: int, pages: int) -> None:
    """Make or replace /proc/PID/statm below `proc`: so many pages are resident."""
    (proc / str(pid) / "statm").write_text(f"{2 * pages} {pages} 3 1 0 7 0\n")


def write_stat(proc: Path, pid: int, **fields: object) -> None:
    """Make or replace /proc/PID/stat below `proc`."""
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(stat_line(pid, **fields) + "\n")  # type: ignore[arg-type]
