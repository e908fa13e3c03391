"""What bounds a job: which ceilings are known, why others are not, and what is the nearest."""

from __future__ import annotations

import pytest

from gpumon.fleet.history.history import History
from gpumon.model.gpu.hardware import sheet_for
from gpumon.report.facts.tick_index import Digest
from gpumon.report.wording.what_bounds import what_bounds
from tests.worlds.node import machine
from tests.worlds.tick import AT, TRAINS, gpu, job_with_gpus, tick

LINKED = {
    **TRAINS,
    "pcie_rx_bytes_per_s": 2e9,
    "pcie_tx_bytes_per_s": 1e9,
    "pcie_gen": 5.0,
    "pcie_width": 16.0,
}


def bounds(values, *, name="NVIDIA H100 80GB HBM3", nodes=None, has_past=True):
    view, _ = job_with_gpus("7", {"n1": 2})
    history = History()
    for step in range(20):
        shown = [gpu("n1", place, values, name=name) for place in range(2)]
        made = tick((view,), shown, at=AT + step, number=step + 1, history=None)
        history.append(made)
    made = made._replace(history=history.reader() if has_past else None)
    if nodes is not None:
        made = made._replace(nodes=nodes)
    digest = Digest(made)
    return what_bounds(digest, digest.gpus(view), view)


def why(found, what):
    return next(one.why for one in found.unknown if one.what == what)


def test_the_nearest_ceiling_is_the_one_of_which_most_is_used():
    found = bounds(LINKED)
    assert (found.nearest.what, found.bound_by) == ("bf16", None)
    assert found.nearest.ratio == pytest.approx(0.44)
    found = bounds({**LINKED, "dram_active_ratio": 0.83})
    assert (found.nearest.what, found.bound_by) == ("memory", "memory")


@pytest.mark.parametrize(
    ("changes", "what", "words"),
    [
        ({"nvlink_rx_bytes_per_s": None, "nvlink_tx_bytes_per_s": None}, "nvlink",
         "no value of nvlink_rx_bytes_per_s: not_supported"),
        ({"pcie_gen": None}, "pcie", "no value of pcie_gen: not_supported"),
        ({"dram_active_ratio": None}, "memory", "no value of dram_active_ratio: not_supported"),
        ({"sm_clock_mhz": None}, "fp32", "no value of sm_clock_mhz: not_supported"),
        ({"fp64_active_ratio": None}, "fp64", "no value of fp64_active_ratio: not_supported"),
        ({}, "tf32", "no counter separates it from BF16, so it counts as that"),
        ({"tensor_imma_active_ratio": 0.4}, "int8",
         "its counter is not stored over time, so it is counted as BF16"),
        ({}, "network", "no port of its nodes reports its speed and traffic"),
    ],
)  # fmt: skip
def test_what_is_not_known_has_its_reason(changes, what, words):
    assert why(bounds({**LINKED, **changes}), what) == words


def test_a_board_without_links_says_so_and_has_no_ceiling_of_them():
    name = "NVIDIA GeForce RTX 4090"
    gib = 24 * 2.0**30
    values = {**LINKED, "mem_total_bytes": gib, "power_limit_w": 450.0}
    assert sheet_for(name, gib, 450.0) is not None
    found = bounds(values, name=name)
    assert why(found, "nvlink") == "its data sheet lists no NVLink"
    (links,) = [one for one in found.unknown if one.what == "nvlink"]
    assert links.per_s is None
    assert "FP64" not in found.note
    assert "INT8" in found.note


def test_the_busiest_port_is_named():
    found = bounds(LINKED, nodes=machine().nodes)
    assert found.port == "n1/mlx5_0/1"
    assert found.ceilings[-1].ratio == pytest.approx(12.1e9 / 50e9)


def test_without_a_past_ceilings_are_known_and_nothing_else():
    found = bounds(LINKED, has_past=False)
    assert found.ceilings == ()
    assert found.nearest is None
    assert found.verdict == ""
    by_what = {one.what: one.per_s for one in found.unknown}
    assert by_what["memory"] == 3.35e12
    # At which clock the pipes ran is not known.
    assert by_what["bf16"] is None
    assert why(found, "memory") == "no value of dram_active_ratio in the time that counts"
