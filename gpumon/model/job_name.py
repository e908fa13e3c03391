"""What Slurm's commands need so that they mean one job, and no other beside it.

One task of an array has the array's own number. `scancel`, `scontrol requeue` and `sacct` take that
number for all tasks, and some of them pass over the numbers of the others: they need `5_2`. For
`sstat` it is the other way round, `5_2` is all tasks to it. `srun` takes numbers, each of them for
one task. A component of a heterogeneous job is `7+1`; steps and requeues know the whole only.
All of this as Slurm 22.05 and 24.11 do it, seen on both (`tests/lab/test_actions.py`).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_TASKS: Final = 4096
"""Most tasks of ranges with a step, which are written out; Slurm itself writes them out."""

_LABEL: Final = re.compile(
    r"(?P<leader>[1-9][0-9]{0,9})"
    r"(?:_(?P<task>[0-9]{1,10})|_\[(?P<tasks>[^\]]{1,65536})\]|\+(?P<component>[0-9]{1,10}))?"
)
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")
TASK_RANGE: Final = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([1-9][0-9]{0,6}))?)?")
"""Tasks of an array as Slurm writes them: `7`, `1-9`, `1-9:2`."""

_THROTTLE: Final = re.compile(r"%[0-9]{1,10}\Z")


class JobName(NamedTuple):
    """One job, one array task, the tasks of an array that wait together, or one component."""

    number: str
    """Slurm's own number of the record."""
    leader: str
    """Number of the array or of the heterogeneous job; of another job its own."""
    tasks: tuple[tuple[int, int], ...] = ()
    """Ranges of the array's tasks, both ends included."""
    component: str = ""
    """Offset within a heterogeneous job."""
    waits_together: bool = False
    """Whether these are tasks that have not started, which Slurm lists as one."""
    is_cut: bool = False
    """Whether Slurm has left out some of these tasks: it is unknown which."""

    @property
    def label(self) -> str:
        """What people type, and `scancel` takes: `101`, `5_2`, `5_[3-9]`, `7+1`; empty: cut off."""
        if self.is_cut:
            return ""
        if self.component:
            return f"{self.leader}+{self.component}"
        spans = ",".join(str(low) if low == high else f"{low}-{high}" for low, high in self.tasks)
        if not self.tasks:
            return self.leader
        return f"{self.leader}_[{spans}]" if self.waits_together else f"{self.leader}_{spans}"

    @property
    def shown(self) -> str:
        """What `scontrol show job` takes for this record: no lists, so the first task of one."""
        return f"{self.leader}_{self.tasks[0][0]}" if self.waits_together else self.label

    @property
    def srun_words(self) -> tuple[str, ...]:
        """Options by which srun finds the job; it knows a component by the whole's number only."""
        if self.component:
            return (f"--jobid={self.leader}", f"--het-group={self.component}")
        return (f"--jobid={self.number}",)

    @property
    def sstat_words(self) -> tuple[str, ...]:
        """Options by which sstat finds the job's steps and no other task's.

        By the array's number it lists the steps of all tasks, unless a step is named.
        """
        if self.tasks and self.number == self.leader:
            return ("-j", f"{self.label}.batch")
        return ("-a", "-j", self.number)

    @property
    def whole(self) -> JobName:
        """The heterogeneous job of which this is a component."""
        return JobName(self.leader, self.leader)

    def covers(self, other: JobName) -> bool:
        """Whether a command about this one is about the other, or about some of its tasks."""
        if self.leader != other.leader:
            return False
        if self.component:
            return self.component == other.component
        if not self.tasks:
            return True
        return any(
            low <= last and first <= high for low, high in self.tasks for first, last in other.tasks
        )


def job_name(number: str, label: str = "") -> JobName | None:
    """The job that Slurm lists with this number and label; None where one of them is none.

    Args:
        number: Slurm's own number.
        label: The id people use, `5_[3-9%2]` with its limit included; empty: not known.
    """
    found = _LABEL.fullmatch(label or number)
    if found is None or not _NUMBER.fullmatch(number):
        return None
    leader = found["leader"]
    if found["task"] is not None:
        task = int(found["task"])
        return JobName(number, leader, ((task, task),))
    if found["component"] is not None:
        return JobName(number, leader, component=str(int(found["component"])))
    if found["tasks"] is None:
        return JobName(number, leader)
    spans: list[tuple[int, int]] = []
    is_cut = False
    room = MAX_TASKS
    for part in _THROTTLE.sub("", found["tasks"]).split(","):
        one = TASK_RANGE.fullmatch(part.strip())
        whole = _spans(*one.groups()) if one else ()
        if one and one[3]:
            room -= len(whole)
            if room < 0:
                is_cut = True
                break
        spans += whole
        is_cut = is_cut or not whole
    return (
        JobName(
            number=number,
            leader=leader,
            tasks=tuple(spans),
            component="",
            waits_together=True,
            is_cut=is_cut,
        )
        if spans
        else None
    )


def _spans(first: str, last: str | None, step: str | None) -> tuple[tuple[int, int], ...]:
    """The ranges of one part of a list; none where it makes no sense."""
    low = int(first)
    high = int(last or first)
    if high < low:
        return ()
    if step is None or step == "1":
        return ((low, high),)
    found = range(low, high + 1, int(step))
    # scancel takes no steps.
    return tuple((task, task) for task in found) if len(found) <= MAX_TASKS else ()
