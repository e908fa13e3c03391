"""What follows from two readings: shares of time, means per request, cores in use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.missing import Reason
from gpumon.sources.probes.rates import DERIVED, RATES, Rates

Value = float | int | None


class Probe:
    """One block of one probe, read again and again."""

    def __init__(self, block: str) -> None:
        self.block = block
        self.rates = Rates()
        self.missing: dict[tuple[str, int], Reason] = {}

    def read(self, at: float, keys: tuple[str, ...] = ("k",), **columns: Any) -> dict[str, Any]:
        values = {k: c if isinstance(c, list) else [c] for k, c in columns.items()}
        self.missing = {}
        self.rates.add(self.block, keys, [at] * len(keys), values, self.missing)
        return {key: column if len(keys) > 1 else column[0] for key, column in values.items()}


@pytest.mark.parametrize("field", DERIVED, ids=str)
def test_what_is_derived_comes_from_counters_of_its_own_block(field: str) -> None:
    how = DERIVED[field]
    for counter in (how.counter, how.per):
        if counter is not None:
            assert CATALOGUE[counter].block == CATALOGUE[field].block
    assert CATALOGUE[field].kind in (Kind.RATE, Kind.GAUGE)


def test_every_rate_of_a_counter_is_made() -> None:
    assert {"net_rx_bytes", "nic_tx_bytes", "fs_read_ops", "job_io_read_bytes"} <= set(RATES)
    assert {"pcie_tx_bytes", "nvlink_rx_bytes"} <= set(RATES)


def test_the_busy_share_of_the_cpus() -> None:
    node = Probe("node")
    first = node.read(1.0, cpu_busy_ticks=100, cpu_iowait_ticks=5, cpu_total_ticks=1000)
    assert first["cpu_busy_ratio"] is None
    assert node.missing["cpu_busy_ratio", 0] is Reason.NOT_SAMPLED
    second = node.read(2.0, cpu_busy_ticks=250, cpu_iowait_ticks=15, cpu_total_ticks=1200)
    assert second["cpu_busy_ratio"] == 0.75
    assert second["cpu_iowait_ratio"] == 0.05
    assert ("cpu_busy_ratio", 0) not in node.missing


def test_time_for_io_that_the_kernel_takes_back_gives_no_share() -> None:
    node = Probe("node")
    node.read(1.0, cpu_iowait_ticks=10, cpu_total_ticks=1000)
    assert node.read(2.0, cpu_iowait_ticks=9, cpu_total_ticks=1100)["cpu_iowait_ratio"] is None
    assert node.read(3.0, cpu_iowait_ticks=19, cpu_total_ticks=1200)["cpu_iowait_ratio"] == 0.1


def test_the_mean_time_of_a_request() -> None:
    mount = Probe("filesystem")
    mount.read(1.0, fs_read_ops=10, fs_read_rtt_us=5_000, fs_read_exec_us=7_000)
    found = mount.read(6.0, fs_read_ops=30, fs_read_rtt_us=45_000, fs_read_exec_us=207_000)
    assert found["fs_read_rtt_s"] == pytest.approx(0.002)
    assert found["fs_read_exec_s"] == pytest.approx(0.01)
    assert found["fs_read_ops_per_s"] == 4.0


def test_without_a_request_there_is_no_mean_time() -> None:
    mount = Probe("filesystem")
    mount.read(1.0, fs_read_ops=10, fs_read_rtt_us=5_000)
    assert mount.read(6.0, fs_read_ops=10, fs_read_rtt_us=5_000)["fs_read_rtt_s"] is None
    assert mount.missing["fs_read_rtt_s", 0] is Reason.NOT_SAMPLED


def test_cores_in_use() -> None:
    job = Probe("cgroup")
    job.read(10.0, job_cpu_us=1_000_000)
    assert job.read(12.0, job_cpu_us=8_000_000)["job_cpu_cores_used"] == 3.5


def test_a_wait_that_is_counted_when_it_is_over_is_told_in_the_end() -> None:
    """Of 12 s of waiting, 7 at once, the mean over 20 s is 0.6."""
    process = Probe("process")
    waited_s = [0, 0, 0, 0, 7, 8, 8, 8, 12, 12, 12]
    reported = [
        process.read(2.0 * number, process_cpu_wait_us=1_000_000 * total)["process_cpu_wait_ratio"]
        for number, total in enumerate(waited_s)
    ]
    assert reported[0] is None
    assert reported[1:] == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]


def test_a_wait_of_hours_is_garbage() -> None:
    process = Probe("process")
    process.read(1.0, process_cpu_wait_us=0)
    jumped = process.read(2.0, process_cpu_wait_us=9_000_000_000)
    assert jumped["process_cpu_wait_ratio"] is None
    assert process.read(3.0, process_cpu_wait_us=9_000_000_000)["process_cpu_wait_ratio"] == 0.0


def test_a_reading_that_is_told_again_keeps_what_followed_from_it() -> None:
    mount = Probe("filesystem")
    mount.read(0.0, fs_read_bytes=0)
    for _ in range(3):
        assert mount.read(5.0, fs_read_bytes=50)["fs_read_bytes_per_s"] == 10.0
    assert mount.read(10.0, fs_read_bytes=50)["fs_read_bytes_per_s"] == 0.0


def test_an_entity_that_went_and_came_again_starts_anew() -> None:
    job = Probe("cgroup")
    job.read(1.0, ("7",), job_cpu_us=100)
    job.read(2.0, ("8",), job_cpu_us=100)
    assert job.read(3.0, ("7",), job_cpu_us=900)["job_cpu_cores_used"] is None


def test_why_one_lacks_a_rate_says_nothing_of_another() -> None:
    rates, missing = Rates(), {("fs_read_ops_per_s", 0): Reason.NO_PERMISSION}
    rates.add("filesystem", ("/m", "/n"), [1.0, 1.0], {}, missing)
    assert missing["fs_read_ops_per_s", 0] is Reason.NO_PERMISSION
    assert missing["fs_read_ops_per_s", 1] is not Reason.NO_PERMISSION


def test_a_missing_counter_gives_its_reason_to_what_would_follow() -> None:
    rates, missing = Rates(), {("fs_read_ops", 0): Reason.NO_PERMISSION}
    rates.add("filesystem", ("/m",), [1.0], {"fs_read_rtt_us": [5]}, missing)
    assert missing["fs_read_rtt_s", 0] is Reason.NO_PERMISSION
    assert missing["fs_read_ops_per_s", 0] is Reason.NO_PERMISSION


COUNTS = st.lists(
    st.tuples(
        st.floats(0, 1e9),
        st.none() | st.integers(0, 2**63 - 1),
        st.none() | st.integers(0, 2**63 - 1),
    ),
    max_size=8,
)


@given(COUNTS)
def test_whatever_the_counters_do_the_results_are_in_range(readings: list[Any]) -> None:
    node, mount = Probe("node"), Probe("filesystem")
    for at, count, per in readings:
        found = node.read(at, cpu_busy_ticks=count, cpu_total_ticks=per, net_rx_bytes=count)
        found |= mount.read(at, fs_read_rtt_us=count, fs_read_ops=per)
        for field in DERIVED:
            if found.get(field) is not None:
                assert CATALOGUE[field].low <= found[field] <= CATALOGUE[field].high


@pytest.mark.parametrize(
    ("grown", "reported"),
    [(40_000_000_000, 40e9), (31_400_000_000, 31.4e9), (99_000_000_000, None)],
)
def test_a_rate_beyond_what_the_link_can_carry_is_garbage(
    grown: int, reported: float | None
) -> None:
    """A counter that jumped; a link that is trained down may still have carried more before."""
    link = {"pcie_gen_max": 4, "pcie_width_max": 16, "pcie_gen": 1, "pcie_width": 8}
    gpu = Probe("gpu")
    # Of generation 4 with 16 lanes: 31.5 GB/s.
    if reported == 40e9:
        link["pcie_gen_max"] = 5
    wide = 2**40
    gpu.read(1.0, pcie_tx_bytes=wide, pcie_rx_bytes=wide, **link)
    found = gpu.read(2.0, pcie_tx_bytes=wide + grown, pcie_rx_bytes=wide + 1, **link)
    assert found["pcie_tx_bytes_per_s"] == reported
    assert found["pcie_rx_bytes_per_s"] == 1.0
    assert gpu.missing.get(("pcie_tx_bytes_per_s", 0)) is (None if reported else Reason.GARBAGE)


def narrow(*per_s: int, start: int = 0) -> list[float | None]:
    """Rates that follow from a counter of 32 bits that grows by so much in each second."""
    gpu, counted, reported = Probe("gpu"), start, []
    gpu.read(0.0, pcie_rx_bytes=counted)
    for second, grown in enumerate(per_s, 1):
        counted = (counted + grown) % 2**32
        reported.append(gpu.read(float(second), pcie_rx_bytes=counted)["pcie_rx_bytes_per_s"])
    return reported


def test_a_counter_that_may_have_begun_anew_tells_no_rate() -> None:
    """It holds 4.3 GB: of 30 GB/s it would show some odd part, and never the same."""
    flow = [30_000_000_000 + 97 * second for second in range(40)]
    assert narrow(*flow) == [None] * 40
    assert narrow(2**32 + 5, 2**32 + 5, 9)[0] is None


def test_little_growth_twice_in_a_row_is_all_there_was() -> None:
    assert narrow(7, 8, 9, 2_000_000_000, 10, 11) == [None, 8.0, 9.0, None, None, 11.0]
    # Also across the place where it begins anew.
    assert narrow(600, 600, 600, start=2**32 - 700) == [None, 600.0, 600.0]


def test_a_counter_that_was_beyond_32_bits_tells_every_rate_and_no_reset() -> None:
    gpu = Probe("gpu")
    reported = []
    for second, count in enumerate([2**32 + 1, 2**32 + 20_000_000_001, 100, 5_000_000_100]):
        reported.append(gpu.read(float(second), pcie_tx_bytes=count)["pcie_tx_bytes_per_s"])
    assert reported == [None, 20e9, None, 5e9]


def test_what_the_probe_says_of_a_rate_comes_before_such_a_counter() -> None:
    gpu = Probe("gpu")
    for second in range(4):
        own = {"pcie_tx_bytes_per_s": 57e9, "nvlink_tx_bytes_per_s": 57e9}
        found = gpu.read(float(second), pcie_tx_bytes=second, nvlink_tx_bytes=second, **own)
    assert found["pcie_tx_bytes_per_s"] == 57e9
    assert found["nvlink_tx_bytes_per_s"] == 1.0


@pytest.mark.parametrize(
    ("speed", "reported"), [(100.0, None), (400.0, 30e9), (None, 30e9), (0.0, 30e9)]
)
def test_a_port_carries_no_more_than_its_speed(speed: float | None, reported: float | None) -> None:
    port = Probe("nic")
    port.read(1.0, nic_rx_bytes=0, nic_speed_gbps=speed)
    found = port.read(2.0, nic_rx_bytes=30_000_000_000, nic_speed_gbps=speed)
    assert found["nic_rx_bytes_per_s"] == reported
