"""From readings of a node to its frames, block by block."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.missing import Reason
from gpumon.model.records.block import Block
from gpumon.model.records.frame import Frame
from gpumon.simulate.shifted.gpu_rows import GpuBlocks, blank, columns_at, known, real, whole
from gpumon.simulate.shifted.hosts import hosts
from gpumon.simulate.shifted.ranges import Draw
from gpumon.simulate.shifted.sensors import readings, reboots
from gpumon.simulate.shifted.sockets import Sockets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.simulate.shifted.fleet import Fleet, Machine
    from gpumon.simulate.shifted.gpu_rows import Column
    from gpumon.simulate.shifted.hosts import OwnHost
    from gpumon.simulate.shifted.sensors import Floats, Played
    from gpumon.simulate.shifted.sockets import Mask

SHOWN_S: Final = 30.0
"""A driver's event stays in the probe's reports for so long."""

LOGGED_S: Final = 3600.0
"""One that the kernel's log may be read for stays so long."""


class Who(NamedTuple):
    """What of a job is in a node's frames."""

    job_id: str
    uid: int
    launcher: str
    """`torchrun`, `srun`, `mpi` or none."""
    port: int


class _Rank(NamedTuple):
    """One process on one GPU of the node."""

    own: OwnHost
    at: int
    """Among the job's ranks here."""
    gpu: int
    pid: str
    rank: int


