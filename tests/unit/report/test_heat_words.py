"""The line below a map says each thing once."""

from __future__ import annotations

import pytest

from gpumon.report.digest import Digest
from gpumon.report.heat import Heat, units
from gpumon.report.heat_groups import clusters
from gpumon.report.heat_layout import HeatLayout
from gpumon.report.heat_marks import FIELDS
from gpumon.report.heat_words import spot_words
from tests.ticks import IDLE, gpu, job_with_gpus, tick

VERDICT = next(field for field in FIELDS if field.key == "verdict")


def below(picture, density):
    """What stands there with the cursor on the first cell."""
    digest = Digest(picture)
    heat = Heat(digest, VERDICT)
    layout = HeatLayout(clusters(digest, units(digest), "partition"), 80, density)
    return spot_words(heat, layout, layout.spots(0)[0], is_mean=False)


def silent(**changes):
    view, gpus = job_with_gpus("1", {"n1": 2}, stale_s=42.0, user="ada", name="train")
    picture = tick((view,), gpus)
    return picture._replace(nodes={"n1": picture.nodes["n1"]._replace(**changes)})


def test_a_silent_node_is_called_stale_once():
    assert below(silent(), "cells") == "n1:0 · job 1 ada train · stale 42s"
    assert below(silent(), "nodes") == "n1 · 2 of 2 GPUs held · job 1 ada train · node stale 42s"


def test_a_node_that_is_not_watched_is_not_called_stale():
    words = below(silent(left_at=tick().at - 42.0), "nodes")
    assert "stale" not in words


@pytest.mark.parametrize("density", ["cells", "nodes"])
@pytest.mark.parametrize("state", ["idle+drain", "down*"])
def test_slurms_state_of_a_node_stands_there_once(state, density):
    picture = tick((), [gpu("n1", 0, IDLE)])
    node = picture.nodes["n1"]._replace(state=state)
    words = below(picture._replace(nodes={"n1": node}), density)
    assert words.endswith(f" · node {state}")
    assert words.count("node ") == 1
