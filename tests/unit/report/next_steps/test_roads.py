"""Which way leads to a node, by the targets that read it."""

from __future__ import annotations

import pytest

from gpumon.model.records.cluster import SlurmNode
from gpumon.model.records.frame import QueueRecords
from gpumon.model.records.tick import TargetState
from gpumon.report.next_steps.roads import (
    has_several_clusters,
    road_to,
    slurm_here,
    ways_for,
)
from gpumon.sources.address import Hop
from gpumon.sources.probes.road import Road
from tests.worlds.tick import AT, gpu, tick

HOP = Hop("login", "bob", 2222)
FAR = "slurm+ssh://bob@login:2222"


def seen(*urls, origin="", listed=()):
    """A tick of a node `n7` that one of the targets has read."""
    nodes = tuple(SlurmNode(name, f"{name}-mgmt", "", "idle", 8) for name in listed)
    return tick(
        (),
        [gpu("n7", 0)._replace(origin=origin)],
        targets=tuple(TargetState(url, True, None, 0.1) for url in urls),
        queue=QueueRecords((), nodes, AT, AT) if listed else None,
    )


@pytest.mark.parametrize(
    ("given_tick", "road"),
    [
        (seen("slurm", listed=["n7"]), Road("n7-mgmt")),
        (seen(FAR, listed=["n7"]), Road("n7-mgmt", hop=HOP)),
        (seen(FAR, "slurm", origin=f"{FAR}#job=5_2", listed=["n7"]), Road("n7-mgmt", hop=HOP)),
        (seen(FAR, "slurm", listed=["n7"]), None),
        (seen("ssh://ada@n[6-7]:2200"), Road("n7", "ada", 2200)),
        (seen("ssh://ada@10.0.0.7:2200"), Road("10.0.0.7", "ada", 2200)),
        (seen("ssh://10.0.0.9", "slurm", listed=["n7"]), Road("n7-mgmt")),
        (seen("ssh://ada@n7.site.org", "local", origin="ssh://ada@n7.site.org"),
         Road("n7.site.org", "ada")),
        (seen("local", "slurm", origin="local", listed=["n7"]), Road("n7", is_here=True)),
        (seen("demo"), Road("n7")),
        (seen("ssh://a", "ssh://b"), None),
    ],
)  # fmt: skip
def test_a_node_is_reached_as_it_is_read(given_tick, road):
    assert road_to(given_tick, "n7") == road


def test_slurms_commands_are_where_its_queue_is_read():
    assert ways_for(seen(FAR), None).slurm == Road("login", "bob", 2222)
    assert ways_for(seen("slurm"), None).slurm is None
    assert ways_for(seen("slurm+http://localhost:6820"), None).slurm is None


def test_changes_need_one_cluster_whose_commands_can_be_run():
    target, why = slurm_here(seen(FAR, "local"))
    assert target
    assert (target.hop, why) == (HOP, "")
    for urls in (("local",), ("slurm", FAR), ("slurm+unix:///run/rest.sock",)):
        assert slurm_here(seen(*urls))[0] is None
        assert slurm_here(seen(*urls))[1]
    assert slurm_here(None)[0] is None


def test_two_slurms_are_several_clusters_and_other_targets_are_none():
    assert has_several_clusters(seen("slurm", "slurm?cluster=north"))
    assert not has_several_clusters(seen("slurm", "ssh://n7"))
    assert ways_for(seen("slurm?cluster=north", "ssh://n7"), None).cluster == "north"
    assert ways_for(seen("slurm?cluster=north", "slurm"), None).cluster == ""
