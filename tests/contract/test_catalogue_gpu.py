"""Every field of GPUs, links, instances and contexts, on every product: value, unit, reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from tests.contract import expected_gpu as script
from tests.contract.products import ACTIVITY, LACKS, LINKS, LINKS_LACK, PCIE_RATES
from tests.worlds.probe_clock import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]
    Wanted = dict[str, float | Reason]

GPUS = 3
FIRST_S = 1_000.0
SECOND_S = FIRST_S + script.GAP_S
KIB = 1024
TOTALS = {
    "nvlink_crc_flit_count": "crc_flit",
    "nvlink_crc_data_count": "crc_data",
    "nvlink_replay_count": "replays",
    "nvlink_recovery_count": "recoveries",
    "nvlink_ecc_data_count": "ecc_data",
}
"""Fields of a GPU that sum up its links, and what of them."""

FLOWS = ("nvlink_tx_bytes", "nvlink_rx_bytes", "nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s")
LINK_FLOWS = ("link_tx_bytes_per_s", "link_rx_bytes_per_s")
INSTANCES = {
    "mig_gpu_instance": "gpu_instance",
    "mig_compute_instance": "compute_instance",
    "mig_mem_used_bytes": "mem_used_bytes",
    "mig_mem_total_bytes": "mem_total_bytes",
    "mig_sm_active_ratio": "sm_percent",
    "mig_sm_occupancy_ratio": "occupancy_percent",
    "mig_tensor_active_ratio": "tensor_percent",
    "mig_dram_active_ratio": "dram_percent",
}
NUMA = {0: "5\n", 1: "0\n", 2: "-1\n"}
"""NUMA node of each GPU as the kernel says it; -1: of none of its own."""

USES = {
    "context_sm_util_ratio": 20,
    "context_mem_util_ratio": 31,
    "context_encoder_util_ratio": 42,
    "context_decoder_util_ratio": 53,
}
"""Percent of the first process of the first GPU; each next place one more, each next GPU three."""

CONTEXTS = (
    "context_mem_used_bytes",
    *USES,
    "context_gpu_instance",
    "context_compute_instance",
)


def fields(block: str) -> set[str]:
    return {field.key for field in CATALOGUE.values() if field.block == block}


def test_every_field_has_an_expected_value_that_some_product_tells() -> None:
    """Whoever adds a field says here what it is made of."""
    assert {*script.GPU, *TOTALS, *FLOWS, "mig_mode", "gpu_numa_node"} == fields("gpu")
    assert {*script.LINK, *script.NEWER_LINK, *LINK_FLOWS} == fields("link")
    assert set(INSTANCES) == fields("mig")
    assert set(CONTEXTS) == fields("context")
    assert set.intersection(*LACKS.values()) == set()
    assert set.intersection(*LINKS_LACK.values()) == set()


def pids(gpu: int) -> list[int]:
    return [4_001 + 10 * gpu + place for place in range(gpu + 1)]


def publish(node: Standin, step: int) -> None:
    """What the driver says at the first or at the second report."""
    state = node.state
    state.set(counters_live=0, gpm_min_interval_ms=0, sample_us=1_000 * (step + 1))
    script.script(state, step, GPUS)
    is_cut = state.values.get("gpu.0.mig_mode") == "1"
    for gpu in range(GPUS):
        for metric, percent in script.GPM.items():
            if f"gpu.{gpu}.gpm.{metric}" in state.values:
                state.gpm(gpu, metric, percent + gpu)
        for place, pid in enumerate(pids(gpu)):
            memory = None if place == 2 else 3_000_000_007 + pid
            instance = (gpu + 1, place) if is_cut else None
            sm, mem, enc, dec = (base + 3 * gpu + place for base in USES.values())
            state.process(gpu, pid, memory, sm, mem, instance=instance, video_percent=(enc, dec))
        for place in range(3 if is_cut else 0):
            state.mig(gpu, place, **instance_raw(gpu, place))
    state.write()


def instance_raw(gpu: int, place: int) -> dict[str, int]:
    """Three instances; the last two are parts of one GPU instance, and share what it does."""
    own = 10 * gpu + place
    shared = 10 * gpu + min(place, 1)
    return {
        "gpu_instance": 3 + min(place, 1),
        "compute_instance": 7 + place,
        "mem_total_bytes": 20_000_000_003 + own,
        "mem_used_bytes": 9_000_000_001 + own,
        "sm_percent": 61 + shared,
        "occupancy_percent": 31 + shared,
        "tensor_percent": 41 + shared,
        "dram_percent": 11 + shared,
    }


def gpu_wanted(profile: str, gpu: int) -> Wanted:
    raw = script.gpu_raw(gpu, 1)
    if profile == "r470":
        # Power comes from the older call, and what the driver keeps counts as used (memory v1).
        raw["field.186"] = raw["power_mw"]
        raw["mem_used_bytes"] += raw["mem_reserved_bytes"]
    links = [script.link_raw(gpu, link, 1) for link in range(LINKS[profile])]
    wanted: Wanted = {key: reckon(raw) for key, reckon in script.GPU.items()}
    wanted["mig_mode"] = 1 if profile == "mig" else 0
    wanted["gpu_numa_node"] = Reason.NOT_SUPPORTED if gpu == 2 else int(NUMA[gpu])
    if "sm_active_ratio" not in LACKS[profile]:
        # GPM's word comes before that of counters that may have begun anew: nothing flows.
        wanted |= dict.fromkeys(PCIE_RATES, 0)
    for key, part in TOTALS.items():
        wanted[key] = sum(link[part] for link in links)
    for way in ("tx", "rx"):
        wanted[f"nvlink_{way}_bytes"] = sum(link[f"{way}_bytes"] for link in links)
        first = sum(script.link_raw(gpu, link, 0)[f"{way}_bytes"] for link in range(LINKS[profile]))
        gained = sum(link[f"{way}_bytes"] for link in links) - first
        wanted[f"nvlink_{way}_bytes_per_s"] = gained / script.GAP_S
    return wanted | dict.fromkeys(LACKS[profile], Reason.NOT_SUPPORTED)


def link_wanted(profile: str, gpu: int, link: int) -> Wanted:
    raw = script.link_raw(gpu, link, 1)
    own = 100 * gpu + link
    wanted: Wanted = {key: reckon(raw) for key, reckon in script.LINK.items()}
    for key, field in script.NEWER_LINK.items():
        wanted[key] = script.newer_link_value(gpu, link, field)
    wanted["link_tx_bytes_per_s"] = KIB * (11 + own)
    wanted["link_rx_bytes_per_s"] = KIB * (1_011 + own)
    return wanted | dict.fromkeys(LINKS_LACK[profile], Reason.NOT_SUPPORTED)


def context_wanted(profile: str, gpu: int, place: int) -> Wanted:
    pid = pids(gpu)[place]
    is_cut = profile == "mig"
    return {
        "context_mem_used_bytes": Reason.NOT_SHARED if place == 2 else 3_000_000_007 + pid,
        **{
            key: Reason.NOT_SUPPORTED if is_cut else (base + 3 * gpu + place) / 100
            for key, base in USES.items()
        },
        "context_gpu_instance": gpu + 1 if is_cut else Reason.NOT_SUPPORTED,
        "context_compute_instance": place if is_cut else Reason.NOT_SUPPORTED,
    }


def assert_is(frame: Frame, block: str, key: str, wanted: Mapping[str, float | Reason]) -> None:
    """One entity is exactly as wanted: each number in its unit, each lack with its reason."""
    found = frame.block(block)
    assert set(wanted) == fields(block)
    row = found.keys.index(key)
    for field, value in wanted.items():
        if isinstance(value, Reason):
            assert found.value(field, row) is None, field
            assert found.missing.get((field, row)) is value, field
        else:
            exact = value if CATALOGUE[field].kind.is_integer else pytest.approx(value, rel=1e-7)
            assert found.value(field, row) == exact, field
            assert (field, row) not in found.missing, field


@pytest.mark.parametrize("profile", LACKS)
def test_every_field_arrives_with_its_value_unit_and_reason(
    profile: str, standin: Start, tmp_path: Path
) -> None:
    node = standin(profile, gpus=GPUS, minors=(5, 3, 7))
    publish(node, 0)
    for gpu, told in NUMA.items():
        bus_id = node.state.values[f"gpu.{gpu}.pci_bus_id"].lower()[-12:]
        numa_node = tmp_path / "sys/bus/pci/devices" / bus_id / "numa_node"
        numa_node.parent.mkdir(parents=True)
        numa_node.write_text(told)
    with Stepped(tmp_path) as probe:
        first = probe.frame(FIRST_S)
        publish(node, 1)
        second = probe.frame(SECOND_S)
    assert first.errors == second.errors == ()
    uuids = second.block("gpu").keys
    assert uuids == tuple(node.state.values[f"gpu.{gpu}.uuid"] for gpu in range(GPUS))
    unasked = dict.fromkeys(PCIE_RATES & LACKS[profile], Reason.NOT_SHARED)
    for gpu, uuid in enumerate(uuids):
        assert_is(second, "gpu", uuid, gpu_wanted(profile, gpu) | unasked)
        for link in range(LINKS[profile]):
            assert_is(second, "link", f"{uuid}/{link}", link_wanted(profile, gpu, link))
        for place, pid in enumerate(pids(gpu)):
            key = f"{pid}/{uuid}"
            assert_is(second, "context", key, context_wanted(profile, gpu, place))
    assert len(second.block("link").keys) == GPUS * LINKS[profile]
    assert_instances(node, second, 3 if profile == "mig" else 0)
    assert_first(profile, first)


def assert_instances(node: Standin, frame: Frame, count: int) -> None:
    assert len(frame.block("mig").keys) == GPUS * count
    for gpu in range(GPUS):
        for place in range(count):
            raw = instance_raw(gpu, place)
            wanted: Wanted = {
                key: raw[part] / 100 if part.endswith("percent") else raw[part]
                for key, part in INSTANCES.items()
            }
            assert_is(frame, "mig", node.state.values[f"gpu.{gpu}.mig.{place}.uuid"], wanted)


def assert_first(profile: str, frame: Frame) -> None:
    """What takes two readings says so at the first, and only that does."""
    gpus, links, contexts, instances = (
        frame.block(block) for block in ("gpu", "link", "context", "mig")
    )
    rates = {field.key for field in CATALOGUE.values() if field.key.endswith("_per_s")}
    shares = {key.replace("_us", "_ratio") for key in gpus.columns if key.endswith("_us")}
    waiting = (rates | shares | ACTIVITY) & fields("gpu") - LACKS[profile]
    for row in range(GPUS):
        assert {
            key for key in fields("gpu") if gpus.missing.get((key, row)) is Reason.NOT_SAMPLED
        } == waiting
    speeds = {"link_tx_bytes_per_s", "link_rx_bytes_per_s"}
    for row in range(len(links.keys)):
        assert {links.missing.get((key, row)) for key in speeds} == {Reason.NOT_SAMPLED}
    use = Reason.NOT_SUPPORTED if profile == "mig" else Reason.NOT_SAMPLED
    for row in range(len(contexts.keys)):
        assert {contexts.missing.get((key, row)) for key in USES} == {use}
    for row in range(len(instances.keys)):
        assert instances.missing.get(("mig_sm_active_ratio", row)) is Reason.NOT_SAMPLED


@pytest.mark.parametrize("profile", ["rtx", "r470"])
def test_the_dear_call_tells_the_rates_of_one_gpu_under_zoom_a_beat(
    profile: str, standin: Start, tmp_path: Path
) -> None:
    """It answers in KiB/s; of two GPUs that somebody looks at, each has its turn."""
    node = standin(profile, gpus=GPUS)
    for gpu in range(GPUS):
        rates = {"pcie_tx_bytes_per_s": 5 * KIB * (gpu + 1), "pcie_rx_bytes_per_s": 7_000 * KIB}
        node.state.gpu(gpu, **rates)
    node.state.write()
    with Stepped(tmp_path) as probe:
        uuids = probe.frame(FIRST_S).block("gpu").keys
        zoom = uuids[:2]
        probe.frame(FIRST_S + 1, zoom)
        gpus = probe.frame(FIRST_S + 2, zoom).block("gpu")
        later = probe.frame(FIRST_S + 3).block("gpu")
    for gpu in (0, 1):
        assert gpus.value("pcie_tx_bytes_per_s", gpu) == 5 * KIB * (gpu + 1)
        assert gpus.value("pcie_rx_bytes_per_s", gpu) == 7_000 * KIB
    for block, row in ((gpus, 2), (later, 0), (later, 1)):
        assert {block.missing.get((key, row)) for key in PCIE_RATES} == {Reason.NOT_SHARED}


def test_rates_over_pcie_are_gpm_s_where_it_answers_for_the_counters_begin_anew(
    standin: Start, tmp_path: Path
) -> None:
    """What an H200 did: 57 GB/s, and a counter of 32 bits that told 1.8 of them."""
    node = standin("h100", gpus=1)
    node.state.set(counters_live=0, gpm_min_interval_ms=0)
    node.state.gpu(0, pcie_rx_bytes_per_s=41_000 << 20, pcie_tx_bytes_per_s=700 << 20)
    node.state.gpu(0, pcie_rx_bytes=100_000_000, pcie_tx_bytes=4_000_000_000)
    node.state.write()
    with Stepped(tmp_path) as probe:
        probe.frame(FIRST_S)
        node.state.gpu(0, pcie_rx_bytes=2_000_000_000, pcie_tx_bytes=300_000_000)
        node.state.write()
        gpus = probe.frame(FIRST_S + 1).block("gpu")
    assert gpus.value("pcie_rx_bytes_per_s", 0) == 41_000 << 20
    assert gpus.value("pcie_tx_bytes_per_s", 0) == 700 << 20


def test_a_gpu_without_links_has_no_rate_over_them(standin: Start, tmp_path: Path) -> None:
    """GPM says 0 there; nothing is not the same as no link."""
    node = standin("h100", gpus=1)
    node.state.set(gpm_min_interval_ms=0)
    node.state.gpu(0, nvlink_count=None)
    node.state.write()
    with Stepped(tmp_path) as probe:
        probe.frame(FIRST_S)
        gpus = probe.frame(FIRST_S + 1).block("gpu")
    assert gpus.value("sm_active_ratio", 0) is not None
    for key in ("nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s"):
        assert gpus.value(key, 0) is None
        assert gpus.missing.get((key, 0)) is Reason.NOT_SUPPORTED


def test_what_the_gpu_s_own_processor_is_asked_for_comes_every_five_seconds(
    standin: Start, tmp_path: Path
) -> None:
    """And its rates are over the time between its own readings."""
    node = standin("h100", gpus=1)
    node.state.set(counters_live=0, gpm_min_interval_ms=0)
    node.state.write()
    said = []
    with Stepped(tmp_path) as probe:
        for second in range(12):
            node.state.gpu(0, slowdown_hw_thermal_ns=second * 300_000_000)
            node.state.gpu(0, energy_mj=second * 500_000)
            node.state.gpm(0, 1, 10 + second)
            node.state.write()
            gpus = probe.frame(FIRST_S + second).block("gpu")
            keys = ("energy_j", "hw_thermal_ratio", "graphics_active_ratio")
            said.append(tuple(gpus.value(key, 0) for key in keys))
    energy = [second[0] for second in said]
    assert energy == [0] * 5 + [2500] * 5 + [5000] * 2
    assert [second[1] for second in said] == [None] * 5 + [pytest.approx(0.3)] * 7
    assert [second[2] for second in said] == [None] + [0.11] * 5 + [0.16] * 5 + [0.21]


def test_where_a_counter_fails_its_other_source_tells_the_same(
    standin: Start, tmp_path: Path
) -> None:
    """GPM answers in MiB/s, the newer counters of links in bytes."""
    node = standin("h100", gpus=1)
    node.state.set(counters_live=0, gpm_min_interval_ms=0)
    mib = {"pcie_tx": 3, "pcie_rx": 5, "nvlink_tx": 18 * 7, "nvlink_rx": 18 * 11}
    node.state.gpu(0, **{f"{name}_bytes_per_s": rate << 20 for name, rate in mib.items()})
    for field in (197, 198, 138, 139):
        node.state.field_error(0, field, 3)
    node.state.field(0, 202, 70_001)
    node.state.field(0, 204, 80_003)
    node.state.write()
    with Stepped(tmp_path) as probe:
        probe.frame(FIRST_S)
        frame = probe.frame(FIRST_S + 1)
    gpus, links = frame.block("gpu"), frame.block("link")
    for name, rate in mib.items():
        assert gpus.value(f"{name}_bytes_per_s", 0) == rate << 20
        assert gpus.missing.get((f"{name}_bytes", 0)) is Reason.NOT_SUPPORTED
    assert {links.value("link_tx_bytes", row) for row in range(18)} == {70_001}
    assert {links.value("link_rx_bytes", row) for row in range(18)} == {80_003}
