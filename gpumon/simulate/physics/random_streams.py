"""Random streams, one per purpose, so that nothing drawn in one place moves another."""

from __future__ import annotations

from random import Random


def stream(seed: int, *purpose: object) -> Random:
    """Generator for one purpose; the same on every machine and in every process."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return Random(text)  # noqa: S311 - a simulation wants reproducible numbers, not secret ones
