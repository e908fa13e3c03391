"""Nodes of the user's own job by `srun --overlap`: one step per job, one task per node.

The step takes nothing away from the job's own: it shares its CPUs, memory and GPUs. The program
and the wishes go to every task, because srun passes its standard input on to all of them. A step
that ended before its job is started again, but seldom; a node whose task alone was lost gets a step
of its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gpumon.model.job_name import job_name
from gpumon.sources.probes.program import START_SCRIPT, remote_program
from gpumon.sources.probes.stream import Endpoint
from gpumon.sources.slurm.commands.commands import neutral_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

STEP_NAME: Final = "gpumon"
"""What the step is called in the accounting."""

OPTIONS: Final = (
    "--overlap",
    "--ntasks-per-node=1",
    "--mem=0",
    "--cpu-bind=none",
    "--mpi=none",
    "--kill-on-bad-exit=0",
    "--wait=0",
    "--immediate=10",
    "--quiet",
    "--chdir=/",
    f"--job-name={STEP_NAME}",
)
"""Share everything, be bound to no core, let a probe that ends take no other along, wait for
nothing. Neither --gres=none, under which no GPU may be opened, nor --input=none, which ends the
input."""

WAYS_OUT: Final = (
    ("Access/permission denied", "Slurm refuses a step in this job",
     "only the job's own user may start one"),
    ("Invalid job id", "the job has ended", ""),
    ("already completing or completed", "the job has ended", ""),
    ("CANCELLED", "the step was ended", "a step ends with its job"),
    ("Unable to contact slurm controller", "it cannot reach Slurm's controller",
     "`scontrol ping` says whether it is up"),
    ("no python3 on this node", "a node has no python3", "install python3 on the node"),
)  # fmt: skip
"""Words of srun on standard error, what they mean, and what to do; the first that fits counts."""

AGAIN: Final = (
    "gpumon starts another one by itself, less and less often: each stays in the accounting"
)


def explain(job: str) -> Callable[[int | None, str], tuple[str, str]]:
    """Translator of srun's last words into a message and a way out."""

    def translate(code: int | None, words: str) -> tuple[str, str]:
        for sign, message, hint in WAYS_OUT:
            if sign in words:
                return f"srun in job {job}: {message}", hint or AGAIN
        lines = [line for line in words.splitlines() if line.strip()]
        last = lines[-1].removeprefix("srun: ") if lines else "no reason given"
        return f"srun in job {job} ended ({code}): {last}", AGAIN

    return translate


def endpoint(
    job_id: str,
    label: str,
    nodes: Sequence[str],
    url: str,
    *,
    prefix: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    is_part: bool = False,
    cluster: str = "",
) -> Endpoint:
    """How the probes on the nodes of one job are started.

    Args:
        job_id: Slurm's number of the job, validated.
        label: The id people use for it, validated.
        nodes: Names of nodes of the job as Slurm lists them, validated.
        url: The target; the frames' origin names the job, too, because a step sees only the GPUs
            of its job, and two jobs may share a node.
        prefix: Words before the command, to start it behind a hop.
        environ: Environment to start from; None: gpumon's own.
        is_part: Whether another step reads the other nodes of the job.
        cluster: Of the job; empty: that of srun itself.

    Raises:
        ValueError: The label is not that of a job.
    """
    name = job_name(job_id, label)
    if name is None:
        raise ValueError(f"{label!r} is not a job")
    where = ("-M", cluster) if cluster else ()
    argv = ["srun", *where, *name.srun_words, f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}"]
    argv += [f"--nodelist={','.join(nodes)}", *OPTIONS, "--", "sh", "-c"]
    # Behind a hop a shell reads the words.
    argv.append(f"'{START_SCRIPT}'" if prefix else START_SCRIPT)
    neutral = neutral_environment(os.environ if environ is None else environ)
    return Endpoint(
        node=f"job {label} on {','.join(nodes)}" if is_part else f"job {label}",
        argv=(*prefix, *argv),
        program=_program,
        explain=explain(label),
        nodes=tuple(nodes),
        origin=f"{url}#job={label}",
        environ={key: value for key, value in neutral.items() if not key.startswith("SRUN_")},
        is_step=True,
    )


def _program(options: dict[str, object]) -> bytes:
    return remote_program({**options, "shared_output": True})
