"""Writes the books to disk: appends, never rewrites, and is read back to the same sums.

What is written is the difference between the books as they are and what was written of them
before. A finding that takes seconds back therefore becomes a further entry with negative seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.fleet.ledger.holding import Written
from gpumon.fleet.ledger.journal_reader import Entry
from gpumon.fleet.ledger.writer import OPEN_WAIT_S, PageWriter
from gpumon.model.units import HOUR_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from gpumon.fleet.ledger.holding import Holding, Run

CLOSE_WAIT_S: Final = 3.0
"""The end waits so long for a slow disk."""

_NEAR_S: Final = 1e-6
"""GPU-seconds that are not worth an entry."""


class JournalFile:
    """Appends to one file a day in a folder, as its only writer, and never waits for the disk.

    What it takes is written in order, sooner or later; while the disk does not keep up, it takes
    nothing, and the next entries reach further. Nothing is lost when the process is killed but what
    was not on disk yet; of a line that was torn, the rest of its file can still be read.
    """

    def __init__(self, folder: Path, open_wait_s: float = OPEN_WAIT_S) -> None:
        """Take the folder; where that fails, `note` says why and nothing is written."""
        self._folder = folder
        self._pages = PageWriter(folder, open_wait_s)
        self.resumed, self.accounts = self._pages.resumed, self._pages.accounts
        self.lost_s = 0.0
        """GPU-seconds of ended jobs that were forgotten before the disk took them."""

    @property
    def kept_in(self) -> str | None:
        """Folder that is written to, None where none is."""
        return str(self._folder) if self._pages.is_open else None

    @property
    def note(self) -> str:
        """Why what was booked is not on disk; empty: it is, or will be at once."""
        lost = f"{self.lost_s / HOUR_S:.1f} GPU-h of ended jobs were not written to {self._folder}"
        return "; ".join(filter(None, (self._pages.note, lost if self.lost_s else "")))

    def write(self, at: float, runs: Iterable[Run], gone_before: float | None = None) -> None:
        """Have appended what is not on disk yet of the time until a Unix time.

        Args:
            at: The Unix time.
            runs: Whose time.
            gone_before: What ended before that Unix time is not offered again.
        """
        if not self._pages.is_open:
            return
        mine = tuple(runs)
        new = [(lines, written) for run in mine for lines, written in _new(run, at)]
        if not new:
            return
        if self._pages.take(at, b"".join(line for lines, _ in new for line in lines)):
            for _, written in new:
                for holding, done in written:
                    holding.written = done
        elif gone_before is not None:
            gone = (h for run in mine for h in run.past if h.timeline.ended_at < gone_before)
            self.lost_s += sum(_unwritten_s(holding, at) for holding in gone)

    def settle(self, wait_s: float) -> bool:
        """Wait until what was taken is written or was tried, at most so long; False: it is not."""
        return self._pages.settle(wait_s)

    def close(self) -> None:
        """Write the rest, and let another process write."""
        self._pages.close(CLOSE_WAIT_S)


def _unwritten_s(holding: Holding, at: float) -> float:
    """GPU-seconds of it that the disk does not have."""
    written = sum(holding.written.seconds.values()) if holding.written else 0.0
    return max(0.0, sum(holding.timeline.until(at).values()) - written)


def _new(run: Run, at: float) -> Iterator[tuple[list[bytes], list[tuple[Holding, Written]]]]:
    """Lines for what a run has booked since they were written, and what is on disk with them.

    GPUs of one node and one name whose time began and ended together share a line.
    """
    groups: dict[tuple[str, str, float, float], list[tuple[Holding, Written]]] = {}
    for holding in run.holdings:
        timeline, written = holding.timeline, holding.written
        gpu = timeline.account.gpu
        end = at if timeline.is_open else timeline.ended_at
        if written is not None and written.gpu != gpu:
            yield [_withdrawal(run, holding, written).line()], []
            written = None
        before = written or Written(
            gpu=gpu, until=timeline.start, seconds={}, energy_j=0.0, energy_s=0.0
        )
        if before.until != end or not _is_written(holding, before, at):
            group = (holding.node, gpu, before.until, end)
            groups.setdefault(group, []).append((holding, before))
    for (_, gpu, start, end), holdings in groups.items():
        seconds: dict[str, float] = {}
        energy_j = energy_s = 0.0
        done = []
        for holding, before in holdings:
            total = dict(before.seconds)
            for key, amount in holding.timeline.until(at).items():
                new = round(amount - before.seconds.get(key, 0.0), 6)
                total[key] = total.get(key, 0.0) + new
                seconds[key] = seconds.get(key, 0.0) + new
            energy_j += holding.energy_j - before.energy_j
            energy_s += holding.energy_s - before.energy_s
            done.append(
                (
                    holding,
                    Written(
                        gpu=gpu,
                        until=end,
                        seconds=total,
                        energy_j=holding.energy_j,
                        energy_s=holding.energy_s,
                    ),
                )
            )
        owned = [holding for holding, _ in holdings]
        entry = _entry(run, owned, (start, end), seconds, (energy_j, energy_s))
        yield [entry.line()], done


def _is_written(holding: Holding, before: Written, at: float) -> bool:
    """Whether the disk has all of it."""
    now = holding.timeline.until(at)
    is_same = all(abs(now[key] - before.seconds.get(key, 0.0)) < _NEAR_S for key in now)
    return is_same and holding.energy_s == before.energy_s


def _withdrawal(run: Run, holding: Holding, written: Written) -> Entry:
    """Takes back what was written under another name of the GPU."""
    seconds = {key: -amount for key, amount in written.seconds.items()}
    spent = (-written.energy_j, -written.energy_s)
    entry = _entry(run, [holding], (written.until, holding.timeline.start), seconds, spent)
    return entry._replace(gpu=written.gpu, gpus=("",))


def _entry(
    run: Run,
    holdings: list[Holding],
    span: tuple[float, float],
    seconds: dict[str, float],
    energy: tuple[float, float],
) -> Entry:
    job, first = run.job, holdings[0]
    return Entry(
        start=span[0],
        end=span[1],
        job_id=job.job_id,
        began_at=run.began_at if job.start_at is None else job.start_at,
        user=job.user,
        account=job.account,
        partition=job.partition,
        node=first.node,
        gpu=first.timeline.account.gpu,
        gpus=tuple(holding.uuid for holding in holdings),
        seconds={
            key: round(amount, 6) for key, amount in seconds.items() if abs(amount) >= _NEAR_S
        },
        energy_j=energy[0],
        energy_s=energy[1],
        observed_since=first.timeline.account.observed_since,
    )
