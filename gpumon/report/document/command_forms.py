"""What commands write as JSON beside the document, as types.

Made of the schema by `python -m tools.schema`; change that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from gpumon.report.document import forms
    from gpumon.report.facts.entities import Moment


class Check(TypedDict):
    """One thing that was looked at."""

    what: str
    state: str
    says: str
    way_out: str


class Forecast(TypedDict):
    """What one way to watch a target takes at most."""

    target: str
    whose: str
    nodes: int
    connections: int
    nodes_at_once: int
    slurm_calls_per_minute: float
    client_bytes: int
    own_bytes: int
    history_bytes: int
    login_cpu_s: float


class Doctor(TypedDict):
    """What `gpumon doctor --json` writes."""

    schema: Literal["gpumon-doctor/1"]
    checks: list[Check]
    forecasts: list[Forecast]


class Delays(TypedDict):
    """Seconds."""

    p50: float | None
    p90: float | None


class Counts(TypedDict):
    """What was found and claimed."""

    precision: float | None
    recall: float | None
    f1: float | None
    n: int
    found: int
    claims: int


class AllClasses(Counts):
    """All classes at one step of confidence."""

    macro_f1: float | None
    macro_f1_interval: list[float | None] | None


class Calibration(TypedDict):
    """How often the claims of one step are true."""

    true_ratio: float | None
    low: float | None
    high: float | None
    n: int


class ClassScore(Counts):
    """How well one class was found, of supported claims."""

    is_looked_for: bool
    abstained: int
    named: int
    delay_s: Delays
    true_gpu_hours: float
    gpu_hours_error_ratio: float | None
    wasted_error_ratio: float | None


class JudgedClass(ClassScore):
    """The same, with each step of confidence."""

    steps: dict[str, Counts]


class JudgedClaims(TypedDict):
    """A part of one that a function of its own makes."""

    macro_f1: float | None
    macro_f1_interval: list[float | None] | None
    macro_f1_of_its_classes: float | None
    delay_s: Delays | None
    false_alarms: int | None
    false_alarms_per_1000_gpu_days: float | None
    benign: int | None
    benign_flagged: int | None
    benign_flagged_ratio: float | None
    gpu_hours_error_ratio: float | None
    gpu_hours_error_interval: list[float | None] | None
    wasted_error_ratio: float | None
    wasted_error_interval: list[float | None] | None
    benign_charged_gpu_hours: float | None


class Baseline(JudgedClaims):
    """One simple rule."""

    claims_classes: list[str]
    jobs: int
    jobs_judged: int
    classes: dict[str, ClassScore]


class Evaluation(JudgedClaims):
    """What `gpumon evaluate --json` writes."""

    schema: Literal["gpumon-evaluation/1"]
    files: list[str]
    gpu_days: float
    charged_above_claimed_gpu_hours: float
    jobs_left_out_of_hours: int
    claims_not_judged: int
    steps: dict[str, AllClasses]
    calibration: dict[str, Calibration]
    classes: dict[str, JudgedClass]
    baselines: dict[str, Baseline]
    confusion: dict[str, dict[str, int]]
    errors: list[str]


class NamedPattern(TypedDict):
    """A pattern of jobs that a user named, in one version."""

    name: str
    version: int
    owner: str
    at: float
    traits: list[NamedTrait]
    jobs: int
    gpu_seconds: float
    exemplar: str


class NamedTrait(TypedDict):
    """One feature by which it is recognised."""

    key: str
    value: float
    usual: float


class NamedPatterns(TypedDict):
    """What `gpumon patterns --named --json` writes."""

    format: Literal["gpumon-named-patterns/1"]
    patterns: list[NamedPattern]


class Pattern(TypedDict):
    """Jobs that behaved alike, or one odd job."""

    gpu_seconds: float
    since: float
    users: list[str]
    exemplar: str
    times_usual: float | None
    traits: list[Trait]
    jobs: list[PatternJob]


class Trait(TypedDict):
    """One feature by which a pattern's jobs differ."""

    feature: str
    unit: str
    doc: str
    value: float
    usual: float


class PatternJob(TypedDict):
    """How one job behaved."""

    job_id: str
    user: str
    since: float
    until: float
    gpu_seconds: float


class Patterns(TypedDict):
    """What `gpumon patterns --json` writes."""

    schema: Literal["gpumon-patterns/1"]
    allocated_gpu_seconds: float
    unexplained_gpu_seconds: float
    patterns: list[Pattern]
    single_jobs: list[PatternJob]
    odd_jobs: list[Pattern]


class ReportSpan(TypedDict):
    """What one span of time adds up to."""

    total: forms.LedgerLine
    lines: list[forms.LedgerNamedLine]


class Report(ReportSpan):
    """What `gpumon report --json` writes."""

    schema: Literal["gpumon-report/2"]
    since: Moment | None
    until: Moment | None
    currency: str | None
    skipped_lines: int
    by: str
    before: ReportSpan | None


class TableColumn(TypedDict):
    """A column of a table that was exported."""

    key: str
    title: str
    unit: str | None
    doc: str


class Table(TypedDict):
    """What the terminal writes for `:export FILE.json`."""

    schema_version: Literal[1]
    at: float
    columns: list[TableColumn]
    rows: list[dict[str, float | int | str | None]]


class ClassFit(TypedDict):
    """How well a class is recognised."""

    jobs: int
    told: float | None
    precision: float | None
    recall: float | None
    claims_from: float | None
    calibration_error: float | None
    is_kept: bool


class Train(TypedDict):
    """What `gpumon train --json` writes."""

    schema: Literal["gpumon-train/1"]
    classes: dict[str, ClassFit]
