"""What becomes of each class of findings on the roads that tell less than a probe.

    python -m tools.roads        play all detectors' scenes by every road, write tools/roads.json

The table of the documentation is made of that file; a slow test plays the scenes again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.worlds.by_server import ROADS
from tests.worlds.gathered import watched
from tests.worlds.roads import SCENES, claims, detector_of, outcomes
from tools.road_table import FILE

if TYPE_CHECKING:
    from tools.road_table import Counts


def counted() -> Counts:
    """All scenes by every road."""
    found: Counts = {}
    for name, scene in SCENES:
        one = watched(scene)
        detector = detector_of(name, scene)
        by_probe = claims(detector, one.scene.view())
        for road, see in ROADS.items():
            for other in outcomes(by_probe, detector, see(one)):
                of_road = found.setdefault(other.finding_class, {}).setdefault(road, {})
                words = f"unseen: {other.why}" if other.how == "unseen" else other.how
                of_road[words] = of_road.get(words, 0) + 1
    return {
        finding_class: {road: dict(sorted(counts.items())) for road, counts in roads.items()}
        for finding_class, roads in sorted(found.items())
    }


def main() -> None:
    """Write the file anew."""
    FILE.write_text(json.dumps(counted(), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
