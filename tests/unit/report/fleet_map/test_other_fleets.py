"""The map where only a part of the jobs is watched: no GPU is called free for want of sight."""

from __future__ import annotations

import pytest

from gpumon.model.records.frame import QueueRecords
from gpumon.report.facts.tick_index import Digest
from gpumon.report.fleet_map.groups import clusters
from gpumon.report.fleet_map.layout import MapLayout
from gpumon.report.fleet_map.legend import spot_words
from gpumon.report.fleet_map.map import MapMarks, units
from gpumon.report.fleet_map.marks import FIELDS
from gpumon.report.headline.fleet_gpus import fleet_gpus
from tests.worlds.queue import slurm_node
from tests.worlds.tick import AT, BUSY, IDLE, gpu, job_with_gpus, tick

FIELD = {field.key: field for field in FIELDS}


def signs(fleet_tick, field="verdict"):
    digest = Digest(fleet_tick)
    map_marks = MapMarks(digest, FIELD[field])
    return "".join(mark.sign for mark in map_marks.marks(units(digest)[0]))


def others_node(used):
    """One GPU of the job in view, one that works, one idle; Slurm has given `used` of them away."""
    mine, a = job_with_gpus("1", {"n1": 1})
    gpus = [*a, gpu("n1", 1, BUSY), gpu("n1", 2, IDLE)]
    listed = (slurm_node("n1", gpus=3, gpus_used=used),)
    return tick((mine,), gpus, queue=QueueRecords((), listed, AT, AT, is_filtered=True))


def test_what_others_may_hold_is_not_called_free():
    assert signs(others_node(used=2)) == "██?"
    assert signs(others_node(used=2), "user")[1:] == "??"
    assert signs(others_node(used=1)) == "█--"
    digest = Digest(others_node(used=2))
    map_marks = MapMarks(digest, FIELD["sm"])
    layout = MapLayout(clusters(digest, units(digest), "partition"), 80, "cells")
    words = spot_words(map_marks, layout, layout.spots(0)[2], is_mean=False)
    assert words.startswith("n1:2 · another's or free")


@pytest.mark.parametrize(("used", "held"), [(2, 2), (3, 3), (None, 1), (1, 1)])
def test_slurm_counts_what_the_jobs_of_others_hold(used, held):
    assert fleet_gpus(Digest(others_node(used))).held == held
