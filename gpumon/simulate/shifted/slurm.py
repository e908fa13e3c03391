"""What Slurm reports of the jobs and nodes of the shifted fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.model.records.cluster import Allocation, Job, SlurmNode
from gpumon.model.records.frame import Frame, QueueRecords
from gpumon.model.records.queue import Partition
from gpumon.simulate.shifted.frames import Who
from gpumon.simulate.shifted.ranges import Draw

if TYPE_CHECKING:
    from gpumon.simulate.shifted.fleet import Fleet, Machine, Placed

LISTED_S: Final = 300.0
"""An ended job stays listed for so long (MinJobAge, slurm.conf)."""

ASKED_S: Final = 30.0
"""How often the queue is asked for its jobs."""

USERS: Final = (
    "okafor", "lindqvist", "mtanaka", "rpatel", "duarte", "hvolkov", "nieminen", "swu", "x1842",
    "ext_berg", "jromero", "kaya", "u20417", "ferrari",
)  # fmt: skip
NEUTRAL: Final = (
    "run", "job", "exp_{n}", "test{n}", "r{n}", "slurm.sh", "main", "a{n}", "wrap", "batch-{n}",
    "model_{n}", "paper", "v{n}",
)  # fmt: skip
"""Half of all names mean nothing."""

MISLEADING: Final = (
    "serve", "vllm-api", "train_llm", "jupyter", "idle", "preprocess", "inference", "cpu_only",
    "notebook", "debug",
)  # fmt: skip
"""A tenth means something else."""

INTERACTIVE: Final = ("interactive", "bash", "zsh")


class Slurm:
    """The queue of one recording."""

    def __init__(self, fleet: Fleet, origin: str) -> None:
        """Name jobs and users."""
        self._fleet, self._origin = fleet, origin
        draw = Draw(fleet.plan.seed, "slurm")
        first = draw.whole(10_000, 9_000_000)
        users = draw.mixed(USERS)[: draw.whole(6, len(USERS))]
        self._parts = self._partitions(draw)
        self._account = draw.one(("lab_{u}", "proj{n}", "a{n}", "{u}"))
        self._fixed: dict[int, Job] = {}
        self.who: dict[int, Who] = {}
        for job in fleet.jobs:
            first += draw.whole(1, 40)
            self._fixed[job.number] = self._record(job, str(first), users, draw)

    @property
    def ids(self) -> list[str]:
        """Job ids by the jobs' numbers."""
        return [self._fixed[job.number].job_id for job in self._fleet.jobs]

    def _partitions(self, draw: Draw) -> dict[str, str]:
        """Partition by the nodes' type of GPU."""
        style = draw.one(("{t}", "gpu_{t}", "{t}-long", "p.{t}"))
        types = dict.fromkeys(m.kind.board.slurm_type for m in self._fleet.machines)
        return {name: style.format(t=name) for name in types}

    def _record(self, job: Placed, job_id: str, users: list[str], draw: Draw) -> Job:
        story, life, start = job.story, job.story.life, self._fleet.plan.start
        user = draw.one(users)
        uid = 20_000 + 7 * USERS.index(user)
        launcher = draw.one(("torchrun", "torchrun", "srun", "mpi", ""))
        self.who[job.number] = Who(
            job_id, uid, launcher if life.gpus > 1 else "", draw.whole(20_000, 60_000)
        )
        begin = start + job.start_s
        limit_s = job.length_s * (story.limit_factor or draw.of("limit_factor"))
        limit_s = 900.0 * max(1.0, round(limit_s / 900.0 + 0.5))
        gpu_type = life.board.slurm_type
        allocations = tuple(
            Allocation(machine.name, len(gpus), gpus, job.cpus, gpu_types=(gpu_type,) * len(gpus))
            for machine, gpus in zip(job.machines, job.gpus, strict=True)
        )
        is_array = draw.happens(0.08)
        return Job(
            job_id=job_id,
            label=f"{int(job_id) - 3}_{draw.whole(1, 40)}" if is_array else job_id,
            name=self._name(job, draw),
            user=user,
            account=self._account.format(u=user, n=draw.whole(100, 130)),
            partition=self._parts[gpu_type],
            state="RUNNING",
            reason="",
            nodes=tuple(machine.name for machine in job.machines),
            allocations=allocations,
            gpu_count=life.gpus,
            submit_at=begin - draw.of("queue_wait_s"),
            start_at=begin,
            end_at=begin + limit_s,
            time_limit_s=limit_s,
            is_interactive=story.is_interactive,
            restart_count=1 if draw.happens(0.06) else None,
            node_count=life.nodes,
            cpu_count=job.cpus * life.nodes,
            mem_bytes=job.mem_bytes * life.nodes,
            user_id=uid,
            gpu_types=(gpu_type,),
            gpus_per_node=life.gpus_per_node,
        )

    def _name(self, job: Placed, draw: Draw) -> str:
        if job.story.is_interactive and draw.happens(0.5):
            return draw.one(INTERACTIVE)
        chance = draw.between(0.0, 1.0)
        if chance < 0.5:
            return draw.one(NEUTRAL).format(n=draw.whole(1, 99))
        return draw.one(MISLEADING if chance < 0.6 else job.kind.names)

    def frame(self, now_s: float) -> Frame:
        """The queue's answer at a time of the recording."""
        now = self._fleet.plan.start + now_s
        jobs = tuple(
            found
            for job in self._fleet.jobs
            if (found := self._at(job, self._fixed[job.number], now_s)) is not None
        )
        nodes = tuple(self._node(machine, now_s) for machine in self._fleet.machines)
        partitions = tuple(self._partition(gpu_type) for gpu_type in self._parts)
        queue = QueueRecords(
            jobs=jobs, nodes=nodes, jobs_at=now, nodes_at=now, partitions=partitions
        )
        return Frame(origin=self._origin, node="", taken_at=now, lateness_s=0.01, queue=queue)

    def _at(self, job: Placed, fixed: Job, now_s: float) -> Job | None:
        """The job as it is listed at a time."""
        start = self._fleet.plan.start
        if now_s <= job.start_s:
            if (fixed.submit_at or 0.0) > start + now_s:
                return None
            return fixed._replace(
                state="PENDING", reason="Resources", nodes=(), allocations=(), start_at=None,
                end_at=None,
            )  # fmt: skip
        if now_s <= job.end_s:
            return fixed
        over_s = job.end_s + job.story.stuck_s
        ended = fixed._replace(end_at=start + job.end_s)
        if now_s <= over_s:
            return ended._replace(state="COMPLETING")
        if now_s > over_s + LISTED_S:
            return None
        code = "0:0" if job.story.end_state == "COMPLETED" else "1:0"
        return ended._replace(state=job.story.end_state, exit_code=code)

    def _node(self, machine: Machine, now_s: float) -> SlurmNode:
        kind = machine.kind
        on = [job for job in machine.jobs if job.start_s < now_s <= job.end_s + job.story.stuck_s]
        used = sum(len(job.gpus_on(machine)) for job in on if now_s <= job.end_s)
        state = "idle" if not used else "allocated" if used == kind.gpus else "mixed"
        if any(now_s > job.end_s for job in on):
            state += "+completing"
        for job in machine.jobs:
            for node, since, until in job.story.silent:
                is_out = job.machines[node] is machine and job.story.end_state == "NODE_FAIL"
                if is_out and job.end_s < now_s <= job.start_s + until:
                    state = "down+not_responding"
                elif job.machines[node] is machine and (
                    job.start_s + since + 120.0 < now_s <= job.start_s + until
                ):
                    state = f"{state}+not_responding"
        for quiet in self._fleet.silences:
            if quiet.machine is machine and quiet.since_s + 120.0 < now_s <= quiet.until_s:
                state = f"{state}+not_responding"
        return SlurmNode(
            name=machine.name,
            host_name=machine.name,
            address=machine.name,
            state=state,
            gpu_count=kind.gpus,
            gpu_files=tuple(f"/dev/nvidia{gpu}" for gpu in range(kind.gpus)),
            partitions=(self._parts[kind.board.slurm_type],),
            cpu_count=kind.cpus,
            cpus_used=sum(job.cpus for job in on),
            mem_bytes=float(kind.mem_bytes),
            gpus_used=used,
            gpu_types=(kind.board.slurm_type,) * kind.gpus,
            gpu_types_used=(kind.board.slurm_type,) * used,
            mem_used_bytes=sum(job.mem_bytes for job in on),
        )

    def _partition(self, gpu_type: str) -> Partition:
        nodes = [m for m in self._fleet.machines if m.kind.board.slurm_type == gpu_type]
        count = sum(machine.kind.gpus for machine in nodes)
        names = tuple(machine.name for machine in nodes)
        return Partition(self._parts[gpu_type], "UP", names, count, time_limit_s=259_200.0)
