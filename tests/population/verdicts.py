"""Puts what was said beside what is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tests.population.ranges import HOUR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.population.day import Outcome
    from tests.population.draft import Loss
    from tests.population.fleet import Case
    from tests.population.machine import Machine

STALE_PERIODS: Final = 3
"""A node that is silent for no longer counts as observed."""

TOLERANCE: Final = 0.1
SMALL_S: Final = 60.0
"""GPU-seconds that are a rounding of stretches, and no charge."""


class Verdict(NamedTuple):
    """One job, judged."""

    case: Case
    accused: tuple[str, ...]
    """Classes claimed of it that are not true, supported or better."""
    is_found: bool
    """Whether a class that is true of it was claimed, supported or better."""
    true_s: float
    """GPU-seconds that are lost for a known reason while it was observed."""
    charged_s: float
    """Of its true classes."""
    wrong_s: float
    """Of others."""
    wrong: tuple[str, ...]
    charged_all: dict[str, float]
    is_charged: bool
    """Whether the books can be held to its loss."""
    most_s: float
    """Seconds of the GPUs that lose anything, since each began to: no loss is larger."""

    @property
    def is_overcharged(self) -> bool:
        """Whether more is charged than there was to lose."""
        return self.charged_s > (1 + TOLERANCE) * self.most_s + SMALL_S

    @property
    def is_right(self) -> bool:
        """Whether the charge is within the tolerance of the truth."""
        return abs(self.charged_s - self.true_s) <= TOLERANCE * self.true_s + SMALL_S


def judged(outcome: Outcome) -> list[Verdict]:
    """Every job."""
    return [_verdict(outcome, case) for case in outcome.fleet.cases]


def _verdict(outcome: Outcome, case: Case) -> Verdict:
    charge, fitting = outcome.charges[case.job_id], _fitting(outcome, case)
    wrong = {k: s for k, s in charge.charged_s.items() if k not in fitting and s > SMALL_S}
    right = sum(s for k, s in charge.charged_s.items() if k in fitting)
    known = [loss for loss in case.losses if loss.is_charged]
    true_s = sum(observed_s(outcome, case, loss) for loss in known)
    return Verdict(
        case,
        tuple(sorted(charge.accused.keys() - fitting)),
        bool(charge.accused.keys() & fitting),
        true_s,
        right,
        sum(wrong.values()),
        tuple(sorted(wrong)),
        charge.charged_s,
        bool(known) and len(known) == len(case.losses),
        sum(observed_s(outcome, case, loss._replace(share=1.0)) for loss in case.losses),
    )


def _fitting(outcome: Outcome, case: Case) -> frozenset[str]:
    """Classes that are true of it as far as it was seen.

    Of GPUs that are empty and whose work nobody saw, nobody can tell whether there was any.
    """
    unused = {"never_started", "idle_tail"}
    seen_from = [start for start, _ in outcome.watched]
    begins = [case.begin_at + loss.start for loss in case.losses if loss.finding_class in unused]
    is_unseen = any(case.begin_at < at and begin <= at for at in seen_from for begin in begins)
    return case.classes | unused if is_unseen else case.classes


def observed_s(outcome: Outcome, case: Case, loss: Loss) -> float:
    """GPU-seconds of a loss that somebody saw."""
    grid = outcome.fleet.grid
    seconds = grid.start_at + np.arange(grid.count) * grid.period_s - case.begin_at
    inside = (seconds > loss.start) & (seconds <= loss.end)
    at = grid.start_at + np.arange(grid.count) * grid.period_s
    inside &= np.any([(at > a) & (at <= b) for a, b in outcome.watched], axis=0)
    share = np.full(grid.count, 1.0)
    if isinstance(loss.share, float):
        share *= loss.share
    else:
        share[inside] = loss.share[seconds[inside] - loss.start - 1]
    total = 0.0
    for machine, gpu in case.gpus.values():
        if gpu in loss.gpus:
            total += float(share[inside & _is_seen(machine)].sum()) * grid.period_s
    return total


def _is_seen(machine: Machine) -> NDArray[np.bool_]:
    """Whether a node counts as observed, report by report."""
    heard = machine.is_heard.copy()
    for back in range(1, STALE_PERIODS + 1):
        heard[back:] |= machine.is_heard[:-back]
    return heard


class Score(NamedTuple):
    """The population, judged."""

    benign_accused: int
    benign: int
    true_h: float
    found_h: float
    """Of the true hours those of jobs that are found and charged within the tolerance."""
    charged_h: float
    missed: int
    """Wasteful jobs of which no true class was claimed."""
    wrong_h: float
    """Charged to wrong classes, of all jobs that waste."""
    wrong_jobs: int
    overcharged: int
    """Jobs that are charged more than there was to lose."""


def score(verdicts: list[Verdict]) -> Score:
    """Add up."""
    benign = [v for v in verdicts if v.case.group == "benign"]
    known = [v for v in verdicts if v.case.group == "wasteful"]
    booked = [v for v in known if v.is_charged]
    wasting = [v for v in verdicts if v.case.group != "benign"]
    return Score(
        sum(bool(v.accused or v.wrong_s) for v in benign),
        len(benign),
        sum(v.true_s for v in booked) / HOUR,
        sum(v.true_s for v in booked if v.is_found and v.is_right) / HOUR,
        sum(v.charged_s for v in booked) / HOUR,
        sum(not v.is_found for v in known if v.most_s > SMALL_S),
        sum(v.wrong_s for v in wasting) / HOUR,
        sum(v.wrong_s > 0 for v in wasting),
        sum(v.is_overcharged for v in wasting),
    )


def table(verdicts: list[Verdict]) -> str:
    """One line per kind."""
    heads = "group     kind                   jobs accused found right  true h charged wrong h"
    lines = [f"{heads}  wrong classes"]
    kinds = dict.fromkeys((v.case.group, v.case.kind) for v in verdicts)
    for group, kind in kinds:
        mine = [v for v in verdicts if v.case.kind == kind]
        wrong = sorted({c for v in mine for c in (*v.accused, *v.wrong)})
        right = sum(v.is_found and v.is_right for v in mine if v.is_charged)
        found = sum(v.is_found for v in mine)
        lines.append(
            f"{group:9} {kind:22} {len(mine):4} {sum(bool(v.accused) for v in mine):7} "
            f"{found:5} {right:5} {sum(v.true_s for v in mine) / HOUR:7.1f} "
            f"{sum(v.charged_s for v in mine) / HOUR:7.1f} "
            f"{sum(v.wrong_s for v in mine) / HOUR:7.1f}  {', '.join(wrong)}"
        )
    return "\n".join(lines)


def details(verdicts: list[Verdict], outcome: Outcome) -> str:
    """One line per job that is judged wrongly."""
    lines = []
    for v in verdicts:
        is_odd = v.accused or v.wrong_s
        if v.case.group == "wasteful":
            is_missed = not v.is_found and v.most_s > SMALL_S
            is_odd = is_odd or is_missed or (v.is_charged and not v.is_right)
        is_odd = is_odd or (v.case.group != "benign" and v.is_overcharged)
        if not is_odd:
            continue
        booked = {k: round(s) for k, s in v.charged_all.items()}
        charge = outcome.charges[v.case.job_id]
        begin = (v.case.begin_at - outcome.fleet.grid.start_at) / HOUR
        lines.append(
            f"job {v.case.job_id} {v.case.kind} {len(v.case.gpus)} GPUs "
            f"from {begin:+.2f} h: true {v.true_s:.0f} s, charged {booked}, "
            f"claimed {sorted(charge.accused)}, guessed {sorted(charge.guessed)}"
        )
        lines += [f"    {f.finding_class}: {f.summary}" for f in charge.accused.values()]
        for finding in charge.guessed.values():
            lines.append(f"    {finding.finding_class}, a guess: {finding.summary}")
            lines += [f"        {evidence.text}" for evidence in finding.evidence]
    return "\n".join(lines)
