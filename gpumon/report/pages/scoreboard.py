"""How good the claims about labelled recordings are, as plain text."""

from __future__ import annotations

from math import isfinite, nan
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpumon.evaluation.scoreboard import STEPS, SUPPORTED
from gpumon.report.document.scoreboard import delays, per_1000_gpu_days
from gpumon.report.text import units
from gpumon.report.text.cells import laid_out, safe
from gpumon.report.text.units import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.evaluation.comparison import BaselineScore
    from gpumon.evaluation.scoreboard import ClassScore, Interval, Scoreboard

TITLES = (
    "class", "labels", "found", "claims", "precision", "recall", "F1", "delay", "GPU-h", "error",
    "wasted", "",
)  # fmt: skip


BASELINE_TITLES = ("baseline", "macro F1", "own F1", "false/1,000", "benign", "GPU-h error")


def scoreboard_text(
    scores: Scoreboard, baselines: Mapping[str, BaselineScore] = MappingProxyType({})
) -> str:
    """What falls short first, then a line per class, one per baseline, then all together.

    Ends in a line break.
    """
    rows = [TITLES, *(_row(key, score) for key, score in scores.classes.items())]
    return "".join(
        (
            _short(scores),
            laid_out(rows, words=("",)),
            "\n",
            _beside(scores, baselines),
            _whole(scores),
        )
    )


def _beside(scores: Scoreboard, baselines: Mapping[str, BaselineScore]) -> str:
    """A line of gpumon, and one of each baseline."""
    if not baselines:
        return ""
    rows = [BASELINE_TITLES, _beside_row("(gpumon)", scores)]
    lines = []
    for name, one in baselines.items():
        if one.jobs_judged:
            rows.append(_beside_row(name, one.scores, has_hours=one.has_hours))
        else:
            lines.append(f"{name} abstains: watched too briefly, or without its counters\n")
    return f"{laid_out(rows)}{''.join(lines)}\n"


def _beside_row(name: str, scores: Scoreboard, *, has_hours: bool = True) -> tuple[str, ...]:
    per, error = per_1000_gpu_days(scores), scores.hours_error.value if has_hours else nan
    return (
        name,
        _two(scores.macro_f1[SUPPORTED].value),
        _two(scores.macro_f1_of_its_classes),
        f"{per:,.0f}" if isfinite(per) else MISSING,
        f"{scores.benign_flagged} of {scores.benign}",
        units.percent_off(error) if isfinite(error) else MISSING,
    )


def _row(key: str, score: ClassScore) -> tuple[str, ...]:
    counted, charged_s = score.steps[SUPPORTED], score.wasted_s + score.suspected_s
    p50 = delays(score.delays_s)["p50"]
    notes = []
    if counted.labels and not score.is_looked_for:
        notes.append("not looked for")
    if score.unseen:
        notes.append(f"{score.unseen} that could not be seen")
    return (
        safe(key),
        f"{counted.labels}",
        f"{counted.found}",
        f"{counted.claims}",
        _two(counted.precision),
        _two(counted.recall),
        _two(counted.f1),
        MISSING if p50 is None else units.seconds(p50),
        units.hours(score.true_s, 1) if score.true_s else MISSING,
        _error(charged_s, score.true_s),
        _error(score.wasted_s, score.true_s),
        ", ".join(notes),
    )


def _short(scores: Scoreboard) -> str:
    """What was missed or claimed wrongly, the most first."""
    lines = []
    for truth, row in scores.confusion.items():
        wrong = {claimed: count for claimed, count in row.items() if claimed != truth}
        if wrong:
            ordered = sorted(wrong.items(), key=lambda item: -item[1])
            words = ", ".join(f"{safe(claimed)} {count}" for claimed, count in ordered)
            lines.append((sum(wrong.values()), f"  {safe(truth)}: {words}\n"))
    if not lines:
        return ""
    first = "True class: what was reported instead, and how often (supported or established)\n"
    return first + "".join(line for _, line in sorted(lines, key=lambda one: -one[0])) + "\n"


def _whole(scores: Scoreboard) -> str:
    delays_s = delays(scores.delays_s)
    steps = "; ".join(
        f"{step.value} {_two(scores.macro_f1[rank].value)}" for rank, step in enumerate(STEPS)
    )
    false = f"{scores.false_alarms} in {scores.gpu_days:,.1f} GPU-days"
    per = per_1000_gpu_days(scores)
    half, most, late = delays_s["p50"], delays_s["p90"], MISSING
    if half is not None and most is not None:
        late = f"{units.seconds(half)}, nine in ten {units.seconds(most)}"
    true_shares = [
        f"{step.value:<11} {_within(one.true_ratio)} of {one.claims}"
        for step, one in zip(STEPS, scores.calibration, strict=True)
    ]
    lines = [
        f"macro F1        {_within(scores.macro_f1[SUPPORTED])} (from each step on: {steps})",
        f"false alarms    {false}" + (f", {per:,.1f} per 1,000" if isfinite(per) else ""),
        f"benign flagged  {scores.benign_flagged} of {scores.benign} jobs",
        f"delay           {late}",
        *(f"{'' if place else 'claims true':<15} {line}" for place, line in enumerate(true_shares)),
        f"GPU-hours       error {_within(scores.hours_error)}",
        f"                of what is wasted alone {_within(scores.wasted_error)}",
        f"                {units.hours(scores.benign_charged_s)} charged to benign jobs",
        f"                {units.hours(scores.excess_s)} charged beyond what was claimed",
    ]
    if scores.jobs_left_out:
        lines.append(f"                {scores.jobs_left_out} jobs left out: their loss is unknown")
    if scores.unknown_claims:
        lines.append(f"not judged      {scores.unknown_claims} claims about jobs without a label")
    return "".join(f"{line}\n" for line in lines)


def _within(found: Interval) -> str:
    if not isfinite(found.value):
        return MISSING
    return f"{found.value:.2f} [{_two(found.low)}, {_two(found.high)}]"


def _two(value: float) -> str:
    return f"{value:.2f}" if isfinite(value) else MISSING


def _error(charged_s: float, true_s: float) -> str:
    return units.percent_off((charged_s - true_s) / true_s) if true_s else MISSING
