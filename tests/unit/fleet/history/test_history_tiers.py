"""What the reader tells of a made-up past equals what a list of samples tells."""

from __future__ import annotations

import math
import random
from array import array
from functools import partial

import numpy as np
import pytest

from gpumon.detect.wire.protocol import MAX_DESCRIPTORS
from gpumon.fleet.history.fields import FLEETING, HISTORY_BLOCKS, stored_keys
from gpumon.fleet.history.history import History
from gpumon.fleet.history.retention import RowBytes, tier_plans
from gpumon.model.records.block import MISSING_INTEGER, Block
from gpumon.model.records.cluster import Gpu, Node
from gpumon.model.records.tick import Tick

KEYS = ("power_w", "gpu_util_ratio", "clock_event_reasons", "energy_j")
NAN = float("nan")
SEEDS = (0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3)))


def pictured(samples):
    """One block a GPU; None is a value that is missing."""
    gpus = {}
    for uuid, values in samples.items():
        columns = {}
        for key, value in values.items():
            whole = key in ("clock_event_reasons", "energy_j")
            missing = MISSING_INTEGER if whole else NAN
            columns[key] = array("q" if whole else "d", [missing if value is None else value])
        gpus[uuid] = Gpu(uuid, "n", Block((uuid,), columns, {}, {}), 0, 0.0, "t", False, ())
    return gpus


def tick(at, gpus, nodes=None, period_s=1.0):
    return Tick(0, at, 0.0, period_s, (), nodes or {}, gpus, (), None, (), (), (), 0.0)


class Made:
    """A random past, and the history of it."""

    def __init__(self, seed, ticks, max_bytes):
        dice = random.Random(seed)
        self.samples = []
        self.history = History(max_bytes=max_bytes)
        at, energy = 1e9 + dice.random() * 100, {}
        present = ["g0", "g1", "g2"]
        for _ in range(ticks):
            at += 1.0 if dice.random() > 0.003 else dice.uniform(5, 80)
            if dice.random() < 0.002:
                present.append(f"g{len(energy) + len(present)}")
            if dice.random() < 0.002 and len(present) > 2:
                present.remove(dice.choice(present))
            values = {uuid: self._values(dice, energy, uuid) for uuid in present}
            self.history.append(tick(at, pictured(values)))
            self.samples.append((at, values))
        self.reader = self.history.reader()
        self.names = sorted({uuid for _, values in self.samples for uuid in values})

    @staticmethod
    def _values(dice, energy, uuid):
        energy[uuid] = energy.get(uuid, 10**12) + dice.randrange(700)
        values = {
            "power_w": dice.uniform(60, 700),
            "gpu_util_ratio": dice.random(),
            "clock_event_reasons": dice.choice([0, 1, 4, 0x20, 0x24]),
            "energy_j": energy[uuid],
        }
        return {key: None if dice.random() < 0.1 else value for key, value in values.items()}

    def within(self, begin, end, uuid, key):
        held = [values.get(uuid, {}).get(key) for at, values in self.samples if begin <= at <= end]
        return [value for value in held if value is not None]

    def first(self, uuid, key):
        return next(v[uuid][key] for _, v in self.samples if v.get(uuid, {}).get(key) is not None)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("max_bytes", [40_000, 200_000, 2**30])
def test_every_row_tells_what_its_samples_were(seed, max_bytes):
    made = Made(seed, 2500, max_bytes)
    reader, end = made.reader, made.samples[-1][0]
    slab = reader.slab(made.names, KEYS, 0.0, end)
    bounds = reader.extremes(made.names, KEYS, 0.0, end)
    rows = reader.rows(0.0, end)
    for count in (1, 3, len(KEYS)):
        same, low, high = reader.bounded(made.names, KEYS, count, 0.0, end)
        assert all(map(partial(np.array_equal, equal_nan=True), same, slab))
        assert np.array_equal(low, bounds.low[:, :count], equal_nan=True)
        assert np.array_equal(high, bounds.high[:, :count], equal_nan=True)
    assert len(slab.times) > 10
    assert (rows.begins[1:] > rows.times[:-1]).all()
    assert np.array_equal(slab.times, rows.times)
    for row in random.Random(seed).sample(range(len(slab.times)), min(60, len(slab.times))):
        span = float(rows.begins[row]), float(rows.times[row])
        assert rows.samples[row] == sum(span[0] <= at <= span[1] for at, _ in made.samples)
        for column, uuid in enumerate(made.names):
            for field, key in enumerate(KEYS):
                held = made.within(*span, uuid, key)
                assert bounds.counts[row, field, column] == len(held)
                got = [float(p[row, field, column]) for p in (slab.values, bounds.low, bounds.high)]
                want = expected(key, held, made.first(uuid, key) if held else 0)
                assert got == pytest.approx(want, rel=1e-6, nan_ok=True)


