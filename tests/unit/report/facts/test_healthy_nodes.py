"""A node is passed over only where looking at each of its GPUs would find nothing."""

from __future__ import annotations

import pytest

from gpumon.report.facts.healthy_nodes import has_calm_node
from gpumon.report.facts.tick_index import Digest
from gpumon.report.wording.health import troubles
from tests.worlds.node import WHOLE, machine
from tests.worlds.tick import uuid_of

UUID = uuid_of("n1", 0)


def of(values):
    """Digest and first GPU of a machine with these values."""
    tick = machine({**WHOLE, **values})
    return Digest(tick), tick.gpus[UUID]


def test_a_whole_machine_is_calm():
    digest, board = of({})
    assert has_calm_node(digest, board)
    assert troubles(digest, board) == ()


@pytest.mark.parametrize(
    "values",
    [
        {"ecc_uncorrected_volatile_count": 1},
        {"remap_failure": 1},
        {"remap_pending": 1},
        {"retired_pages_pending": 1},
        {"recovery_action": 1},
        {"clock_event_reasons": 0x40},
        {"pcie_width": 8.0},
        {"fabric_health": 2},
        {"temp_c": None},
        {"temp_c": 88.0},
        {"temp_margin_c": -1.0},
        {"mem_temp_c": 101.0, "mem_temp_max_c": 95.0},
        {"sm_clock_mhz": 345.0},
    ],
)
def test_a_doubt_about_one_value_has_each_gpu_looked_at(values):
    digest, board = of(values)
    assert not has_calm_node(digest, board)


def test_values_that_say_nothing_bad_leave_it_calm():
    digest, board = of({"ecc_uncorrected_volatile_count": 0, "clock_event_reasons": 0x4})
    assert has_calm_node(digest, board)
