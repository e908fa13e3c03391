"""What samples of a moment show by chance of work and rest that alternate faster than they come."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_ORDER: Final = -1.65
"""Order down to which samples may be those of quick waits: one of twenty such jobs shows less (the
normal distribution's 5 %)."""

SURE_ORDER: Final = -2.33
"""Order from which work or rest comes in stretches for sure: one of a hundred jobs without any
shows as much (the normal distribution's 1 %)."""

LEAST_OF_EACH: Final = 5
"""Samples of work and of rest, at least, before their order tells anything (our choice)."""


def order_of(is_work: NDArray[np.bool_]) -> float:
    """How far the order of work and rest is from chance, in standard deviations.

    Work and rest that alternate faster than samples come fall to these at random. So many changes
    are then expected as the runs test of Wald and Wolfowitz says (Annals of Mathematical
    Statistics 11, 1940); stretches that last for several samples make fewer of them.

    Args:
        is_work: Whether each sample shows work, by time.

    Returns:
        Below 0: fewer changes than by chance; NaN where there are too few samples of either.
    """
    count, work = len(is_work), int(is_work.sum())
    rest = count - work
    if min(work, rest) < LEAST_OF_EACH:
        return float("nan")
    runs = 1 + int((is_work[1:] != is_work[:-1]).sum())
    expected = 2.0 * work * rest / count + 1.0
    spread = sqrt((expected - 1.0) * (expected - 2.0) / (count - 1))
    return (runs - expected) / spread
