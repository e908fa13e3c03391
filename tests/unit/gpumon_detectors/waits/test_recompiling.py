"""What pauses as a program that compiles does, and does something else in its pauses."""

from __future__ import annotations

import pytest

from gpumon_detectors.waits.recompiling import Recompiling
from tests.unit.gpumon_detectors.wait_scenes import Part, irregular, played, work


def classes(scene):
    return [finding.finding_class for finding in Recompiling().evaluate(scene.view())]


def test_what_copies_in_its_pauses_does_not_compile():
    def told(rx):
        pausing = [work(97.0, rx=4e9), Part(1.0, cores=1.1, rx=rx)]
        pauses = irregular(pausing, [31.0, 83.0, 47.0, 68.0, 36.0])
        return classes(played(10.0, "none", [(6000.0, pauses)])[0])

    assert told(0.0) == ["recompiling"]
    assert told(4e9) == []


@pytest.mark.parametrize("way", ["read", "written"])
def test_what_moves_a_little_more_in_its_pauses_than_its_neighbours_do_does_not_compile(way):
    """Files that are fetched one by one, on a node whose others read three times as much."""

    def told(between, within):
        pausing = [work(97.0, **{way: between}), Part(1.0, cores=1.1, **{way: within})]
        pauses = irregular(pausing, [31.0, 83.0, 47.0, 68.0, 36.0])
        return classes(played(10.0, "none", [(6000.0, pauses)])[0])

    assert told(3e8, 3e8) == ["recompiling"]
    assert told(3e8, 2.7e8) == ["recompiling"]
    assert told(3e8, 4e8) == []
