"""Processes of a frame: parents, containers, and jobs that Slurm names by their SLUID."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from gpumon.fleet.join.devices import gpus_of
from gpumon.fleet.join.join import join
from gpumon.fleet.join.processes import Listed
from gpumon.model.records.block import Block, column_for
from tests.unit.fleet.factories import frame, gpu_block, process_blocks, uuid

SLUID = "s8FXKTA79XAR00"


def seen(blocks: dict[str, Block]) -> dict[int, object]:
    blocks["gpu"] = gpu_block("gpu01", [0])
    gpus = gpus_of([("gpu01", frame("gpu01", blocks))], 100.0, 5.0, Listed())
    return {process.pid: process for process in gpus[uuid("gpu01", 0)].processes}


def labelled(blocks: dict[str, Block], **labels: tuple[str | None, ...]) -> dict[str, Block]:
    owners = blocks["process"]
    blocks["process"] = owners._replace(labels={**owners.labels, **labels})
    return blocks


def test_one_readable_process_tells_whose_the_others_of_its_cgroup_are() -> None:
    gpu = [uuid("gpu01", 0)]
    blocks = process_blocks(
        [(50, gpu, "26", "0", {}), (51, gpu, None, "0", None), (52, gpu, None, "0", None)]
    )
    found = seen(labelled(blocks, sluid=(SLUID, SLUID, "s0000000000000")))
    assert {pid: process.job_id for pid, process in found.items()} == {50: "26", 51: "26", 52: None}


def test_parent_and_container_of_a_process() -> None:
    blocks = process_blocks([(50, [uuid("gpu01", 0)], "7", "0", {})])
    blocks = labelled(blocks, container=("docker:3f4a3f4a3f4a",))
    owners = blocks["process"]
    columns = {**owners.columns, "parent_pid": column_for(True, [49])}
    blocks["process"] = owners._replace(columns=columns)
    process = seen(blocks)[50]
    assert (process.parent_pid, process.container) == (49, "docker:3f4a3f4a3f4a")


def test_what_is_not_told_of_a_process_is_none() -> None:
    process = seen(process_blocks([(50, [uuid("gpu01", 0)], "7", "0", {})]))[50]
    assert (process.parent_pid, process.container, process.start_time_s) == (None, None, None)


def test_a_key_that_is_no_pid_is_left_out() -> None:
    gpu = uuid("gpu01", 0)
    blocks = {"context": Block((f"٣/{gpu}", f"x/{gpu}", f"7/{gpu}"), {}, {}, {})}
    assert set(seen(blocks)) == {7}


def test_rank_variables_that_nest_without_end_are_none() -> None:
    blocks = process_blocks([(50, [uuid("gpu01", 0)], "7", "0", {})])
    nested = '{"a":' * 1500 + "1" + "}" * 1500
    assert seen(labelled(blocks, rank_vars=(nested,)))[50].rank_vars == {}


def test_rank_variables_that_no_launcher_sets_are_not_kept() -> None:
    gpu = [uuid("gpu01", 0)]
    tracemalloc.start()
    try:
        for number in range(40):
            long = json.dumps({"RANK": "3", f"X{number}": "y" * 7000})
            blocks = labelled(process_blocks([(50, gpu, "7", "0", {})]), rank_vars=(long,))
            assert seen(blocks)[50].rank_vars["RANK"] == "3"
        assert tracemalloc.get_traced_memory()[0] < 20 * 7000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("told_at", "is_old"), [(99.0, False), (90.0, False), (69.0, True)])
def test_what_comes_more_seldom_than_the_period_is_stale_by_its_own_limit(
    told_at: float, is_old: bool
) -> None:
    blocks = {"gpu": gpu_block("gpu01", [0], power_w=[1.0])}
    told = frame("gpu01", blocks, told_at, "prometheus+http://mon")._replace(stale_after_s=30.0)
    seen = join([told], None, {}, 100.0, 5.0)
    assert seen.gpus[uuid("gpu01", 0)].is_stale is is_old
    assert seen.nodes["gpu01"].is_stale is is_old


@pytest.mark.parametrize(("over_at", "is_old"), [(100.5, False), (100.0, True)])
def test_what_a_failure_has_ended_is_stale_whatever_its_age(over_at: float, is_old: bool) -> None:
    blocks = {"gpu": gpu_block("gpu01", [0], power_w=[1.0])}
    told = frame("gpu01", blocks, 99.0)._replace(stale_after_s=30.0, over_at=over_at)
    seen = join([told], None, {}, 100.0, 5.0)
    assert seen.gpus[uuid("gpu01", 0)].is_stale is is_old
    assert seen.nodes["gpu01"].is_stale is is_old


def test_an_exporter_counts_more_than_a_server_that_gathers_and_a_probe_more_than_both() -> None:
    origins = ("prometheus+http://mon", "dcgm+http://gpu01:9400/metrics", "ssh://gpu01")
    frames = [
        frame("gpu01", {"gpu": gpu_block("gpu01", [0], power_w=[float(rank)])}, 99.9 - rank, origin)
        for rank, origin in enumerate(origins)
    ]
    for told in (frames[:2], frames[:2][::-1], frames, frames[::-1]):
        seen = join(told, None, {}, 100.0, 5.0)
        assert seen.gpus[uuid("gpu01", 0)].value("power_w") == float(len(told) - 1)


@pytest.mark.parametrize(("probed_at", "counts"), [(97.0, 1.0), (90.0, 2.0)])
def test_a_probe_counts_more_than_an_exporter_unless_it_is_silent(
    probed_at: float, counts: float
) -> None:
    blocks = {"gpu": gpu_block("gpu01", [0], power_w=[1.0])}
    probe = frame("gpu01", blocks, probed_at, "ssh://gpu01")
    blocks = {"gpu": gpu_block("gpu01", [0], power_w=[2.0])}
    page = frame("gpu01", blocks, 99.0, "dcgm+http://gpu01:9400/metrics")
    for frames in ([probe, page], [page, probe]):
        seen = join(frames, None, {}, 100.0, 5.0)
        assert seen.gpus[uuid("gpu01", 0)].value("power_w") == counts
        assert seen.nodes["gpu01"].blocks["gpu"].value("power_w", 0) == counts
        assert not seen.nodes["gpu01"].is_stale
