"""What a detector says in its scenes, as a list in Markdown."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import time
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.detect.contract import declaration_of
from tools.sentences import (
    clocks,
    faults,
    idle,
    learnt,
    links,
    partly_idle,
    places,
    requests,
    starving,
    uneven,
    waiting,
    work,
)
from tools.sentences.trace import trace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.detect.contract import Detector
    from gpumon.detect.scene import Scene
    from gpumon.detect.view import View
    from gpumon.model.finding import Finding

SCENES: Final[dict[str, tuple[Callable[[], Scene], ...]]] = {
    **idle.SCENES,
    **partly_idle.SCENES,
    **requests.SCENES,
    **faults.SCENES,
    **clocks.SCENES,
    **links.SCENES,
    **places.SCENES,
    **waiting.SCENES,
    **work.SCENES,
    **uneven.SCENES,
    **starving.SCENES,
    **learnt.SCENES,
}
"""Scenes by the name of the detector that looks at them."""

_PARAMETERS: Final[dict[Callable[[], Scene], dict[str, Any]]] = {
    **partly_idle.PARAMETERS,
    **learnt.PARAMETERS,
}
"""What a site must have set for some of them."""

HEAD: Final = "**What it says**"
_NUMBER: Final = re.compile(r"\d[\d.,:]*")
_UNIT: Final = re.compile(r"0 (?:s|min|h)\b")
_PLURAL: Final = re.compile(r"(?<=\w)s\b")


class SentenceError(Exception):
    """A detector has nothing new to say in one of its scenes, or has no scene."""


class _Claim(NamedTuple):
    """A sentence that sums a finding up."""

    scene: str
    """What happens where it is said."""
    grades: list[str]
    """How grave and how sure it was, in this scene and in later ones."""
    summary: str
    below: list[str]
    """Evidence and advice that were not said before."""

    def __str__(self) -> str:
        head = f"- {' / '.join(self.grades)}: “{self.summary}”\n"
        return head + "".join(f"    - {line}\n" for line in self.below)


class _Sentences:
    """What a detector has said so far."""

    def __init__(self, detector: Detector) -> None:
        self.claims: list[_Claim] = []
        self._has_classes = len(detector.finding_classes) > 1
        self._first: dict[str, _Claim] = {}
        self._below: set[str] = set()

    def take(self, scene: str, finding: Finding) -> bool:
        """Whether a finding says anything new; it is then kept, without what is old of it."""
        below = [line for line in _below(finding) if self._is_new(line)]
        grade = f"*{finding.severity}*, *{finding.confidence}*"
        if self._has_classes:
            grade = f"`{finding.finding_class}`, {grade}"
        claim = _Claim(scene, [grade], finding.summary, below)
        known = self._first.setdefault(_form(finding.summary), claim)
        if known is claim or below:
            self.claims.append(claim)
            return True
        is_new = grade not in known.grades
        known.grades.extend([grade] if is_new else ())
        return is_new

    def _is_new(self, line: str) -> bool:
        is_new = _form(line) not in self._below
        self._below.add(_form(line))
        return is_new


def sentences_of(detector: Detector) -> str:
    """What a detector says in each of its scenes; of sentences that differ by numbers the first.

    Raises:
        SentenceError: It says nothing new in one of them, or has none.
    """
    sentences = _Sentences(detector)
    for scene in SCENES.get(detector.name, ()):
        title = " ".join((inspect.getdoc(scene) or "").split())
        is_new = [sentences.take(title, finding) for finding in _findings(detector, scene)]
        if not any(is_new):
            raise SentenceError(f"{detector.name} says nothing new in {scene.__name__}")
    if not sentences.claims:
        raise SentenceError(f"tools/sentences has no scene for {detector.name}")
    parts = [f"{HEAD}\n"]
    for title, claims in groupby(sentences.claims, lambda claim: claim.scene):
        parts.append(f"\n{title}\n\n{''.join(map(str, claims))}")
    declined = [_declined(detector, scene) for scene in learnt.DECLINED.get(detector.name, ())]
    if declined:
        parts.append(f"\n**What it cannot judge**\n\n{''.join(declined)}")
    wants = declaration_of(detector).wants
    if wants:
        lines = "".join(f"- without `{key}`: {what}\n" for key, what in wants)
        parts.append(f"\n**What it does not see**\n\n{lines}")
    return "".join(parts)


def _declined(detector: Detector, scene: Callable[[], Scene]) -> str:
    """Why it cannot judge who is in a scene."""
    title = " ".join((inspect.getdoc(scene) or "").split())
    reasons = dict.fromkeys(detector.cannot_judge(scene().view()).values())
    if not reasons:
        raise SentenceError(f"{detector.name} judges {scene.__name__}")
    return "".join(f"- {title} “{why}”\n" for why in reasons)


def drawing_of(detector: Detector) -> str:
    """The curves of its first scene, with what happens there; empty for what shows on none."""
    for scene in SCENES.get(detector.name, ()):
        view, findings = _evaluated(detector, scene)
        drawn = trace_of(view, findings[0]) if findings else ""
        if drawn:
            title = " ".join((inspect.getdoc(scene) or "").split())
            return f"{title}\n\n```text\n{drawn}```\n"
    return ""


def _findings(detector: Detector, scene: Callable[[], Scene]) -> list[Finding]:
    return _evaluated(detector, scene)[1]


def _evaluated(detector: Detector, scene: Callable[[], Scene]) -> tuple[View, list[Finding]]:
    """What there is to see in a scene, and what a detector says of it."""
    with _in_utc():
        one = type(detector)(**_PARAMETERS.get(scene, {}))
        view = scene().view()
        return view, list(one.evaluate(view))


def _below(finding: Finding) -> Iterator[str]:
    """Evidence that the summary does not tell, and advice, line by line."""
    for evidence in finding.evidence:
        if evidence.text not in finding.summary:
            yield f"evidence: {evidence.text}"
    yield from (f"advice: {line}" for line in finding.advice)
    yield from (f"to administrators: {line}" for line in finding.machine_advice)


def _form(line: str) -> str:
    """The line without what differs by numbers, or by one thing and several, alone."""
    return _PLURAL.sub("", _UNIT.sub("0 s", _NUMBER.sub("0", line)))


@contextlib.contextmanager
def _in_utc() -> Iterator[None]:
    """Have local times be UTC meanwhile."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        del os.environ["TZ"]
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()
