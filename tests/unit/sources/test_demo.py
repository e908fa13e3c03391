"""The demo source: frames as a real fleet would send them, a function of seed and time."""

from __future__ import annotations

import json
import subprocess
import sys
from math import isnan
from typing import TYPE_CHECKING

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.sources.demo import QUEUE_PERIOD_S, DemoSource
from gpumon.sources.source import Wish

if TYPE_CHECKING:
    import threading

    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Job
    from gpumon.model.records.frame import Frame

ORIGIN = 1_800_000_000.0
HOUR = 3600.0


class HandedClock:
    def __init__(self) -> None:
        self.time = ORIGIN

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return 0.0

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.is_set()


class Rig:
    """A demo source with a clock in the test's hand."""

    def __init__(self, seed: int, nodes: int, gpus: int) -> None:
        self._clock = HandedClock()
        url = f"demo:{nodes}x{gpus}?seed={seed}"
        self.source = DemoSource(url, nodes, gpus, seed, self._clock)

    def poll(self, now: float) -> list[Frame]:
        self._clock.time = now
        return self.source.poll()


def source(seed: int = 1, nodes: int = 6, gpus: int = 8) -> Rig:
    return Rig(seed, nodes, gpus)


def nodes_of(frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if frame.node]


def exactly(frames: list[Frame]) -> list[object]:
    """Everything that frames of nodes hold, in a form in which NaN equals NaN."""
    return [
        (
            frame._replace(blocks={}),
            {
                name: (block.keys, columns_of(block), dict(block.labels), dict(block.missing))
                for name, block in frame.blocks.items()
            },
        )
        for frame in frames
    ]


def columns_of(block: Block) -> dict[str, tuple[str, bytes]]:
    return {key: (column.typecode, column.tobytes()) for key, column in block.columns.items()}


def jobs_of(frames: list[Frame]) -> tuple[Job, ...]:
    (queue,) = [frame.queue for frame in frames if frame.queue]
    return queue.jobs


@pytest.fixture(scope="module")
def frames() -> list[Frame]:
    return source().poll(ORIGIN)


def test_one_frame_per_node_and_one_of_the_queue(frames: list[Frame]) -> None:
    assert [frame.node for frame in frames] == [*(f"gpu00{n}" for n in range(1, 7)), ""]
    assert {frame.taken_at for frame in frames} == {ORIGIN}
    assert {frame.origin for frame in frames} == {"demo:6x8?seed=1"}
    blocks = {field.block for field in CATALOGUE.values()}
    assert all(set(frame.blocks) == blocks for frame in frames[:6])


def test_hours_of_readings_stay_in_range_and_sm_below_utilisation() -> None:
    demo = source()
    for step in range(120):
        for frame in nodes_of(demo.poll(ORIGIN + step * 311.7)):
            block = frame.block("gpu")
            for key, column in block.columns.items():
                known = [value for value in column if not isnan(value)]
                assert all(CATALOGUE[key].low <= v <= CATALOGUE[key].high for v in known), key
            if "sm_active_ratio" not in block.columns:
                continue
            for row in range(len(block.keys)):
                sm = block.columns["sm_active_ratio"][row]
                if isnan(sm):
                    continue
                assert sm <= block.columns["gpu_util_ratio"][row]
                assert block.columns["sm_occupancy_ratio"][row] <= sm
                assert block.columns["tensor_active_ratio"][row] <= sm


def test_missing_values_keep_their_reason(frames: list[Frame]) -> None:
    old = next(f for f in nodes_of(frames) if "A100" in (f.block("gpu").label("name", 0) or ""))
    for key in ("sm_active_ratio", "tensor_active_ratio", "dram_active_ratio"):
        assert old.block("gpu").value(key, 0) is None
        assert old.block("gpu").reason(key, 0) is Reason.NOT_SUPPORTED
    assert old.block("gpu").value("gpu_util_ratio", 0) is not None


def test_only_your_own_processes_show_their_rank(frames: list[Frame]) -> None:
    users = {job.job_id: job.user for job in jobs_of(frames)}
    shown = set()
    for frame in nodes_of(frames):
        block = frame.block("process")
        for row in range(len(block.keys)):
            is_yours = users[block.label("job_id", row) or ""] == "you"
            assert (block.label("rank_vars", row) is not None) == is_yours
            if not is_yours:
                assert block.reason("rank_vars", row) is Reason.NO_PERMISSION
            shown.add(is_yours)
    assert shown == {True, False}


