"""Jobs of which one rank is slow or stuck: what it, its peers and its node show of it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from gpumon.simulate.blocks.frames import FrameMaker
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.cluster.timeline import Spans
from gpumon.simulate.physics.program import Turned

if TYPE_CHECKING:
    from gpumon.model.records.label import Label
    from gpumon.simulate.cluster.schedule import SimJob

ORIGIN = 1_800_000_000.0
OPENED_S = 7_200.0
NOW = ORIGIN + OPENED_S
HELD_SINCE, HUNG_SINCE = NOW - 2_400.0, NOW - 720.0


@cache
def fleet() -> Fleet:
    return Fleet(10, 8, 1, ORIGIN, OPENED_S)


@cache
def maker() -> FrameMaker:
    return FrameMaker(fleet(), "demo")


def label_of(truth: str, prefix: str = "job:") -> Label:
    found = [x for x in fleet().labels(NOW) if x.finding_class == truth]
    (label,) = [x for x in found if rank_of(x) or prefix == "gpu:"]
    return label


def rank_of(label: Label) -> str:
    """The rank that a label names, empty where it names none."""
    return next((subject for subject in label.subjects if "/rank:" in subject), "")


def job_of(truth: str) -> tuple[SimJob, int]:
    """The job that a rank of brings into trouble, and that rank."""
    name, _, rank = rank_of(label_of(truth)).removeprefix("job:").partition("/rank:")
    (job,) = [job for job in fleet().running(NOW) if str(job.job_id) == name]
    return job, int(rank)


def ranks(truth: str, block: str, key: str, now: float, window_s: float = 30.0) -> list[float]:
    """One value per rank of the job in trouble, in the order of ranks."""
    job, _ = job_of(truth)
    frames = maker().frames(now, window_s)
    values = []
    for spot in job.spots:
        found, node = frames[spot.node].block(block), fleet().nodes[spot.node]
        for minor in spot.gpus:
            value = found.value(key, node.gpu_of_minor(minor))
            assert value is not None
            values.append(value)
    assert len(values) == 16
    return values


def apart(values: list[float], rank: int) -> tuple[float, list[float]]:
    """The value of one rank, and those of all others."""
    return values[rank], values[:rank] + values[rank + 1 :]


def test_the_straggler_is_the_busiest_rank_and_its_peers_wait():
    _, rank = job_of("straggler")
    for key, least in (("sm_active_ratio", 0.2), ("tensor_active_ratio", 0.1)):
        own, peers = apart(ranks("straggler", "gpu", key, NOW), rank)
        assert own > max(peers) + least
        before = ranks("straggler", "gpu", key, HELD_SINCE - 60.0)
        assert max(before) - min(before) < 0.05
        assert max(peers) < min(before) - 0.1
    # A communication kernel runs while a rank waits, so utilisation shows nothing.
    assert min(ranks("straggler", "gpu", "gpu_util_ratio", NOW)) > 0.95


def test_heat_holds_the_stragglers_clock_down_and_draws_less_power():
    _, rank = job_of("straggler")
    at = {key: apart(ranks("straggler", "gpu", key, NOW), rank) for key in (
        "sm_clock_mhz", "temp_c", "power_average_w", "clock_event_reasons", "sw_thermal_ratio",
    )}  # fmt: skip
    assert at["sm_clock_mhz"][0] < 0.7 * min(at["sm_clock_mhz"][1])
    assert at["temp_c"][0] > max(at["temp_c"][1]) + 15
    assert at["power_average_w"][0] < 0.7 * min(at["power_average_w"][1])
    assert int(at["clock_event_reasons"][0]) & 0x20
    assert not any(int(mask) & 0x20 for mask in at["clock_event_reasons"][1])
    assert at["sw_thermal_ratio"][0] == pytest.approx(1.0)
    assert max(at["sw_thermal_ratio"][1]) == 0.0


def test_the_die_warms_up_before_its_clock_falls():
    _, rank = job_of("straggler")
    temps = [ranks("straggler", "gpu", "temp_c", HELD_SINCE + s)[rank] for s in (-150, -60, -1)]
    assert temps == sorted(set(temps))
    assert ranks("straggler", "gpu", "sm_clock_mhz", HELD_SINCE - 1)[rank] == 1980.0


def test_all_ranks_make_the_same_steps_and_fewer_of_them():
    sent = {
        now: ranks("straggler", "gpu", "nvlink_tx_bytes_per_s", now, 600.0)
        for now in (HELD_SINCE - 10.0, NOW)
    }
    for rates in sent.values():
        assert max(rates) == pytest.approx(min(rates), rel=0.02)
    slower = max(sent[NOW]) / max(sent[HELD_SINCE - 10.0])
    assert 0.6 < slower < 0.8


def test_in_a_hang_one_rank_rests_and_all_others_spin():
    _, rank = job_of("hang")
    for now in (HUNG_SINCE + 120.0, NOW, NOW + 3_600.0):
        for key, stuck, spinning in (
            ("gpu_util_ratio", 0.0, 1.0),
            ("sm_active_ratio", 0.0, 0.12),
            ("tensor_active_ratio", 0.0, 0.0),
            ("nvlink_tx_bytes_per_s", 0.0, 0.0),
        ):
            own, peers = apart(ranks("hang", "gpu", key, now), rank)
            assert own == pytest.approx(stuck, abs=1e-9)
            assert peers == [pytest.approx(spinning, abs=1e-9)] * 15
        own, peers = apart(ranks("hang", "gpu", "power_average_w", now), rank)
        assert own < min(peers) < max(peers) < 250.0
    assert min(ranks("hang", "gpu", "tensor_active_ratio", HUNG_SINCE - 60.0)) > 0.4


def test_the_network_carries_nothing_of_a_hung_job():
    job, _ = job_of("hang")
    for spot in job.spots:
        ports = maker().frames(NOW, 1.0)[spot.node].block("nic")
        assert max(ports.columns["nic_tx_bytes_per_s"]) == 0.0


def test_the_log_of_a_hung_job_is_silent_and_its_stuck_rank_waits_for_storage():
    job, rank = job_of("hang")
    for now, is_hung in ((HUNG_SINCE - 60.0, False), (NOW, True)):
        frames = maker().frames(now, 1.0)
        for spot in job.spots:
            groups, node = frames[spot.node].block("cgroup"), frames[spot.node].block("node")
            row = groups.keys.index(str(job.job_id))
            silent_s = 715.0 if is_hung else 0.0
            assert groups.value("job_output_age_s", row) == pytest.approx(silent_s, abs=6.0)
            assert (groups.value("job_output_bytes_per_s", row) == 0.0) == is_hung
            is_here = is_hung and spot == job.spots[rank // 8]
            assert node.value("d_state_process_count", 0) == int(is_here)
            waits = (node.value("cpu_iowait_ratio", 0) or 0.0) * 224
            assert waits == pytest.approx(float(is_here), abs=0.05)
            assert (groups.value("job_io_pressure_some_ratio", row) == 1.0) == is_here
            assert groups.value("job_io_pressure_full_ratio", row) == pytest.approx(0.0, abs=0.01)


def test_labels_name_the_rank_from_the_onset_to_the_jobs_end():
    for truth, since in (("straggler", HELD_SINCE), ("hang", HUNG_SINCE)):
        job, _ = job_of(truth)
        label = label_of(truth)
        assert (label.start, label.end) == (since, NOW)
        (healthy,) = [
            x
            for x in fleet().labels(NOW)
            if x.subject == f"job:{job.job_id}" and x.finding_class == "healthy"
        ]
        assert (healthy.start, healthy.end) == (max(job.start_at, ORIGIN), since)
    throttled = label_of("throttled", "gpu:")
    job, rank = job_of("straggler")
    spot = job.spots[rank // 8]
    node = fleet().nodes[spot.node]
    uuid = node.gpus[node.gpu_of_minor(spot.gpus[rank % 8])].uuid
    assert throttled.subject == f"gpu:{uuid}"


def test_a_hang_loses_all_time_of_the_job_and_a_slow_rank_its_share():
    hang, job = label_of("hang"), job_of("hang")[0]
    assert hang.subject == f"job:{job.job_id}"
    assert hang.gpu_seconds == pytest.approx(16 * (NOW - HUNG_SINCE))
    straggler, heat = label_of("straggler"), label_of("throttled", "gpu:")
    # One loss, of which the heat is the cause.
    assert straggler.gpu_seconds == 0.0
    sent = {
        now: max(ranks("straggler", "gpu", "nvlink_tx_bytes_per_s", now, 600.0))
        for now in (HELD_SINCE - 10.0, NOW)
    }
    share = 1.0 - sent[NOW] / sent[HELD_SINCE - 10.0]
    assert heat.gpu_seconds == pytest.approx(16 * (NOW - HELD_SINCE) * share, rel=0.05)


def test_nothing_is_labelled_before_it_happens():
    early = {x.finding_class for x in fleet().labels(HELD_SINCE - 1.0)}
    assert early.isdisjoint({"straggler", "hang", "throttled"})


def test_troubles_are_recent_whatever_the_length_of_the_past():
    for opened_s in (0.0, 6 * 3600.0, 40 * 3600.0):
        now = ORIGIN + opened_s
        labels = Fleet(10, 8, 1, ORIGIN, opened_s).labels(now)
        starts = {x.finding_class: x.start for x in labels if rank_of(x)}
        onsets = {"straggler": now - 2_400.0, "hang": now - 720.0}
        assert starts == {truth: max(at, ORIGIN) for truth, at in onsets.items()}
        assert all(x.end == now for x in labels if rank_of(x))


@pytest.mark.parametrize("size", [(1, 8), (6, 8), (10, 1), (12, 2)])
def test_a_fleet_of_any_size_keeps_its_labels_true(size: tuple[int, int]):
    small = Fleet(*size, 1, ORIGIN)
    named = [x.subject for x in small.labels(ORIGIN) if rank_of(x)]
    assert bool(named) == (size == (12, 2))


def test_counters_run_on_through_the_turn():
    job, _ = job_of("straggler")
    node = fleet().nodes[job.spots[0].node]
    (row,) = [node.gpu_of_minor(minor) for minor in job.spots[0].gpus[:1]]
    before, after = (
        fleet().read(node, Spans(HELD_SINCE + s, 1.0))[row].totals for s in (-1e-3, 1e-3)
    )
    assert 0.0 <= after.energy_j - before.energy_j < 2.0
    assert after.power_w == pytest.approx(before.power_w, abs=10.0)
    assert after.heat_w == pytest.approx(before.heat_w, abs=1.0)
    assert all(a >= b for a, b in zip(after.counted, before.counted, strict=True))


def test_the_energy_of_a_turned_program_is_the_integral_of_its_power():
    stays = [line for node in fleet().nodes for line in fleet().stays(node, NOW)]
    program = next(stay.program for stay in stays if isinstance(stay.program, Turned))
    begin, step_s = program.at_s - 20.0, 0.004
    area = sum(program.at(begin + (n + 0.5) * step_s).power_w for n in range(10_000)) * step_s
    drawn = program.at(begin + 40.0).energy_j - program.at(begin).energy_j
    assert drawn == pytest.approx(area, rel=1e-3)
