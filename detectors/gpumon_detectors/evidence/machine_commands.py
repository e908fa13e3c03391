"""Commands to copy: every id in them is checked, so that no name can become an option or a shell.

What stops or drains anything is written as a suggestion to those who may, never run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpumon.plugin import Confidence, is_host_name
from gpumon_detectors.evidence.job_commands import srun_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import GpuFacts, View, Window, Windows

_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z-]{1,64}")
_REASON: Final = re.compile(r"[0-9A-Za-z .,:/-]{1,100}")


def ask_gpu(view: View, gpu: GpuFacts, question: str) -> Iterator[str]:
    """How to ask nvidia-smi about a GPU, within its job where it has one.

    `question` is text of ours: a subcommand or options of nvidia-smi.
    """
    if not _UUID.fullmatch(gpu.uuid):
        return
    command = f"nvidia-smi {question} -i {gpu.uuid}"
    if not is_host_name(gpu.node):
        yield f"Look closer, on its node: {command}"
        return
    holders = [srun_in(job.job) for job in view.jobs_of(gpu.uuid)]
    if holders and holders[0] is not None:
        yield f"Look closer: {holders[0]} -w {gpu.node} {command}"
    else:
        # Which way leads there, the monitor knows: its own commands name it.
        yield f"Look closer, on {gpu.node}: {command}"


def is_sure_enough(view: View, rule: Windows, window: Window, at_most: Confidence) -> bool:
    """Whether a fault is sure enough to keep people and jobs away from its node."""
    sure = view.confidence(window, rule)
    return Confidence.HYPOTHESIS not in (sure, at_most)


def has_slurm(view: View, node: str) -> bool:
    """Whether Slurm is what a node is used by: its commands help nowhere else."""
    known = view.nodes.get(node)
    return bool(view.running) or (known is not None and known.slurm is not None)


def drain(view: View, node: str, reason: str) -> Iterator[str]:
    """How who runs a node keeps new jobs from it; `reason` is text of ours."""
    if is_host_name(node) and has_slurm(view, node) and _REASON.fullmatch(reason):
        yield (
            f'To keep new jobs away: scontrol update NodeName={node} State=DRAIN Reason="{reason}"'
        )


def leave_out(view: View, node: str) -> Iterator[str]:
    """How a user starts again without a node."""
    if is_host_name(node) and has_slurm(view, node):
        yield f"Run elsewhere until it is repaired: sbatch --exclude={node} …"


def report_to_admins(view: View, node: str) -> Iterator[str]:
    """What a user can do about a machine that is none of theirs.

    Who has a machine without a queue is likely to run it.
    """
    if is_host_name(node) and has_slurm(view, node):
        yield f"Report this to the administrators of {node}."


def ask_node(view: View, node: str) -> Iterator[str]:
    """How to see what Slurm knows of a node."""
    if is_host_name(node) and has_slurm(view, node):
        yield f"What Slurm says about it: scontrol show node {node}"
