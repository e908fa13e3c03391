"""Patterns in GPU time that nobody explains: jobs that behave alike, and by what one sees it."""

from __future__ import annotations

from typing import NamedTuple


class Trait(NamedTuple):
    """One feature by which a pattern's jobs differ from others."""

    key: str
    value: float
    """Median of its jobs."""
    usual: float
    """Median of all others."""


class PatternCard(NamedTuple):
    """Jobs that behaved alike."""

    jobs: tuple[str, ...]
    """Their ids, the one with the most unexplained time first."""
    users: tuple[str, ...]
    """Whose they are, each once, likewise."""
    gpu_seconds: float
    """What nobody explains of their time."""
    since: float
    """Unix time at which the first of them was seen so."""
    exemplar: str
    """Id of the job in their middle."""
    traits: tuple[Trait, ...]
    """The most telling first."""
    names: tuple[str, ...] = ()
    """What an operator calls this pattern; most have none."""


class Patterns(NamedTuple):
    """What was found in the time since somebody looks."""

    at: float
    """Unix time of the newest picture in it."""
    since: float
    """Unix time from which on jobs were looked at."""
    cards: tuple[PatternCard, ...]
    """The ones with the most unexplained time first."""
    single: tuple[str, ...]
    """Ids of jobs with unexplained time that resemble no other."""
    unexplained_s: float
    """GPU-seconds that nobody explains, also of jobs that are on no card."""
    allocated_s: float
    """All GPU-seconds of the same time."""
    trouble: str = ""
    """Why jobs could not be grouped; empty: they were."""
