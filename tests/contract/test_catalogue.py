"""Every key that the probe emits is in the catalogue, and every field is there or says why not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.model.catalogue.field import Kind
from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.missing import Reason
from gpumon.probe import tiers
from gpumon.probe.driver.gpu import POWER_RANGE
from gpumon.probe.holders.processes import RANK_VARIABLES
from gpumon.sources.probes.decode import REPEATED, Decoder
from gpumon.sources.probes.program import LOCAL_START, local_program
from gpumon.sources.probes.stream import Endpoint
from tests.contract.products import LACKS, LINK_RATES, LINKS, LINKS_LACK, PCIE_RATES
from tests.lab.standin.client import running
from tests.worlds.probe import Probe, sampled

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.frame import Frame
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

FIXED = {reading[0] for reading in tiers.START} | set(POWER_RANGE) | {"watched_events"}
"""Fields that are read once at the start, and therefore known of a lost GPU too."""

NOT_THE_DRIVER_S = {"gpu_numa_node"}
"""What the kernel tells of a GPU, which here knows none at the stand-in's bus ids."""

NOT_EVERYWHERE = {"nic", "filesystem", "cgroup", "link", "event", "mig"}
"""Kinds of entities that a machine need not have."""


class Reports:
    """The lines of a real probe as they are on the wire, before anything is dropped or checked."""

    def __init__(self) -> None:
        self.raw: list[dict[str, Any]] = []

    def endpoint(self) -> Endpoint:
        return Endpoint("", LOCAL_START, local_program, lambda *_: ("", ""))

    def take(self, monkeypatch: pytest.MonkeyPatch, wanted: Callable[[Frame], bool]) -> list[Frame]:
        decode = Decoder.frame

        def noted(decoder: Decoder, line: bytes, node: str, now: float, heard_s: float) -> Frame:
            self.raw.append(json.loads(line))
            return decode(decoder, line, node, now, heard_s)

        monkeypatch.setattr(Decoder, "frame", noted)
        with Probe(self.endpoint()) as probe:
            return probe.frames(wanted)


def fields(block: str) -> set[str]:
    return {field.key for field in CATALOGUE.values() if field.block == block}


def have_two_counters(frame: Frame) -> bool:
    missing = frame.block("gpu").missing
    return Reason.NOT_SAMPLED not in missing.values()


