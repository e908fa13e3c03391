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
ROAD_HEAD: Final = ("class", "probe", *_ROADS)
_WORDS: Final = {"same": "same", "weaker": "weaker", "unseen": "not seen"}


def road_rows() -> list[tuple[str, ...]]:
    """The rows of the table: how many of a probe's claims are the same, weaker, or not seen."""
    rows = []
    for finding_class, roads in ROAD_TABLE.items():
        total = max(sum(counts.values()) for counts in roads.values())
        rows.append((f"`{finding_class}`", f"{total}", *(_cell(roads[road]) for road in _ROADS)))
    return rows


def _cell(counts: dict[str, int]) -> str:
    parts = []
    for how, words in _WORDS.items():
        some = {key: count for key, count in counts.items() if key.partition(": ")[0] == how}
        if some:
            lacking = dict.fromkeys(
                f"`{name}`" if "_" in name else name
                for key in some
                for name in key.partition(": ")[2].split(", ")
                if name
            )
            why = f" (without {', '.join(lacking)})" if lacking else ""
            parts.append(f"{sum(some.values())} {words}{why}")
    return ", ".join(parts)
