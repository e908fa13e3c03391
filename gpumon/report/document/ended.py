"""Jobs that have ended, and what steps have used, as the JSON document shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.report.facts.entities import moment, number

if TYPE_CHECKING:
    from gpumon.model.records.accounting import EndedJob, StepUsage
    from gpumon.model.records.tick import Tick
    from gpumon.report.document import forms


def ended_jobs(tick: Tick) -> list[forms.EndedJob] | None:
    """Jobs that have ended; null where they were not asked for."""
    found = tick.ended
    return None if found is None else [_job(tick, ended) for ended in found.jobs]


def ended_window(tick: Tick) -> forms.EndedWindow | None:
    """Where these were looked for, and the sum of them; null where they were not asked for."""
    found = tick.ended
    if found is None:
        return None
    gpu_seconds, unknown = found.held
    return {
        "start": moment(found.since),
        "end": moment(found.at),
        "unreadable": found.unreadable,
        "gpu_seconds": number(gpu_seconds),
        "runs_without_gpu_seconds": unknown,
        "last_runs_only": found.has_last_runs_only,
    }


def running_steps(tick: Tick, job_id: str) -> list[forms.EndedStep] | None:
    """What a job's running steps have used; None: not asked for, or not reported."""
    found = tick.running_use.steps.get(job_id) if tick.running_use else None
    return None if found is None else [_step(step) for step in found]


def _job(tick: Tick, ended: EndedJob) -> forms.EndedJob:
    job = ended.job
    return {
        "job_id": job.job_id,
        "label": job.label,
        "name": job.name,
        "user": job.user,
        "account": job.account,
        "partition": job.partition,
        "cluster": tick.cluster_of(job.job_id),
        "qos": job.qos or None,
        "state": job.state,
        "exit_status": ended.exit_status,
        "exit_signal": ended.exit_signal,
        "cancelled_by": ended.cancelled_by or None,
        "submitted_at": moment(job.submit_at),
        "started_at": moment(job.start_at),
        "ended_at": moment(job.end_at),
        "elapsed_s": number(ended.elapsed_s),
        "time_limit_s": number(job.time_limit_s),
        "nodes": list(job.nodes),
        "cpu_count": job.cpu_count,
        "mem_bytes": number(job.mem_bytes),
        "gpu_count": job.gpu_count,
        "gpu_seconds": number(ended.gpu_seconds),
        "gpu_idle_seconds": number(ended.gpu_idle_seconds),
        "cpu_used_s": number(ended.cpu_used_s),
        "cpu_used_ratio": number(ended.cpu_used_ratio),
        "mem_used_bytes": number(ended.mem_used_bytes),
        "mem_used_ratio": number(ended.mem_used_ratio),
        "max_rss_bytes": number(ended.max_rss_bytes),
        "gpu_util_ratio": number(ended.gpu_util_ratio),
        "gpu_mem_bytes": number(ended.gpu_mem_bytes),
        "energy_j": number(ended.energy_j),
        "steps": [_step(step) for step in ended.steps],
        "jobstats_fields": list(ended.jobstats_fields),
    }


def _step(step: StepUsage) -> forms.EndedStep:
    return {
        "step": step.step,
        "name": step.name,
        "state": step.state or None,
        "exit_code": step.exit_code or None,
        "elapsed_s": number(step.elapsed_s),
        "task_count": step.task_count,
        "cpu_used_s": number(step.cpu_used_s),
        "mem_used_bytes": number(step.mem_used_bytes),
        "max_rss_bytes": number(step.max_rss_bytes),
        "gpu_util_sum_ratio": number(step.gpu_util_sum_ratio),
        "gpu_mem_bytes": number(step.gpu_mem_bytes),
        "energy_j": number(step.energy_j),
    }
