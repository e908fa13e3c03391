from __future__ import annotations

import pytest

from gpumon.fleet.ranks import place
from gpumon.model.cluster import Process
from gpumon.model.missing import Reason

SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "8",
}
TORCHRUN = {
    "RANK": "11",
    "LOCAL_RANK": "3",
    "WORLD_SIZE": "16",
    "MASTER_ADDR": "gpu01",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "run",
}


def process(variables, step="0", why=None):
    return Process("gpu01", 1, "python3", 1, "7", step, variables, why, (), {})


@pytest.mark.parametrize(
    ("variables", "world", "rank", "local", "size"),
    [
        (SLURM, "7.0", 5, 1, 8),
        (SLURM | {"SLURM_STEP_NUM_TASKS": "4"}, "7.0", 5, 1, 4),
        (SLURM | TORCHRUN, "gpu01:29500", 11, 3, 16),
        (TORCHRUN | {"MASTER_PORT": ""}, "run", 11, 3, 16),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
          "OMPI_COMM_WORLD_SIZE": "4"}, "7.0", 2, 0, 4),
        (SLURM | {"PMI_RANK": "6", "PMI_SIZE": "8"}, "7.0", 6, None, 8),
    ],
)  # fmt: skip
def test_the_launcher_nearest_to_the_process_names_the_rank(variables, world, rank, local, size):
    assert place(process(variables)) == (world, rank, local, size, None)


@pytest.mark.parametrize("step", ["batch", "extern", "interactive"])
def test_a_batch_script_that_inherits_procid_0_is_no_rank(step):
    found = place(process({"SLURM_PROCID": "0", "SLURM_JOB_ID": "7"}, step))
    assert found.rank is None
    assert found.why == "its environment names no rank"


def test_a_rank_without_any_launcher_around_it_is_not_believed():
    assert place(process({"RANK": "3"}, "batch")).rank is None


def test_why_says_what_stood_in_the_way():
    hidden = process({}, why=Reason.NO_PERMISSION)
    assert place(hidden).why == "no permission to read its environment"


@pytest.mark.parametrize("text", ["-1", "x", "", "1" * 12, "٣"])
def test_what_is_no_number_names_no_rank(text):
    assert place(process(SLURM | {"SLURM_PROCID": text})).rank is None
