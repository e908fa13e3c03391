"""Which detectors are at work, and which are muted, why and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.fault import SourceError
from gpumon.model.finding import Coverage
from gpumon.model.text import plain

if TYPE_CHECKING:
    from gpumon.detect.contract import Declaration


RETRY_S: Final = 600.0
"""A muted detector is tried again after ten minutes, then after twice as long each time."""

LONGEST_RETRY_S: Final = 6 * 3600.0
"""Longest pause of a muted detector, seconds. A choice: four tries a day."""

_OFF: Final = "off by default; name it in detectors.enabled in the configuration to run it"


class _Muted(NamedTuple):
    reason: str
    until: float
    """Unix time at which it is tried again."""


class Roster:
    """What the monitor remembers of its detectors from one evaluation to the next."""

    def __init__(self) -> None:
        self.declared: dict[str, Declaration] = {}
        """Declarations of the loaded detectors, by key."""
        self._muted: dict[str, _Muted] = {}
        self._strikes: dict[str, int] = {}
        self._off: dict[str, str] = {}
        """Names of the detectors that are off by default and stay so, by key."""

    @property
    def muted(self) -> frozenset[str]:
        """Keys of the detectors that are not asked now."""
        return frozenset(self._muted)

    def mute(self, key: str, reason: str, at: float) -> None:
        """Ask this detector no more for a while; the first reason counts until then."""
        key = plain(key)
        if key in self._muted:
            return
        strikes = self._strikes[key] = self._strikes.get(key, 0) + 1
        pause_s = min(RETRY_S * 2.0 ** min(strikes - 1, 10), LONGEST_RETRY_S)
        self._muted[key] = _Muted(plain(reason), at + pause_s)

    def release(self, at: float) -> None:
        """Let those be tried again whose time has come."""
        self._muted = {key: muted for key, muted in self._muted.items() if at < muted.until}

    def admit(self, key: str, declared: Declaration, at: float) -> None:
        """Take a loaded detector in, unless another one has its name."""
        taken = [k for k, d in self.declared.items() if d.name == declared.name and k != key]
        if taken:
            self.mute(key, f"the name {declared.name} is taken by {taken[0]}", at)
        else:
            self.declared[key] = declared

    def leave_out(self, key: str, name: str) -> None:
        """Note that a detector is off by default, and nobody has enabled it."""
        self._off[key] = plain(name)

    def at_work(self) -> tuple[str, ...]:
        """Names of the loaded detectors that are not muted."""
        return tuple(d.name for key, d in self.declared.items() if key not in self._muted)

    def coverage(self) -> tuple[Coverage, ...]:
        """One line per detector that is muted, or off."""
        muted = (
            Coverage(
                detector=self._name(key),
                subjects_seen=0,
                subjects_blind=0,
                missing_fields=(),
                state="muted",
                note=muted.reason,
            )
            for key, muted in sorted(self._muted.items())
        )
        off = (
            Coverage(
                detector=name,
                subjects_seen=0,
                subjects_blind=0,
                missing_fields=(),
                state="off",
                note=_OFF,
            )
            for _, name in sorted(self._off.items())
        )
        return (*muted, *off)

    def errors(self) -> tuple[SourceError, ...]:
        """One error per muted detector."""
        hint = "gpumon detectors check MODULE:CLASS shows what is wrong; it is tried again later"
        return tuple(
            SourceError(f"detector {self._name(key)}", muted.reason, hint)
            for key, muted in sorted(self._muted.items())
        )

    def _name(self, key: str) -> str:
        declared = self.declared.get(key)
        return declared.name if declared else key
