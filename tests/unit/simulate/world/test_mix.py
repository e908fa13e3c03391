"""The wide world: every class is met, look-alikes as often, and names show nothing about them."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from gpumon.model.finding_classes import CLASSES, Loss
from gpumon.model.gpu.hardware import sheet_for
from gpumon.model.records.label import HEALTHY
from gpumon.simulate.blocks.frames import FrameMaker
from gpumon.simulate.cluster.sim_cluster import FULL, SILENT, Fleet
from gpumon.simulate.cluster.timeline import Spans
from gpumon.simulate.physics.board import A100, BOARDS
from gpumon.simulate.world.benign import BENIGN
from gpumon.simulate.world.mix import MISLEADING, NEUTRAL, WORLD
from gpumon.simulate.world.sites import KALOS, PHILLY, site_of
from gpumon.simulate.world.wasteful import MISPLACED, WASTEFUL

ORIGIN = 1_800_000_000.0
HOUR = 3600.0
NODES = {"h100": 8, "a100": 4, "l40s": 3}


def fleet(seed: int, nodes: int = 20) -> Fleet:
    return Fleet(nodes, 8, seed, ORIGIN, HOUR, WORLD)


def test_every_class_is_met_in_some_fleets_of_a_day() -> None:
    met = {x.finding_class for s in range(24) for x in fleet(s, 24).labels(ORIGIN + 8 * HOUR)}
    assert met == {*CLASSES, HEALTHY}


def test_jobs_are_as_often_well_as_not_and_each_kind_is_drawn() -> None:
    chance = Random(5)
    drawn = [WORLD.draw(5, chance, NODES, 8) for _ in range(4000)]
    well = sum(one.workload.truth == HEALTHY for one in drawn)
    assert 0.45 < well / len(drawn) < 0.55
    kinds = {one.workload.kind for one in drawn}
    assert kinds == {one.kind for one in (*BENIGN, *WASTEFUL, *MISPLACED.values())}
    assert {one.kind for one in BENIGN}.isdisjoint({one.kind for one in WASTEFUL})


def test_half_of_the_names_are_neutral_and_a_tenth_misleads() -> None:
    chance = Random(6)
    drawn = Counter(
        "neutral" if name in NEUTRAL else "misleading" if name in MISLEADING else "own"
        for name in (WORLD.draw(5, chance, NODES, 8).name for _ in range(4000))
    )
    assert 0.46 < drawn["neutral"] / 4000 < 0.54
    assert 0.08 < drawn["misleading"] / 4000 < 0.16


def test_nobody_asks_for_more_than_there_is() -> None:
    chance = Random(7)
    for _ in range(2000):
        request = WORLD.draw(5, chance, {"t4": 1, "h100": 2}, 4)
        assert request.shape.gpus <= 4
        assert request.shape.nodes <= {"t4": 1, "h100": 2}[request.partition]
        assert request.limit_s >= request.run_s


def test_a_job_too_small_for_its_fault_is_healthy() -> None:
    chance = Random(8)
    drawn = [WORLD.draw(5, chance, {"h100": 1}, 2) for _ in range(3000)]
    truths = {one.truth for one in drawn}
    assert not truths & {"stage_imbalance", "fragmented", "comm_bound", "data_imbalance"}
    assert {"input_bound", "never_started"} <= truths


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.partition)
def test_boards_are_those_of_the_data_sheets(board: object) -> None:
    (known,) = [one for one in BOARDS if one is board]
    sheet = sheet_for(known.name, known.mem_total_bytes, known.power_limit_w)
    assert sheet is not None
    assert sheet.tdp_w.value == known.power_limit_w
    assert sheet.memory_bytes_per_s.value == pytest.approx(known.dram_bytes_per_s, rel=0.02)
    assert (sheet.nvlink_links is not None and not sheet.has_bridge_only) == (known.links > 0)
    if known.links and sheet.nvlink_bytes_per_s is not None:
        assert sheet.nvlink_bytes_per_s.value == pytest.approx(known.peer_bytes_per_s)
    if sheet.pcie_gen is not None:
        assert sheet.pcie_gen.value == known.pcie_gen


def test_a_large_fleet_has_boards_of_every_generation_and_a_small_one_some() -> None:
    seeds = {site_of(seed).name: seed for seed in range(40)}
    large = {node.board.name for node in fleet(seeds[PHILLY.name], 60).nodes}
    assert large == {board.name for board in BOARDS}
    alike = {node.board.name for node in fleet(seeds[KALOS.name], 60).nodes}
    assert len(alike) == KALOS.products
    assert A100.name in alike
    assert len({node.board.name for node in fleet(1, 9).nodes}) == 3
    assert len(fleet(2, 1).nodes) == 1


def test_products_are_set_up_in_several_ways() -> None:
    boards = [node.board for s in range(20) for node in WORLD.lay_out(s, 30, 8)]
    assert any(board.cap_share < 1.0 for board in boards)
    assert any(board.clock_lock_share < 1.0 for board in boards)
    assert any(board.pcie_width == 8 for board in boards)
    plain = sum(b.cap_share == b.clock_lock_share == 1.0 and b.pcie_width == 16 for b in boards)
    assert plain > len(boards) / 2


def test_labels_lose_no_more_than_was_held_and_only_where_their_class_does() -> None:
    some = fleet(3)
    until = ORIGIN + 6 * HOUR
    jobs = {f"job:{job.job_id}": job for job in some._schedule.started}
    for label in some.labels(until):
        assert ORIGIN <= label.start <= label.end <= until
        if label.finding_class == HEALTHY:
            assert label.gpu_seconds is None
            continue
        assert label.gpu_seconds is not None
        if CLASSES[label.finding_class].loss is Loss.NONE:
            assert label.gpu_seconds == 0.0
        elif label.subject in jobs:
            held_s = jobs[label.subject].request.shape.world * (label.end - label.start)
            assert 0.0 <= label.gpu_seconds <= held_s + 1e-6


def test_shared_memory_is_left_full_on_a_node_of_every_other_fleet() -> None:
    labels = {s: [x for x in fleet(s).labels(ORIGIN + HOUR) if x.finding_class == FULL]
              for s in range(24)}  # fmt: skip
    assert all(len(faults) <= 1 for faults in labels.values())
    assert 6 <= sum(len(faults) for faults in labels.values()) <= 18
    seed, (label,) = next((s, faults) for s, faults in labels.items() if faults)
    some = fleet(seed)
    maker, name = FrameMaker(some, "demo:"), label.subject.removeprefix("node:")

    def free(at: float) -> float | None:
        (frame,) = [one for one in maker.frames(at, 10.0) if one.node == name]
        spaces = frame.block("local_filesystem")
        return spaces.value("free_bytes", spaces.keys.index("/dev/shm"))

    assert free(label.start - 1.0) > 2.0**30
    assert free(label.start + 1.0) == 0.0


def test_a_silent_node_sends_nothing_and_its_jobs_labels_end() -> None:
    some = fleet(4)
    (label,) = [x for x in some.labels(ORIGIN + 6 * HOUR) if x.finding_class == SILENT]
    maker, name = FrameMaker(some, "demo:"), label.subject.removeprefix("node:")

    def heard(at: float) -> bool:
        return name in {frame.node for frame in maker.frames(at, 10.0)}

    assert heard(label.start - 1.0)
    assert not heard(label.start + 1.0)
    (node,) = [one for one in some.nodes if one.name == name]
    for job in some._schedule.started:
        if {spot.node for spot in job.spots} == {node.number}:
            ends = [x.end for x in some.labels(ORIGIN + 6 * HOUR) if f":{job.job_id}" in x.subject]
            assert all(end <= label.start for end in ends)


def test_boards_without_links_exchange_over_pcie() -> None:
    for seed in range(30):
        some = fleet(seed, 12)
        for job in some.running(ORIGIN + HOUR):
            node = some.nodes[job.spots[0].node]
            if job.request.workload.kind != "dense" or job.request.shape.gpus < 4:
                continue
            is_heard = not some.is_silent(node, ORIGIN + HOUR) and not job.request.trouble
            if not node.board.links and job.start_at < ORIGIN and is_heard:
                frame = FrameMaker(some, "demo:").frames(ORIGIN + HOUR, 30.0, {node.name})[0]
                row = node.gpu_of_minor(job.spots[0].gpus[0])
                assert frame.blocks["gpu"].columns["pcie_tx_bytes_per_s"][row] > 1e8
                assert "nvlink_tx_bytes_per_s" not in frame.blocks["gpu"].columns
                assert not frame.blocks["link"].keys
                return
    pytest.fail("no such job in thirty fleets")


def test_one_seed_gives_one_fleet() -> None:
    def faults(seed: int) -> list[tuple[str, str, float]]:
        labels = fleet(seed).labels(ORIGIN + 2 * HOUR)
        return [(x.subject, x.finding_class, x.start) for x in labels]

    assert faults(11) == faults(11)
    assert faults(11) != faults(12)


def test_video_engines_and_fp64_pipes_are_seen_at_work() -> None:
    seen: set[str] = set()
    for seed in range(20):
        some = fleet(seed, 24)
        for job in some.running(ORIGIN + HOUR):
            kind, node = job.request.workload.kind, some.nodes[job.spots[0].node]
            row = node.gpu_of_minor(job.spots[0].gpus[0])
            reading = some.read(node, Spans(ORIGIN + HOUR, 60.0))[row]
            if kind == "transcoding" and job.start_at < ORIGIN:
                assert reading.phase.decoder >= 0.3
                seen.add(kind)
            if kind == "solving" and job.start_at < ORIGIN:
                assert reading.means[18] > 0.1
                seen.add(kind)
    assert seen == {"transcoding", "solving"}
