"""The signs of the map: what one GPU shows of one field, the same with and without colours."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.report.facts.reference_values import LOW_RATIO

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.records.cluster import JobView


class Ink(StrEnum):
    """What a sign is drawn in; a theme gives it a colour."""

    TEXT = "text"
    DIM = "dim"
    STRONG = "strong"
    INFO = "info"
    WARN = "warn"
    BAD = "bad"
    MAP_0 = "heat-0"
    MAP_1 = "heat-1"
    MAP_2 = "heat-2"
    MAP_3 = "heat-3"
    OWNER_0 = "owner-0"
    OWNER_1 = "owner-1"
    OWNER_2 = "owner-2"
    OWNER_3 = "owner-3"
    OWNER_4 = "owner-4"
    OWNER_5 = "owner-5"


OWNERS: Final = (Ink.OWNER_0, Ink.OWNER_1, Ink.OWNER_2, Ink.OWNER_3, Ink.OWNER_4, Ink.OWNER_5)


class Mark(NamedTuple):
    """How one GPU or one node is drawn."""

    sign: str
    """One character; without colours it is all there is."""
    ink: Ink
    rank: float
    """Of several marks that share a cell the one with the highest rank is the worst."""
    words: str
    """For the legend."""
    is_filled: bool = False
    """Drawn as an area where there are colours, so that two fit into one character."""


CRITICAL: Final = Mark("‼", Ink.BAD, 90, "critical finding")
LOST: Final = Mark("L", Ink.BAD, 80, "lost: fell off the bus")
DOWN: Final = Mark("D", Ink.BAD, 70, "node down")
WARNING: Final = Mark("!", Ink.WARN, 60, "finding")
STALE: Final = Mark("s", Ink.WARN, 50, "stale")
IDLE: Final = Mark("□", Ink.WARN, 40, "held, hardly used")
DRAINED: Final = Mark("d", Ink.DIM, 30, "node drained")
MISSING: Final = Mark("·", Ink.DIM, 25, "not known")
INFO: Final = Mark("i", Ink.INFO, 20, "notice")
WORKING: Final = Mark("█", Ink.MAP_0, 10, "used, 10+ %", is_filled=True)
OTHERS: Final = Mark("?", Ink.DIM, 0, "another's or free")
FREE: Final = Mark("-", Ink.DIM, 0, "free")

STATES: Final = (CRITICAL, WARNING, INFO, IDLE, FREE, OTHERS, DRAINED, DOWN, STALE, LOST, MISSING)
"""Marks of a state and not of a value, in the order of the legend."""

_SHADES: Final = "░▒▓█"
_STEP_INKS: Final = (Ink.MAP_0, Ink.MAP_1, Ink.MAP_2, Ink.MAP_3)


class MapField(NamedTuple):
    """One thing by which the map can be drawn."""

    key: str
    title: str
    keys: tuple[str, ...] = ()
    """Catalogue keys: the value, and what it is a share of; empty: the field is not a number."""
    unit: str = "%"
    edges: tuple[float, float, float] = (0.10, 0.40, 0.70)
    """Values at which the second, third and fourth step of the fixed scale begin."""
    is_low_idle: bool = False
    """Whether the lowest step means that a GPU which a job holds is hardly used."""
    is_high_worse: bool = False
    name_of: Callable[[JobView], str] | None = None
    """Whose a GPU is, for the fields that show owners."""
    doc: str = ""

    @property
    def levels(self) -> tuple[Mark, ...]:
        """The four steps of the scale, the lowest first."""
        return _LEVELS[self.key]

    def level(self, value: float) -> Mark:
        """The step that a value is on."""
        return self.levels[sum(value >= edge for edge in self.edges)]


def _marks(field: MapField) -> tuple[Mark, ...]:
    scale = 1.0 if field.unit == "°C" else 100.0
    edges = [f"{edge * scale:.0f}" for edge in field.edges]
    words = (f"<{edges[0]}", f"{edges[0]}+", f"{edges[1]}+", f"{edges[2]}+")
    ranks = (1, 2, 3, 4) if field.is_high_worse else (4, 3, 2, 1)
    marks = [
        Mark(sign, ink, rank, word, is_filled=True)
        for sign, ink, rank, word in zip(_SHADES, _STEP_INKS, ranks, words, strict=True)
    ]
    if field.is_low_idle:
        marks[0] = IDLE._replace(words=f"held, {words[0]} {field.unit}")
    return tuple(marks)


FIELDS: Final = (
    MapField("verdict", "verdict", doc="The gravest finding, else whether the GPU is used."),
    MapField(
        "sm",
        "SM active",
        ("sm_active_ratio",),
        edges=(LOW_RATIO, 0.50, 0.80),
        is_low_idle=True,
        doc="Share of SM-cycles with work. NVIDIA's DCGM guide: below 50 % the GPU is likely used "
        "ineffectively, 80 % is necessary for effective use.",
    ),
    MapField(
        "duty",
        "duty cycle",
        ("gpu_util_ratio",),
        is_low_idle=True,
        doc="Share of time in which any kernel ran: 100 says nothing about how much of the GPU.",
    ),
    MapField(
        "tensor",
        "tensor active",
        ("tensor_active_ratio",),
        edges=(0.10, 0.25, 0.50),
        doc="Share of cycles in which a tensor pipe worked.",
    ),
    MapField(
        "memory",
        "memory",
        ("mem_used_bytes", "mem_total_bytes"),
        edges=(0.10, 0.50, 0.90),
        is_high_worse=True,
        doc="Device memory in use, of all there is.",
    ),
    MapField(
        "power",
        "power",
        ("power_w", "power_limit_w"),
        edges=(0.25, 0.50, 0.75),
        doc="Board power, of its limit.",
    ),
    MapField(
        "temp",
        "temperature",
        ("temp_c",),
        "°C",
        edges=(45.0, 65.0, 80.0),
        is_high_worse=True,
        doc="Temperature of the GPU.",
    ),
    MapField("user", "user", name_of=lambda view: view.job.user, doc="Who holds the GPU."),
    MapField("job", "job", name_of=lambda view: view.job.label, doc="Which job holds the GPU."),
)

_LEVELS: Final = {field.key: _marks(field) for field in FIELDS}


def worst(marks: tuple[Mark, ...]) -> Mark:
    """The gravest of them; free GPUs count only where all are free."""
    if marks and marks.count(marks[0]) == len(marks):
        return marks[0]
    return max(marks, key=lambda mark: mark.rank, default=MISSING)


def commonest(marks: tuple[Mark, ...]) -> Mark:
    """The mark that most of them have, the worse of two that are as common."""
    held = [mark for mark in marks if mark not in (FREE, OTHERS)] or list(marks)
    counts: dict[Mark, int] = {}
    for mark in held:
        counts[mark] = counts.get(mark, 0) + 1
    return max(counts, key=lambda mark: (counts[mark], mark.rank), default=MISSING)