@pytest.mark.parametrize("hours", [0.0, 1.0, 5.5, 17.0])
@pytest.mark.parametrize("size", [(6, 8), (1, 8), (2, 3), (12, 16)])
def test_queue_and_processes_agree(hours: float, size: tuple[int, int]) -> None:
    frames = source(3, *size).poll(ORIGIN + hours * HOUR)
    held = {}
    queue = frames[-1].queue
    assert queue is not None
    files = {node.name: node.gpu_files for node in queue.nodes}
    for job in queue.jobs:
        for part in job.allocations:
            assert part.gpu_indices is not None
            assert len(part.gpu_indices) == part.gpu_count
            for index in part.gpu_indices:
                place = (part.node, files[part.node][index])
                assert place not in held
                held[place] = job.job_id
    contexts = 0
    for frame in nodes_of(frames):
        gpus, processes = frame.block("gpu"), frame.block("process")
        minors = dict(zip(gpus.keys, gpus.columns["minor_number"], strict=True))
        jobs = dict(zip(processes.keys, processes.labels["job_id"], strict=True))
        assert len(set(processes.keys)) == len(processes.keys)
        owners = set()
        for key in frame.block("context").keys:
            pid, uuid = key.split("/")
            owners.add(pid)
            contexts += 1
            assert held[frame.node, f"/dev/nvidia{minors[uuid]}"] == jobs[pid]
        assert owners == set(processes.keys)
    assert contexts > 0


def test_ranks_of_your_large_job_are_complete(frames: list[Frame]) -> None:
    (job,) = [j for j in jobs_of(frames) if j.user == "you" and len(j.nodes) == 2]
    ranks, worlds = [], set()
    for frame in nodes_of(frames):
        block = frame.block("process")
        for row in range(len(block.keys)):
            if block.label("job_id", row) == job.job_id:
                variables = json.loads(block.label("rank_vars", row) or "{}")
                ranks.append(int(variables["RANK"]))
                worlds.add((variables["MASTER_ADDR"], variables["MASTER_PORT"]))
                assert variables["WORLD_SIZE"] == "16"
                assert variables["SLURM_PROCID"] == variables["RANK"]
    assert sorted(ranks) == list(range(16))
    assert len(worlds) == 1


def test_the_faulty_job_leaves_three_gpus_without_process_and_memory(frames: list[Frame]) -> None:
    (label,) = [x for x in source().source.labels(ORIGIN) if x.finding_class == "partial_gpus_idle"]
    (job,) = [j for j in jobs_of(frames) if f"job:{j.job_id}" == label.subject]
    assert label.start == ORIGIN == label.end
    assert job.user == "you"
    (frame,) = [f for f in frames if f.node in job.nodes]
    block = frame.block("gpu")
    used = [block.columns["mem_used_bytes"][row] > 1e9 for row in range(8)]
    assert used.count(True) == 5
    assert [count == 1.0 for count in block.columns["process_count"]] == used
    opened = {key.split("/")[1] for key in frame.block("context").keys}
    assert opened == {uuid for uuid, is_used in zip(block.keys, used, strict=True) if is_used}


def test_one_serving_process_owns_several_gpus(frames: list[Frame]) -> None:
    (job,) = [j for j in jobs_of(frames) if j.name == "llm-serve"]
    (frame,) = [f for f in frames if f.node in job.nodes]
    block = frame.block("process")
    (pid,) = [k for k, j in zip(block.keys, block.labels["job_id"], strict=True) if j == job.job_id]
    assert sum(key.startswith(f"{pid}/") for key in frame.block("context").keys) == 2


def test_node_states(frames: list[Frame]) -> None:
    queue = frames[-1].queue
    assert queue is not None
    states = {node.name: node.state for node in queue.nodes}
    assert states["gpu006"] == "idle+drain"
    assert states["gpu007"] == "down+not_responding"
    reasons = {node.name: node.reason for node in queue.nodes}
    assert reasons["gpu006"] == "GPU memory row remap pending"
    assert states["gpu001"] == "allocated"
    assert not nodes_of(frames)[5].block("process").keys


def test_pending_jobs_say_why(frames: list[Frame]) -> None:
    pending = [job for job in jobs_of(frames) if job.state == "PENDING"]
    held = {"JobHeldUser", "Dependency", "BeginTime", "QOSMaxGRESPerUser"}
    assert {job.reason for job in pending} == {
        "Resources",
        "Priority",
        "JobArrayTaskLimit",
        *held,
    }
    assert not any(job.allocations for job in pending)
    (first,) = [job for job in pending if job.reason == "Resources"]
    assert first.start_at is not None
    assert first.start_at > frames[-1].taken_at
    assert len(first.expected_nodes) == first.node_count
    (after,) = [job for job in pending if job.dependency]
    assert after.dependency.startswith("afterok:")
    (array,) = [job for job in pending if "[" in job.label]
    assert array.label == f"{array.job_id}_[2-23%2]"


