"""What tests leave open to the garbage collector, before it is too much."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Final

FEW: Final = 256
"""Descriptors that may be open behind a test: `select` takes numbers below 1,024 only, and a test
with many histories leaves some hundred (our choice)."""


def let_go() -> None:
    """Free what is garbage where many descriptors are open.

    A view and its jobs refer to each other, and each piece of history behind them holds two
    descriptors until the collector comes. It counts objects, of which a process that has run
    thousands of tests has so many that some hundred views are nothing to it.
    """
    if count_open() > FEW:
        gc.collect()


def count_open() -> int:
    """How many descriptors this process has."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
