"""Every block of the simulated frames: ranges by the catalogue, reasons, sums, known faults."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from math import isnan
from typing import TYPE_CHECKING

import pytest

from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.missing import Reason
from gpumon.model.records.block import MISSING_INTEGER
from gpumon.simulate.blocks.frames import FrameMaker
from gpumon.simulate.cluster.hardware_faults import LINKS, MEMORY, XIDS
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.simulate.cluster.timeline import Spans
from gpumon.simulate.physics.phase import FABRIC

if TYPE_CHECKING:
    from gpumon.model.records.block import Block
    from gpumon.model.records.frame import Frame

ORIGIN = 1_800_000_000.0
TIMES = (0.0, 17.0, 61.5, 900.0, 7_777.0, 40_000.0)


@cache
def fleet(nodes: int = 12, gpus: int = 8) -> Fleet:
    return Fleet(nodes, gpus, 1, ORIGIN)


@cache
def frames(after_s: float, nodes: int = 12, gpus: int = 8) -> tuple[Frame, ...]:
    return tuple(FrameMaker(fleet(nodes, gpus), "demo").frames(ORIGIN + after_s, 1.0))


def label_of(kind: str, truth: str) -> str:
    """Name of the one subject of a kind that is labelled so."""
    labels = [x for x in fleet().labels(ORIGIN) if x.subject.startswith(f"{kind}:")]
    (found,) = [x.subject for x in labels if x.finding_class == truth]
    return found.removeprefix(f"{kind}:")


def present(block: Block, key: str) -> list[tuple[str, float]]:
    """Entities and values of one field, those that miss it left out."""
    values = [(entity, block.value(key, row)) for row, entity in enumerate(block.keys)]
    return [(entity, value) for entity, value in values if value is not None]


@pytest.mark.parametrize("size", [(12, 8), (1, 1), (2, 3), (6, 16)])
@pytest.mark.parametrize("after_s", TIMES)
def test_every_value_is_of_its_kind_and_in_the_catalogues_range(
    after_s: float, size: tuple[int, int]
) -> None:
    for frame in frames(after_s, *size):
        for name, block in frame.blocks.items():
            assert set(block.labels) <= set(LABELS[name])
            assert all(len(texts) == len(block.keys) for texts in block.labels.values())
            assert len(set(block.keys)) == len(block.keys)
            for key, column in block.columns.items():
                field = CATALOGUE[key]
                assert field.block == name
                assert column.typecode == ("q" if field.kind.is_integer else "d"), key
                assert len(column) == len(block.keys), key
                for value in column:
                    if value != MISSING_INTEGER and not isnan(value):
                        assert field.low <= value <= field.high, (key, value)


@pytest.mark.parametrize("after_s", TIMES)
def test_every_field_of_the_catalogue_has_a_value_or_a_reason(after_s: float) -> None:
    for frame in frames(after_s):
        for key, field in CATALOGUE.items():
            block = frame.blocks[field.block]
            for row in range(len(block.keys)):
                assert block.value(key, row) is not None or (key, row) in block.missing, key


def test_a_reason_stands_only_where_the_value_is_missing() -> None:
    for frame in frames(61.5):
        for name, block in frame.blocks.items():
            for key, row in block.missing:
                assert key in CATALOGUE or key in LABELS[name]
                assert block.value(key, row) is None, key
                assert block.label(key, row) is None, key


def test_missing_values_have_the_reasons_of_a_real_fleet() -> None:
    by_name = {frame.node: frame for frame in frames(61.5)}
    (old,) = [node.name for node in fleet().nodes if not node.board.has_gpm]
    gpus = by_name[old].block("gpu")
    for key in ("fp32_active_ratio", "tensor_hmma_active_ratio", "temp_margin_c", "fabric_state"):
        assert gpus.reason(key, 0) is Reason.NOT_SUPPORTED
        assert by_name["gpu001"].block("gpu").value(key, 0) is not None
    for frame in by_name.values():
        assert frame.block("gpu").reason("retired_pages_pending", 0) is Reason.NOT_SUPPORTED
        assert frame.block("link").reason("link_symbol_ber", 0) is Reason.NOT_SUPPORTED
        assert frame.block("node").reason("kernel_log", 0) is Reason.NO_PERMISSION
        mounts = frame.block("filesystem")
        lustre = mounts.labels["fstype"].index("lustre")
        assert mounts.reason("fs_read_bytes", lustre) is Reason.NO_PERMISSION
        assert mounts.value("fs_read_bytes", 0) is not None


@pytest.mark.parametrize("after_s", TIMES)
def test_links_sum_to_their_gpu(after_s: float) -> None:
    for frame in frames(after_s):
        gpus, links = frame.block("gpu"), frame.block("link")
        for key, total in (
            ("link_tx_bytes", "nvlink_tx_bytes"),
            ("link_rx_bytes", "nvlink_rx_bytes"),
            ("link_tx_bytes_per_s", "nvlink_tx_bytes_per_s"),
            ("link_replay_count", "nvlink_replay_count"),
            ("link_recovery_count", "nvlink_recovery_count"),
            ("link_crc_count", "nvlink_crc_flit_count"),
        ):
            sums: dict[str, float] = defaultdict(float)
            for entity, value in present(links, key):
                sums[entity.partition("/")[0]] += value
            for uuid, value in present(gpus, total):
                assert sums[uuid] == pytest.approx(value, rel=1e-12), key


def test_one_link_of_the_fleet_degrades_with_its_traffic() -> None:
    uuid = label_of("gpu", LINKS)
    counts = []
    for after_s in (0.0, 900.0, 40_000.0):
        found = [
            (entity, count)
            for frame in frames(after_s)
            for entity, count in present(frame.block("link"), "link_replay_count")
            if count
        ]
        ((entity, count),) = found
        assert entity.partition("/")[0] == uuid
        counts.append(count)
    assert counts == sorted(set(counts))


def test_one_port_of_the_fleet_is_down_and_carries_nothing() -> None:
    down = []
    for frame in frames(7_777.0):
        ports = frame.block("nic")
        for row, state in enumerate(ports.labels["state"]):
            if state == "DOWN":
                down.append(frame.node)
                assert ports.value("nic_tx_bytes_per_s", row) == 0.0
                assert ports.value("nic_link_downed", row)
            else:
                assert ports.value("nic_link_downed", row) == 0
    assert down == [label_of("node", LINKS)]


def test_memory_that_waits_for_a_reset_and_its_xids() -> None:
    uuid = label_of("gpu", MEMORY)
    for after_s, xids in ((0.0, []), (20.1, [63]), (40.0, [63, 94]), (900.0, [])):
        events = {
            entity: xid
            for frame in frames(after_s)
            for entity, xid in present(frame.block("event"), "xid")
        }
        assert list(events.values()) == xids
        assert all(entity.startswith(f"{uuid}/") for entity in events)
        pending = [
            gpu
            for frame in frames(after_s)
            for gpu, flag in present(frame.block("gpu"), "remap_pending")
            if flag
        ]
        assert pending == [uuid]
    ages = [age for f in frames(40.0) for _, age in present(f.block("event"), "event_age_s")]
    assert ages == pytest.approx([40.0 - at_s for at_s, _ in XIDS], abs=1e-3)


def test_a_cut_gpu_tells_its_use_by_its_instances_alone() -> None:
    ((frame, parts),) = [
        (frame, frame.block("mig")) for frame in frames(61.5) if frame.block("mig").keys
    ]
    (uuid,) = set(parts.labels["parent"])
    gpus = frame.block("gpu")
    row = gpus.keys.index(uuid or "")
    assert [gpus.value("mig_mode", n) for n in range(8)] == [int(n == row) for n in range(8)]
    assert gpus.reason("gpu_util_ratio", row) is Reason.NOT_SUPPORTED
    assert gpus.value("power_w", row) is not None
    # Two compute instances share the memory of one GPU instance: it counts once.
    sizes = dict(
        zip(parts.columns["mig_gpu_instance"], parts.columns["mig_mem_total_bytes"], strict=True)
    )
    assert 0 < sum(sizes.values()) <= (gpus.value("mem_total_bytes", row) or 0)


def test_ports_carry_what_the_gpus_exchange_between_nodes() -> None:
    several = [
        job
        for job in fleet().running(ORIGIN + 7_777.0)
        if len(job.spots) > 1 and fleet().hung_at(job) is None
    ]
    talking = {fleet().nodes[spot.node].name for job in several for spot in job.spots}
    assert talking
    spans = Spans(ORIGIN + 7_777.0, 1.0)
    for node, frame in zip(fleet().nodes, frames(7_777.0), strict=True):
        exchanged = sum(reading.means[FABRIC] for reading in fleet().read(node, spans))
        ports = frame.block("nic")
        rates = [
            value
            for row, (_, value) in enumerate(present(ports, "nic_tx_bytes_per_s"))
            if ports.label("link_layer", row) == "InfiniBand"
        ]
        assert sum(rates) == pytest.approx(exchanged, abs=1.0)
        assert (exchanged > 1e8) == (frame.node in talking), frame.node
        for row in range(len(ports.keys)):
            speed = ports.value("nic_speed_gbps", row)
            assert speed is not None
            assert (ports.value("nic_tx_bytes_per_s", row) or 0.0) <= speed * 1e9 / 8


@pytest.mark.slow
def test_a_dead_ports_traffic_goes_over_the_others() -> None:
    dead = fleet().ailments.port
    assert dead is not None
    node = fleet().nodes[dead.node]
    maker = FrameMaker(fleet(), "demo")
    for step in range(1200):
        now = ORIGIN + step * 900.0
        frame = maker.frames(now, 1.0)[dead.node]
        readings = fleet().read(node, Spans(now, 1.0))
        wanted = [reading.means[FABRIC] for reading in readings]
        if wanted[dead.gpu] < 1e8:
            continue
        ports = frame.block("nic")
        for port, own in enumerate(wanted):
            carried = ports.value("nic_tx_bytes_per_s", port)
            share = own + wanted[dead.gpu] / (len(wanted) - 1)
            assert carried == pytest.approx(0.0 if port == dead.gpu else share)
        return
    pytest.fail("no job with several nodes ever came to the node with the dead port")


def test_storage_ports_carry_what_the_mounts_read() -> None:
    # A host sample covers five seconds: over five seconds that end with it both see the same.
    at = ORIGIN + 7_775.0
    made = FrameMaker(fleet(), "demo").frames(at, 5.0)
    compared = 0
    for node, frame in zip(fleet().nodes, made, strict=True):
        if node.number % 5:
            continue
        ports, mounts = frame.block("nic"), frame.block("filesystem")
        data = mounts.keys.index("/data")
        for key, rate in (("nic_rx_bytes", "fs_read_bytes"), ("nic_tx_bytes", "fs_write_bytes")):
            stored = [
                ports.value(f"{key}_per_s", row) or 0.0
                for row in range(len(ports.keys))
                if ports.label("link_layer", row) == "Ethernet"
            ]
            assert sum(stored) == pytest.approx(mounts.value(f"{rate}_per_s", data), abs=1.0)
            compared += 1
    assert compared


def test_hosts_and_control_groups_agree() -> None:
    for frame in frames(7_777.0):
        groups, node = frame.block("cgroup"), frame.block("node")
        jobs = {job for job in frame.block("process").labels["job_id"] if job}
        assert set(groups.keys) == jobs
        used = sum(value for _, value in present(groups, "job_cpu_cores_used"))
        (total,) = present(node, "cpu_count")
        assert used < total[1]
        for row in range(len(groups.keys)):
            limit, taken = (groups.value(f"job_mem_{k}_bytes", row) for k in ("limit", "used"))
            assert limit is not None
            assert taken is not None
            assert taken <= limit
            cores = groups.value("job_cpu_cores_used", row)
            allowed = groups.value("job_cpu_count", row)
            assert cores is not None
            assert allowed is not None
            assert cores <= allowed


def test_an_input_bound_job_fills_its_cpus_and_others_do_not() -> None:
    kinds = {str(job.job_id): job.request.workload.kind for job in fleet().running(ORIGIN)}
    shares: dict[str, list[float]] = defaultdict(list)
    for frame in frames(0.0):
        groups = frame.block("cgroup")
        for row, job in enumerate(groups.keys):
            cores = groups.value("job_cpu_cores_used", row)
            allowed = groups.value("job_cpu_count", row)
            pressure = groups.value("job_cpu_pressure_some_ratio", row)
            assert cores is not None
            assert allowed
            assert pressure is not None
            shares[kinds[job]].append(cores / allowed)
            assert (pressure > 0.1) == (kinds[job] == "input_bound")
    assert min(shares.pop("input_bound")) > 0.85
    assert max(max(others) for others in shares.values()) < 0.6
