"""This machine's probe, started before gpumon has imported what reads it.

Python and the driver's binding take about as long to come up in the child as gpumon's own imports
take here. Side by side, a single answer is there a sixth sooner.
"""

from __future__ import annotations

from contextlib import suppress
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING

from gpumon.sources.program import early_start

if TYPE_CHECKING:
    from collections.abc import Mapping

_begun: list[Popen[bytes]] = []


def begin() -> None:
    """Start the child. One that cannot be started is told of by who would need it."""
    with suppress(OSError):
        _begun.append(spawn(early_start()))


def spawn(argv: tuple[str, ...], environ: Mapping[str, str] | None = None) -> Popen[bytes]:
    """A child with three pipes, in a session of its own.

    Raises:
        OSError: The program cannot be started.
    """
    return Popen(
        argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, bufsize=0, env=environ, start_new_session=True
    )


def take() -> Popen[bytes] | None:
    """The child, which is the caller's from now on; None: there is none."""
    return _begun.pop() if _begun else None


def end() -> None:
    """End the child that nobody took: its input ends, and it has nothing to do yet."""
    while (child := take()) is not None:
        child.kill()
        child.communicate()
