"""The five tasks that take six keys at most: their questions and keys, for pictures and tests."""

from __future__ import annotations

from typing import Final, NamedTuple

MOST_KEYS: Final = 6
DEMO: Final = "gpumon demo?seed=1 --past 2h"
LAB_FILE: Final = "tests/tui/recordings/lab.gpumon.zst"
LAB: Final = f"gpumon replay {LAB_FILE} --at=-0"
"""Stands at the end of what was recorded in the lab."""


class Task(NamedTuple):
    """A question, and the keys that lead to its answer; every press of one counts."""

    name: str
    question: str
    keys: tuple[str, ...]
    """By tmux's names."""
    lab_keys: tuple[str, ...] = ()
    """The same in the lab's recording, where they differ."""

    def keys_of(self, command: str) -> tuple[str, ...]:
        """What is pressed in the demo or in the lab's recording."""
        return self.lab_keys if command == LAB and self.lab_keys else self.keys


TASKS: Final = (
    Task("waste", "Which job wastes most, and why?", ("W", "Enter")),
    Task(
        "rank",
        "Which rank of this job is at fault?",
        ("j", "Enter", "Tab", "s"),
        ("Enter", "Tab", "s"),
    ),
    Task("nvlink", "Is my job's NVLink used?", ("Enter",)),
    Task("past", "What did the fleet do ten minutes ago?", ("9", "T", "1", "0", "Enter")),
    Task(
        "profile",
        "Which command profiles this rank?",
        ("j", "Enter", "Tab", "s", "x"),
        ("Enter", "Tab", "s", "x"),
    ),
)
