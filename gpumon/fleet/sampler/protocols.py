"""What the sampler hands its pictures to: the past, the books, detection; how long it may end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from gpumon.model.finding import DetectionReport
    from gpumon.model.records.ledger import LedgerTotals
    from gpumon.model.records.tick import Tick, WindowReader

CLOSE_WAIT_S: Final = 0.45
"""Longest wait for a sampler's thread at the end, also of one that is still being made."""


class Past(Protocol):
    """Where ticks are remembered; `gpumon.fleet.history.history.History` is one."""

    @property
    def begins_at(self) -> float | None:
        """Unix time of the first tick that is remembered; None: there is none yet."""
        ...

    def append(self, tick: Tick) -> None:
        """Remember the values of a tick."""
        ...

    def reader(self) -> WindowReader:
        """Reader of everything remembered so far."""
        ...

    def close(self) -> None:
        """Free the memory."""
        ...


class Renewable(Past, Protocol):
    """A memory that another one can take the place of."""

    def blank(self) -> Renewable:
        """An empty one; whoever holds readers of both tells their rows apart."""
        ...


class GpuTimeLedger(Protocol):
    """Where GPU time is accounted for; `gpumon.fleet.ledger.ledger.Ledger` is one."""

    def take(self, tick: Tick) -> None:
        """Book the time since the tick before, and what the findings say of it."""
        ...

    def summary(self) -> LedgerTotals:
        """The books as they are now."""
        ...

    def close(self) -> None:
        """Write what is not written yet."""
        ...


class Detection(Protocol):
    """The detection engine as the sampler sees it; handed in, because it is a floor above."""

    def submit(self, tick: Tick) -> bool:
        """Hand over a picture without waiting; False: one is still being judged."""
        ...

    def rehearse(self, tick: Tick) -> None:
        """Find out, without waiting, which plugins hang: while it goes on, `submit` says no."""
        ...

    def collect(self) -> DetectionReport | None:
        """The newest answer that has not been collected yet."""
        ...

    def finish(self, timeout_s: float) -> DetectionReport | None:
        """The answer to the last picture, waiting for it at most so long."""
        ...

    def acknowledge(self, identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        """Note that somebody knows of a finding; False: it does not stand."""
        ...

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        """Tell nothing of a class, a subject, or a class about a subject before a Unix time."""
        ...

    def renew(self) -> None:
        """Load detectors anew for the next picture."""
        ...

    def rest(self) -> None:
        """End the worker until the next picture, without waiting."""
        ...

    def close(self) -> None:
        """End the worker."""
        ...
