"""The conformance kit: whether a detector keeps the contract, told check by check."""

from __future__ import annotations

import copy
import gc
import inspect
import json
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from gpumon.detect.check_scenes import blind_scenes, seeing_scenes
from gpumon.detect.contract import DetectorError, clone, declaration_of, parameters
from gpumon.detect.wire.protocol import encode
from gpumon.detect.worker.evaluate import answer_of
from gpumon.detect.worker.validation import (
    Bounds,
    RubbishError,
    coverage_from,
    finding_from,
    reasons_from,
    unseen_from,
)
from gpumon.model.finding import Confidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.detect.contract import Declaration, Detector
    from gpumon.detect.view import View
    from gpumon.model.finding import Finding


class Check(NamedTuple):
    """One rule of the contract and how a detector does with it."""

    name: str
    problem: str | None
    """What is wrong, in one line; None: the rule is kept."""


def check_detector(detector_class: type) -> list[Check]:
    """Every check in order; stops after the first group that makes the rest meaningless."""
    return list(checks_of(detector_class))


def checks_of(detector_class: type) -> Iterator[Check]:
    """The checks of `check_detector`, each when it is made: who knows enough need not wait."""
    first = [
        _check("declares what the contract asks for", partial(_declares, detector_class)),
        _check("stores its parameters and does nothing else", partial(_stores, detector_class)),
    ]
    yield from first
    if any(check.problem for check in first):
        return
    declared = declaration_of(detector_class)
    detector = cast("Detector", detector_class())
    for name, view in _one_by_one(blind_scenes(declared)):
        yield _check(f"claims nothing for sure: {name}", partial(_is_modest, detector, view))
        yield from _checks_at(name, view, detector, declared)
    for name, view in _one_by_one(seeing_scenes(declared)):
        yield from _checks_at(name, view, detector, declared)


def _checks_at(name: str, view: View, detector: Detector, declared: Declaration) -> Iterator[Check]:
    """What holds of the answer to any view."""
    yield _check(f"answers validly: {name}", partial(_is_valid, detector, view, declared))
    yield _check(f"answers the same twice: {name}", partial(_is_repeatable, detector, view))
    yield _check(f"changes nothing: {name}", partial(_leaves_alone, detector, view))


def _one_by_one(scenes: Iterator[tuple[str, View]]) -> Iterator[tuple[str, View]]:
    """The scenes, each freed before the next: a past holds descriptors, of which there are few.

    A view and its jobs refer to one another, so that only the collector frees them.
    """
    for name, view in scenes:
        yield name, view
        del view
        gc.collect()


def _check(name: str, test: Callable[[], None]) -> Check:
    try:
        test()
    except (DetectorError, RubbishError) as error:
        return Check(name, str(error))
    # Foreign code may raise anything, and that it did is what the check reports.
    except Exception as error:  # noqa: BLE001
        return Check(name, f"raised {type(error).__name__}: {error}")
    return Check(name, None)


def _declares(detector_class: type) -> None:
    declaration_of(detector_class)
    if not callable(getattr(detector_class, "evaluate", None)):
        raise DetectorError("it has no method evaluate")


def _stores(detector_class: type) -> None:
    """`__init__` has keywords with defaults and stores each under its name, unchanged."""
    for name, parameter in inspect.signature(detector_class).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DetectorError(f"__init__ takes *{name}; parameters must be named one by one")
        if parameter.default is parameter.empty:
            raise DetectorError(f"parameter {name} has no default")
    detector = detector_class()
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(detector_class).parameters.items()
    }
    if vars(detector).keys() != defaults.keys():
        raise DetectorError(f"__init__ must store {sorted(defaults)}, not {sorted(vars(detector))}")
    changed = [name for name, value in vars(detector).items() if value is not defaults[name]]
    if changed:
        raise DetectorError(f"__init__ changes {', '.join(changed)}; check values in evaluate")
    if parameters(clone(detector)) != parameters(detector):
        raise DetectorError("a clone has other parameters")


def _findings(detector: Detector, view: View, declared: Declaration) -> list[Finding]:
    """The answer as the monitor would take it, or RubbishError."""
    answer = json.loads(encode(answer_of(detector, view)))
    gpus_of = {job.subject: job.gpu_count for job in view.running}
    gpus_of.update({f"job:{job.job_id}": 0 for job in view.ended})
    bounds = Bounds(
        at=view.now,
        observed_since=view.observed_since,
        gpus_of=gpus_of,
        gpus=view.gpus,
        nodes=view.nodes,
    )
    coverage_from(answer["coverage"], declared)
    reasons_from(answer["declined"])
    unseen_from(answer["unseen"], declared)
    return [finding_from(claim, declared, bounds) for claim in answer["findings"]]


def _is_modest(detector: Detector, view: View) -> None:
    for finding in detector.evaluate(view):
        if Confidence(finding.confidence) is not Confidence.HYPOTHESIS:
            raise DetectorError(f"{finding.confidence} about {finding.subject}: {finding.summary}")


def _is_valid(detector: Detector, view: View, declared: Declaration) -> None:
    claimed = list(detector.evaluate(view))
    taken = _findings(detector, view, declared)
    for claim, finding in zip(claimed, taken, strict=True):
        if Confidence(claim.confidence) is not finding.confidence:
            raise DetectorError(
                f"{claim.confidence} about {claim.subject}, where the window as observed "
                f"allows {finding.confidence}"
            )
    if len({finding.identity for finding in taken}) != len(taken):
        raise DetectorError("two findings of one class about one subject")


def _is_repeatable(detector: Detector, view: View) -> None:
    first = encode(answer_of(detector, view))
    if first != encode(answer_of(detector, view)):
        raise DetectorError("the second call on the same view answers differently")
    if first != encode(answer_of(clone(detector), view)):
        raise DetectorError("a clone answers differently")


def _leaves_alone(detector: Detector, view: View) -> None:
    before = [chunk.values.tobytes() for chunk, _ in view.history.chunks]
    fresh = clone(detector)
    state = copy.deepcopy(vars(fresh))
    list(fresh.evaluate(view))
    if before != [chunk.values.tobytes() for chunk, _ in view.history.chunks]:
        raise DetectorError("evaluate writes into the history")
    if vars(fresh) != state:
        raise DetectorError("evaluate changes the detector; everything it may know is in the view")
