"""Jobs, nodes, GPUs, processes and ranks, as Slurm, NVML and NCCL use the words."""

from __future__ import annotations

from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from gpumon.model.catalogue.process import ONLY_DRAWS
from gpumon.model.missing import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.model.fault import SourceError
    from gpumon.model.records.block import Block


class Allocation(NamedTuple):
    """What a job holds on one node."""

    node: str
    gpu_count: int
    gpu_indices: tuple[int, ...] | None
    """Slurm's IDX: positions in the node's gres.conf, not NVML's. None: Slurm lists none."""
    cpu_count: int | None = None
    has_shares: bool = False
    """Whether it also holds shares of GPUs (gres `shard` or `mps`), of which Slurm names none."""
    gpu_types: tuple[str, ...] = ()
    """Slurm's type of each GPU, in the order of `gpu_indices` where these are known, `""` for one
    without; none where Slurm gives no types."""


class Job(NamedTuple):
    """One job as Slurm lists it."""

    job_id: str
    """Slurm's own number, as squeue and the cgroup name it."""
    label: str
    """The id people use: `6_1` for an array task, `7+1` for a het component, else `job_id`."""
    name: str
    user: str
    account: str
    partition: str
    state: str
    """Base state, upper case: RUNNING, PENDING, COMPLETED, …"""
    reason: str
    """Slurm's reason, empty for `None`."""
    nodes: tuple[str, ...]
    allocations: tuple[Allocation, ...]
    gpu_count: int | None
    """GPUs allocated, or requested while pending; None where Slurm does not report it."""
    submit_at: float | None
    start_at: float | None
    """Start, or while pending the start that the scheduler expects, where it has one."""
    end_at: float | None
    """End by the time limit while running; None for unlimited or unknown."""
    time_limit_s: float | None
    is_interactive: bool = False
    qos: str = ""
    reservation: str = ""
    features: str = ""
    """Constraint on the nodes' features as the user wrote it."""
    dependency: str = ""
    """Slurm's text of what it waits for, empty where nothing."""
    priority: int | None = None
    eligible_at: float | None = None
    """Unix time from which it may start: after its begin time and its dependencies."""
    restart_count: int | None = None
    """How often it was requeued and started again."""
    exit_code: str = ""
    """Exit status and signal as the controller has them (scontrol), `3:0` or `0:15`; empty while
    unknown. sacct may list others for a job that was cancelled or timed out."""
    node_count: int | None = None
    """Nodes allocated, or asked for while pending."""
    cpu_count: int | None = None
    """CPUs allocated, or asked for while pending."""
    mem_bytes: float | None = None
    """Host memory allocated on all nodes, or asked for while pending."""
    expected_nodes: tuple[str, ...] = ()
    """Nodes that the scheduler plans for a pending job."""
    work_dir: str | None = None
    stdout_path: str | None = None
    stderr_path: str | None = None
    sluid: str = ""
    """Slurm's unique id of 26.05 and later, the name of its cgroup there; empty where unknown."""
    user_id: int | None = None
    """The user's number, by which a node knows whose a process is; None where it is unknown."""
    gpu_types: tuple[str, ...] = ()
    """Slurm's types of GPUs that it asked for by name; none where any type will do."""
    nodes_required: tuple[str, ...] = ()
    """Nodes that it must have (`-w`)."""
    nodes_excluded: tuple[str, ...] = ()
    """Nodes that it must not have (`-x`)."""
    gpus_per_node: int | None = None
    """GPUs that it needs on each of its nodes; None where Slurm may spread them over several."""
    is_exclusive: bool | None = False
    """Whether it wants its nodes alone (`--exclusive`), or its partition does; None: unknown."""
    is_labelled: bool = False
    """Whether no queue lists it, and labels of an exporter alone show which GPUs it holds. Name,
    user, account and partition are empty then, and that it is taken for running is no word of
    anybody."""


class SlurmNode(NamedTuple):
    """One node as Slurm lists it."""

    name: str
    host_name: str
    address: str
    state: str
    """Base state, then its flags by the alphabet, joined by `+`, lower case."""
    gpu_count: int | None
    gpu_files: tuple[str, ...] = ()
    """Device files in gres.conf order: entry i is the device of IDX i. Empty: not known."""
    reason: str = ""
    reason_at: float | None = None
    """Unix time since when it has the reason."""
    reason_user: str = ""
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    cpu_count: int | None = None
    cpus_used: int | None = None
    mem_bytes: float | None = None
    gpus_used: int | None = None
    """GPUs that Slurm has given to jobs."""
    reservation: str = ""
    boot_at: float | None = None
    leaf_switch: str = ""
    """Switch of the lowest level that it hangs on (topology/tree); empty where it is not known."""
    block: str = ""
    """Block of nodes that it belongs to (topology/block), often an NVLink rack."""
    gpu_types: tuple[str, ...] = ()
    """Slurm's type of each of its GPUs, `""` for one without; none where none has a type."""
    gpu_types_used: tuple[str, ...] = ()
    """The types of those that Slurm has given to jobs, likewise."""
    mem_used_bytes: float | None = None
    """Host memory that Slurm has given to jobs; 0 where it does not give out memory."""
    cpus_usable: int | None = None
    """CPUs that jobs can have: the others Slurm reserves for the system (CoreSpecCount)."""
    mem_kept_bytes: float | None = None
    """Host memory that Slurm reserves for the system (MemSpecLimit); None: none is reported."""


