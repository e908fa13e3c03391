"""What children of tests inherit: the same whoever started the tests."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

LEFT_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""By `nohup`, and by a shell without job control for what it starts in the background."""


@contextlib.contextmanager
def children_take_signals() -> Iterator[None]:
    """Lets children take the signals that were ignored when this process began.

    This process itself goes on as if it still ignored them: only what is ignored is inherited,
    not what has a handler.
    """

    def go_on(_number: int, _frame: FrameType | None) -> None:
        """Does nothing, as if the signal were ignored."""

    ignored = [one for one in LEFT_IGNORED if signal.getsignal(one) is signal.SIG_IGN]
    for one in ignored:
        signal.signal(one, go_on)
    try:
        yield
    finally:
        for one in ignored:
            signal.signal(one, signal.SIG_IGN)
