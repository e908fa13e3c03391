"""A detection engine behind another pace: what both kinds of pace pass on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpumon.fleet.sampler.protocols import Detection
    from gpumon.model.finding import DetectionReport
    from gpumon.model.records.tick import Tick

FINDINGS_WAIT_S: Final = 60.0
"""Where nobody watches, the findings of a picture are waited for so long."""


class PacedJudge:
    """A detection engine; who derives from it says when it is asked, and when it is heard."""

    def __init__(self, engine: Detection) -> None:
        self._engine = engine

    def submit(self, tick: Tick) -> bool:
        """Hand over a picture without waiting; False: it is not judged."""
        return self._engine.submit(tick)

    def collect(self) -> DetectionReport | None:
        """The newest answer that has not been collected yet."""
        return self._engine.collect()

    def rehearse(self, tick: Tick) -> None:
        """Find out, without waiting, which plugins hang."""
        self._engine.rehearse(tick)

    def finish(self, timeout_s: float) -> DetectionReport | None:
        """The answer to the last picture, waiting for it at most so long."""
        return self._engine.finish(timeout_s)

    def acknowledge(self, identity: tuple[str, str, str], *, is_known: bool = True) -> bool:
        """Note that somebody knows of a finding; False: it does not stand."""
        return self._engine.acknowledge(identity, is_known=is_known)

    def mute(
        self, until: float, finding_class: str | None = None, subject: str | None = None
    ) -> None:
        """Tell nothing of a class, a subject, or a class about a subject before a Unix time."""
        self._engine.mute(until, finding_class, subject)

    def renew(self) -> None:
        """Load detectors anew for the next picture."""
        self._engine.renew()

    def rest(self) -> None:
        """End the worker until the next picture."""
        self._engine.rest()

    def close(self) -> None:
        """End the worker."""
        self._engine.close()
