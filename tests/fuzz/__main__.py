"""`python -m tests.fuzz`: real samples, changed as their format is built, against every parser.

An input follows from the target's name, the seed and its number alone: what failed is made again by
`python -m tests.fuzz --replay TARGET SEED INDEX`. Exit status 1: something failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Final

from tests.fuzz import crew, trial
from tests.fuzz.targets.every import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.fuzz.branches import Taken
    from tests.fuzz.trial import Failure

SHARE: Final = 0.85
"""Share of a parser's branches that its inputs are to reach."""

_PIECE: Final = 1000
"""Inputs of one target at a time."""
_SHORT_PIECE: Final = 50
"""The same where seconds are given: every target is to have its turn."""


def main() -> int:
    """Try what was asked for; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="targets, or how their names begin"
    )
    parser.add_argument("--inputs", type=int, help="inputs of each target (1000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seconds", type=float, help="begin no more after so much time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--branches",
        type=int,
        default=0,
        metavar="N",
        help="count the branches that the first N inputs of each target take",
    )
    parser.add_argument(
        "--missed", action="store_true", help="name the functions with branches left"
    )
    parser.add_argument("--list", action="store_true", help="name the targets")
    parser.add_argument("--replay", nargs=3, metavar=("TARGET", "SEED", "INDEX"))
    options = parser.parse_args()
    if options.list:
        print("\n".join(TARGETS))
        return 0
    if options.replay:
        return _replayed(options.replay[0], int(options.replay[1]), int(options.replay[2]))
    names = [name for name in TARGETS if not options.names or name.startswith(tuple(options.names))]
    if not names:
        parser.error("no such target; --list names them")
    return _run(names, options)


def _run(names: Sequence[str], options: argparse.Namespace) -> int:
    began = time.monotonic()
    until = None if options.seconds is None else began + options.seconds
    inputs, grown = Counter[str](), Counter[str]()
    failures: dict[str, Failure] = {}
    inputs_each = options.inputs or (None if options.seconds else _PIECE)
    tasks = _tasks(names, options.seed, options.first, inputs_each)
    for found in crew.tried(tasks, options.jobs, until):
        inputs[found.target] += found.inputs
        grown[found.target] += found.grown_bytes
        for one in found.failures:
            kind = f"{one.target} {one.error.partition(':')[0]} {one.error.rpartition('(')[2]}"
            if kind not in failures:
                failures[kind] = one
                _print_failure(one)
    leaks = [
        name
        for name in names
        if grown[name] > max(trial.SETTLED_BYTES, trial.LEAK_BYTES * inputs[name])
    ]
    shares = {
        n: trial.branches(TARGETS[n], options.seed, options.branches)
        for n in names
        if options.branches
    }
    _table(names, inputs, grown, shares, failures, options.missed)
    for name in leaks:
        print(f"LEAK {name}: {grown[name] / inputs[name]:.0f} bytes an input")
    low = [name for name, one in shares.items() if one.ways and one.taken < SHARE * one.ways]
    for name in low:
        print(f"LOW {name}: below {SHARE:.0%} of its branches")
    print(
        f"{sum(inputs.values())} inputs of {len(names)} targets, seed {options.seed}, "
        f"{len(failures)} kinds of failures, {time.monotonic() - began:.0f} s"
    )
    return 1 if failures or leaks or low else 0


def _tasks(names: Sequence[str], seed: int, begin: int, inputs: int | None) -> Iterator[crew.Task]:
    """Pieces of every target in turn, without end where no number of inputs is given."""
    piece = _SHORT_PIECE if inputs is None else _PIECE
    for done in count(0, piece):
        most = piece if inputs is None else min(piece, inputs - done)
        if most <= 0:
            return
        for name in names:
            yield crew.Task(name, seed, begin + done, most)


def _print_failure(one: Failure) -> None:
    print(f"FAILED {one.target} {one.seed} {one.number}: {one.error}\n    {one.given}", flush=True)


def _table(
    names: Sequence[str],
    inputs: Counter[str],
    grown: Counter[str],
    shares: dict[str, Taken],
    failures: dict[str, Failure],
    shows_missed: bool,
) -> None:
    print(f"{'target':24}{'inputs':>9}{'grown MiB':>11}{'branches':>16}{'failures':>10}")
    for name in names:
        one = shares.get(name)
        share = (
            ""
            if one is None or not one.ways
            else f"{one.taken}/{one.ways} {one.taken / one.ways:4.0%}"
        )
        failed = sum(failure.target == name for failure in failures.values())
        print(f"{name:24}{inputs[name]:>9}{grown[name] / 2**20:>11.1f}{share:>16}{failed:>10}")
        for line in one.missed() if one is not None and shows_missed else ():
            print(f"    {line}")


def _replayed(name: str, seed: int, index: int) -> int:
    """One input again, with the whole error."""
    target = TARGETS[name]
    given = trial.made(target, seed, index)
    print(f"{given!r:.4000}", flush=True)
    try:
        target.run(given)
    except target.raises as error:
        print(f"refused: {error!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
