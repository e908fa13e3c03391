"""Which detectors are at work, which are muted and why, and since when a finding stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.finding import Coverage, Finding
from gpumon.model.frame import SourceError
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.detect.contract import Declaration


class Roster:
    """What the monitor remembers of its detectors from one look to the next."""

    def __init__(self) -> None:
        self.declared: dict[str, Declaration] = {}
        """Declarations of the loaded detectors, by key."""
        self._muted: dict[str, str] = {}
        self._first_seen: dict[tuple[str, str, str], float] = {}

    @property
    def muted(self) -> frozenset[str]:
        """Keys of the detectors that are not asked again while gpumon runs."""
        return frozenset(self._muted)

    def mute(self, key: str, reason: str) -> None:
        """Ask this detector no more; the first reason counts."""
        self._muted.setdefault(plain(key), plain(reason))

    def admit(self, key: str, declared: Declaration) -> None:
        """Take a loaded detector in, unless another one has its name."""
        taken = [k for k, d in self.declared.items() if d.name == declared.name and k != key]
        if taken:
            self.mute(key, f"the name {declared.name} is taken by {taken[0]}")
        else:
            self.declared[key] = declared

    def coverage(self) -> tuple[Coverage, ...]:
        """One line per muted detector."""
        return tuple(
            Coverage(self._name(key), 0, 0, (), "muted", reason)
            for key, reason in sorted(self._muted.items())
        )

    def errors(self) -> tuple[SourceError, ...]:
        """One error per muted detector."""
        hint = "gpumon detectors check MODULE:CLASS shows what is wrong; it is asked no more"
        return tuple(
            SourceError(f"detector {self._name(key)}", reason, hint)
            for key, reason in sorted(self._muted.items())
        )

    def dated(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """The same findings, each with the time at which it was first claimed without a break."""
        found = {finding.identity: finding for finding in findings}
        self._first_seen = {
            identity: self._first_seen.get(identity, finding.first_seen)
            for identity, finding in found.items()
        }
        return tuple(
            finding._replace(first_seen=self._first_seen[identity])
            for identity, finding in found.items()
        )

    def _name(self, key: str) -> str:
        declared = self.declared.get(key)
        return declared.name if declared else key
