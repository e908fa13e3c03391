"""The ends of scales stay where they are, also when an entity falls silent."""

from __future__ import annotations

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.report.charts.curves import gpu_panels
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.field import bound_of, scale
from tests.worlds.tick import GIB, Past, gpu, tick


@pytest.mark.parametrize("stale_s", [None, 42.0])
def test_a_silent_gpu_keeps_its_scales(stale_s):
    one = gpu("n1", 0, stale_s=stale_s)
    assert bound_of(one, "mem_total_bytes") == 80 * GIB
    assert scale(one, CATALOGUE["power_w"], 582.0) == (0.0, 700.0)
    given_tick = tick((), [one])
    digest = Digest(given_tick._replace(history=Past({one.uuid: gpu("n1", 0)})))
    ends = [panel.chart.ceiling for panel in gpu_panels(digest, one, 60.0)]
    assert ends[1:3] == [80.0 * GIB, 700.0]
