"""Work in steps, done at once: a generator that yields between its steps and returns a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")


def result_of(steps: Generator[object, None, T]) -> T:
    """What a generator returns after its last step; what it yields is dropped."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
