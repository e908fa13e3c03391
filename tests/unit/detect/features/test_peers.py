"""Features of how a job's GPUs differ."""

from __future__ import annotations

import numpy as np
import pytest

from gpumon.detect.features.table import features_of
from gpumon.detect.scene import WORKING, Scene, Values
from gpumon.model.records.cluster import Rank


def _feature(values: list[Values], *keys: str, nodes: int = 1) -> list[float]:
    """Features of a job whose GPUs do this, in order, after 30 minutes."""
    scene = Scene()
    each = len(values) // nodes
    uuids = [uuid for node in range(nodes) for uuid in scene.node(f"n{node}", each)]
    scene.job("7", uuids)
    scene.run(1800, {u: {**WORKING, **v} for u, v in zip(uuids, values, strict=True)})
    table = features_of(scene.view())
    return [float(table.column(key)[0]) for key in keys]


def test_one_behind_and_one_ahead() -> None:
    """Distance from the median, to either side."""
    sm: list[Values] = [{"sm_active_ratio": x} for x in (0.5, 0.5, 0.5, 0.2)]
    lag, lead = _feature(sm, "sm_lag", "sm_lead")
    assert lag == pytest.approx(0.3)
    assert lead == pytest.approx(0.0, abs=1e-6)


def test_a_gpu_alone_has_no_peers() -> None:
    """Missing, not 0."""
    assert np.isnan(_feature([{}], "sm_lag", "sm_leader_share", "util_together")).all()


def test_always_the_same_leads_or_each_in_turn() -> None:
    """A slow rank is busiest all the time; uneven data makes another one busiest each time."""
    always: list[Values] = [{"sm_active_ratio": x} for x in (0.4, 0.4, 0.7, 0.4)]
    turns: list[Values] = [
        {"sm_active_ratio": lambda s, place=place: 0.7 if s // 60 % 4 == place else 0.4}
        for place in range(4)
    ]
    assert _feature(always, "sm_leader_share") == [pytest.approx(1.0)]
    assert _feature(turns, "sm_leader_share")[0] == pytest.approx(0.25, abs=0.1)


def test_gpus_that_are_alike_have_no_leader() -> None:
    """The first of equals does not lead."""
    assert _feature([{} for _ in range(4)], "sm_leader_share") == [0.0]


def test_quarters_of_a_pipeline_differ() -> None:
    """What differs by stage lies between quarters; one odd GPU of eight does not."""
    staged: list[Values] = [{"sm_active_ratio": x} for x in (0.3,) * 6 + (0.6,) * 2]
    odd: list[Values] = [{"sm_active_ratio": x} for x in (0.3, 0.3, 0.3, 0.6, 0.3, 0.3, 0.3, 0.3)]
    assert _feature(staged, "sm_stages") == [pytest.approx(1.0)]
    assert _feature(odd, "sm_stages")[0] < 0.5


def test_ranks_give_the_order() -> None:
    """Slurm's order of GPUs says nothing of stages where ranks tell."""
    scene = Scene()
    uuids = scene.node("n1", 8)
    # Odd GPUs hold the upper ranks, which are the heavier stage.
    order = [*range(0, 8, 2), *range(1, 8, 2)]
    ranks = [Rank("0", "w", rank, rank, 8, "n1", 100 + rank, (uuids[place],), None)
             for rank, place in enumerate(order)]  # fmt: skip
    scene.job("7", uuids, ranks=ranks)
    scene.run(1800, {uuid: {**WORKING, "sm_active_ratio": 0.3 + 0.3 * (place % 2)}
                     for place, uuid in enumerate(uuids)})  # fmt: skip
    assert features_of(scene.view()).column("sm_stages")[0] == pytest.approx(1.0)


def test_a_slow_node_shows_between_nodes() -> None:
    """All GPUs of one node differ from those of the other; else hardly."""
    nodes: list[Values] = [{"sm_active_ratio": x} for x in (0.3,) * 4 + (0.6,) * 4]
    mixed: list[Values] = [{"sm_active_ratio": x} for x in (0.3, 0.6) * 4]
    (between,) = _feature(nodes, "sm_nodes", nodes=2)
    (chance,) = _feature(mixed, "sm_nodes", nodes=2)
    assert between > 0.8
    assert chance < 0.0


def test_a_gpu_at_rest_beside_working_ones() -> None:
    """Its share; none where all rest."""
    rest: Values = {"gpu_util_ratio": 0.0}
    assert _feature([{}, {}, {}, rest], "rest_gpus") == [pytest.approx(0.25)]
    assert _feature([rest, rest], "rest_gpus") == [0.0]


def test_a_missing_peer_is_not_the_least() -> None:
    """Of a GPU that tells nothing nothing is said; of too many, of nobody."""
    blind: Values = {"sm_active_ratio": None}
    (lag,) = _feature([{}, {}, {}, blind], "sm_lag")
    assert lag == pytest.approx(0.0, abs=1e-6)
    assert np.isnan(_feature([{}, blind, blind, blind], "sm_lag")).all()