@pytest.mark.parametrize("profile", LACKS)
def test_every_key_and_label_is_in_the_catalogue_and_every_field_accounted_for(
    profile: str, standin: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = standin(profile, gpus=2)
    reports = Reports()
    options = ("--index", "0", "--mem-gib", "1", "--util", "50", "--seconds", "600")
    with running(node, *options, SLURM_PROCID="1"):
        frames = reports.take(monkeypatch, have_two_counters)
    first, last = frames[0], frames[-1]
    for report in reports.raw:
        # Those that are read seldom come when they were, and always in the first report.
        assert set(report["blocks"]) | set(REPEATED) == set(LABELS)
        assert report["errors"] == []
    assert set(REPEATED) <= set(reports.raw[0]["blocks"])
    for report in reports.raw:
        for name, block in report["blocks"].items():
            assert set(block["columns"]) <= fields(name), name
            assert set(block["labels"]) <= set(LABELS[name]), name
            assert set(block["missing"]) <= fields(name) | set(LABELS[name]), name
    for frame in (first, last):
        for name in LABELS:
            assert_accounted_for(frame, name)
    gpus = last.block("gpu")
    for row in (0, 1):
        lacks = {key for key in fields("gpu") if gpus.value(key, row) is None}
        assert lacks == LACKS[profile] | NOT_THE_DRIVER_S
        reasons = {key: gpus.reason(key, row) for key in LACKS[profile]}
        # Where only the dear call could tell the PCIe rates, nobody has asked for them.
        asked = {key for key, why in reasons.items() if why is Reason.NOT_SUPPORTED}
        assert set(reasons) - asked == LACKS[profile] & PCIE_RATES
    links = last.block("link")
    assert len(links.keys) == 2 * LINKS[profile]
    for row in range(len(links.keys)):
        lacks = {key for key in fields("link") if links.value(key, row) is None}
        assert lacks - LINK_RATES == LINKS_LACK[profile]
        assert {links.reason(key, row) for key in lacks - LINK_RATES} == {Reason.NOT_SUPPORTED}
    assert first.block("gpu").reason("nvlink_tx_bytes_per_s", 0) in (
        Reason.NOT_SAMPLED,
        Reason.NOT_SUPPORTED,
    )


def assert_accounted_for(frame: Frame, name: str) -> None:
    """Each field of each entity is a number in range, or has a reason that was really given."""
    block = frame.block(name)
    assert block.keys or name in NOT_EVERYWHERE, f"no {name}"
    for key in fields(name):
        for row in range(len(block.keys)):
            value = block.value(key, row)
            if value is None:
                assert (key, row) in block.missing, f"{key} is missing without a reason"
            else:
                assert CATALOGUE[key].low <= value <= CATALOGUE[key].high
                assert (key, row) not in block.missing, f"{key} has a value and a reason"
    of_some = {"container", "job_id", "sluid", "step", "task"}
    of_exporters = {"label_jobs", "label_pods"}
    for label in set(LABELS[name]) - of_some - of_exporters:
        for row in range(len(block.keys)):
            assert block.label(label, row) or (label, row) in block.missing, label


@pytest.mark.parametrize("profile", ["h100", "r470"])
def test_nothing_that_a_stuck_or_lost_gpu_has_is_left_without_a_reason(
    profile: str, standin: Start
) -> None:
    node = standin(profile, gpus=2)
    with Probe() as probe:
        probe.frame()
        node.state.lose(0)
        node.state.hang("nvmlDeviceGetTemperature", gpu=1)
        node.state.write()
        frame = probe.next_frame(lambda frame: bool(frame.errors))
    gpus = frame.block("gpu")
    identity = {
        "index",
        "open_error",
        "minor_number",
        "sm_clock_max_mhz",
        "pcie_gen_max",
        "pcie_width_max",
    }
    for row, why in ((0, Reason.LOST), (1, Reason.FAILED)):
        for key in fields("gpu") - identity - FIXED - NOT_THE_DRIVER_S:
            assert gpus.value(key, row) is None
            assert gpus.missing.get((key, row)) is why, key
        assert {key for key in identity if gpus.value(key, row) is None} == set()
    assert sampled(frame) is False


def test_integers_are_kept_whole_and_gauges_as_numbers(standin: Start) -> None:
    standin("h100", gpus=1)
    with Probe() as probe:
        gpus = probe.frame(sampled).block("gpu")
    for key, column in gpus.columns.items():
        whole = CATALOGUE[key].kind in (Kind.COUNTER, Kind.MASK, Kind.ID)
        assert column.typecode == ("q" if whole else "d"), key


def test_every_reason_of_the_probe_is_one_that_the_model_knows() -> None:
    from gpumon.probe import rows

    reasons = {
        value for name, value in vars(rows).items() if name.isupper() and isinstance(value, str)
    }
    assert reasons <= {reason.value for reason in Reason}


def test_no_variable_that_leaves_a_node_can_hold_a_secret() -> None:
    """Names are ranks, sizes, ids and addresses only."""
    allowed = (
        "RANK",
        "SIZE",
        "ID",
        "NTASKS",
        "NUM_TASKS",
        "ADDR",
        "PORT",
        "NAME",
        "COUNT",
        "NAMESPACE",
    )
    for name in RANK_VARIABLES:
        assert name.endswith(allowed), name
        assert not any(word in name for word in ("TOKEN", "KEY", "SECRET", "PASS", "PATH")), name
