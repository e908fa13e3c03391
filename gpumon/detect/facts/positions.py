"""Who is where in a tick, as positions: what an evaluation needs to ask about all GPUs at once.

Nothing here changes while no GPU or node comes or goes and no job starts or ends, so the worker
keeps it from look to look; detectors get at it through the view.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpumon.detect.facts.entity_facts import FACT_KEYS
from gpumon.detect.facts.facts import part_mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.detect.facts.entity_facts import Rows
    from gpumon.detect.facts.facts import GpuFacts, NodeFacts
    from gpumon.fleet.history.reader import HistoryReader
    from gpumon.model.records.cluster import JobView


class Groups(NamedTuple):
    """Groups of positions, as of a job's GPUs, end to end; without a member they are left out."""

    size: int
    """How many groups there are, those without a member included."""
    numbers: NDArray[np.intp]
    """Which groups have members, ascending."""
    starts: NDArray[np.intp]
    """Where each of these begins within `members`."""
    members: NDArray[np.intp]
    """Positions, as of GPUs."""

    @classmethod
    def of(cls, groups: Iterable[Sequence[int]]) -> Groups:
        """Groups from the positions of each one's members."""
        by_group = list(groups)
        sizes = np.fromiter(map(len, by_group), np.intp, len(by_group))
        members = np.fromiter(chain.from_iterable(by_group), np.intp, int(sizes.sum()))
        numbers = np.flatnonzero(sizes)
        ends = np.cumsum(sizes[numbers])
        return cls(len(by_group), numbers, ends - sizes[numbers], members)

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

    def spread(self, flags: NDArray[np.bool_], members: int) -> NDArray[np.bool_]:
        """Per member whether the flag of any group is set that it is in."""
        found = np.zeros(members, np.bool_)
        found[self.members[np.repeat(flags[self.numbers], self._sizes)]] = True
        return found

    def inverted(self, members: int) -> Groups:
        """For each of so many members the numbers of the groups that it is in, ascending."""
        owners = np.repeat(self.numbers, self._sizes)[np.argsort(self.members, kind="stable")]
        counts = np.bincount(self.members, minlength=members)
        numbers = np.flatnonzero(counts)
        ends = np.cumsum(counts[numbers])
        return Groups(members, numbers, ends - counts[numbers], owners)

    def is_empty(self) -> NDArray[np.bool_]:
        """Per group whether it has no member."""
        found = np.ones(self.size, np.bool_)
        found[self.numbers] = False
        return found

    def sizes(self) -> NDArray[np.intp]:
        """Members of every group."""
        found = np.zeros(self.size, np.intp)
        found[self.numbers] = self._sizes
        return found

    @property
    def _sizes(self) -> NDArray[np.intp]:
        """Members of the groups that have any."""
        return np.diff(np.append(self.starts, len(self.members)))


class GpuLayout:
    """GPUs by position: in the order in which the tick holds them."""

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


class NodeLayout:
    """Nodes by position: in the order in which the tick holds them."""

    def __init__(self, gpus: GpuLayout, nodes: Mapping[str, NodeFacts]) -> None:
        self.names = tuple(nodes)
        self.place = {name: place for place, name in enumerate(self.names)}
        self.gpu_layout = gpus
        self._nodes = nodes

    @cached_property
    def gpus(self) -> Groups:
        """Known GPUs of every node."""
        return Groups.of(self.gpu_layout.places(node.gpu_uuids) for node in self._nodes.values())

    @cached_property
    def of_gpus(self) -> NDArray[np.intp]:
        """Position of the node of each GPU; -1 of one that is on none of them."""
        names, groups = self.gpu_layout.nodes
        found = np.full(len(self.gpu_layout.uuids), -1)
        places = [self.place.get(name, -1) for name in names]
        found[groups.members] = np.repeat(places, groups.sizes())
        return found


class Owners:
    """Finds who has a value of a field; a name is read once while nobody comes or goes.

    Links belong to GPUs, all else to nodes: ports, mounts, cgroups, processes, the node itself.
    """

    def __init__(self, layout: NodeLayout) -> None:
        self._layout = layout
        self._places: dict[str, tuple[Sequence[str], NDArray[np.intp]]] = {}
        self._reporting: dict[tuple[str, str, str], tuple[Rows, NDArray[np.intp]]] = {}
        """Owners with a value in the facts, by node, block and field, with the facts as read."""

    def reporting(
        self, key: str, block: str, history: HistoryReader, nodes: Mapping[str, NodeFacts]
    ) -> NDArray[np.bool_]:
        """Per GPU, or per node, whether one of its entities has a value of a field now.

        Args:
            key: The field.
            block: Its block.
            history: What varies.
            nodes: Those that tell facts of the block.
        """
        # One more, which nobody asks about, for the entities of owners that are not in view.
        found = np.zeros(len(self._known(block)) + 1, np.bool_)
        entities, values = history.newest_of_all(key, block)
        found[self._of_entities(block, entities)[~np.isnan(values)]] = True
        if key in FACT_KEYS[block]:
            for node in nodes.values():
                found[self._of_facts(node, block, key)] = True
        return found[:-1]

    def _known(self, block: str) -> dict[str, int]:
        return self._layout.gpu_layout.place if block == "link" else self._layout.place

    def _of_entities(self, block: str, entities: Sequence[str]) -> NDArray[np.intp]:
        """Positions of the owners of a stretch's entities, which only become more."""
        read, places = self._places.get(block, ((), np.empty(0, np.intp)))
        if read is not entities:
            places = places[:0]
        if len(places) < len(entities):
            new = [self._owner(block, name) for name in entities[len(places) :]]
            places = np.append(places, np.array(new, np.intp))
        self._places[block] = entities, places
        return places

    def _owner(self, block: str, entity: str) -> int:
        name = entity.rpartition("/")[0] if block == "link" else entity.partition("/")[0]
        return self._known(block).get(name, -1)

    def _of_facts(self, node: NodeFacts, block: str, key: str) -> NDArray[np.intp]:
        rows = node.block(block)
        read = self._reporting.get((node.name, block, key))
        if read is not None and read[0] is rows:
            return read[1]
        values = zip(rows.keys, rows.values.get(key, ()), strict=False)
        names = [name for name, value in values if value is not None]
        if block not in ("link", "mig"):
            # Facts name them as frames do: within their node.
            names = [node.name] * bool(names)
        places = np.array([self._owner(block, name) for name in names], np.intp)
        self._reporting[node.name, block, key] = rows, places
        return places


