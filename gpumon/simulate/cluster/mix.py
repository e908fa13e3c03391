"""What a simulated fleet is made of: its machines, what people ask for, and how it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.simulate.cluster.layout import lay_out
from gpumon.simulate.cluster.opening import is_full, seated_requests, waiting_requests
from gpumon.simulate.cluster.people import draw_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random

    from gpumon.simulate.cluster.layout import SimNode
    from gpumon.simulate.cluster.people import Request


class Mix(NamedTuple):
    """One way to make fleets."""

    lay_out: Callable[[int, int, int], tuple[SimNode, ...]]
    """From seed, nodes and GPUs of each."""
    draw: Callable[[int, Random, dict[str, int], int], Request]
    """A job like the fleet's others, from seed, chance, usable nodes of each partition, GPUs of
    each."""
    seated: Callable[[int, int, float], Iterable[tuple[Request, float, float]]]
    """What runs already, with its age and what is left of it in seconds, from nodes, GPUs of
    each, and the seconds until the demonstration opens."""
    waiting: Callable[[int, int], Sequence[tuple[Request, float]]]
    """What waits, with the seconds for which it has."""
    is_full: Callable[[int], bool]
    """Whether what runs already fills so many nodes."""
    silence: Callable[[int, Sequence[SimNode], float], tuple[int, float] | None]
    """Number of a node that falls silent, and how long after the origin, from seed, nodes and the
    seconds until the demonstration opens; None: none does."""
    full: Callable[[int, Sequence[SimNode], float], tuple[int, float] | None]
    """The same for a node whose shared memory an ended program leaves full; None: on none."""


DEMO: Final = Mix(
    lay_out,
    lambda _seed, *asked: draw_request(*asked),
    seated_requests,
    waiting_requests,
    is_full=is_full,
    silence=lambda *_: None,
    full=lambda *_: None,
)
"""The demonstration: one of each kind that is easily explained, at a site of two products."""
