"""What the JSON document is made of, as types.

Made of the schema by `python -m tools.schema`; change that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

from gpumon.report.document import measured

if TYPE_CHECKING:
    from gpumon.report.facts.entities import Moment


class Error(TypedDict):
    """One thing that could not be done."""

    where: str
    message: str
    hint: str | None


class Target(TypedDict):
    """How one target fares."""

    url: str
    ok: bool
    error: Error | None
    age_s: float | None


class Gpu(measured.GpuTexts, measured.GpuValues):
    """A GPU with its values, links and processes."""

    uuid: str
    index: int | None
    origin: str
    field_origins: dict[str, str]
    stale: bool
    clock_event_names: list[str] | None
    recovery_action_name: str | None
    fabric_state_name: str | None
    fabric_health_name: str | None
    missing: dict[str, str]
    data_sheet: DataSheet | None
    links: list[Link]
    mig: list[Mig]
    processes: list[Process]
    owner: list[int]


class DataSheet(TypedDict):
    """Figures of a product."""

    product: str
    memory_bytes: float | None
    memory_bytes_per_s: float | None
    tdp_w: float | None
    nvlink_links: int | None
    nvlink_bytes_per_s: float | None
    pcie_gen: int | None
    pcie_lanes: int | None
    dense_tflops: dict[str, float]
    achievable_tflops: dict[str, float]
    unchecked: list[str]
    sources: list[str]


class Link(measured.Link):
    """One NVLink of a GPU."""

    link: int | None


class Mig(measured.Mig):
    """One MIG instance."""

    uuid: str


class Process(measured.ProcessValues):
    """A process on a GPU."""

    pid: int
    name: str | None
    uid: int | None
    user: str | None
    type: str | None
    job_id: str | None
    step: str | None
    world_id: str | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    mem_used_bytes: float | None
    start_time_s: float | None
    missing: dict[str, str]


class Node(measured.Node):
    """A node, with what it reports and what Slurm says of it."""

    name: str
    state: str | None
    age_s: float | None
    stale: bool
    left_at: Moment | None
    lateness_s: float | None
    slurm: SlurmNode | None
    gpus: list[Gpu]
    nics: list[Nic]
    filesystems: list[Filesystem]
    local_filesystems: list[LocalFilesystem]
    events: list[Event]
    errors: list[Error]


class Nic(measured.Nic):
    """One network port."""

    device: str
    port: int | None


class Filesystem(measured.Filesystem):
    """One network file system as this node's client sees it."""

    mount: str


class LocalFilesystem(measured.LocalFilesystem):
    """One file system of the node itself."""

    mount: str


class Event(measured.Event):
    """One event of a GPU, such as an Xid error."""

    gpu: str
    at: Moment | None
    meaning: str | None
    action: str | None
    is_application: bool | None


class Allocation(TypedDict):
    """One GPU that Slurm gave a job."""

    node: str
    index: int | None
    type: str | None


class Rank(TypedDict):
    """A process of a job on at least one GPU."""

    step: str | None
    world_id: str | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    node: str
    pid: int
    program: str | None
    gpu_uuids: list[str]
    why: str | None


class JobNames(TypedDict):
    """A part of one that a function of its own makes."""

    told_by: str
    name: str | None
    user: str | None
    account: str | None
    partition: str | None
    state: str | None


class JobRequest(TypedDict):
    """A part of one that a function of its own makes."""

    qos: str | None
    reservation: str | None
    features: str | None
    dependency: str | None
    priority: int | None
    eligible_at: Moment | None
    expected_start_at: Moment | None
    expected_nodes: list[str]
    restart_count: int | None
    exit_code: str | None
    node_count: int | None
    cpu_count: int | None
    mem_bytes: float | None
    work_dir: str | None
    stdout_path: str | None
    stderr_path: str | None
    sluid: str | None
    gpu_types: list[str]
    gpus_per_node: int | None
    nodes_required: list[str]
    nodes_excluded: list[str]
    exclusive: bool | None


class Job(JobNames, JobRequest):
    """One Slurm job."""

    job_id: str
    label: str
    reason: str | None
    submitted_at: Moment | None
    started_at: Moment | None
    ends_at: Moment | None
    time_limit_s: float | None
    interactive: bool
    cluster: str | None
    waiting: Waiting | None
    nodes: list[str]
    gpu_count: int | None
    allocations: list[Allocation]
    gpus: list[str]
    gpus_unknown: int
    gpus_used: list[str]
    ranks: list[Rank]
    cgroups: list[Cgroup]
    contradictions: list[str]
    running_steps: list[EndedStep] | None
    waste: LedgerLine | None
    speed_of_light: SpeedOfLight | None