class _JobPlace(NamedTuple):
    """Where one job is, which is looked up once in its life."""

    job: JobView
    gpus: list[int]
    nodes: list[int]
    cgroups: tuple[str, ...]
    """How history names its cgroup on each of its nodes."""
    mark: float


class JobLayout:
    """Running jobs by number: in the order in which the tick holds them."""

    def __init__(
        self, nodes: NodeLayout, jobs: Sequence[JobView], before: JobLayout | None = None
    ) -> None:
        """Finds who is where.

        Args:
            nodes: who else there is.
            jobs: of the tick.
            before: the layout of an earlier tick: of its jobs only what changed is looked up.
        """
        self.nodes = nodes
        self._jobs = jobs
        known = before._places if before is not None and before.nodes is nodes else {}
        self._places: dict[str, _JobPlace] = {}
        for job in jobs:
            place = known.get(job.job.job_id)
            is_same = place is not None and place.job is job
            self._places[job.job.job_id] = place if place and is_same else self._place(job)

    def _place(self, view: JobView) -> _JobPlace:
        job, known = view.job, self.nodes.place
        return _JobPlace(
            job=view,
            gpus=self.nodes.gpu_layout.places(view.gpu_uuids),
            nodes=[known[name] for name in job.nodes if name in known],
            cgroups=tuple(f"{name}/{job.job_id}" for name in job.nodes),
            mark=part_mark(job.job_id),
        )

    @cached_property
    def groups(self) -> Groups:
        """Known GPUs of every job."""
        return Groups.of(place.gpus for place in self._places.values())

    @cached_property
    def on_nodes(self) -> Groups:
        """Known nodes of every job."""
        return Groups.of(place.nodes for place in self._places.values())

    @cached_property
    def of_nodes(self) -> Groups:
        """Jobs on every node."""
        return self.on_nodes.inverted(len(self.nodes.names))

    @cached_property
    def cgroups(self) -> tuple[tuple[str, ...], Groups]:
        """How history names the jobs' cgroups, and which are those of each job."""
        named = [place.cgroups for place in self._places.values()]
        ends = np.cumsum([0, *map(len, named)]).tolist()
        ranges = (range(begin, end) for begin, end in pairwise(ends))
        return tuple(chain.from_iterable(named)), Groups.of(ranges)

    @cached_property
    def has_nodes(self) -> NDArray[np.bool_]:
        """Whether Slurm says where a job runs."""
        has_nodes = (bool(job.job.nodes) for job in self._jobs)
        return np.fromiter(has_nodes, np.bool_, len(self._jobs))

    @cached_property
    def is_whole(self) -> NDArray[np.bool_]:
        """Per job whether all its GPUs are known, and it has any."""
        sizes = self.groups.sizes()
        named = np.fromiter((len(job.gpu_uuids) for job in self._jobs), np.intp, len(self._jobs))
        unnamed = np.fromiter((job.gpus_unknown for job in self._jobs), np.intp, len(self._jobs))
        return np.asarray((sizes > 0) & (sizes == named) & (unnamed == 0), np.bool_)

    @cached_property
    def on_gpu(self) -> dict[str, tuple[int, ...]]:
        """Numbers of the jobs that hold a GPU."""
        known = self.nodes.gpu_layout.place
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

    def part(self, begin: float, end: float) -> tuple[int, ...]:
        """Numbers of the jobs in one part of the ring."""
        behind, before = self._marks >= begin, self._marks < end
        is_in = behind & before if begin < end else behind | before
        found: list[int] = np.flatnonzero(is_in).tolist()
        return tuple(found)

    @cached_property
    def ring(self) -> NDArray[np.float64]:
        """Where the jobs lie on the ring that evaluations go round, ascending."""
        return np.sort(self._marks)

    @cached_property
    def _marks(self) -> NDArray[np.float64]:
        marks = (place.mark for place in self._places.values())
        return np.fromiter(marks, np.float64, len(self._places))
