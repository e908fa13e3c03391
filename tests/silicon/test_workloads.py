"""What the rules report of workloads that ran on a real H200; README.md has how each was made."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.model.records.frame import Frame
from gpumon.sources.recording.decode import Decoder
from tests.silicon.looped import Part, stretches, write_job

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDINGS = Path(__file__).parent / "recordings"
KERNELS = RECORDINGS / "h200-kernels.gpumon.zst"
JOBS = RECORDINGS / "h200-jobs.gpumon.zst"
STALLS = RECORDINGS / "h200-stalls.gpumon.zst"
LOOPS = RECORDINGS / "h200-loops.gpumon.zst"

EVERY_S = 10
"""Seconds between two ticks: every tenth of those recorded."""


def document(
    recording: Path, folder: Path, job_id: str, *parts: Part, every_s: int = EVERY_S
) -> dict[str, Any]:
    """What is known at the end of the job, findings and ledger."""
    file = folder / "job.gpumon"
    write_job(recording, file, job_id, parts, every_s)
    return judged(file)


def judged(file: Path) -> dict[str, Any]:
    """The document of a recording's end."""
    command = [sys.executable, "-m", "gpumon", "replay", str(file), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def claims(found: dict[str, Any]) -> Sequence[tuple[str, str]]:
    return [(one["class"], one["confidence"]) for one in found["findings"]]


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["bf16", "fp16", "tf32", "fp8", "fp64", "memory_bound"])
def test_a_gpu_that_is_full_is_left_alone(workload: str, tmp_path: Path) -> None:
    found = document(KERNELS, tmp_path, "1", Part(workload, 45))
    assert claims(found) == []
    assert found["ledger"]["total"]["useful_share"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "job_id"), [("train_bf16", "101"), ("ok_checkpoint", "109"), ("decode", "113")]
)
def test_work_as_it_should_be_is_left_alone(workload: str, job_id: str, tmp_path: Path) -> None:
    assert claims(document(JOBS, tmp_path, job_id, Part(workload, 45))) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "job_id", "finding_class", "steps"),
    [
        ("train_fp32", "102", "no_tensor_cores", ["hypothesis"]),
        ("loader4", "103", "input_bound", ["supported", "established"]),
        ("small_batch", "105", "oversized_gpu", ["hypothesis"]),
        ("memory_held", "114", "idle_held", ["hypothesis"]),
    ],
)
def test_what_wastes_it_is_named(
    workload: str, job_id: str, finding_class: str, steps: Sequence[str], tmp_path: Path
) -> None:
    found = claims(document(JOBS, tmp_path, job_id, Part(workload, 45)))
    assert dict(found)[finding_class] in steps
    sure = [name for name, confidence in found if confidence != "hypothesis"]
    assert sure == ([finding_class] if steps != ["hypothesis"] else [])


@pytest.mark.slow
def test_too_many_loaders_are_named(tmp_path: Path) -> None:
    """Every second: a fifth of the samples of half a minute makes a period that is not its own."""
    file = tmp_path / "job.gpumon"
    write_job(JOBS, file, "112", [Part("oversubscribed", 45)])
    (claim,) = claims(judged(file))
    assert claim == ("cpu_oversubscribed", "supported")


@pytest.mark.slow
def test_copies_that_count_as_utilisation_are_told_from_work(tmp_path: Path) -> None:
    found = claims(document(KERNELS, tmp_path, "1", Part("copy_bound", 45)))
    assert dict(found)["copy_bound"] == "established"


@pytest.mark.slow
def test_copies_both_ways_are_a_guess(tmp_path: Path) -> None:
    found = document(JOBS, tmp_path, "110", Part("copy", 45))
    assert dict(claims(found))["copy_bound"] == "hypothesis"
    assert found["ledger"]["total"]["wasted_gpu_seconds"] == 0.0


