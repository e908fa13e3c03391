"""What is read beside the ticks, as screens know it: patterns, the ledger on disk, jobs' output."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import Job
    from gpumon.model.records.ledger import Compared
    from gpumon.model.records.pattern import Patterns
    from gpumon.model.records.tick import Tick
    from gpumon.sources.job_output import Tail


class LedgerReader(Protocol):
    """The ledger on disk; `gpumon.fleet.ledger.stored.StoredLedger` reads it."""

    @property
    def weeks(self) -> Compared | None:
        """The newest week and the one before; None: they were not read yet."""
        ...

    @property
    def trouble(self) -> str:
        """Why they cannot be read; empty: they can, as far as is known."""
        ...

    def ask(self, now: float) -> None:
        """Have the weeks until a Unix time read, without waiting."""
        ...


class Outputs(Protocol):
    """What jobs print; `gpumon.sources.job_output.JobOutput` reads it."""

    def tail(self, job: Job) -> Tail | None:
        """The newest lines that are known, without waiting; None: none are."""
        ...


class Discovering(Protocol):
    """Finds patterns in what no finding explains; `gpumon.detect.learning.discovery` has one."""

    @property
    def found(self) -> Patterns | None:
        """The newest patterns; None: there are none yet."""
        ...

    def take(self, tick: Tick) -> None:
        """Take a tick, without waiting."""
        ...

    def name(self, number: int, name: str) -> str:
        """Call a pattern so from now on; returns what came of it. May take seconds."""
        ...

    def unname(self, name: str) -> str:
        """Take a name back; returns what came of it. May take seconds."""
        ...

    def close(self) -> None:
        """End what is under way, without waiting."""
        ...


class Judged(Protocol):
    """What users answer to findings; `gpumon.detect.learning.case_store.CaseStore` stores it."""

    def store(self, tick: Tick, finding: Finding, *, is_right: bool | None) -> str:
        """Store whether a finding is right, None: no more; returns what came of it.

        It may take seconds.
        """
        ...


class Beside(NamedTuple):
    """What is read beside the ticks, where it can be."""

    discovery: Discovering | None = None
    """None: patterns are not searched for."""
    stored_ledger: LedgerReader | None = None
    """None: no ledger is stored on disk."""
    outputs: Outputs | None = None
    """None: what jobs print cannot be read here."""
    cases: Judged | None = None
    """None: answers to findings are not stored."""