class SpeedOfLightWindow(TypedDict):
    """First and last sample of what counts."""

    start: Moment
    end: Moment


class SpeedOfLight(TypedDict):
    """What bounds a job."""

    bound_by: str | None
    nearest: str | None
    nearest_ratio: float | None
    is_estimate: bool | None
    fields: list[str]
    summary: str | None
    why_unknown: str | None
    notes: list[str]
    product: str | None
    gpu_count: int
    window: SpeedOfLightWindow | None
    operations_per_s: float | None
    memory_bytes_per_s: float | None
    operations_per_byte: float | None
    ceilings: list[Ceiling]


class CeilingName(TypedDict):
    """A part of one that a function of its own makes."""

    what: str
    name: str
    unit: str
    is_estimate: bool
    fields: list[str]


class Ceiling(CeilingName):
    """One thing that may bound a job, for one of its GPUs."""

    ratio: float | None
    reached_per_s: float | None
    ceiling_per_s: float | None
    data_sheet_per_s: float | None
    port: str | None
    why_unknown: str | None


class Cgroup(measured.Cgroup):
    """A job's control group on one node."""

    node: str


class Evidence(TypedDict):
    """One observation that a claim rests on."""

    field: str
    subject: str
    text: str
    value: float | None


class Window(TypedDict):
    """The time that a claim was observed over, never what was wished for."""

    start: Moment
    end: Moment
    duration_s: float
    samples: int


Finding = TypedDict(
    "Finding",
    {
        "detector": "str",
        "class": "str",
        "subject": "str",
        "severity": "str",
        "confidence": "str",
        "summary": "str",
        "evidence": "list[Evidence]",
        "window": "Window",
        "first_seen": "Moment",
        "last_seen": "Moment",
        "advice": "list[str]",
        "machine_advice": "list[str]",
        "is_learned": "bool",
        "gpu_seconds": "float | None",
        "wasted_gpu_seconds": "float | None",
        "suspected_gpu_seconds": "float | None",
        "gpus": "list[str]",
        "onset": "Moment",
        "cleared_at": "Moment | None",
        "unknown_since": "Moment | None",
        "acknowledged": "bool",
        "category": "str | None",
        "owner": "list[int]",
    },
)
"""One claim about one subject."""


class CoverageDeclined(TypedDict):
    """Why it says nothing of subjects whose values are there, the most frequent reason first."""

    why: str
    subjects: int


class CoverageUnseen(TypedDict):
    """Parts of its claims that it cannot judge, of subjects that it judges in all else."""

    what: str
    subjects: int


class Coverage(TypedDict):
    """What one detector could and could not see."""

    detector: str
    state: str
    subjects_seen: int
    subjects_blind: int
    missing_fields: list[str]
    declined: list[CoverageDeclined]
    unseen: list[CoverageUnseen]
    note: str | None


class Waiting(TypedDict):
    """Why a job waits, and what would let it start sooner."""

    meaning: str
    stuck: bool
    position: int | None
    position_of: int | None
    gpus_before: int | None
    hints: list[str]


class SlurmNode(TypedDict):
    """One node as Slurm lists it."""

    cluster: str | None
    state: str
    reason: str | None
    reason_at: Moment | None
    reason_user: str | None
    partitions: list[str]
    features: list[str]
    reservation: str | None
    gpu_count: int | None
    gpus_used: int | None
    cpu_count: int | None
    cpus_used: int | None
    mem_bytes: float | None
    boot_at: Moment | None
    leaf_switch: str | None
    block: str | None
    mem_used_bytes: float | None
    gpu_types: list[GpuType]


class GpuType(TypedDict):
    """GPUs of one of Slurm's types."""

    type: str
    gpu_count: int


class Partition(TypedDict):
    """A partition of Slurm."""

    name: str
    cluster: str | None
    state: str
    default: bool
    time_limit_s: float | None
    priority: int | None
    qos: str | None
    accounts: list[str]
    nodes: list[str]
    nodes_out: int
    gpu_count: int | None
    gpus_used: int | None
    gpus_free: int | None
    gpus_out: int | None
    jobs_running: int
    jobs_pending: int
    gpus_pending: int
    gpu_types: list[GpuType]


class Reservation(TypedDict):
    """A reservation of Slurm."""

    name: str
    cluster: str | None
    state: str
    maintenance: bool
    starts_at: Moment | None
    ends_at: Moment | None
    flags: list[str]
    users: list[str]
    accounts: list[str]
    partition: str | None
    nodes: list[str]
    gpu_count: int | None
    crossing_jobs: list[str]


