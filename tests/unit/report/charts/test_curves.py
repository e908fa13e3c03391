"""Curves do not move between two steps, and show nothing that came after their tick."""

from __future__ import annotations

import pytest

from gpumon.report.charts.curves import STEPS, edges_of, gpu_panels
from gpumon.report.facts.tick_index import Digest
from tests.worlds.tick import AT, job_with_gpus, tick


@pytest.mark.parametrize("span_s", [300.0, 900.0, 7200.0, 86400.0])
def test_the_edges_move_by_steps_and_hold_the_instant(span_s):
    step_s = span_s / STEPS
    first = edges_of(AT + 0.1 * step_s, span_s)
    assert first[1] - first[0] == span_s
    moved = [edges_of(AT + (0.1 + n / 10) * step_s, span_s) for n in range(20)]
    assert len(set(moved)) <= 3
    for n, (start, end) in enumerate(moved):
        at = AT + (0.1 + n / 10) * step_s
        assert start < at <= end < at + step_s


class Asked:
    """A past that notes how far it is asked."""

    def __init__(self):
        self.ends = set()

    def window(self, _name, _key, _start, end, *_block):
        self.ends.add(end)
        return (), ()


def test_what_came_after_the_tick_is_not_asked():
    view, gpus = job_with_gpus("5", {"n5": 1})
    past = Asked()
    digest = Digest(tick((view,), gpus)._replace(history=past, at=AT + 3.7))
    panels = gpu_panels(digest, gpus[0], 900.0)
    assert past.ends == {AT + 3.7}
    assert {panel.chart.end for panel in panels} == {edges_of(AT + 3.7, 900.0)[1]}
