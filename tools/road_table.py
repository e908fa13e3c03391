"""The table of what becomes of each class of findings, by road; `tools.roads` makes its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

Counts = dict[str, dict[str, dict[str, int]]]
"""By class and road how often each thing became of a claim, and of those unseen why."""

FILE: Final = Path(__file__).with_name("roads.json")
ROAD_TABLE: Final[Counts] = json.loads(FILE.read_text("utf-8"))
_ROADS: Final = ("exporter", "Prometheus", "VictoriaMetrics")
_HOW: Final = ("same", "weaker", "not seen")
ROAD_HEAD: Final = ("class", "probe", *_ROADS, "not seen for want of")


def road_rows() -> list[tuple[str, ...]]:
    """The rows of the table: how many of a probe's claims are the same, weaker, or not seen."""
    rows = []
    for finding_class, roads in ROAD_TABLE.items():
        total = max(sum(counts.values()) for counts in roads.values())
        cells = [_cell(roads[road]) for road in _ROADS]
        lacking = ", ".join(
            dict.fromkeys(word for road in _ROADS for word in _lacking(roads[road]))
        )
        rows.append((f"`{finding_class}`", f"{total}", *cells, lacking))
    return rows


def _cell(counts: dict[str, int]) -> str:
    found: dict[str, int] = {}
    for key, count in counts.items():
        how = key.partition(": ")[0].replace("unseen", "not seen")
        found[how] = found.get(how, 0) + count
    return ", ".join(f"{found[how]} {how}" for how in sorted(found, key=_HOW.index))


def _lacking(counts: dict[str, int]) -> list[str]:
    words = [word for key in counts for word in key.partition(": ")[2].split(", ") if word]
    return [f"`{word}`" if "_" in word else word for word in words]
