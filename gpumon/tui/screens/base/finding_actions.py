"""What users answer to findings: that they know, or that they do not want to see them."""

from __future__ import annotations

import re
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Final

from gpumon.model.finding_classes import class_of
from gpumon.report.tables.finding import subject_words
from gpumon.report.text import units
from gpumon.report.text.cells import Tone, paragraph
from gpumon.tui.screens.base.contract import Muted
from gpumon.tui.screens.base.view import View

if TYPE_CHECKING:
    from gpumon.model.finding import Finding
    from gpumon.report.facts.tick_index import Digest
    from gpumon.report.text.cells import Line

MUTE_EXAMPLES: Final = "1h, 1d, 1h class (everywhere), 1h subject (all of it), off"

CASE_ANSWERS: Final = "yes, no, or off (undo)"

_CASE_WORDS: Final = {"yes": True, "no": False, "off": None}

_MUTE: Final = re.compile(r"(\d{1,6})\s*([smhd])(?:\s+(class|subject))?\Z")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MAX_MUTE_S: Final = 31 * 86400.0
"""A longer silence would be forgotten, and hide what matters."""

_NO_FINDING: Final = "no finding here"
_SOON: Final = "; the detectors' next evaluation shows it"


def mute_of(text: str, finding: Finding, words: str, now: float) -> Muted:
    """What a text asks to hide, of the finding at hand.

    Raises:
        ValueError: It says nothing; the message gives examples.
    """
    match = _MUTE.match(text.strip().lower())
    if match is None or not 0 < (wanted_s := int(match[1]) * _SECONDS[match[2]]) <= MAX_MUTE_S:
        message = f"“{text.strip()}” is not a time to mute for; write {MUTE_EXAMPLES}"
        raise ValueError(message)
    title = class_of(finding).title
    if match[3] == "class":
        return Muted(finding.finding_class, None, now + wanted_s, f"{title} everywhere")
    if match[3] == "subject":
        return Muted(None, finding.subject, now + wanted_s, f"everything about {words}")
    return Muted(finding.finding_class, finding.subject, now + wanted_s, f"{title} of {words}")


class Judging(View):
    """A view with one finding at hand."""

    @abstractmethod
    def current_finding(self) -> Finding | None:
        """The finding that the keys are about."""

    def mute_lines(self, digest: Digest, width: int) -> list[Line]:
        """What this terminal has muted."""
        lines: list[Line] = []
        for muted in self.gpumon.muted:
            if muted.until > digest.tick.at:
                until = units.clock_time(muted.until)
                text = f"muted until {until}: {muted.words} (m, off unmutes it)"
                lines += paragraph(text, width, Tone.DIM, "· ", "  ")
        return lines

    def action_acknowledge(self) -> None:
        """Say that one knows of the finding, or take that back."""
        finding = self.current_finding()
        if finding is None:
            self.report(_NO_FINDING)
            return
        is_known = not finding.is_acknowledged
        title = class_of(finding).title
        if self.gpumon.acknowledge(finding.identity, is_known):
            self.report(f"{title} is {'acknowledged' if is_known else 'open again'}{_SOON}")
        else:
            self.report(f"{title} is not open: there is nothing to acknowledge")

    async def action_mute(self) -> None:
        """Ask how long to hide it."""
        from gpumon.tui.widgets.text.prompt import AnswerPrompt

        if self.current_finding() is not None or self.gpumon.muted:
            await self.ask(AnswerPrompt(f"mute for: {MUTE_EXAMPLES}", self._mute))
        else:
            self.report(_NO_FINDING)

    def _mute(self, text: str) -> str:
        """Mute what was typed; returns why it cannot be understood."""
        if text.strip().lower() == "off":
            self.gpumon.unmute()
            self.report(f"nothing is muted{_SOON}")
            self.show(self.digest)
            return ""
        finding, digest = self.current_finding(), self.digest
        if finding is None or digest is None:
            return "no finding is selected: only off works now"
        try:
            muted = mute_of(text, finding, subject_words(digest, finding), self.gpumon.now)
        except ValueError as error:
            return str(error)
        self.gpumon.mute(muted)
        self.show(digest)
        return ""

    async def action_case(self) -> None:
        """Ask whether the finding is right."""
        from gpumon.tui.widgets.text.prompt import AnswerPrompt

        if self.gpumon.cases is None:
            self.report("judgements of findings are stored only while a fleet is watched live")
        elif self.current_finding() is not None:
            await self.ask(AnswerPrompt(f"is it right? {CASE_ANSWERS}", self._store_answer))
        else:
            self.report(_NO_FINDING)

    def _store_answer(self, text: str) -> str:
        """Keep what was typed; returns why it cannot be understood."""
        answer = text.strip().lower()
        word = next((word for word in _CASE_WORDS if answer and word.startswith(answer)), None)
        if word is None:
            return f"“{text.strip()}” is not an answer; write {CASE_ANSWERS}"
        finding, digest, cases = self.current_finding(), self.digest, self.gpumon.cases
        if finding is None or digest is None or cases is None:
            return "the finding is no longer there"
        self.report_later(partial(cases.store, digest.tick, finding, is_right=_CASE_WORDS[word]))
        return ""