class Process(NamedTuple):
    """A process that holds a context on at least one GPU."""

    node: str
    pid: int
    name: str | None
    """Base name of the program."""
    uid: int | None
    job_id: str | None
    """Job whose cgroup holds it, else the one that its environment names and whose user it runs as;
    None: no such job, or it is unknown."""
    step: str | None
    rank_vars: Mapping[str, str]
    """The rank variables of its environment that gpumon reads; empty where not readable."""
    why: Reason | None
    """Why `rank_vars` are not readable."""
    gpu_uuids: tuple[str, ...]
    mem_used_bytes: Mapping[str, float]
    """Device memory by GPU UUID, where the driver reports it."""
    start_time_s: float | None = None
    parent_pid: int | None = None
    container: str | None = None
    """Engine and short id or name of the container it runs in, where one is known."""
    user: str | None = None
    """What its node calls the user of `uid`; None: not known there, or not reported."""
    types: Mapping[str, str] = MappingProxyType({})
    """`C`, `G` or `C+G` by GPU UUID: whether it computes there, draws, or both. Without a word, as
    in older recordings, it computes."""

    @property
    def compute_uuids(self) -> tuple[str, ...]:
        """GPUs on which it computes: to draw on one is no use of it, and makes no rank."""
        if ONLY_DRAWS not in self.types.values():
            return self.gpu_uuids
        return tuple(uuid for uuid in self.gpu_uuids if self.types.get(uuid) != ONLY_DRAWS)

    def is_of(self, user: str) -> bool:
        """Whether it is a user's, who is named as on its node or by number."""
        return user == self.user or (self.uid is not None and user == str(self.uid))


class Gpu(NamedTuple):
    """One GPU, which is its UUID, with a view of its newest values."""

    uuid: str
    node: str
    block: Block
    row: int
    taken_at: float
    origin: str
    is_stale: bool
    processes: tuple[Process, ...]
    borrowed: Mapping[str, str] = MappingProxyType({})
    """Fields and labels that another origin reports, with its URL: the best one does not."""

    @property
    def compute_processes(self) -> tuple[Process, ...]:
        """Those that compute on it: what only draws is no use of it that anybody is asked for."""
        uuid = self.uuid
        return tuple([one for one in self.processes if one.types.get(uuid) != ONLY_DRAWS])

    def value(self, key: str) -> float | int | None:
        """Newest value of a field, None where missing or stale."""
        return None if self.is_stale else self.block.value(key, self.row)

    def reason(self, key: str) -> Reason | None:
        """Why a value is missing, None where it is present."""
        return Reason.STALE if self.is_stale else self.block.reason(key, self.row)

    @property
    def reports_processes(self) -> bool:
        """Whether its source reports which processes are on it; an exporter does not."""
        return self.block.reason("process_count", self.row) is not Reason.NOT_SHARED

    def label(self, key: str) -> str | None:
        """Text fact such as `name` or `pci_bus_id`, there also when the values are stale."""
        return self.block.label(key, self.row)

    @property
    def nvml_index(self) -> int | None:
        """NVML's index on the node: a label only."""
        index = self.block.value("index", self.row)
        return None if index is None else int(index)

    @property
    def minor_number(self) -> int | None:
        """N of /dev/nvidiaN."""
        minor = self.block.value("minor_number", self.row)
        return None if minor is None else int(minor)


class Node(NamedTuple):
    """One node with what is known of it."""

    name: str
    gpu_uuids: tuple[str, ...]
    """In NVML's order."""
    taken_at: float | None
    """Unix time of the newest telemetry; None: none yet."""
    is_stale: bool
    state: str | None
    """Slurm's state; None where no queue lists the node."""
    errors: tuple[SourceError, ...]
    lateness_s: float | None = None
    block: Block | None = None
    """The `node` block of its newest frame."""
    blocks: Mapping[str, Block] = MappingProxyType({})
    """Every block by name, each from the newest frame that has it: links, ports, mounts, …"""
    left_at: float | None = None
    """Unix time at which its source stopped, as no job in view is there; None: it goes on."""

    @property
    def is_silent(self) -> bool:
        """Whether it should talk and does not: it is stale, and was not left on purpose."""
        return self.is_stale and self.left_at is None


class Rank(NamedTuple):
    """One rank of a world."""

    step: str | None
    world_id: str | None
    """What makes two ranks peers: `MASTER_ADDR:PORT`, a torchrun id, or the Slurm step."""
    rank: int | None
    local_rank: int | None
    world_size: int | None
    node: str
    pid: int
    gpu_uuids: tuple[str, ...]
    why: str | None
    """Why the rank number is unknown, None where it is known."""
    program: str | None = None


class JobView(NamedTuple):
    """One job joined with its GPUs, ranks and processes."""

    job: Job
    gpu_uuids: tuple[str, ...]
    """GPUs that Slurm gave it, by node and IDX; where Slurm does not list which, those of the node
    that only its processes are on."""
    gpus_unknown: int
    """GPUs that the job holds but that no telemetry names yet."""
    ranks: tuple[Rank, ...]
    contradictions: tuple[str, ...]
    """Where Slurm's allocation and an observed process disagree."""

    @property
    def gpu_uuids_used(self) -> tuple[str, ...]:
        """GPUs that its processes are on now, held or not."""
        return tuple(dict.fromkeys(chain.from_iterable(rank.gpu_uuids for rank in self.ranks)))

    @property
    def subjects(self) -> tuple[str, ...]:
        """The job, its GPUs and its nodes, as findings name them."""
        gpus = (f"gpu:{uuid}" for uuid in self.gpu_uuids)
        return (f"job:{self.job.job_id}", *gpus, *(f"node:{name}" for name in self.job.nodes))
