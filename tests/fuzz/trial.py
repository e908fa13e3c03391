"""Tries inputs of one target, each within bounds of time and memory."""

from __future__ import annotations

import gc
import resource
import signal
import traceback
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.fuzz.branches import GPUMON, Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fuzz.target import Target

CPU_S: Final = 2.0
"""CPU time that one input of at most 128 KiB may take: a thousand times what most do."""

MOST_MIB: Final = 192
"""What one input may make the process grow by."""

LEAK_BYTES: Final = 2048
"""What an input may leave behind on average."""
SETTLED_BYTES: Final = 128 * 2**20
"""What all inputs may leave behind anyhow: caches fill up, and freed memory lies in pieces."""

_PAGE: Final = resource.getpagesize()


class SlowError(BaseException):
    """An input took too long; no parser may catch this."""


class Failure(NamedTuple):
    """One input on which a parser failed."""

    target: str
    seed: int
    number: int
    error: str
    """Kind, words and place of the error."""
    given: str
    """The input, or what of it is enough, shortened."""


class Tried(NamedTuple):
    """What came of some inputs."""

    target: str
    inputs: int
    grown_bytes: int
    failures: tuple[Failure, ...] = ()


def made(target: Target, seed: int, index: int) -> Any:
    """An input, the same for the same three."""
    return target.make(Random(f"{seed}/{target.name}/{index}"))


def tried(
    target: Target, seed: int, first: int, count: int, note: Callable[[int], object] = int
) -> Tried:
    """Inputs one after the other; at most a few failures of each kind are stored.

    Args:
        target: The parser.
        seed: Of the random numbers.
        first: Number of the first input.
        count: How many.
        note: Gets which input is next: it may end the process.
    """
    gc.collect()
    before = _resident_bytes()
    failures: dict[str, Failure] = {}
    for index in range(first, first + count):
        note(index)
        given = made(target, seed, index)
        error = fault(target, given)
        if error is not None and error not in failures:
            failures[error] = Failure(target.name, seed, index, error, _least(target, given, error))
    gc.collect()
    return Tried(target.name, count, _resident_bytes() - before, tuple(failures.values()))


def fault(target: Target, given: Any) -> str | None:
    """What is wrong with how the parser takes an input; None: nothing."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with _limited():
            target.run(given)
    except target.raises:
        return None
    except SlowError as error:
        return f"more than {CPU_S:g} s of CPU time {_place(error)}"
    except Exception as error:  # noqa: BLE001 - any error is the finding
        return f"{type(error).__name__}: {error!s:.160} {_place(error)}"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) >> 10
    return f"memory grew by more than {MOST_MIB} MiB" if grown > MOST_MIB else None


@contextmanager
def _limited() -> Iterator[None]:
    signal.signal(signal.SIGPROF, _slow)
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def _slow(_number: int, _frame: object) -> None:
    raise SlowError


def _place(error: BaseException) -> str:
    """Where in gpumon it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [one for one in frames if one.filename.startswith(str(GPUMON))]
    at = (inside or frames)[-1]
    return f"({Path(at.filename).name}:{at.lineno} {at.name})"


def _kind(error: str | None) -> str:
    """The error without what it has of its input."""
    return "" if error is None else error.partition(":")[0] + error.rpartition("(")[2]


def _least(target: Target, given: Any, error: str) -> str:
    """A shorter input with the same error, where cutting pieces out gives one."""
    if not isinstance(given, str | bytes):
        return f"{given!r:.600}"
    size = len(given) // 2
    tries = 0 if error.startswith("more than") else 300
    while size and tries:
        at = 0
        while at < len(given) and tries:
            tries -= 1
            less = given[:at] + given[at + size :]  # type: ignore[operator]
            if _kind(fault(target, less)) == _kind(error):
                given = less
            else:
                at += size
        size //= 2
    return f"{given!r:.600}"


def branches(target: Target, seed: int, count: int) -> Taken:
    """The branches that so many inputs take."""
    taken = Taken(target)
    for index in range(count):
        if taken.taken == taken.ways:
            break
        given = made(target, seed, index)
        try:
            taken.watch(lambda given=given: target.run(given))  # type: ignore[misc]
        except Exception:  # noqa: BLE001 - `tried` reports it
            continue
    return taken


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