class Stray(TypedDict):
    """A process on a GPU that no job holds."""

    node: str
    pid: int
    name: str | None
    uid: int | None
    job_id: str | None
    gpu_uuids: list[str]


class EndedJob(TypedDict):
    """One run of a job that has ended, as Slurm's accounting reports it."""

    job_id: str
    label: str
    name: str
    user: str
    account: str
    partition: str
    cluster: str | None
    qos: str | None
    state: str
    exit_status: int | None
    exit_signal: int | None
    cancelled_by: str | None
    submitted_at: Moment | None
    started_at: Moment | None
    ended_at: Moment | None
    elapsed_s: float | None
    time_limit_s: float | None
    nodes: list[str]
    cpu_count: int | None
    mem_bytes: float | None
    gpu_count: int | None
    gpu_seconds: float | None
    gpu_idle_seconds: float | None
    cpu_used_s: float | None
    cpu_used_ratio: float | None
    mem_used_bytes: float | None
    mem_used_ratio: float | None
    max_rss_bytes: float | None
    gpu_util_ratio: float | None
    gpu_mem_bytes: float | None
    energy_j: float | None
    steps: list[EndedStep]
    jobstats_fields: list[str]


class EndedStep(TypedDict):
    """What one step of a job has used."""

    step: str
    name: str
    state: str | None
    exit_code: str | None
    elapsed_s: float | None
    task_count: int | None
    cpu_used_s: float | None
    mem_used_bytes: float | None
    max_rss_bytes: float | None
    gpu_util_sum_ratio: float | None
    gpu_mem_bytes: float | None
    energy_j: float | None


class LedgerLine(TypedDict):
    """GPU time of an allocation or of many."""

    allocated_gpu_seconds: float
    useful_gpu_seconds: float
    wasted_gpu_seconds: float
    suspected_gpu_seconds: float
    unobserved_gpu_seconds: float
    unexplained_gpu_seconds: float
    useful_share: float | None
    wasted_share: float | None
    suspected_share: float | None
    unexplained_share: float | None
    unobserved_share: float | None
    waste: dict[str, float]
    suspected: dict[str, float]
    began_at: Moment | None
    observed_since: Moment | None
    energy_j: float | None
    energy_gpu_seconds: float
    cost: float | None
    wasted_cost: float | None
    suspected_cost: float | None
    unpriced_gpu_seconds: float


class LedgerNamedLine(TypedDict):
    """GPU time under one name."""

    name: str
    allocated_gpu_seconds: float
    useful_gpu_seconds: float
    wasted_gpu_seconds: float
    suspected_gpu_seconds: float
    unobserved_gpu_seconds: float
    unexplained_gpu_seconds: float
    useful_share: float | None
    wasted_share: float | None
    suspected_share: float | None
    unexplained_share: float | None
    unobserved_share: float | None
    waste: dict[str, float]
    suspected: dict[str, float]
    began_at: Moment | None
    observed_since: Moment | None
    energy_j: float | None
    energy_gpu_seconds: float
    cost: float | None
    wasted_cost: float | None
    suspected_cost: float | None
    unpriced_gpu_seconds: float


class Ledger(TypedDict):
    """What became of GPU time while gpumon recorded it."""

    since: Moment
    kept_in: str | None
    note: str | None
    currency: str | None
    total: LedgerLine
    by_user: list[LedgerNamedLine]
    by_account: list[LedgerNamedLine]
    by_partition: list[LedgerNamedLine]
    by_gpu: list[LedgerNamedLine]


class ToolFootprint(TypedDict):
    """What gpumon costs on the machine where it runs."""

    cpu_ratio: float | None
    rss_bytes: int
    children: list[str]


class Tool(TypedDict):
    """What wrote the document."""

    name: Literal["gpumon"]
    version: str
    footprint: NotRequired[ToolFootprint]


class EndedWindow(TypedDict):
    """Which time ended_jobs is about."""

    start: Moment
    end: Moment
    unreadable: int
    gpu_seconds: float | None
    runs_without_gpu_seconds: int
    last_runs_only: bool


class Document(TypedDict):
    """GPUs and jobs at one instant, as gpumon --json writes them."""

    schema: Literal["gpumon-document/2"]
    tool: Tool
    generated_at: Moment
    observed_since: Moment
    queue_age_s: float | None
    targets: list[Target]
    nodes: list[Node]
    jobs: list[Job]
    ended_jobs: list[EndedJob] | None
    ended_window: EndedWindow | None
    partitions: list[Partition]
    reservations: list[Reservation]
    stray_processes: list[Stray]
    ledger: Ledger | None
    findings: list[Finding]
    coverage: list[Coverage]
    errors: list[Error]