@pytest.mark.slow
def test_a_program_that_prepares_its_batches_itself_is_a_guess(tmp_path: Path) -> None:
    found = document(KERNELS, tmp_path, "1", Part("input_bound", 45))
    assert dict(claims(found))["input_bound"] == "hypothesis"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recording", "job_id", "parts", "found"),
    [
        (STALLS, "201", [Part("hang_spin", 12), Part("hang_spin2", 33, is_silent=True)], ["hang"]),
        (STALLS, "203", [Part("loader_main", 45)], ["input_bound"]),
        (STALLS, "204", [Part("offload_both", 45)], ["copy_bound", "oversized_gpu"]),
        (STALLS, "205", [Part("checkpoint", 45)], []),
        (STALLS, "206", [Part("eval_cpu", 45)], []),
        (LOOPS, "223", [Part("loader_main_big", 45)], ["input_bound"]),
        (LOOPS, "224", [Part("resnet_fp32", 45)], ["no_tensor_cores"]),
    ],
)
def test_what_other_hands_made_is_guessed_as_well(
    recording: Path, job_id: str, parts: Sequence[Part], found: Sequence[str], tmp_path: Path
) -> None:
    found_claims = claims(document(recording, tmp_path, job_id, *parts))
    assert found_claims == [(name, "hypothesis") for name in found]


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["storage", "loader0"])
def test_a_trickle_of_work_is_no_sure_start(workload: str, tmp_path: Path) -> None:
    job_id = {"storage": "104", "loader0": "108"}[workload]
    # Of the half minute that comes again and again every tenth sample alone shows no GPU at work.
    found = document(JOBS, tmp_path, job_id, Part(workload, 45), every_s=5)
    assert {confidence for _, confidence in claims(found)} <= {"hypothesis"}
    assert found["ledger"]["total"]["wasted_gpu_seconds"] == 0.0


@pytest.mark.slow
def test_a_kernel_that_spins_is_a_guess_at_a_hang_and_no_small_batch(tmp_path: Path) -> None:
    parts = (Part("hang_spin", 12), Part("hang_spin2", 33, is_silent=True))
    found = document(JOBS, tmp_path, "107", *parts)
    assert claims(found) == [("hang", "hypothesis")]
    assert found["ledger"]["total"]["wasted_gpu_seconds"] == 0.0


@pytest.mark.slow
def test_a_kernel_that_spins_is_a_guess_where_nobody_sees_the_output(tmp_path: Path) -> None:
    parts = (Part("bf16", 12), Part("spin_nccl", 33))
    found = document(KERNELS, tmp_path, "1", *parts)
    assert claims(found) == [("hang", "hypothesis")]


def test_a_looped_job_shows_what_was_recorded_frame_by_frame(tmp_path: Path) -> None:
    """Lines that have what has changed leave out nothing that has."""
    file = tmp_path / "job.gpumon"
    write_job(STALLS, file, "204", [Part("offload_both", 2)])
    (recorded,), counters = stretches(STALLS, ["offload_both"])
    reader = Decoder()
    lines_read = [reader.read(line) for line in file.read_bytes().splitlines()]
    frames = [one for one in lines_read if isinstance(one, Frame) and one.node]
    assert len(frames) == 120
    for frame, blocks in zip(frames, cycle(recorded), strict=False):
        for name, block in blocks.items():
            shown = frame.block(name)
            assert list(shown.keys) == block["keys"]
            for key in block["columns"].keys() - {key for of, key in counters if of == name}:
                values = [shown.value(key, row) for row in range(len(shown.keys))]
                assert values == block["columns"][key], key


def test_what_a_real_driver_says_is_within_the_catalogue(tmp_path: Path) -> None:
    """Nothing of it is garbage, and no value is one that it lacks."""
    file = tmp_path / "job.gpumon"
    write_job(JOBS, file, "101", [Part("train_bf16", 1)])
    command = [sys.executable, "-m", "gpumon", "replay", str(file), "--json", "--no-detectors"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (gpu,) = json.loads(done.stdout)["nodes"][0]["gpus"]
    assert "garbage" not in gpu["missing"].values()
    assert 0.9 < gpu["sm_active_ratio"] < 1.0
    assert 0.4 < gpu["tensor_active_ratio"] < 0.6
    assert gpu["nvlink_tx_bytes_per_s"] is None