@pytest.mark.slow
def test_energy_counter_is_the_integral_of_power() -> None:
    demo = source()
    demo.source.wish(Wish(period_s=0.01))
    polls = [nodes_of(demo.poll(ORIGIN + 60.0 + n * 0.02)) for n in range(1001)]
    for node in range(6):
        first, last = polls[0][node].block("gpu"), polls[-1][node].block("gpu")
        for row in range(8):
            power = [poll[node].block("gpu").columns["power_w"][row] for poll in polls]
            area = 0.02 * (sum(power) - (power[0] + power[-1]) / 2)
            drawn = last.columns["energy_j"][row] - first.columns["energy_j"][row]
            assert drawn == pytest.approx(area, abs=2.0 + 0.002 * area)


def test_rates_are_differences_of_their_counters() -> None:
    demo = source()
    for second in range(5):
        early = nodes_of(demo.poll(ORIGIN + second * 50.0))
        late = nodes_of(demo.poll(ORIGIN + second * 50.0 + 1.0))
        for before, after in zip(early, late, strict=True):
            a, b = before.block("gpu").columns, after.block("gpu").columns
            for key in ("pcie_rx_bytes", "pcie_tx_bytes", "nvlink_tx_bytes", "nvlink_rx_bytes"):
                for row in range(8):
                    grown = b[key][row] - a[key][row]
                    assert grown == pytest.approx(b[f"{key}_per_s"][row], abs=4.0, rel=1e-6)


def test_jumping_equals_stepping() -> None:
    jumper, stepper = source(), source()
    for step in range(0, 26_000, 500):
        stepper.poll(ORIGIN + step)
    target = ORIGIN + 26_000.0
    jumped, stepped = jumper.poll(target), stepper.poll(target)
    assert exactly(nodes_of(jumped)) == exactly(nodes_of(stepped))
    assert jumped[-1].queue == stepped[-1].queue


def test_looking_back_shows_the_same_past() -> None:
    demo = source()
    before = demo.poll(ORIGIN + 100.0)
    demo.poll(ORIGIN + 9 * HOUR)
    assert exactly(demo.poll(ORIGIN + 100.0)) == exactly(before)


def test_one_seed_repeats_and_two_differ() -> None:
    assert exactly(source(1).poll(ORIGIN)) == exactly(source(1).poll(ORIGIN))
    ours, theirs = source(1).poll(ORIGIN), source(2).poll(ORIGIN)
    for mine, other in zip(nodes_of(ours), nodes_of(theirs), strict=True):
        assert not set(mine.block("gpu").keys) & set(other.block("gpu").keys)
    assert ours[0].block("gpu").columns["power_w"] != theirs[0].block("gpu").columns["power_w"]


def test_at_most_one_frame_per_period_and_the_queue_more_rarely() -> None:
    demo = source()
    assert demo.source.pending()
    assert len(demo.poll(ORIGIN)) == 7
    assert not demo.source.pending()
    assert demo.poll(ORIGIN + 0.5) == []
    assert len(demo.poll(ORIGIN + 0.99)) == 6
    assert len(demo.poll(ORIGIN + QUEUE_PERIOD_S)) == 7
    demo.source.wish(Wish(period_s=5.0))
    assert demo.poll(ORIGIN + QUEUE_PERIOD_S + 2.0) == []


def test_start_wakes_because_frames_are_ready() -> None:
    calls = []
    demo = source()
    demo.source.start(lambda: calls.append(1))
    assert calls == [1]
    demo.source.close()


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, gpumon.sources.demo; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_ended_jobs_are_told_once_when_they_are_wished_for():
    clock = HandedClock()
    source = DemoSource("demo", 6, 8, 1, clock)
    assert all(frame.ended is None for frame in source.poll())
    source.wish(Wish(ended_since=ORIGIN - 4 * HOUR))
    clock.time += 1
    (report,) = [frame.ended for frame in source.poll() if frame.ended]
    assert report.records is not None
    jobs = report.records.jobs
    assert {"COMPLETED", "OUT_OF_MEMORY", "TIMEOUT"} <= {ended.job.state for ended in jobs}
    ends = [ended.job.end_at or 0.0 for ended in jobs]
    assert ends == sorted(ends, reverse=True)
    assert min(ends) >= ORIGIN - 4 * HOUR
    clock.time += 1
    assert all(frame.ended is None for frame in source.poll())
