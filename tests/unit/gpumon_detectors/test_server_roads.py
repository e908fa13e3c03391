"""What is told through a server is what a probe tells, or weaker, or named: never anything else.

Every scene is gathered as pages by a server of each kind and read as gpumon reads it that has just
come: the present by one look, what was before from the server's past.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.worlds.by_server import view_by_server
from tests.worlds.gathered import watched
from tests.worlds.roads import SCENES, claims, detector_of, outcomes
from tools.sentences import block as sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = {"Prometheus": False, "VictoriaMetrics": True}
WRONG = {"absent", "stronger", "alone"}


def scenes() -> Iterator[Any]:
    """Every scene of every detector; all but the first of each take half a minute in all."""
    for name, scene in SCENES:
        marks = () if scene is sentences.SCENES[name][0] else (pytest.mark.slow,)
        yield pytest.param(name, scene, id=f"{name}-{scene.__name__}", marks=marks)


@pytest.mark.parametrize(("name", "scene"), list(scenes()))
def test_what_a_server_does_not_tell_is_named(name, scene) -> None:
    one = watched(scene)
    detector = detector_of(name, scene)
    by_probe = claims(detector, one.scene.view())
    assert by_probe
    for kind, is_victoria in KINDS.items():
        found = list(outcomes(by_probe, detector, view_by_server(one, is_victoria=is_victoria)))
        assert not [(kind, *other) for other in found if other.how in WRONG]


def test_most_of_what_gpus_tell_is_told_by_a_server_as_well() -> None:
    found: Counter[str] = Counter()
    for name, scene in (
        (name, scene) for name, scene in SCENES if scene is sentences.SCENES[name][0]
    ):
        one = watched(scene)
        detector = detector_of(name, scene)
        by_probe = claims(detector, one.scene.view())
        found.update(
            other.how
            for other in outcomes(by_probe, detector, view_by_server(one, is_victoria=False))
        )
    assert found["same"] + found["weaker"] >= 10, found
