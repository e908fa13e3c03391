"""Jobs that the labels of exporters put on GPUs: which GPUs one holds, and nothing else of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.records.cluster import Allocation, Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumon.fleet.join.disputes import Disputes
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.frame import Frame

Labelled = dict[str, dict[str, dict[str, None]]]
"""UUIDs by job and node."""


def labelled_of(frames: Iterable[tuple[str, Frame]], disputes: Disputes | None = None) -> Labelled:
    """Which GPUs the labels of pages give to which job.

    Args:
        frames: Canonical node name and newest frame of that node, of each origin not silent.
        disputes: GPUs that several nodes claim.
    """
    found: Labelled = {}
    for node, frame in frames:
        block = frame.block("gpu")
        labels = block.labels.get("label_jobs")
        if labels is None:
            continue
        for uuid, text in zip(block.keys, labels, strict=True):
            if text is None or (disputes and disputes.is_refused(frame, uuid)):
                continue
            for job_id in text.split():
                found.setdefault(job_id, {}).setdefault(node, {})[uuid] = None
    return found


def labelled_jobs(labelled: Labelled) -> tuple[Job, ...]:
    """The jobs that labels alone tell of: nobody says whose they are, nor since when they run."""
    return tuple(_job(job_id, on) for job_id, on in sorted(labelled.items()))


def _job(job_id: str, on: Mapping[str, Mapping[str, None]]) -> Job:
    allocations = tuple(Allocation(node, len(uuids), None) for node, uuids in sorted(on.items()))
    return Job(
        job_id=job_id,
        label=job_id,
        name="",
        user="",
        account="",
        partition="",
        # A label is there while the job holds the GPU, which is all that its state is taken for.
        state="RUNNING",
        reason="",
        nodes=tuple(part.node for part in allocations),
        allocations=allocations,
        gpu_count=sum(part.gpu_count for part in allocations),
        submit_at=None,
        start_at=None,
        end_at=None,
        time_limit_s=None,
        is_interactive=False,
        node_count=len(allocations),
        is_labelled=True,
    )


def with_labels(views: tuple[JobView, ...], labelled: Labelled) -> tuple[JobView, ...]:
    """The jobs of a queue, of which those say so whose GPUs a label gives to another one.

    What Slurm gave counts. Labels of jobs that the queue does not list running contradict nobody:
    they are written and taken away a moment after a job begins and ends, and the queue is asked
    seldom.
    """
    running = {view.job.job_id: view for view in views if view.job.state == "RUNNING"}
    owners = {uuid: view.job.label for view in running.values() for uuid in view.gpu_uuids}
    more: dict[str, list[str]] = {}
    for job_id, on in labelled.items():
        view = running.get(job_id)
        if view is None or view.gpus_unknown:
            continue
        held = set(view.gpu_uuids)
        for node, uuids in on.items():
            for uuid in sorted(set(uuids) - held):
                owner = owners.get(uuid)
                given = "" if owner is None else f", which Slurm gave to job {owner}"
                text = f"the label of an exporter puts job {view.job.label} on {uuid} of {node}"
                rest = given or ", which Slurm's allocation does not name"
                more.setdefault(job_id, []).append(text + rest)
    return tuple(
        view._replace(contradictions=(*view.contradictions, *more[view.job.job_id]))
        if view.job.job_id in more
        else view
        for view in views
    )
