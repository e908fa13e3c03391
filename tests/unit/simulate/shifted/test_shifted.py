"""The second generator: what it writes is readable, true by its own account, and its own work."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.finding_classes import CLASSES
from gpumon.model.missing import Reason
from gpumon.model.records.frame import Frame
from gpumon.model.records.label import HEALTHY
from gpumon.simulate.shifted.boards import PLAIN, PROFILED
from gpumon.simulate.shifted.fleet import BENIGN, FAULTY, fleet_of, planned
from gpumon.simulate.shifted.ranges import RANGES, Draw
from gpumon.simulate.shifted.recording import ShiftedFleet, labels_of
from gpumon.simulate.shifted.signals import FIELDS, Phase, Tape
from gpumon.sources.recording.decode import Decoder
from gpumon.sources.recording.labels import read_labels, write_labels
from gpumon.sources.recording.read import RecordingFile
from gpumon.sources.recording.write import RecordingWriter

ROOT = Path(__file__).parents[4]
PACKAGE = ROOT / "gpumon" / "simulate" / "shifted"
START = 1_767_225_600.0
SIZE = (14, 4)


@pytest.fixture(scope="session")
def small():
    """A fleet that is small enough for every frame of it to be checked."""
    return ShiftedFleet(planned(5, START, 7200.0, 60.0, SIZE))


@pytest.fixture(scope="session")
def samples(small):
    return list(small.samples())


@pytest.mark.parametrize("seed", [1, 2, 12])
def test_every_default_recording_can_show_most_classes(seed):
    made = fleet_of(planned(seed, START))
    ids = [str(job.number) for job in made.jobs]
    counts = Counter(label.finding_class for label in labels_of(made, ids))
    assert len(counts.keys() - {HEALTHY}) >= 15
    assert counts[HEALTHY] >= 30
    assert 10 <= made.plan.period_s <= 60


def test_labels_are_of_the_vocabulary_and_within_the_recording(small):
    end = START + small.plan.for_s
    for label in small.labels():
        assert label.finding_class in CLASSES or label.finding_class == HEALTHY
        assert START <= label.start < label.end <= end
        assert label.gpu_seconds is None or 0 <= label.gpu_seconds < float("inf")


def test_nothing_loses_more_than_it_holds(small):
    held = {}
    for job in small._fleet.jobs:
        seen_s = min(small.plan.for_s, job.end_s) - max(0.0, job.start_s)
        job_id = small._slurm.ids[job.number]
        held[f"job:{job_id}"] = seen_s * job.story.life.gpus
        for rank in range(job.story.life.gpus):
            machine, gpu = job.place_of(rank)
            key = f"gpu:{machine.uuid(gpu)}"
            held[key] = max(held.get(key, 0.0), held[f"job:{job_id}"])
    lost = Counter()
    for label in small.labels():
        if label.finding_class != HEALTHY and not label.subject.startswith(("node", "domain")):
            lost[label.subject.partition("/rank")[0]] += label.gpu_seconds or 0.0
    assert lost
    assert {subject: s for subject, s in lost.items() if s > held[subject] + 0.01} == {}


def test_every_value_lies_within_the_catalogue_s_bounds(samples):
    seen = set()
    for _, frames in samples:
        for frame in frames:
            for name, block in frame.blocks.items():
                assert len(set(block.keys)) == len(block.keys)
                for key, column in block.columns.items():
                    field = CATALOGUE[key]
                    seen.add(key)
                    assert (field.block, len(column)) == (name, len(block.keys))
                    assert (column.typecode == "q") == field.kind.is_integer
                    for row in range(len(column)):
                        value = block.value(key, row)
                        assert value is None or field.low <= value <= field.high, (key, value)
                for label, texts in block.labels.items():
                    assert label in LABELS[name]
                    assert len(texts) == len(block.keys)
    assert {"gpu_util_ratio", "sm_active_ratio", "job_cpu_cores_used", "nic_tx_bytes_per_s"} <= seen


def test_a_job_s_cpu_time_is_the_counter_that_its_rate_is_made_of(small, samples):
    """No probe tells the rate without it; it began before the recording where the job did."""
    told = {}
    for at, frames in samples:
        for frame in frames:
            block = frame.block("cgroup")
            for row, job_id in enumerate(block.keys):
                value = block.value("job_cpu_us", row), block.value("job_cpu_cores_used", row)
                told.setdefault((frame.node, job_id), []).append((at, *value))
    grown = [
        (later[1] - first[1], 1e6 * rate * (later[0] - first[0]))
        for rows in told.values()
        for first, later in pairwise(rows)
        for rate in [later[2]]
    ]
    assert all(more >= 0 for more, _ in grown)
    assert sum(more for more, _ in grown) == pytest.approx(sum(rate for _, rate in grown), rel=0.1)
    start_at = {small._slurm.ids[job.number]: START + job.start_s for job in small._fleet.jobs}
    early = [rows[0][1] for (_, job_id), rows in told.items() if start_at[job_id] < START - 60]
    assert early
    assert min(early) > 0


def test_a_gpu_draws_what_its_board_may(samples, small):
    limits = {one.name: one.kind.board for one in small._fleet.machines}
    seen = []
    for _, frames in samples:
        for frame in frames:
            block = frame.block("gpu")
            for row in range(len(block.keys)):
                limit_w, power_w = block.value("power_limit_w", row), block.value("power_w", row)
                if limit_w is not None and power_w is not None:
                    board = limits[frame.node]
                    assert 0.6 * board.limit_w < limit_w <= board.limit_w
                    assert 0.6 * board.idle_w < power_w < 1.1 * board.limit_w
                    assert block.value("mem_used_bytes", row) < board.mem_bytes
                    seen.append(power_w / limit_w)
    assert min(seen) < 0.2
    assert max(seen) > 0.8


def test_a_missing_value_has_a_reason(samples):
    for _, frames in samples[1:]:
        for frame in frames:
            block = frame.block("gpu")
            for key, column in block.columns.items():
                for row in range(len(column)):
                    if block.value(key, row) is None:
                        assert block.missing[key, row] in Reason


def test_the_project_s_own_reader_reads_it_without_a_word(small, samples, tmp_path):
    path = tmp_path / "shifted.gpumon.zst"
    writer = RecordingWriter(path, START, small.plan.period_s, [small.origin])
    for at, frames in samples:
        writer.frames(frames)
        writer.end_tick(at, small.plan.period_s)
    writer.close()
    write_labels(path, small.labels())
    decoder = Decoder()
    read = [decoder.read(line.raw) for line in RecordingFile(path).lines()]
    frames_read = [one for one in read if isinstance(one, Frame)]
    assert len(frames_read) == sum(len(frames) for _, frames in samples)
    assert not [
        (frame.node, key)
        for frame in frames_read
        for block in frame.blocks.values()
        for key, reason in block.missing.items()
        if reason is Reason.GARBAGE
    ]
    assert len(read_labels(path)) == len(small.labels())


def test_the_same_seed_gives_the_same_bytes_in_every_process(tmp_path):
    written = []
    for number in ("1", "2"):
        path = tmp_path / f"{number}.gpumon"
        words = ["simulate", str(path), "--seed", "4", "--shift", "--for", "20m", "--nodes", "6x4"]
        command = [sys.executable, "-m", "gpumon", *words, "--period", "60"]
        environment = {"PYTHONHASHSEED": number, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, check=True, env=environment, cwd=ROOT, capture_output=True)
        written.append(path.read_bytes() + Path(f"{path}.labels.json").read_bytes())
    assert written[0] == written[1]
    assert b"GPU-" in written[0]


def test_another_seed_gives_another_fleet(small):
    other = fleet_of(planned(6, START, 1200.0, 60.0, SIZE))
    assert {one.name for one in other.machines} != {one.name for one in small._fleet.machines}


def test_what_is_asked_for_is_not_drawn():
    plan = planned(1, START, 3600.0, 1.0, (3, 6))
    assert plan == (1, START, 3600.0, 1.0, 3, 6)
    machines = fleet_of(plan._replace(for_s=60.0)).machines
    assert [one.kind.gpus for one in machines] == [6, 6, 6]


def test_no_gpu_is_held_by_two_jobs_at_once():
    fleet = fleet_of(planned(2, START, 10_800.0, 60.0))
    for machine in fleet.machines:
        for job in machine.jobs:
            for other in machine.jobs:
                if job is not other and set(job.gpus_on(machine)) & set(other.gpus_on(machine)):
                    assert job.end_s <= other.start_s or other.end_s <= job.start_s


def test_the_boards_are_none_of_the_first_generator_s():
    names = {kind.board.name for kind in (*PROFILED, *PLAIN)}
    assert not names & {"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"}
    assert any(not kind.board.has_gpm for kind in PLAIN)


def test_benign_kinds_are_as_many_as_the_recording_needs():
    assert all(not kind.classes for kind in BENIGN)
    assert len(BENIGN) >= 25
    assert {name for kind in FAULTY for name in kind.classes} <= CLASSES.keys()


def test_every_range_has_bounds_and_a_source():
    for name, (low, high, source, is_log) in RANGES.items():
        assert low < high, name
        assert source[0] in "TDNLSPO", name
        assert low > 0 or not is_log, name


def test_every_range_is_drawn_from():
    files = [file for file in PACKAGE.rglob("*.py") if file.stem != "ranges"]
    code = "".join(file.read_text() for file in files)
    assert [name for name in RANGES if f'"{name}"' not in code] == []


def test_no_kind_draws_between_numbers_of_its_own():
    for file in (PACKAGE / "kinds").glob("*.py"):
        assert not re.findall(r"between\(\s*[0-9]", file.read_text()), file.name


def test_a_draw_depends_on_seed_and_name_alone():
    assert Draw(1, "a").of("step_s") == Draw(1, "a").of("step_s")
    assert Draw(1, "a").of("step_s") != Draw(1, "b").of("step_s")
    assert Draw(1, "a").of("step_s") != Draw(2, "a").of("step_s")


def test_a_window_sees_the_mean_of_its_phases():
    phases = {"work": Phase(util=1.0, load=0.8), "wait": Phase(load=0.1, lost=1.0)}
    tape = Tape().loop(("work", "wait"), np.tile([3.0, 1.0], (10, 1))).then("wait", 10.0)
    seen = tape.seen(phases, np.array([0.0, 3.0, 39.0]), np.array([4.0, 4.0, 45.0]))
    load, util = FIELDS.index("load"), FIELDS.index("util")
    assert seen[:, util] == pytest.approx([0.75, 0.0, 0.0])
    assert seen[:, load] == pytest.approx([0.625, 0.1, 0.1])
    assert tape.lost_s(phases, 0.0, 50.0) == pytest.approx(20.0)
    assert tape.lost_s(phases, 4.0, 8.0) == pytest.approx(1.0)


def test_neither_generator_knows_the_other():
    rooms = ROOT / "gpumon" / "simulate"
    first = [file for file in rooms.rglob("*.py") if "shifted" not in file.parts]
    second = list(PACKAGE.rglob("*.py"))
    assert first
    assert second
    assert not [file for file in first if "simulate.shifted" in file.read_text()]
    others = [f"simulate.{room}" for room in ("physics", "cluster", "blocks", "records")]
    assert not [file for file in second for room in others if room in file.read_text()]


def test_what_stays_broken_behind_its_job_stays_labelled():
    """A link that dropped out does not come back when its job ends."""
    ends = []
    for seed in range(40, 46):
        made = fleet_of(planned(seed, START))
        end = START + made.plan.for_s
        for job in (job for job in made.jobs if job.story.down_links):
            machine, gpu = job.place_of(job.story.down_links[0][0])
            ends += [
                (one.end, end)
                for one in labels_of(made, [str(job.number) for job in made.jobs])
                if (one.subject, one.finding_class)
                == (f"gpu:{machine.uuid(gpu)}", "fabric_degraded")
            ]
    assert ends
    assert all(own == end for own, end in ends)
