"""What a detector claims, on which evidence, and what it could not see."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from gpumon.model.fault import SourceError


class Confidence(StrEnum):
    """The ladder of claims. A shorter window can only be a hypothesis."""

    HYPOTHESIS = "hypothesis"
    SUPPORTED = "supported"
    ESTABLISHED = "established"

    @property
    def rank(self) -> int:
        """Position on the ladder, from 0."""
        return _CONFIDENCE_RANKS[self]


class Severity(StrEnum):
    """How much it matters if the claim is right."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Order by importance, from 0."""
        return _SEVERITY_RANKS[self]


# Asked of every finding at every evaluation: an enumeration takes long to be walked.
_CONFIDENCE_RANKS: Final = {step: rank for rank, step in enumerate(Confidence)}
_SEVERITY_RANKS: Final = {step: rank for rank, step in enumerate(Severity)}


class Evidence(NamedTuple):
    """One observation that the claim rests on."""

    field: str
    """Key of the catalogue, or the name of a record."""
    subject: str
    """`gpu:UUID`, `job:ID`, `node:NAME`."""
    text: str
    """One readable sentence with numbers and units."""
    value: float | None = None


class Window(NamedTuple):
    """The time that the claim was observed over, never what was wished for."""

    start: float
    """Unix time of the first sample."""
    end: float
    """Unix time of the last sample."""
    samples: int


class Finding(NamedTuple):
    """One claim about one subject."""

    detector: str
    finding_class: str
    """Class of inefficiency, for example `partial_gpus_idle`."""
    subject: str
    """`job:ID`, `job:ID/rank:N`, `gpu:UUID` or `node:NAME`."""
    severity: Severity
    confidence: Confidence
    summary: str
    """One sentence for the person at the screen."""
    evidence: tuple[Evidence, ...]
    window: Window
    first_seen: float
    last_seen: float
    advice: tuple[str, ...]
    """Next steps of who owns the job; a command holds validated ids and quoted values only."""
    gpu_seconds: float | None
    """GPU-seconds lost within the window; None: unknown."""
    onset: float | None = None
    """Unix time at which the evidence began, at most the window's start; None: its start."""
    cleared_at: float | None = None
    """Unix time at which it was last seen before it went away; None: it is open."""
    unknown_since: float | None = None
    """Unix time since when its subject cannot be judged; None: it was at the last evaluation."""
    is_acknowledged: bool = False
    """Whether a user has acknowledged it."""
    category: str = ""
    """Kind of cause, one of `gpumon.model.finding_classes.Category`; empty: none is given."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs whose time `gpu_seconds` counts; empty: every GPU of its subject."""
    owners: tuple[int, ...] = ()
    """Uids of the users that hold the GPU of its subject, where no job does."""
    machine_advice: tuple[str, ...] = ()
    """Next steps for the administrators, likewise."""
    is_learned: bool = False
    """Whether an estimator reports it, not a rule."""

    @property
    def began_at(self) -> float:
        """Unix time at which the evidence began."""
        return self.window.start if self.onset is None else self.onset

    @property
    def is_open(self) -> bool:
        """Whether it is open: neither cleared nor lost out of sight."""
        return self.cleared_at is None

    @property
    def identity(self) -> tuple[str, str, str]:
        """What makes two claims the same finding over time."""
        return (self.detector, self.finding_class, self.subject)


class Coverage(NamedTuple):
    """What one detector could and could not see at the last evaluation."""

    detector: str
    subjects_seen: int
    """Subjects it could judge."""
    subjects_blind: int
    """Subjects for which fields that it needs were missing, or that it declines to judge."""
    missing_fields: tuple[str, ...]
    state: str
    """`ok`, `waiting` (window too short), `muted` (raised, overran or returned rubbish), `off` (by
    default, and no one has enabled it)."""
    note: str = ""
    needs_s: float = 0.0
    """Seconds that a subject must have been observed before its word is more than a guess."""
    blind_subjects: Collection[str] = ()
    """Those of `subjects_blind`, as findings name them; unknown where the worker is not asked."""
    blind_reasons: Mapping[str, str] = MappingProxyType({})
    """Why, by subject, of those that the detector itself declines to judge, no field missing."""
    unseen: Mapping[str, Collection[str]] = MappingProxyType({})
    """Subjects that it judges in part only, by what it cannot see of them."""

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """Why it declines to judge, and how many subjects: the most frequent reason first."""
        return Counter(self.blind_reasons.values()).most_common()


COVERAGE_STATES: Final = ("ok", "waiting", "muted", "off")


class DetectionReport(NamedTuple):
    """What the detection worker answered about one tick."""

    at: float
    """Unix time of the tick that was judged."""
    findings: tuple[Finding, ...]
    coverage: tuple[Coverage, ...]
    errors: tuple[SourceError, ...]
    """Detectors that raised, overran or were muted, one line each."""
    cleared: tuple[Finding, ...] = ()
    """Findings that went away within the last hour."""
    muted: tuple[Finding, ...] = ()
    """Findings of which no report is wanted, which are in neither of the two."""
