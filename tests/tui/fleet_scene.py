"""One cluster in four states, for snapshots: with data, empty, stale, and failed.

Everything follows from whole numbers, so that every machine draws the same screen.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from gpumon.fleet.history.history import History
from gpumon.model.fault import SourceError
from gpumon.model.finding import Coverage, Evidence, Severity
from gpumon.model.records.accounting import EndedJob, EndedJobs, StepUsage
from gpumon.model.records.cluster import Allocation, JobView, Node, Process
from gpumon.model.records.ledger import Account, Charged, LedgerTotals
from gpumon.model.records.tick import TargetState
from tests.worlds.node import WHOLE, block, host, host_blocks, job_use, links
from tests.worlds.queue import HOUR, cluster, slurm_node, waits
from tests.worlds.tick import AT, IDLE, failed, finding, gpu, job, job_with_gpus, tick, uuid_of

if TYPE_CHECKING:
    from gpumon.model.records.cluster import Gpu
    from gpumon.model.records.tick import Tick

STEPS = 150
STEP_S = 2.0
"""Five minutes of the past."""

SLOW_RANK = 5
SLOW_SINCE = AT - 90
STALE_AFTER_S = 100.0
"""Long enough for the nodes and for the queue."""

FINETUNE, PRETRAIN, EMBED, SWEEP = "4711", "4690", "4702", "4723"
SILENT = "gpu05"
"""A node that never answers, in the data as well: no cluster is ever whole."""


def _wave(step: int, period: int, depth: float) -> float:
    """A triangle between 0 and `depth`."""
    at = step % period
    return depth * min(at, period - at) / (period / 2)


def _values(one: Gpu, number: int, step: int) -> dict[str, float | int | None]:
    """What a GPU that works reported at a step; every tenth step is a checkpoint."""
    is_slow = number == SLOW_RANK and one.node == "gpu02" and _time(step) >= SLOW_SINCE
    busy = 0.3 if is_slow else 0.86 - _wave(step + number, 15, 0.12)
    return {
        **WHOLE,
        "sm_active_ratio": busy,
        "tensor_active_ratio": busy * 0.55,
        "dram_active_ratio": busy * 0.45,
        "gpu_util_ratio": 1.0,
        "power_w": 690.0 * busy,
        "temp_c": 58.0 + number,
        "nvlink_tx_bytes_per_s": 175e9 * busy,
        "nvlink_rx_bytes_per_s": 174e9 * busy,
    }


def _time(step: int) -> float:
    return AT - (STEPS - 1 - step) * STEP_S


def _held(views: list[JobView], gpus: list[Gpu], step: int) -> list[Gpu]:
    """The GPUs of the jobs, and four that no job holds."""
    busy = {uuid for view in views for rank in view.ranks for uuid in rank.gpu_uuids}
    made = []
    for one in gpus:
        number = one.nvml_index or 0
        values = _values(one, number, step) if one.uuid in busy else IDLE
        made.append(gpu(one.node, number, values, one.processes)._replace(taken_at=_time(step)))
    free = [gpu("gpu04", number, IDLE)._replace(taken_at=_time(step)) for number in range(4, 8)]
    return [*made, *free]


def _nodes(gpus: list[Gpu], step: int) -> dict[str, Node]:
    made = {}
    for name in dict.fromkeys(one.node for one in gpus):
        mine = [one for one in gpus if one.node == name]
        blocks = {**host_blocks(name), "cgroup": job_use(FINETUNE if name == "gpu01" else "1")}
        if name == "gpu01":
            blocks["link"] = links(mine[0].uuid, 6, down=1)
            rows = {f"4000/{mine[0].uuid}": {"context_sm_util_ratio": 0.83}}
            blocks["context"] = block("context", rows)
        else:
            blocks["node"] = host(name)
        uuids = tuple(one.uuid for one in mine)
        at = _time(step)
        made[name] = Node(name, uuids, at, False, "mixed", (), 0.01, blocks["node"], blocks)
    refused = SourceError(f"ssh://{SILENT}", "connection refused", "is sshd up there?")
    made[SILENT] = Node(SILENT, (), None, False, "down*", (refused,))
    return made


def _findings(gpus: list[Gpu]) -> dict[str, object]:
    """Three that are open, each with another kind of subject, and one that is over."""
    slow = uuid_of("gpu02", SLOW_RANK)
    idle = tuple(uuid_of("gpu01", number) for number in (5, 6, 7))
    straggler = finding(
        f"job:{PRETRAIN}/rank:{SLOW_RANK}",
        detector="straggler",
        finding_class="straggler",
        severity=Severity.CRITICAL,
        summary="Rank 5 of 16 is slower than its peers, and all others wait for it.",
        evidence=(
            Evidence("sm_active_ratio", f"gpu:{slow}", "SM activity 30 % beside 80 %", 0.3),
            Evidence("power_w", f"gpu:{slow}", "207 W beside 552 W", 207.0),
        ),
        onset=SLOW_SINCE,
        advice=(f"py-spy dump --pid {4000 + SLOW_RANK} on gpu02",),
        gpu_seconds=950.0,
    )
    throttled = finding(
        f"gpu:{gpus[0].uuid}",
        detector="throttled",
        finding_class="throttled",
        severity=Severity.INFO,
        summary="A power cap held the clock 11 % below its maximum.",
        evidence=(Evidence("sm_clock_mhz", f"gpu:{gpus[0].uuid}", "1755 of 1980 MHz"),),
        is_acknowledged=True,
        advice=("nvidia-smi -q -d PERFORMANCE names what holds the clock.",),
        machine_advice=("Compare its power limit with those of the other GPUs.",),
    )
    over = finding(f"job:{EMBED}", detector="slow_startup", finding_class="slow_startup")
    return {
        "findings": (straggler, finding(f"job:{FINETUNE}", gpus=idle), throttled),
        "cleared": (over._replace(cleared_at=AT - 600, last_seen=AT - 600),),
        "coverage": (
            Coverage("partial_gpus_idle", 3, 1, (), "ok"),
            Coverage("straggler", 16, 0, (), "ok"),
            Coverage("input_bound", 0, 3, ("pcie_rx_bytes_per_s",), "waiting"),
        ),
    }


def _ledger() -> LedgerTotals:
    """Two hours of three jobs."""
    accounts = tuple(
        Account(job_id, user, "ml", "h100", "H100", AT - 7200, AT - 7200, seconds)
        for job_id, user, seconds in (
            (FINETUNE, "grace", {"useful": 36_000.0, "partial_gpus_idle": 21_600.0}),
            (PRETRAIN, "ada", {"useful": 109_000.0, "straggler": 6_200.0}),
            (EMBED, "edsger", {"useful": 25_200.0, "slow_startup": 3_600.0}),
        )
    )
    charged = {
        ("straggler", "straggler", f"job:{PRETRAIN}/rank:{SLOW_RANK}"): Charged(6_200.0),
        ("partial_gpus_idle", "partial_gpus_idle", f"job:{FINETUNE}"): Charged(21_600.0),
        ("slow_startup", "slow_startup", f"job:{EMBED}"): Charged(3_600.0),
    }
    return LedgerTotals(AT, AT - 7200, accounts, accounts, charged=charged)


def _ended() -> EndedJobs:
    """Three jobs of today, of which two did not end well."""
    steps = (StepUsage("4600", "0", "train", "FAILED", "3:0", 60.0, 8, 40.0, 2.0**30,
                       None, None, None),)  # fmt: skip
    cases = (
        ("4609", "eval-7b", "COMPLETED", "0:0", 0.91),
        ("4600", "broken", "FAILED", "3:0", 0.02),
        ("4588", "notebook", "TIMEOUT", "0:15", None),
    )
    jobs = []
    for at, (job_id, name, state, code, used) in enumerate(cases):
        record = job(job_id, name=name, state=state, exit_code=code, gpu_count=8,
                     end_at=AT - 600 * (at + 1), user=("ada", "grace", "edsger")[at])  # fmt: skip
        jobs.append(EndedJob(record, 3600.0, 28_800.0, "", 60.0, 2.0**31, used, None, 9e6, steps))
    return EndedJobs(tuple(jobs), AT - 86_405, AT - 5, 0)


def _waiting() -> tuple[JobView, ...]:
    records = (
        waits("4730", "Resources", name="big-eval", gpu_count=64, node_count=8, priority=9999),
        waits("4731", "JobHeldUser", name="held", user="grace", priority=0),
        waits("4732", name="long", user="edsger", time_limit_s=168 * HOUR, start_at=AT + 8040),
    )
    return tuple(JobView(record, (), 0, (), ()) for record in records)


def _at(step: int, history: History) -> Tick:
    finetune, a = job_with_gpus(FINETUNE, {"gpu01": 8}, idle=3, name="finetune", user="grace")
    pretrain, b = job_with_gpus(PRETRAIN, {"gpu02": 8, "gpu03": 8}, name="pretrain-7b")
    embed, c = job_with_gpus(EMBED, {"gpu04": 4}, name="embed", user="edsger")
    sweep = job(SWEEP, label="4720_3", name="sweep", user="barbara", nodes=(SILENT,), gpu_count=4,
                allocations=(Allocation(SILENT, 4, None),))  # fmt: skip
    holding = [finetune, pretrain, embed]
    gpus = _held(holding, [*a, *b, *c], step)
    waiting = _waiting()
    jobs = (*waiting, pretrain, embed, finetune, JobView(sweep, (), 4, (), ()))
    queue = cluster(*(view.job for view in jobs)).queue
    assert queue is not None
    nodes = tuple(slurm_node(f"gpu0{n}", gpus_used=8 if n < 4 else 4) for n in range(1, 5))
    silent = slurm_node(SILENT, "down*", reason="not responding", gpus_used=4)
    first = queue.partitions[0]._replace(nodes=tuple(n.name for n in (*nodes, silent)))
    queue = queue._replace(
        partitions=(first._replace(gpu_count=40), *queue.partitions[1:]), nodes=(*nodes, silent)
    )
    made = tick(jobs, gpus, number=step, at=_time(step), observed_since=_time(0), queue=queue,
                nodes=_nodes(gpus, step), period_s=STEP_S, **_findings(gpus))  # fmt: skip
    history.append(made)
    return made


@cache
def whole() -> Tick:
    """The cluster at work: one job wastes GPUs, one has a slow rank, one node is silent."""
    history = History()
    for step in range(STEPS):
        made = _at(step, history)
    stray = Process("gpu04", 77, "python", 0, None, None, {}, None, (uuid_of("gpu04", 5),), {})
    return made._replace(
        history=history.reader(), ledger=_ledger(), ended=_ended(), strays=(stray,)
    )


def stale() -> Tick:
    """The same cluster long after everything has fallen silent."""
    last = whole()
    old = {uuid: one._replace(is_stale=True) for uuid, one in last.gpus.items()}
    nodes = {
        name: node._replace(is_stale=node.taken_at is not None) for name, node in last.nodes.items()
    }
    unknown = tuple(one._replace(unknown_since=AT + 10) for one in last.findings)
    return last._replace(number=STEPS, at=AT + STALE_AFTER_S, gpus=old, nodes=nodes,
                         findings=unknown,
                         targets=(TargetState("slurm", True, None, STALE_AFTER_S),))  # fmt: skip


def empty() -> Tick:
    """A queue without a job on a cluster that tells of no GPU, where nothing is found."""
    at = AT + 2 * STALE_AFTER_S
    ended = EndedJobs((), at - 86_405, at - 5, 0)
    coverage = (Coverage("partial_gpus_idle", 0, 0, (), "ok"),)
    made = tick(number=STEPS + 1, at=at, queue_at=at - 12, coverage=coverage, ended=ended)
    return made._replace(observed_since=_time(0))


def broken() -> Tick:
    """Nothing can be read any more."""
    return failed()._replace(
        number=STEPS + 2, at=AT + 3 * STALE_AFTER_S, observed_since=_time(0), period_s=STEP_S
    )
