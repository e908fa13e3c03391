"""One function that reads what comes from outside, and how it is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


class Target(NamedTuple):
    """One parser."""

    name: str
    make: Callable[[Random], Any]
    """An input, of a generator of random numbers alone."""
    run: Callable[[Any], None]
    """Reads the input and checks what comes of it."""
    modules: tuple[str, ...]
    """Files below `gpumon` whose branches are counted."""
    raises: tuple[type[BaseException], ...] = ()
    """Errors that are documented."""
    aside: tuple[str, ...] = ()
    """Functions in these files that read nothing from outside: their branches do not count."""
