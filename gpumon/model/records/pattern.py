"""Patterns in GPU time that no finding explains: jobs that behave alike, and what shows it."""

from __future__ import annotations

from typing import Final, NamedTuple

LEAST_USUAL: Final = 100
"""So many usual jobs must be known before another is called unlike them: of 50, less than half as
much was found (docs/numbers.md)."""


class Trait(NamedTuple):
    """One feature by which a pattern's jobs differ from others."""

    key: str
    value: float
    """Median of its jobs."""
    usual: float
    """Median of all others."""


class PatternCard(NamedTuple):
    """Jobs that behaved alike, or one that is like nothing usual."""

    jobs: tuple[str, ...]
    """Their ids, the one with the most unexplained time first."""
    users: tuple[str, ...]
    """Whose they are, each once, likewise."""
    gpu_seconds: float
    """The unexplained part of their time."""
    since: float
    """Unix time at which the first of them was seen so."""
    exemplar: str
    """Id of the job in their middle."""
    traits: tuple[Trait, ...]
    """The clearest first."""
    names: tuple[str, ...] = ()
    """What an operator calls this pattern; most have none."""
    times: float | None = None
    """How far its jobs lie from what is usual, in distances that are usual; None: too few jobs are
    known to decide."""


class Patterns(NamedTuple):
    """What was found since the watch began."""

    at: float
    """Unix time of the newest tick in it."""
    since: float
    """Unix time from which on jobs were watched."""
    cards: tuple[PatternCard, ...]
    """The ones with the most unexplained time first."""
    single: tuple[str, ...]
    """Ids of jobs with unexplained time that resemble no other."""
    unexplained_s: float
    """GPU-seconds that no finding explains, also of jobs that are on no card."""
    allocated_s: float
    """All GPU-seconds of the same time."""
    trouble: str = ""
    """Why jobs could not be grouped; empty: they were."""
    odd: tuple[PatternCard, ...] = ()
    """Jobs on none of these cards that are like nothing usual, a card each, the farthest first. Of
    some all time counts as useful."""

    @property
    def numbered(self) -> tuple[PatternCard, ...]:
        """All cards, in the order of their numbers from 1 on."""
        return (*self.cards, *self.odd)
