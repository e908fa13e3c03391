"""What one road shows of a scene beside what a probe shows of it: the same, weaker, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.detect.worker import registry
from gpumon.detect.worker.evaluate import answer_of
from gpumon.model.finding import Confidence
from tools.sentences import block as sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.detect.contract import Detector
    from gpumon.detect.scene import Scene
    from gpumon.detect.view import View

Claims = dict[tuple[str, str], Confidence]
"""How sure each is, by class and subject."""

DETECTORS: Final = {one.name: one for one in map(registry.load, registry.entries())}

SCENES: Final = [(name, scene) for name, some in sentences.SCENES.items() for scene in some]
"""Every scene of every detector."""


def detector_of(name: str, scene: Callable[[], Scene]) -> Detector:
    """A detector as a site must have set it for a scene."""
    made: Detector = type(DETECTORS[name])(**sentences._PARAMETERS.get(scene, {}))
    return made


def claims(detector: Detector, view: View) -> Claims:
    """What it claims."""
    return {
        (one.finding_class, one.subject): Confidence(one.confidence)
        for one in detector.evaluate(view)
    }


class Outcome(NamedTuple):
    """What became of one claim on another road."""

    finding_class: str
    subject: str
    how: str
    """`same`, `weaker`, `unseen`: coverage has it; `absent`: it does not; `stronger`, `alone`."""
    why: str = ""
    """What coverage reports."""


def outcomes(by_probe: Claims, detector: Detector, view: View) -> Iterator[Outcome]:
    """What becomes of each claim of a probe's where this is seen instead."""
    found, words = claims(detector, view), Words(detector, view)
    known = set(by_probe)
    for (what, subject), sure in by_probe.items():
        whole = subject.partition("/rank:")[0]
        # Which rank it is, is unknown without processes; the claim is then of the job.
        known.add((what, whole))
        is_whole = (what, subject) not in found and whole != subject
        other = found.get((what, whole if is_whole else subject))
        if other is None:
            why = words.about(subject)
            yield Outcome(what, subject, "absent" if why is None else "unseen", why or "")
            continue
        steps = sure.rank - other.rank
        how = "stronger" if steps < 0 else "weaker" if steps or is_whole else "same"
        if steps > 1 and not words.note and words.about(subject) is None:
            how = "absent"
        yield Outcome(what, subject, how, "of the job" if is_whole and not steps else words.note)
    yield from (Outcome(*key, "alone") for key in found.keys() - known)


class Words:
    """What coverage reports of a view."""

    def __init__(self, detector: Detector, view: View) -> None:
        self._view = view
        self._answer = answer_of(detector, view)
        self.note = str(self._answer["coverage"][5])  # type: ignore[index]

    def about(self, subject: str) -> str | None:
        """Why a subject is not judged, or in part only; None: nothing is known of that."""
        around = self._around(subject)
        answer = self._answer
        if around & {*answer["blind"]}:  # type: ignore[misc]
            return ", ".join(answer["coverage"][3]) or self.note  # type: ignore[index]
        declined = answer["declined"]
        assert isinstance(declined, dict)
        reasons = [why for name, why in declined.items() if name in around]
        reasons += [what for what, names in answer["unseen"] if around & {*names}]  # type: ignore[attr-defined]
        return ", ".join(dict.fromkeys(reasons)) if reasons else None

    def _around(self, subject: str) -> set[str]:
        """It, or one of its parts or the job that it is of."""
        whole, view = subject.partition("/rank:")[0], self._view
        kind, _, name = whole.partition(":")
        around = {whole}
        if kind == "node":
            node = view.nodes.get(name)
            around |= {f"gpu:{uuid}" for uuid in (node.gpu_uuids if node else ())}
            around |= {job.subject for job in view.jobs_on(name)}
        elif kind == "gpu":
            around |= {job.subject for job in view.jobs_of(name)}
            around |= {f"node:{node}" for node, one in view.nodes.items() if name in one.gpu_uuids}
        return around
