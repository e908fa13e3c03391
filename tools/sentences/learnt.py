"""Scenes of jobs that a model tells, or a pattern that somebody has named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.sentences.work import (
    exchanges_at_the_memory_s_limit,
    exchanges_beside_another_job,
    exchanges_for_longer,
    exchanges_in_a_server,
    exchanges_on_boards_of_two_kinds,
    small_for_hours,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.detect.scene import Scene


def exchanges_for_an_hour() -> Scene:
    """Four GPUs on one node exchange data for most of each step, for an hour."""
    return exchanges_for_longer()


def exchanges_as_one_that_was_right() -> Scene:
    """They do, like those of a job where a user judged this to be right."""
    return exchanges_for_longer()


def exchanges_as_one_that_was_wrong() -> Scene:
    """They do, like those of a job where a user judged this to be wrong."""
    return exchanges_for_longer()


def exchanges_and_serves() -> Scene:
    """They do, in a job whose program is a server."""
    return exchanges_in_a_server()


def a_named_pattern() -> Scene:
    """Two GPUs launch small kernels, as the jobs of a pattern did that ada has named."""
    return small_for_hours()


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "learned": (
        exchanges_for_an_hour,
        exchanges_as_one_that_was_right,
        exchanges_as_one_that_was_wrong,
        exchanges_and_serves,
    ),
    "named_patterns": (a_named_pattern,),
}

DECLINED: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "learned": (
        exchanges_beside_another_job,
        exchanges_on_boards_of_two_kinds,
        exchanges_at_the_memory_s_limit,
    ),
}
"""Scenes of which a detector says that it cannot judge them."""

_HERE: Final = Path(__file__).parent

PARAMETERS: Final[dict[Callable[[], Scene], dict[str, Any]]] = {
    a_named_pattern: {"file": str(_HERE / "patterns.json")},
    # Not those of whoever makes the pages.
    exchanges_for_an_hour: {"cases": str(_HERE / "none.json")},
    exchanges_and_serves: {"cases": str(_HERE / "none.json")},
    exchanges_as_one_that_was_right: {"cases": str(_HERE / "right.json")},
    exchanges_as_one_that_was_wrong: {"cases": str(_HERE / "wrong.json")},
}
