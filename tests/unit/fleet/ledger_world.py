"""A made-up fleet whose allocations are known, to hold the books against."""

from __future__ import annotations

from gpumon.model.finding import Confidence, Window
from gpumon.model.records.block import Block, column_for
from gpumon.model.records.cluster import Gpu, JobView, Node
from gpumon.model.records.tick import Tick
from tests.worlds import tick as ticks

START = 1_000_000.0

NAME = "NVIDIA H100 80GB HBM3"


def gpu(uuid, at, stale_since=None, util=0.9, energy_j=None, power_w=None, name=NAME, sm=0.6):
    """A GPU at work as it was heard of at a Unix time, or since when it is silent."""
    sm = None if util is None else sm
    values = {
        "gpu_util_ratio": util, "sm_active_ratio": sm, "energy_j": energy_j, "power_w": power_w,
    }  # fmt: skip
    columns = {
        key: column_for(key == "energy_j", [value])
        for key, value in values.items()
        if value is not None
    }
    block = Block((uuid,), columns, {"name": (name,)}, {})
    taken_at = at if stale_since is None else stale_since
    return Gpu(uuid, "gpu01", block, 0, taken_at, "ssh://gpu01", stale_since is not None, ())


def view(job_id, uuids, start_at=START, unknown=0, **changes):
    job = ticks.job(job_id, start_at=start_at, gpu_count=len(uuids) + unknown, **changes)
    return JobView(job, tuple(uuids), unknown, (), ())


def tick(at, jobs=(), gpus=(), findings=(), period_s=1.0, **changes):
    by_uuid = {g.uuid: g for g in gpus}
    node = Node("gpu01", tuple(by_uuid), at, False, "mixed", ())
    made = Tick(
        1, at, START, period_s, (), {"gpu01": node}, by_uuid, tuple(jobs), at, tuple(findings),
        (), (), 0.0,
    )  # fmt: skip
    return made._replace(**changes)


def claim(finding_class, subject, start, end, *, gpus=(), share=None, onset=None, sure=True):
    """A finding over a window, of which a share of its GPUs' time is lost."""
    lost = None if share is None else share * (end - start) * max(1, len(gpus))
    return ticks.finding(
        subject,
        detector=finding_class,
        finding_class=finding_class,
        confidence=Confidence.SUPPORTED if sure else Confidence.HYPOTHESIS,
        window=Window(start, end, 10),
        first_seen=end,
        last_seen=end,
        onset=onset,
        gpu_seconds=lost,
        gpus=tuple(gpus),
    )


def run(ledger, first, last, jobs, uuids=("a",), step=1.0, findings=(), **values):
    """Ticks from one second to another, every GPU fresh."""
    at = first
    while at <= last:
        here = [gpu(uuid, at, **values) for uuid in uuids]
        ledger.take(tick(at, jobs, here, findings))
        at += step
    return ledger.summary()
