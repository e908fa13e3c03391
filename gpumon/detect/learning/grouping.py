"""`python -m gpumon.detect.learning.grouping`: groups jobs in a process of its own.

scikit-learn takes seconds to import and to group many jobs; no terminal waits for that. The jobs
come as JSON on standard input, the patterns leave on standard output.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from gpumon.base.errors import UnavailableError
from gpumon.base.own_process import own_environment, own_words
from gpumon.detect.learning.unexplained import Behaviour, Gathered
from gpumon.model.records.pattern import PatternCard, Trait

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT_S: Final = 120.0
"""Grouping 10,000 jobs takes seconds; what takes so long is given up."""

_ENTRY: Final = ("-m", "gpumon.detect.learning.grouping")
_NICENESS: Final = 19
"""The lowest priority of setpriority(2): grouping must take no time from what samples."""


class GroupingError(UnavailableError):
    """Jobs could not be grouped; the message says why."""


class Grouped(NamedTuple):
    """What was found in some jobs."""

    cards: tuple[PatternCard, ...]
    single: tuple[str, ...]
    """Ids of jobs that resemble no other."""
    odd: tuple[PatternCard, ...]
    """A card of each job on none of the others that is like nothing usual."""


class Grouping:
    """One grouping, which another thread may end."""

    def __init__(self, gathered: Gathered) -> None:
        """Begin nothing yet."""
        self._jobs = [_written(gathered.unexplained), _written(gathered.others)]
        self._process: subprocess.Popen[str] | None = None
        self._is_ended = False

    def end(self) -> None:
        """Give it up."""
        self._is_ended = True
        if self._process is not None:
            self._process.kill()

    def done(self) -> Grouped:
        """What was found.

        Raises:
            GroupingError: The process failed, or took too long.
        """
        words, own, pipe = own_words(*_ENTRY), own_environment(), subprocess.PIPE
        try:
            with subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=own, process_group=0
            ) as process:
                self._process = process
                if self._is_ended:
                    process.kill()
                answer, last_words = self._answer(process)
        except OSError as error:
            raise GroupingError(f"jobs cannot be grouped: {error.strerror}") from error
        if process.returncode:
            last = (last_words.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
            raise GroupingError(f"jobs cannot be grouped: {last}")
        cards, single, odd = json.loads(answer)
        return Grouped(tuple(map(_card, cards)), tuple(single), tuple(map(_card, odd)))

    def _answer(self, process: subprocess.Popen[str]) -> tuple[str, str]:
        try:
            return process.communicate(json.dumps(self._jobs), LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise GroupingError(f"grouping jobs took longer than {LIMIT_S:.0f} s") from None


def _written(jobs: Iterable[Behaviour]) -> list[list[Any]]:
    return [
        [*job[:-1], [float(number) if math.isfinite(number) else None for number in job.features]]
        for job in jobs
    ]


def _read(rows: list[list[Any]]) -> tuple[Behaviour, ...]:
    return tuple(Behaviour._make([*row[:-1], np.array(row[-1], np.float64)]) for row in rows)


def _card(row: list[Any]) -> PatternCard:
    jobs, users, gpu_seconds, since, exemplar, traits, _no_names, times = row
    read_traits = tuple(Trait(*trait) for trait in traits)
    return PatternCard(
        jobs=tuple(jobs),
        users=tuple(users),
        gpu_seconds=gpu_seconds,
        since=since,
        exemplar=exemplar,
        traits=read_traits,
        times=times,
    )


def main() -> None:
    """Group what stands on standard input."""
    os.nice(_NICENESS)
    from gpumon.detect.learning.patterns import patterns_in

    unexplained, others = map(_read, json.load(sys.stdin))
    found = patterns_in(Gathered(unexplained, others, 0.0, 0.0))
    single = list(dict.fromkeys(job.job_id for job in found.single))
    cards, odd = ([one.card for one in some] for some in (found.patterns, found.odd))
    json.dump([cards, single, odd], sys.stdout)


if __name__ == "__main__":
    main()
