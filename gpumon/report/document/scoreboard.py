"""How good the claims about labelled recordings are, and what was learnt of them, as plain data."""

from __future__ import annotations

from math import isfinite
from statistics import quantiles
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from gpumon.evaluation.scoreboard import STEPS, SUPPORTED
from gpumon.model.units import HOUR_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumon.detect.learning.fitting import Score
    from gpumon.evaluation.comparison import BaselineScore
    from gpumon.evaluation.scoreboard import ClassScore, Counted, Interval, Scoreboard
    from gpumon.report.document import command_forms

Value = TypeVar("Value")

SCHEMA: Final[Literal["gpumon-evaluation/1"]] = "gpumon-evaluation/1"
"""Name and major version of the form."""


def scoreboard_document(
    scores: Scoreboard,
    files: Sequence[str],
    baselines: Mapping[str, BaselineScore] = MappingProxyType({}),
) -> command_forms.Evaluation:
    """The answer of `gpumon evaluate --json`; null is what is not defined, as of nothing."""
    return {
        "schema": SCHEMA,
        "files": list(files),
        "gpu_days": round(scores.gpu_days, 4),
        **_all_together(scores),
        "charged_above_claimed_gpu_hours": round(scores.excess_s / HOUR_S, 4),
        "jobs_left_out_of_hours": scores.jobs_left_out,
        "claims_not_judged": scores.unknown_claims,
        "steps": {
            step.value: {
                "macro_f1": _number(scores.macro_f1[rank].value),
                "macro_f1_interval": _bounds(scores.macro_f1[rank]),
                **_counts(scores.all_classes[rank]),
            }
            for rank, step in enumerate(STEPS)
        },
        "calibration": {
            step.value: {
                "true_ratio": _number(scores.calibration[rank].true_ratio.value),
                "low": _number(scores.calibration[rank].true_ratio.low),
                "high": _number(scores.calibration[rank].true_ratio.high),
                "n": scores.calibration[rank].claims,
            }
            for rank, step in enumerate(STEPS)
        },
        "classes": {
            key: {**_class(score), "steps": _by_step(score)}
            for key, score in scores.classes.items()
        },
        "baselines": {name: _baseline(one) for name, one in baselines.items()},
        "confusion": {truth: dict(row) for truth, row in scores.confusion.items()},
        "errors": list(scores.errors),
    }


def _all_together(
    scores: Scoreboard, *, is_judged: bool = True, has_hours: bool = True
) -> command_forms.JudgedClaims:
    """What is reported of gpumon and of each baseline alike.

    Args:
        scores: Of all classes.
        is_judged: Whether there was anything to judge; otherwise all is null.
        has_hours: Whether what is lost was labelled; otherwise that is null.
    """

    def if_judged(value: Value) -> Value | None:
        return value if is_judged else None

    def of_known_hours(value: Value) -> Value | None:
        return value if is_judged and has_hours else None

    return {
        "macro_f1": if_judged(_number(scores.macro_f1[SUPPORTED].value)),
        "macro_f1_interval": if_judged(_bounds(scores.macro_f1[SUPPORTED])),
        "macro_f1_of_its_classes": if_judged(_number(scores.macro_f1_of_its_classes)),
        "delay_s": if_judged(delays(scores.delays_s)),
        "false_alarms": if_judged(scores.false_alarms),
        "false_alarms_per_1000_gpu_days": if_judged(_number(per_1000_gpu_days(scores))),
        "benign": if_judged(scores.benign),
        "benign_flagged": if_judged(scores.benign_flagged),
        "benign_flagged_ratio": if_judged(_ratio(scores.benign_flagged, scores.benign)),
        "gpu_hours_error_ratio": of_known_hours(_number(scores.hours_error.value)),
        "gpu_hours_error_interval": of_known_hours(_bounds(scores.hours_error)),
        "wasted_error_ratio": of_known_hours(_number(scores.wasted_error.value)),
        "wasted_error_interval": of_known_hours(_bounds(scores.wasted_error)),
        "benign_charged_gpu_hours": of_known_hours(round(scores.benign_charged_s / HOUR_S, 4)),
    }


def _baseline(one: BaselineScore) -> command_forms.Baseline:
    """Null: the baseline abstains, or reports no loss."""
    is_judged = one.jobs_judged > 0
    classes = one.scores.classes if is_judged else {}
    return {
        "claims_classes": list(one.classes),
        "jobs": one.jobs,
        "jobs_judged": one.jobs_judged,
        **_all_together(one.scores, is_judged=is_judged, has_hours=one.has_hours),
        "classes": {key: _class(score, has_hours=one.has_hours) for key, score in classes.items()},
    }


def per_1000_gpu_days(scores: Scoreboard) -> float:
    """False alarms of 1,000 GPUs in a day; NaN where nothing was observed."""
    return 1000 * scores.false_alarms / scores.gpu_days if scores.gpu_days else float("nan")


def delays(seconds: Sequence[float]) -> command_forms.Delays:
    """Median and ninth decile of delays in ascending order, null without any."""
    if len(seconds) < 2:
        only = round(seconds[0], 1) if seconds else None
        return {"p50": only, "p90": only}
    tenths = quantiles(seconds, n=10, method="inclusive")
    return {"p50": round(tenths[4], 1), "p90": round(tenths[8], 1)}


def _class(score: ClassScore, *, has_hours: bool = True) -> command_forms.ClassScore:
    charged_s = score.wasted_s + score.suspected_s
    return {
        **_counts(score.steps[SUPPORTED]),
        "is_looked_for": score.is_looked_for,
        "abstained": score.unseen,
        "named": score.named,
        "delay_s": delays(score.delays_s),
        "true_gpu_hours": round(score.true_s / HOUR_S, 4),
        "gpu_hours_error_ratio": _error(charged_s, score.true_s) if has_hours else None,
        "wasted_error_ratio": _error(score.wasted_s, score.true_s) if has_hours else None,
    }


def _by_step(score: ClassScore) -> dict[str, command_forms.Counts]:
    return {step.value: _counts(score.steps[rank]) for rank, step in enumerate(STEPS)}


def _counts(counted: Counted) -> command_forms.Counts:
    return {
        "precision": _number(counted.precision),
        "recall": _number(counted.recall),
        "f1": _number(counted.f1),
        "n": counted.labels,
        "found": counted.found,
        "claims": counted.claims,
    }


def _error(charged_s: float, true_s: float) -> float | None:
    return round((charged_s - true_s) / true_s, 4) if true_s else None


def _ratio(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _number(value: float) -> float | None:
    return round(value, 4) if isfinite(value) else None


def _bounds(found: Interval) -> list[float | None]:
    return [_number(found.low), _number(found.high)]


def training_document(scores: Sequence[Score]) -> command_forms.Train:
    """The answer of `gpumon train --json`; null is what is not defined, as of no claims."""
    return {"schema": "gpumon-train/1", "classes": {one.key: _fit(one) for one in scores}}


def _fit(score: Score) -> command_forms.ClassFit:
    def if_defined(value: float) -> float | None:
        return value if isfinite(value) else None

    return {
        "jobs": score.jobs,
        "told": if_defined(score.told),
        "precision": if_defined(score.precision),
        "recall": if_defined(score.recall),
        "claims_from": if_defined(score.claims_from),
        "calibration_error": if_defined(score.calibration_error),
        "is_kept": score.is_kept,
    }
