"""Scenes of jobs that a model tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tools.sentences.work import exchanges_for_longer, exchanges_in_a_server

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.detect.scene import Scene

SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    "learned": (exchanges_for_longer, exchanges_in_a_server),
}
