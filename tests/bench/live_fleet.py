"""A live fleet whose pictures are made beforehand, so that only watching it costs anything.

One job per node. Every picture is made of records of its own, as a sampler's are. From one to the
next about two nodes in five tell other values, and one in forty has a GPU that falls idle or works
again: on a screen of 120 x 40 that is at most one cell in twenty.
"""

from __future__ import annotations

import random
import threading
import time
from array import array
from typing import TYPE_CHECKING, Final

from gpumon.fleet.history.history import History
from gpumon.model.finding import Confidence, Coverage, Finding, Severity, Window
from gpumon.model.records.block import Block
from gpumon.model.records.cluster import Allocation, Gpu, Job, JobView, Node, SlurmNode
from gpumon.model.records.frame import QueueRecords
from gpumon.model.records.tick import TargetState, Tick

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.fault import SourceError
    from gpumon.sources.source import Wish

IMAGES: Final = 5
PERIOD_S: Final = 1.0
_OTHER: Final = 0.2
"""Share of the nodes that tell values of their own in a picture."""
_IDLE: Final = 0.0125
"""Share of the nodes of which a GPU is idle in a picture."""
_FOUND: Final = 0.05
"""Share of the jobs that have a finding."""
_USERS, _ACCOUNTS, _PARTITIONS = 200, 20, 5
_PAST_S: Final = 7200.0
"""So far back the curves of a list look."""
_LOOKS: Final = 24
_GIB: Final = 2.0**30


class LiveFleet:
    """The pictures of a fleet, shown again and again with the time of day."""

    def __init__(self, jobs: int, gpus_per_job: int) -> None:
        self._gpus = gpus_per_job
        self._began_at = time.time()
        self._records = tuple(self._job(number) for number in range(jobs))
        nodes = tuple(self._slurm(number) for number in range(jobs))
        queue = QueueRecords(self._records, nodes, self._began_at, self._began_at)
        chance = random.Random(1)
        found = tuple(
            self._finding(number, chance) for number in range(jobs) if chance.random() < _FOUND
        )
        self.pictures = tuple(self._picture(n, queue, found, chance) for n in range(IMAGES))
        self._past = History()
        for number in range(_LOOKS):
            at = self._began_at - _PAST_S * (1.0 - number / _LOOKS)
            self._past.append(self.pictures[number % IMAGES]._replace(number=number, at=at))

    def tick(self, number: int, at: float) -> Tick:
        """The picture of a beat, with the past in which curves look."""
        picture = self.pictures[number % IMAGES]._replace(number=number, at=at, queue_at=at - 2.0)
        return picture._replace(history=self._past.reader())

    def _uuids(self, number: int) -> tuple[str, ...]:
        return tuple(f"GPU-{number:08d}-0000-4000-8000-{i:012d}" for i in range(self._gpus))

    def _job(self, number: int) -> Job:
        name, start_at = f"n{number:05d}", self._began_at - 600.0 - 97.0 * (number % 5000)
        return Job(
            str(100_000 + number), str(100_000 + number), f"train-{number % 37}",
            f"user{number % _USERS:03d}", f"lab{number % _ACCOUNTS:02d}",
            f"part{number % _PARTITIONS}", "RUNNING", "", (name,),
            (Allocation(name, self._gpus, None),), self._gpus, start_at, start_at,
            start_at + 864_000.0, 864_000.0, node_count=1, cpu_count=16 * self._gpus,
        )  # fmt: skip

    def _slurm(self, number: int) -> SlurmNode:
        name = f"n{number:05d}"
        part = (f"part{number % _PARTITIONS}",)
        return SlurmNode(name, name, name, "allocated", self._gpus, partitions=part)

    def _finding(self, number: int, chance: random.Random) -> Finding:
        job_id = self._records[number].job_id
        return Finding(
            "idle", "partial_gpus_idle", f"job:{job_id}",
            chance.choice((Severity.INFO, Severity.WARNING)), Confidence.SUPPORTED,
            "Some GPUs of the job are idle.", (),
            Window(self._began_at - 900.0, self._began_at, 900), self._began_at - 600.0,
            self._began_at, (), 3600.0,
        )  # fmt: skip

    def _picture(
        self,
        number: int,
        queue: QueueRecords,
        findings: tuple[Finding, ...],
        chance: random.Random,
    ) -> Tick:
        nodes: dict[str, Node] = {}
        gpus: dict[str, Gpu] = {}
        views = []
        for place, job in enumerate(self._records):
            name, uuids = job.nodes[0], self._uuids(place)
            block = _block(place, uuids, chance)
            nodes[name] = Node(
                name, uuids, self._began_at, False, "allocated", (), 0.0, None, {"gpu": block}
            )
            for row, uuid in enumerate(uuids):
                gpus[uuid] = Gpu(uuid, name, block, row, self._began_at, "bench", False, ())
            views.append(JobView(job, uuids, 0, (), ()))
        targets = (TargetState("bench:", True, None, 0.5),)
        coverage = (Coverage("idle", len(views), 0, (), "ok"),)
        return Tick(
            number, self._began_at, self._began_at, PERIOD_S, targets, nodes, gpus, tuple(views),
            self._began_at, findings, coverage, (), 0.0, queue=queue,
        )  # fmt: skip


def _block(place: int, uuids: tuple[str, ...], chance: random.Random) -> Block:
    other = chance.randint(1, 9) if chance.random() < _OTHER else 0
    active = [0.62 + 0.003 * other + 0.01 * (place % 9)] * len(uuids)
    if chance.random() < _IDLE:
        active[0] = 0.01
    values = {
        "sm_active_ratio": active,
        "gpu_util_ratio": [0.97] * len(uuids),
        "tensor_active_ratio": [0.31 + 0.01 * other] * len(uuids),
        "dram_active_ratio": [0.42 + 0.01 * other] * len(uuids),
        "power_w": [500.0 + 11 * other + place % 70] * len(uuids),
        "power_limit_w": [700.0] * len(uuids),
        "mem_used_bytes": [(40.0 + other) * _GIB] * len(uuids),
        "mem_total_bytes": [80.0 * _GIB] * len(uuids),
        "temp_c": [58.0 + other] * len(uuids),
    }
    columns: dict[str, array[float] | array[int]] = {"index": array("q", range(len(uuids)))}
    columns |= {key: array("d", column) for key, column in values.items()}
    return Block(uuids, columns, {"name": ("NVIDIA H100 80GB HBM3",) * len(uuids)}, {})


class LiveFeed:
    """Hands out a picture a second, on the beat."""

    def __init__(self, fleet: LiveFleet) -> None:
        self._fleet = fleet
        self._over = threading.Event()

    @property
    def failure(self) -> SourceError | None:
        """Nothing fails."""
        return None

    def start(self, on_tick: Callable[[Tick], None]) -> None:
        """Begin at once."""
        threading.Thread(target=self._run, args=(on_tick,), daemon=True).start()

    def _run(self, on_tick: Callable[[Tick], None]) -> None:
        begin = time.monotonic()
        number = 0
        while True:
            on_tick(self._fleet.tick(number, time.time()))
            number += 1
            if self._over.wait(max(0.0, begin + number * PERIOD_S - time.monotonic())):
                return

    def wish(self, _wish: Wish) -> None:
        """Nothing can be wished for."""

    def acknowledge(self, _identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        """Nothing is kept."""
        return is_known

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Stop."""
        self._over.set()
