"""Processes of gpumon's own beside this one: how each is started."""

from __future__ import annotations

import os
import sys
from typing import Final

_ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Numeric libraries start a thread per core unless these say otherwise."""


def own_words(*words: str) -> list[str]:
    """Command line of this Python with these words.

    -P keeps the working directory, which may hold anything, off the module path.
    """
    return [sys.executable, "-P", *words]


def own_environment() -> dict[str, str]:
    """This process's environment, with one thread for each numeric library unless it says more."""
    return {**dict.fromkeys(_ONE_THREAD, "1"), **os.environ}
