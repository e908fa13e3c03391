from __future__ import annotations

import pytest

from gpumon.fleet.join.ranks import SEVERAL, place, places
from gpumon.model.missing import Reason
from gpumon.model.records.cluster import Process

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
        (SLURM | {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4",
                  "PMIX_NAMESPACE": "prterun-gpu01-77@1"}, "prterun-gpu01-77@1", 2, None, 4),
        (SLURM | {"PMIX_RANK": "5", "PMIX_NAMESPACE": "slurm.pmix.7.0"}, "7.0", 5, 1, 8),
        (SLURM | {"PMIX_RANK": "5", "PMIX_NAMESPACE": "prterun@1"}, "prterun@1", 5, None, None),
        ({"PMIX_RANK": "3"}, "7.0", 3, None, None),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_LOCAL_RANK": "1",
          "MV2_COMM_WORLD_SIZE": "2", "PMI_RANK": "9"}, "7.0", 1, 1, 2),
        ({"PMI_RANK": "3", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1"}, "7.0", 3, 1, 8),
        (SLURM | {"PMI_RANK": "5"}, "7.0", 5, 1, 8),
        ({"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "2", "MASTER_ADDR": "10.0.0.1",
          "MASTER_PORT": "61007"} | SLURM, "10.0.0.1:61007", 2, 2, 4),
        (TORCHRUN | {"MASTER_ADDR": "localhost"}, "gpu01/localhost:29500", 11, 3, 16),
        (TORCHRUN | {"MASTER_ADDR": "127.0.0.1"}, "gpu01/127.0.0.1:29500", 11, 3, 16),
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


def on(pid, variables, gpus, parent=1, node="gpu01", step="0"):
    uuids = tuple(f"GPU-{node}-{gpu}" for gpu in gpus)
    return Process(node, pid, "python3", 1, "7", step, variables, None, uuids, {}, 1.0, parent)


def ranks(*processes):
    return {process.pid: where.rank for process, where in places(processes)}


@pytest.mark.parametrize("order", [1, -1])
def test_children_of_a_rank_that_use_its_gpu_are_no_ranks(order):
    loaders = [on(pid, SLURM, [0], parent=900) for pid in (100, 101, 950)]
    assert ranks(*[on(900, SLURM, [0]), *loaders][::order]) == {900: 5}


def test_of_processes_side_by_side_on_one_gpu_the_oldest_is_the_rank():
    assert ranks(on(31, SLURM, [0], parent=7), on(30, SLURM, [0], parent=7)) == {30: 5}


def test_a_grandchild_is_no_rank_either():
    found = ranks(on(9, SLURM, [0, 1]), on(10, SLURM, [1], 9), on(5, SLURM, [0], 10))
    assert found == {9: 5}


def test_programs_side_by_side_on_gpus_of_their_own_are_not_called_one_rank():
    """A task that starts eight workers itself: no variable says which is which."""
    workers = [on(pid, SLURM, [pid - 40], parent=39) for pid in range(40, 48)]
    found = places(workers)
    assert len(found) == 8
    assert {where for _, where in found} == {(None, None, None, None, SEVERAL)}


def test_one_process_with_eight_gpus_is_one_rank():
    ((process, where),) = places([on(50, SLURM, range(8))])
    assert (where.rank, len(process.gpu_uuids)) == (5, 8)


def test_a_sweep_is_as_many_worlds_as_it_has_programs():
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost",
             "TORCHELASTIC_RUN_ID": "none"}  # fmt: skip
    sweep = [
        on(60 + gpu, SLURM | alone | {"MASTER_PORT": str(29400 + gpu)}, [gpu]) for gpu in range(8)
    ]
    found = places(sweep)
    assert len({where.world_id for _, where in found}) == 8
    assert {(where.rank, where.world_size) for _, where in found} == {(0, 1)}


def test_steps_and_nodes_of_their_own_are_worlds_of_their_own():
    first = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    found = places([on(1, first, [0]), on(1, first, [0], node="gpu02")])
    assert {where.world_id for _, where in found} == {
        "gpu01/localhost:29500",
        "gpu02/localhost:29500",
    }
    steps = places([on(1, SLURM, [0]), on(2, SLURM, [1], step="1")])
    assert [where.world_id for _, where in steps] == ["7.0", "7.1"]


def test_processes_whose_rank_is_unknown_are_all_kept():
    hidden = [on(pid, {}, [0])._replace(why=Reason.NO_PERMISSION) for pid in (1, 2)]
    assert ranks(*hidden) == {1: None, 2: None}
