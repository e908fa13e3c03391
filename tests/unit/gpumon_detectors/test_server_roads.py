"""What is told by pages or a server is what a probe tells, or weaker, or named; nothing else.

Pages are read all the time. A server of each kind has gathered them, and is read by a gpumon that
has just come: the present by one look, what was before from the server's past.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.worlds.by_server import ROADS
from tests.worlds.gathered import watched
from tests.worlds.roads import SCENES, claims, detector_of, outcomes
from tools.road_table import ROAD_TABLE
from tools.roads import counted
from tools.sentences import block as sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

WRONG = {"absent", "stronger", "alone"}


def scenes() -> Iterator[Any]:
    """Every scene of every detector; all but the first of each take a minute in all."""
    for name, scene in SCENES:
        marks = () if scene is sentences.SCENES[name][0] else (pytest.mark.slow,)
        yield pytest.param(name, scene, id=f"{name}-{scene.__name__}", marks=marks)


@pytest.mark.parametrize(("name", "scene"), list(scenes()))
def test_what_a_road_does_not_tell_is_named(name, scene) -> None:
    one = watched(scene)
    detector = detector_of(name, scene)
    by_probe = claims(detector, one.scene.view())
    assert by_probe
    for road, see in ROADS.items():
        found = list(outcomes(by_probe, detector, see(one)))
        assert not [(road, *other) for other in found if other.how in WRONG]


@pytest.mark.slow
def test_the_table_is_what_the_scenes_tell() -> None:
    assert counted() == ROAD_TABLE, "run: python -m tools.roads"