class NodeFrames:
    """The frames of one node, sample by sample."""

    def __init__(
        self, fleet: Fleet, machine: Machine, jobs: dict[int, Played], who: Mapping[int, Who],
        times: Floats, origin: str,
    ) -> None:  # fmt: skip
        """Work out all samples at once; a frame is then a row of each array."""
        self._machine, self._origin, self._times = machine, origin, times
        self._start, self._who = fleet.plan.start, who
        self._draw = Draw(fleet.plan.seed, f"frames {machine.name}")
        seen = readings(fleet, machine, jobs, times)
        self._host = hosts(fleet, machine, jobs, times)
        self._uuids = tuple(machine.uuid(gpu) for gpu in range(machine.kind.gpus))
        self._is_lost = seen.is_lost
        self._sockets = Sockets(machine, fleet.plan.seed)
        self._gpu = GpuBlocks(
            machine, self._uuids, seen.fields, seen.is_lost, times, self._draw, self._sockets
        )
        self._holds = [(view, jobs[view.job.number]) for view in self._host.jobs]
        self._memory = seen.fields["mem_used_bytes"]
        self._ranks = list(self._processes())
        self._masks = {one.pid: self._mask(one) for one in self._ranks}
        self._silences = [
            (job.start_s + since, job.start_s + until)
            for job in machine.jobs
            for node, since, until in job.story.silent
            if job.machines[node] is machine
        ]
        self._missed = self._draw.uniform(len(times)) < self._draw.of("sample_lost_ratio")
        self._is_readable = not self._draw.happens(0.25)
        self._is_logged = self._draw.happens(0.4)
        self._reboots = reboots(machine)
        self._late_s = round(self._draw.of("clock_lateness_s"), 4)
        self._uptime_s = self._draw.of("uptime_s")
        self._boots = [f"{self._draw.whole(0, 2**60):032x}" for _ in range(2)]
        self._links: dict[tuple[object, ...], Block] = {}
        self._events = sorted(
            (job.start_s + event.at_s, self._uuids[gpu], event.xid)
            for job in machine.jobs
            for event in job.story.events
            for where, gpu in (job.place_of(event.gpu),)
            if where is machine
        )

    def silence(self, since_s: float, until_s: float) -> None:
        """Let the node report nothing between two times of the recording."""
        self._silences.append((since_s, until_s))

    def is_silent(self, sample: int) -> bool:
        """Whether nothing is heard of it, or this one report is lost."""
        now = float(self._times[sample])
        return bool(self._missed[sample]) or any(a < now <= b for a, b in self._silences)

    def frame(self, sample: int) -> Frame | None:
        """What is heard of the node at a sample."""
        if self.is_silent(sample):
            return None
        process, context = self._processes_at(sample)
        blocks = {
            "gpu": self._gpu.block(sample),
            "node": self._node(sample),
            "process": process,
            "context": context,
            "event": self._event(sample),
            "cgroup": self._cgroups(sample),
        }
        if self._gpu.cut(sample):
            blocks["mig"] = self._gpu.instances(sample)
        if self._host.ports:
            blocks["nic"] = self._nic(sample)
        if self._host.mount:
            blocks["filesystem"] = Block(
                ("/scratch",), columns_at(self._host.mount, sample),
                {"fstype": ("nfs4",), "device": ("filer:/scratch",)}, {},
            )  # fmt: skip
        if self._machine.kind.board.links:
            blocks["link"] = self._link(sample)
        taken_at = self._start + float(self._times[sample]) - self._late_s
        name = self._machine.name
        return Frame(
            origin=self._origin,
            node=name,
            taken_at=max(self._start, taken_at),
            lateness_s=self._late_s,
            blocks=blocks,
            host_names=(name,),
        )

    def _processes(self) -> list[_Rank]:
        found = []
        pid = 2000 + self._draw.whole(0, 30000)
        for view in self._host.jobs:
            job, node = view.job, view.job.machines.index(self._machine)
            for at, gpu in enumerate(job.gpus[node]):
                pid += self._draw.whole(1, 900)
                rank = node * len(job.gpus[node]) + at
                found.append(_Rank(own=view, at=at, gpu=gpu, pid=str(pid), rank=rank))
        return found

    def _processes_at(self, sample: int) -> tuple[Block, Block]:
        """Processes and their contexts."""
        here = []
        for one in self._ranks:
            if not one.own.is_on[sample]:
                continue
            played = next(view for own, view in self._holds if own is one.own)
            if played.has_process[sample, one.rank]:
                here.append(one)
        own = [(one.own, one.at) for one in here]
        masks = [self._masks[one.pid] for one in here]
        columns: dict[str, Column] = {
            "cpus_allowed_count": real([mask.number for mask in masks]),
            "process_cpu_wait_ratio": real([view.cpu_wait[sample, at] for view, at in own]),
            "process_stopped_s": real([0.0] * len(here)),
            "process_stuck_s": real([0.0] * len(here)),
            "uid": whole([self._who[one.own.job.number].uid for one in here]),
            "start_time_s": real([self._since_boot(one) for one in here]),
            "parent_pid": whole([int(one.pid) - 1 for one in here]),
            "process_cpu_us": whole([int(view.cpu_us[sample, at]) for view, at in own]),
            "process_cpu_cores_used": real([view.cores[sample, at] for view, at in own]),
            "process_rss_bytes": real([view.rss_bytes[sample, at] for view, at in own]),
        }
        io = {
            "process_io_read_bytes_per_s": real([view.read[sample, at] for view, at in own]),
            "process_io_write_bytes_per_s": real([view.written[sample, at] for view, at in own]),
        }
        labels = self._labels(here) | {
            "state": tuple("R" if view.cores[sample, at] > 0.5 else "S" for view, at in own),
            "cpus_allowed": tuple(mask.text for mask in masks),
            "cpu_numa_nodes": tuple(mask.nodes for mask in masks),
        }
        missing = {}
        if not self._sockets.count:
            labels.pop("cpu_numa_nodes")
            missing = {("cpu_numa_nodes", row): Reason.NOT_SUPPORTED for row in range(len(here))}
        if self._is_readable:
            columns |= io
        else:
            labels.pop("rank_vars")
            untold = ("rank_vars", *io)
            missing |= {
                (key, row): Reason.NO_PERMISSION for key in untold for row in range(len(here))
            }
        on = tuple(f"{one.pid}/{self._uuids[one.gpu]}" for one in here)
        used = real([self._memory[sample, one.gpu] for one in here])
        return (
            Block(tuple(one.pid for one in here), columns, labels, missing),
            Block(on, {"context_mem_used_bytes": used}, {}, {}),
        )

    def _labels(self, here: Sequence[_Rank]) -> dict[str, tuple[str | None, ...]]:
        programs = tuple(one.own.job.story.program for one in here)
        who = [self._who[one.own.job.number] for one in here]
        return {
            "name": programs,
            "job_id": tuple(one.job_id for one in who),
            "step": tuple("0" if one.launcher in ("srun", "mpi") else "batch" for one in who),
            "rank_vars": tuple(
                _variables(one, launch) for one, launch in zip(here, who, strict=True)
            ),
        }  # fmt: skip

    def _mask(self, one: _Rank) -> Mask:
        """What CPUs a rank may use: in half of the jobs Slurm's tasks are bound each to its own."""
        job = one.own.job
        is_task = self._who[job.number].launcher in ("srun", "mpi")
        return self._sockets.mask(job, one.gpu, is_bound=is_task and job.number % 2 == 0)

    def _since_boot(self, one: _Rank) -> float:
        began = one.own.job.start_s + one.own.job.story.process_from_s
        return max(1.0, round(self._uptime_s + began, 2))

    def _boot(self, now: float) -> tuple[str, float]:
        """Boot id and uptime."""
        back = [at for _, at in self._reboots if at <= now]
        if back:
            return self._boots[1], now - back[-1] + 40.0
        return self._boots[0], self._uptime_s + now

    def _node(self, sample: int) -> Block:
        kind, name = self._machine.kind, self._machine.name
        columns = columns_at(self._host.node, sample)
        boot_id, uptime_s = self._boot(float(self._times[sample]))
        columns["cpu_count"] = real([kind.cpus])
        columns["host_mem_total_bytes"] = real([kind.mem_bytes])
        columns["uptime_s"] = real([uptime_s])
        labels = {"host_name": name, "boot_id": boot_id, "driver_version": kind.driver}
        missing = {}
        if self._sockets.distances:
            labels["numa_distances"] = self._sockets.distances
        else:
            missing = {("numa_distances", 0): Reason.NOT_SUPPORTED}
        return Block((name,), columns, {key: (text,) for key, text in labels.items()}, missing)

    def _cgroups(self, sample: int) -> Block:
        here = [one for one in self._host.jobs if one.is_on[sample]]
        keys = tuple(self._who[one.job.number].job_id for one in here)
        names = tuple(here[0].cgroup) if here else ()
        columns: dict[str, Column] = {
            name: real([one.cgroup[name][sample] for one in here]) for name in names
        }
        if here:
            columns["job_cpu_us"] = whole([int(one.job_cpu_us[sample]) for one in here])
            columns["job_oom_kills"] = whole([0] * len(here))
        return Block(keys, columns, {}, {})

    def _event(self, sample: int) -> Block:
        now = float(self._times[sample])
        gap_s = float(self._times[1] - self._times[0]) if len(self._times) > 1 else 1.0
        shown = []
        for number, (at, uuid, xid) in enumerate(self._events, 1):
            # The probe asks the driver once a period: what it hears first is new to it then.
            age_s = now - at if self._is_logged else max(0.0, now - at - gap_s)
            if at <= now and age_s <= (LOGGED_S if self._is_logged else SHOWN_S):
                shown.append((f"{uuid}/{xid}/{number}", xid, age_s))
        columns: dict[str, Column] = {
            "xid": whole([xid for _, xid, _ in shown]),
            "event_type": whole([8] * len(shown)),
            "event_age_s": real([age_s for _, _, age_s in shown]),
        }
        return Block(tuple(key for key, _, _ in shown), columns, {}, {})

    def _nic(self, sample: int) -> Block:
        kind = self._machine.kind
        keys = tuple(f"mlx5_{port}/1" for port in range(kind.ports))
        columns = columns_at(self._host.ports, sample)
        columns["nic_numa_node"] = known(self._sockets.numa_nodes(kind.ports))
        speeds = self._host.ports["nic_speed_gbps"][sample]
        is_up = [bool(speed > 0) for speed in speeds]
        near = [
            ",".join(uuid for gpu, uuid in enumerate(self._uuids)
                     if gpu * kind.ports // kind.gpus == port)
            for port in range(kind.ports)
        ]  # fmt: skip
        labels: dict[str, tuple[str | None, ...]] = {
            "state": tuple("ACTIVE" if up else "DOWN" for up in is_up),
            "phys_state": tuple("LinkUp" if up else "Polling" for up in is_up),
            "link_layer": ("InfiniBand",) * kind.ports,
            "nearest_by": ("switch" if kind.ports >= kind.gpus else "root",) * kind.ports,
            "nearest_gpus": tuple(near),
        }
        missing = {}
        if not self._sockets.count:
            missing = {("nic_numa_node", row): Reason.NOT_SUPPORTED for row in range(kind.ports)}
        return Block(keys, columns, labels, missing)

    def _link(self, sample: int) -> Block:
        """NVLinks; the same block as long as nothing changes."""
        board, now = self._machine.kind.board, float(self._times[sample])
        down, counts = self._gpu.links(now, sample)
        lost = tuple(bool(one) for one in self._is_lost[sample])
        key = (down, counts, lost)
        if key not in self._links:
            names = [(gpu, link) for gpu in range(len(self._uuids)) for link in range(board.links)]
            is_down = [one in down for one in names]
            counted = dict(counts)
            usual = "link_recovery_event_count"
            if not board.has_newer_links:
                usual = "link_recovery_count"
            fields = {one[2] for one in counted} | {usual}
            columns: dict[str, Column] = {
                "link_state": whole([0 if one else 1 for one in is_down]),
                "link_speed_bytes_per_s": real(
                    [0.0 if one else board.link_bytes_per_s for one in is_down]
                ),
                "link_version": whole([board.link_version] * len(names)),
            }
            for field in sorted(fields):
                columns[field] = whole([counted.get((*one, field), 0) for one in names])
            is_switched = board.architecture in ("Hopper", "Blackwell")
            labels = {"remote_type": ("switch" if is_switched else "gpu",) * len(names)}
            missing = {
                (field, row): Reason.LOST
                for row, (gpu, _) in enumerate(names) if lost[gpu] for field in columns
            }  # fmt: skip
            for field, row in missing:
                blank(columns[field], row)
            uuids = self._uuids
            keys = tuple(f"{uuids[gpu]}/{link}" for gpu, link in names)
            self._links = {key: Block(keys, columns, dict(labels), missing)}
        return self._links[key]


def _variables(one: _Rank, launch: Who) -> str:
    """The rank variables that its launcher gave it, as the probe reports them."""
    job = one.own.job
    size, local = job.story.life.gpus, one.at
    found: dict[str, object] = {"SLURM_JOB_ID": launch.job_id}
    if launch.launcher == "torchrun":
        address = job.machines[0].name
        found |= {
            "RANK": one.rank, "LOCAL_RANK": local, "WORLD_SIZE": size, "MASTER_ADDR": address,
            "MASTER_PORT": launch.port, "TORCHELASTIC_RUN_ID": f"run{launch.port}",
        }  # fmt: skip
    elif launch.launcher:
        found |= {
            "SLURM_PROCID": one.rank, "SLURM_LOCALID": local, "SLURM_STEP_ID": 0,
            "SLURM_STEP_NUM_TASKS": size,
        }  # fmt: skip
    if launch.launcher == "mpi":
        found |= {"PMIX_RANK": one.rank, "PMIX_NAMESPACE": f"slurm.pmix.{launch.job_id}.0"}
    return json.dumps({key: str(value) for key, value in found.items()}, sort_keys=True)
