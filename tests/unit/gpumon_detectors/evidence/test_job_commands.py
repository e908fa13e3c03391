"""Commands of an advice mean the job that it is about, and no other task of its array."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpumon_detectors.evidence.job_commands import inspect_commands, srun_in
from gpumon_detectors.evidence.machine_commands import ask_gpu
from tests.worlds.tick import job


@pytest.mark.parametrize(
    ("number", "label", "within", "shown"),
    [
        ("101", "101", "--jobid=101", "101"),
        ("812", "812_4", "--jobid=812", "812_4"),
        ("813", "812_1", "--jobid=813", "812_1"),
        ("901", "900+1", "--jobid=900 --het-group=1", "900+1"),
    ],
)
def test_a_job_is_named_so_that_slurm_takes_it_for_one(number, label, within, shown):
    look = SimpleNamespace(job=job(number, label=label))
    assert inspect_commands(look) == (
        f"What runs on its GPUs: srun {within} --overlap --pty nvidia-smi",
        f"What it was given: scontrol show job -d {shown}",
    )
    gpu = SimpleNamespace(uuid="GPU-1", node="gpu01")
    view = SimpleNamespace(jobs_of=lambda _uuid: [look])
    (advice,) = ask_gpu(view, gpu, "-q")
    assert f"srun {within} --overlap -w gpu01 nvidia-smi -q -i GPU-1" in advice


@pytest.mark.parametrize("label", ["5;id", "$(id)", "-5"])
def test_a_hostile_id_gets_into_no_advice(label):
    assert srun_in(job("5", label=label)) is None
    assert inspect_commands(SimpleNamespace(job=job(label, label=label))) == ()
