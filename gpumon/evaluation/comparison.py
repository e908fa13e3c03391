"""gpumon and the baselines beside it, scored by the same labels in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.evaluation.baselines.rules import BASELINES
from gpumon.evaluation.events import Matcher
from gpumon.evaluation.hours import claimed_seconds
from gpumon.evaluation.scoreboard import Board
from gpumon.evaluation.witness import Charge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.evaluation.baselines.observer import Stated
    from gpumon.evaluation.events import Events
    from gpumon.evaluation.scoreboard import Scoreboard
    from gpumon.evaluation.witness import Account
    from gpumon.model.records.label import Label


_DRAWS: Final = 200
"""Samples of a baseline's bootstrap: what stands beside it need not be told as exactly."""


class BaselineScore(NamedTuple):
    """One baseline over all recordings."""

    classes: tuple[str, ...]
    """What it may claim."""
    has_hours: bool
    """Whether it says what is lost."""
    jobs: int
    """Jobs that held GPUs."""
    jobs_judged: int
    """Those that it could judge; 0: it abstains, and its scores tell nothing."""
    scores: Scoreboard


class Comparison:
    """Takes recordings, one after the other."""

    def __init__(self, claimable: Mapping[str, frozenset[str]]) -> None:
        """Takes the classes by the name of the detector that claims them."""
        self._claimable = claimable
        self._own = Board()
        self._boards = {name: Board() for name in BASELINES}
        self._jobs = 0
        self._judged = dict.fromkeys(BASELINES, 0)

    def add(
        self,
        name: str,
        account: Account,
        stated: Mapping[str, Stated],
        labels: Sequence[Label],
    ) -> None:
        """One recording.

        Args:
            name: What tells its jobs from those of others.
            account: What gpumon said of it.
            stated: What the baselines said, by their names.
            labels: What is true.
        """
        self._own.add(name, account, Matcher(account, labels, self._claimable).events())
        self._jobs += len(account.holds)
        for baseline, statement in stated.items():
            classes = frozenset(BASELINES[baseline].classes)
            its = account._replace(claims=statement.claims, charges={}, evaluations=(), errors=())
            events = Matcher(its, labels, {baseline: classes}).events()
            events = events._replace(
                found=tuple(
                    one._replace(is_unseen=one.is_looked_for and one.group not in statement.judged)
                    for one in events.found
                )
            )
            self._boards[baseline].add(name, its._replace(charges=_charges(events)), events)
            self._judged[baseline] += len(statement.judged & account.holds.keys())

    def scores(self) -> Scoreboard:
        """Of gpumon."""
        return self._own.scores()

    def baselines(self) -> dict[str, BaselineScore]:
        """Of what stands beside it, by name."""
        return {
            name: BaselineScore(
                classes=one.classes,
                has_hours=one.has_hours,
                jobs=self._jobs,
                jobs_judged=self._judged[name],
                scores=self._boards[name].scores(draws=_DRAWS),
            )
            for name, one in BASELINES.items()
        }


def _charges(events: Events) -> dict[str, Charge]:
    """A baseline has no ledger: what it claims is what it charges."""
    return {group: Charge(lost_s, {}) for group, lost_s in claimed_seconds(events).items()}
