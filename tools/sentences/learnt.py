"""Scenes of jobs that a model tells, or a pattern that somebody has named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.sentences.work import exchanges_for_longer, exchanges_in_a_server, small_for_hours

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.detect.scene import Scene


def a_named_pattern() -> Scene:
    """Two GPUs launch small kernels, as the jobs of a pattern did that ada has named."""
    return small_for_hours()


SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "learned": (exchanges_for_longer, exchanges_in_a_server),
    "named_patterns": (a_named_pattern,),
}

PARAMETERS: Final[dict[Callable[[], Scene], dict[str, Any]]] = {
    a_named_pattern: {"file": str(Path(__file__).with_name("patterns.json"))},
}
