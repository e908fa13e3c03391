"""Who is where in a picture, as positions: what a look needs to ask about all GPUs at once.

Nothing here changes while no GPU comes or goes and no job starts or ends, so the worker keeps it
from look to look; detectors get at it through the view.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpumon.detect.facts.facts import part_mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.detect.facts.facts import GpuFacts
    from gpumon.model.records.cluster import JobView


class Groups(NamedTuple):
    """Groups of GPUs, as of one job, end to end; groups without a member are left out."""

    size: int
    """How many groups there are, those without a member included."""
    numbers: NDArray[np.intp]
    """Which groups have members, ascending."""
    starts: NDArray[np.intp]
    """Where each of these begins within `members`."""
    members: NDArray[np.intp]
    """Positions of GPUs."""

    @classmethod
    def of(cls, groups: Iterable[Sequence[int]]) -> Groups:
        """Groups from the positions of each one's members."""
        kept = list(groups)
        sizes = np.fromiter((len(group) for group in kept), np.intp, len(kept))
        flat = (place for group in kept for place in group)
        members = np.fromiter(flat, np.intp, int(sizes.sum()))
        numbers = np.flatnonzero(sizes)
        ends = np.cumsum(sizes[numbers])
        return cls(len(kept), numbers, ends - sizes[numbers], members)

    def places(self, number: np.intp) -> NDArray[np.intp]:
        """Positions of the members of one group."""
        row = int(self.numbers.searchsorted(number))
        if row == len(self.numbers) or self.numbers[row] != number:
            return self.members[:0]
        end = self.starts[row + 1] if row + 1 < len(self.starts) else len(self.members)
        return self.members[self.starts[row] : end]

    def some(self, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Per group whether a flag of any member is set; false without members."""
        found = np.zeros(self.size, np.bool_)
        if len(self.members):
            found[self.numbers] = np.logical_or.reduceat(flags[self.members], self.starts)
        return found

    def least(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Per group the least of the known values, NaN without any."""
        found = np.full(self.size, np.nan)
        if len(self.members):
            found[self.numbers] = np.fmin.reduceat(values[self.members], self.starts)
        return found

    def most(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Per group the largest of the known values, NaN without any."""
        return -self.least(-values)

    def spread(self, flags: NDArray[np.bool_], gpus: int) -> NDArray[np.bool_]:
        """Per GPU whether the flag of any group is set that it is in."""
        sizes = np.diff(np.append(self.starts, len(self.members)))
        found = np.zeros(gpus, np.bool_)
        found[self.members[np.repeat(flags[self.numbers], sizes)]] = True
        return found


class GpuLayout:
    """GPUs by position: in the order in which the picture holds them."""

    def __init__(self, gpus: Mapping[str, GpuFacts]) -> None:
        self.uuids = tuple(gpus)
        self.place = {uuid: place for place, uuid in enumerate(self.uuids)}
        self._gpus = gpus

    @cached_property
    def kinds(self) -> Groups:
        """GPUs of one product on one node."""
        return self._groups([(gpu.node, gpu.name) for gpu in self._gpus.values()])

    @cached_property
    def nodes(self) -> tuple[tuple[str, ...], Groups]:
        """Names of the nodes that GPUs are on, and who is on each."""
        names = [gpu.node for gpu in self._gpus.values()]
        return tuple(dict.fromkeys(names)), self._groups(names)

    def places(self, uuids: Iterable[str]) -> list[int]:
        """Positions of those that are known."""
        known = self.place
        return [known[uuid] for uuid in uuids if uuid in known]

    @staticmethod
    def _groups(marks: Sequence[object]) -> Groups:
        found: dict[object, list[int]] = {}
        for place, mark in enumerate(marks):
            found.setdefault(mark, []).append(place)
        return Groups.of(found.values())


class JobLayout:
    """Running jobs by number: in the order in which the picture holds them."""

    def __init__(self, gpus: GpuLayout, jobs: Sequence[JobView]) -> None:
        self._gpus = gpus
        self._jobs = jobs

    @cached_property
    def groups(self) -> Groups:
        """Known GPUs of every job."""
        return Groups.of(self._gpus.places(job.gpu_uuids) for job in self._jobs)

    @cached_property
    def is_whole(self) -> NDArray[np.bool_]:
        """Whether all GPUs of a job are known, and it has any."""
        sizes = np.zeros(len(self._jobs), np.intp)
        groups = self.groups
        sizes[groups.numbers] = np.diff(np.append(groups.starts, len(groups.members)))
        named = np.fromiter((len(job.gpu_uuids) for job in self._jobs), np.intp, len(self._jobs))
        unnamed = np.fromiter((job.gpus_unknown for job in self._jobs), np.intp, len(self._jobs))
        return np.asarray((sizes > 0) & (sizes == named) & (unnamed == 0), np.bool_)

    @cached_property
    def on_gpu(self) -> dict[str, tuple[int, ...]]:
        """Numbers of the jobs that hold a GPU."""
        known = self._gpus.place
        found: dict[str, tuple[int, ...]] = {}
        for number, job in enumerate(self._jobs):
            for uuid in job.gpu_uuids:
                if uuid in known:
                    found[uuid] = (*found.get(uuid, ()), number)
        return found

    @cached_property
    def on_node(self) -> dict[str, tuple[int, ...]]:
        """Numbers of the jobs on a node."""
        found: dict[str, list[int]] = {}
        for number, job in enumerate(self._jobs):
            for name in job.job.nodes:
                found.setdefault(name, []).append(number)
        return {name: tuple(numbers) for name, numbers in found.items()}

    def part(self, number: int, count: int) -> tuple[int, ...]:
        """Numbers of the jobs in one of `count` parts."""
        found: list[int] = np.flatnonzero(self._marks % count == number).tolist()
        return tuple(found)

    @cached_property
    def _marks(self) -> NDArray[np.uint32]:
        marks = (part_mark(job.job.job_id) for job in self._jobs)
        return np.fromiter(marks, np.uint32, len(self._jobs))
