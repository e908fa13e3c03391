"""Memory that grows, and how soon it is known that it does not."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.detect.series import Past
from gpumon_detectors.requests.growth import growth_of

GIB = 2.0**30
TIMES = 1_790_000_000.0 + 30.0 * np.arange(480)


def told(gib):
    """Up to four hours of a column of memory."""
    times = TIMES[-len(gib) :]
    used = np.asarray(gib * GIB, np.float32)
    columns = {"mem_used_bytes": used[:, None]}
    return Past(times, times - 30.0, np.full(len(times), 30.0), columns, {}, 60.0), used


def test_memory_that_keeps_its_level_is_cut_into_no_parts(monkeypatch):
    """Most does, on every GPU of a fleet: six windows of each are not looked through for it."""
    level = 50.0 + np.sin(np.arange(480) / 7.0)
    monkeypatch.delattr(np, "linspace")
    assert growth_of(*told(level), 80.0 * GIB) is None


@pytest.mark.parametrize("is_at_work", [None, np.ones(480, np.bool_)])
def test_memory_that_rises_is_found(is_at_work):
    found = growth_of(*told(np.linspace(50.0, 60.0, 480)), 80.0 * GIB, is_at_work)
    assert found is not None
    assert found.first == 0
    assert found.full_in_s == pytest.approx(2 * 4 * 3600.0, rel=0.15)


@pytest.mark.parametrize("tooth_s", [690, 870, 930, 1020, 1290, 1530])
def test_teeth_of_a_saw_are_no_growth_wherever_they_are_cut(tooth_s):
    """An allocator gives back all that had grown, and nobody saw what was before."""
    for phase_s in range(0, tooth_s, 30):
        seconds = phase_s + 30.0 * np.arange(63)
        saw = 61.0 + 7.5 * (seconds % tooth_s) / tooth_s
        assert growth_of(*told(saw), 80.0 * GIB) is None, phase_s


@pytest.mark.parametrize("emptied_at", [12, 19, 31])
def test_a_leak_below_a_cache_that_is_emptied_once_is_one(emptied_at):
    rows = np.arange(63)
    cache = np.where(rows < emptied_at, rows, rows - emptied_at)
    assert growth_of(*told(50.0 + 0.12 * rows + 0.06 * cache), 80.0 * GIB) is not None


def test_memory_of_which_the_end_is_not_known_is_none():
    gib = np.linspace(50.0, 60.0, 480)
    gib[-1] = np.nan
    assert growth_of(*told(gib), 80.0 * GIB) is None