def expected(key, held, first):
    """Value, lower and upper bound of the samples of a row."""
    if not held:
        return [NAN, NAN, NAN]
    if key == "energy_j":
        return [held[-1] - first] * 3
    if key == "clock_event_reasons":
        always, ever = held[0], 0
        for mask in held:
            always, ever = always & mask, ever | mask
        return [held[-1], always, ever]
    return [sum(held) / len(held), min(held), max(held)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_sample_is_lost_between_the_tiers(seed):
    made = Made(seed, 2500, 200_000)
    rows = made.reader.rows(0.0, 2e9)
    since = [at for at, _ in made.samples if at >= rows.begins[0]]
    assert rows.samples.sum() == len(since)
    spans = made.reader.spans()
    assert [span.resolution_s for span in spans] == sorted(
        (span.resolution_s for span in spans), reverse=True
    )
    assert len(spans) >= 2


def test_the_fine_part_is_exact():
    made = Made(7, 600, 2**30)
    times, values = made.reader.window("g0", "power_w", 0.0, 2e9)
    assert times == [at for at, _ in made.samples]
    want = [made.samples[i][1].get("g0", {}).get("power_w") for i in range(len(times))]
    for got, sample in zip(values, want, strict=True):
        assert math.isnan(got) if sample is None else got == np.float32(sample)


def test_no_row_reaches_over_the_start_of_a_window():
    made = Made(3, 2500, 60_000)
    coarse = made.reader.rows(0.0, 2e9)
    row = int(np.flatnonzero(coarse.samples > 3)[2])
    start = float(coarse.begins[row]) + 0.5
    assert made.reader.rows(start, 2e9).begins[0] == coarse.begins[row + 1]


def test_an_old_reader_keeps_its_past():
    history = History(max_bytes=100_000)
    for at in range(400):
        history.append(tick(1e6 + at, pictured({"g": {"power_w": float(at)}})))
    reader = history.reader()
    before = reader.window("g", "power_w", 0.0, 2e6)
    for at in range(400, 3000):
        history.append(tick(1e6 + at, pictured({"g": {"power_w": 0.0}, "h": {"temp_c": 4.0}})))
    assert reader.window("g", "power_w", 0.0, 2e6) == before


def test_a_counter_that_went_back_has_one_value_missing_and_goes_on():
    history = History()
    for at, energy in enumerate((100, 110, 5, 25)):
        history.append(tick(1.0 + at, pictured({"g": {"energy_j": energy}})))
    _, values = history.reader().window("g", "energy_j", 0.0, 9.0)
    assert values[:2] + values[3:] == [0.0, 10.0, 30.0]
    assert math.isnan(values[2])


def test_a_mask_that_float32_cannot_hold_is_missing():
    history = History()
    history.append(tick(1.0, pictured({"g": {"clock_event_reasons": 2**24}})))
    history.append(tick(2.0, pictured({"g": {"clock_event_reasons": 2**24 - 1}})))
    values = history.reader().window("g", "clock_event_reasons", 0.0, 9.0)[1]
    assert math.isnan(values[0])
    assert values[1] == 2**24 - 1


def test_ports_mounts_jobs_links_and_nodes_have_a_past_of_their_own():
    history = History()
    rows = {
        "node": Block(("n",), {"cpu_busy_ratio": array("d", [0.5])}, {}, {}),
        "nic": Block(("mlx5_0/1",), {"nic_tx_bytes_per_s": array("d", [7.0])}, {}, {}),
        "filesystem": Block(("/home",), {"fs_read_rtt_s": array("d", [0.25])}, {}, {}),
        "cgroup": Block(("42",), {"job_cpu_cores_used": array("d", [3.0])}, {}, {}),
        "local_filesystem": Block(("/dev/shm",), {"free_bytes": array("d", [9.0])}, {}, {}),
        "link": Block(("GPU-1/0",), {"link_state": array("q", [1])}, {}, {}),
    }
    nodes = {"n": Node("n", (), 0.0, False, None, (), blocks=rows)}
    for at in range(100, 131):
        history.append(tick(float(at), {}, nodes))
    reader = history.reader()
    for name, key, block, want in (
        ("n", "cpu_busy_ratio", "node", 0.5),
        ("n/mlx5_0/1", "nic_tx_bytes_per_s", "nic", 7.0),
        ("n//home", "fs_read_rtt_s", "filesystem", 0.25),
        ("n/42", "job_cpu_cores_used", "cgroup", 3.0),
        ("n//dev/shm", "free_bytes", "local_filesystem", 9.0),
        ("GPU-1/0", "link_state", "link", 1.0),
    ):
        times, values = reader.window(name, key, 0.0, 999.0, block)
        assert times == [100.0, 110.0, 120.0, 130.0]
        assert values == [want] * 4
        assert reader.entities(block) == (name,)


def test_neighbours_are_read_without_a_copy():
    history = History()
    for at in range(5):
        history.append(tick(float(at), pictured({"a": {"power_w": 1.0}, "b": {"power_w": 2.0}})))
    reader = history.reader()
    slab = reader.slab(("a", "b"), ("power_w",), 0.0, 9.0)
    assert np.shares_memory(slab.values, reader.chunks[0][0].values)


@pytest.mark.parametrize("gpus", [8, 1000, 8000])
def test_an_hour_and_more_fits_into_two_gibibytes(gpus):
    limit, planned = 2 * 2**30, 0
    counts = {"gpu": gpus, "link": 18 * gpus, "mig": gpus, "cgroup": gpus, "nic": 9 * gpus // 8}
    for block in HISTORY_BLOCKS:
        count, keys = counts.get(block, gpus), len(stored_keys(block))
        row = RowBytes(4 * keys * count, 14 * keys * count)
        plans = tier_plans(block, row, 1.0, limit, 86_400.0)
        planned += sum(plan.max_bytes for plan in plans)
        sizes = (row.fine, *[row.coarse] * 2)
        reach = [
            plan.capacity(size, max(1.0, plan.period_s)) * plan.parts * max(1.0, plan.period_s)
            for plan, size in zip(plans, sizes, strict=False)
        ]
        assert max(reach) >= 3600 * 0.85
    assert planned <= limit


@pytest.mark.slow
def test_many_chunks_stay_within_the_descriptors_of_one_message():
    history = History(max_bytes=300_000)
    names = {"g": {"power_w": 1.0, "energy_j": 1}}
    rows = {
        block: Block(("e",), {stored_keys(block)[0]: array("d", [1.0])}, {}, {})
        for block in HISTORY_BLOCKS[1:]
    }
    nodes = {"n": Node("n", (), 0.0, False, None, (), blocks=rows)}
    for at in range(0, 40_000, 7):
        history.append(tick(1e6 + at, pictured(names), nodes, period_s=7.0))
    assert len(history.reader().chunks) <= MAX_DESCRIPTORS


def processes_at(number, lasting, brief):
    """A node with a process that stays, and one that is another at every beat of ten seconds."""
    pids = ("100", *(str(1000 + brief * number + i) for i in range(brief)))
    uses = array("d", [lasting, *[2.0] * brief])
    block = Block(pids, {"process_cpu_cores_used": uses}, {}, {})
    held = Block(
        tuple(f"{pid}/g" for pid in pids),
        {"context_mem_used_bytes": array("d", [7.0] * len(pids))},
        {},
        {},
    )
    blocks = {"process": block, "context": held}
    return {"n": Node("n", (), 0.0, False, None, (), blocks=blocks)}


def test_the_past_of_a_process_outlives_others_that_come_and_go():
    history = History()
    for number in range(40):
        at = 1000.0 + 10 * number
        nodes = processes_at(number, float(number), brief=2)
        history.append(tick(at, pictured({"g": {"power_w": 1.0}}), nodes))
    reader = history.reader()
    times, values = reader.window("n/100", "process_cpu_cores_used", 0.0, 2000.0, block="process")
    assert values == [float(number) for number in range(40)]
    assert times[-1] == 1390.0
    _, memory = reader.window("n/100/g", "context_mem_used_bytes", 0.0, 2000.0, block="context")
    assert memory == [7.0] * 40


def test_processes_that_are_gone_leave_the_memory():
    history = History(max_bytes=2_000_000)
    sizes = []
    for number in range(1500):
        nodes = processes_at(number, 1.0, brief=8)
        history.append(tick(1000.0 + 10 * number, pictured({"g": {"power_w": 1.0}}), nodes))
        if number % 300 == 299:
            sizes.append(sum(c.used_bytes for c, _ in history.reader().chunks if is_fleeting(c)))
    reader = history.reader()
    names = reader.entities("process")
    assert "n/100" in names
    assert f"n/{1000 + 8 * 1499}" in names
    assert "n/1000" not in names
    assert len(names) < 500
    assert sizes[-1] <= 1.2 * sizes[1]
    chunks = [chunk for chunk, _ in reader.chunks if is_fleeting(chunk)]
    assert 0 < len(chunks) <= 8
    assert sum(chunk.shape.size_bytes for chunk in chunks) < 0.1 * 2_000_000


def is_fleeting(chunk):
    return chunk.shape.block in FLEETING
