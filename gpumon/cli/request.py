"""What a command is asked for, made once of its words and the settings, and never changed.

A parser's own result can be changed by whoever holds it, and what was read of it before then
counts for one part of a command and not for another. So it stays with the function that parsed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.cli.configuration import load
from gpumon.model.cluster_names import within_cluster
from gpumon.model.settings import Chosen, Settings
from gpumon.sources.address import TargetError, parse
from gpumon.sources.own_login import own_login

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.cli.since import Since
    from gpumon.fleet.sampler.protocols import Detection, Renewable
    from gpumon.model.records.cluster import Job
    from gpumon.model.records.tick import Tick
    from gpumon.report.lists.filter_tables import RowFilter
    from gpumon.sources.address import Target

ALL_FLAG: Final = "--all"
"""Origin of what the command line says of all jobs."""


class WantedJobs(NamedTuple):
    """Whose jobs a command is about."""

    job: str | None
    """Only the job of this id or label; None: not only one."""
    user: str | None
    """Only this user's; None: the own ones, or everyone's."""
    is_everyone: bool
    """Whether every user's jobs are wanted where neither is named."""
    own: str
    """Login name of whoever asks."""

    @property
    def is_named(self) -> bool:
        """Whether a job or a user was asked for by name."""
        return self.job is not None or self.user is not None

    def includes(self, job: Job) -> bool:
        """Whether a job is one of them."""
        if self.job is not None:
            names = (job.job_id, job.label)
            return self.job in names or self.job in map(within_cluster, names)
        if self.user is not None:
            return job.user == self.user
        return self.is_everyone or job.user == self.own

    def lacks_job(self, tick: Tick) -> bool:
        """Whether the one job that was asked for is not in a picture that has a queue."""
        if self.job is None or tick.queue_at is None:
            return False
        ended = () if tick.ended is None else tick.ended.jobs
        return not any(
            map(self.includes, [*(view.job for view in tick.jobs), *(e.job for e in ended)])
        )


def wanted_of(
    job: str | None, user: str | None, settings: Settings, targets: Sequence[Target]
) -> WantedJobs:
    """Whose jobs are wanted: those that are named, else the user's own, for root everyone's."""
    # A user that is named on the command line beats everybody of the configuration.
    all_jobs = settings.chosen["all_jobs"]
    is_all = bool(all_jobs.value) and (all_jobs.origin == ALL_FLAG or user is None)
    is_root = user is None and os.getuid() == 0
    is_everyone = is_all or is_demo(targets) or _names_no_own(targets) or is_root
    return WantedJobs(job, user, is_everyone, own_login())


def _names_no_own(targets: Sequence[Target]) -> bool:
    """Whether jobs come from elsewhere than a queue that knows which ones are the caller's."""
    asks_slurm = any(target.scheme == "slurm" for target in targets)
    return not asks_slurm and not all(target.kind.knows_caller for target in targets)


class Request(NamedTuple):
    """What the main command is asked for."""

    settings: Settings
    targets: tuple[Target, ...]
    wanted: WantedJobs
    is_json: bool
    is_terminal: bool
    """Whether the answer is the interactive terminal."""
    is_to_tty: bool
    """Whether standard output is a terminal, whatever is written there."""
    for_s: float
    """How long one look lasts."""
    watch_s: float | None
    """Period of a stream of documents; None: no stream."""
    passes: RowFilter | None
    since: Since | None
    """Since when ended jobs are wanted; None: they are not."""
    steps_of: str | None
    """Job of which is wanted what its steps have used; None: of none."""
    period_s: float
    """Beat of the terminal."""
    past_s: float | None
    """How much of a past is to be invented; None: none."""
    is_ascii: bool
    allows_actions: bool
    has_gpm: bool
    tiers: tuple[str, ...]
    is_check: bool
    """Whether the exit code answers a monitoring check."""


def is_demo(targets: Sequence[Target]) -> bool:
    """Whether everything that is shown is invented, so that no job is the caller's own."""
    return all(target.scheme == "demo" for target in targets)


def settings_with(*, period_s: float | None = None, is_all: bool = False) -> Settings:
    """Every setting, with the flags of a command line over the environment and the files.

    Raises:
        ConfigurationError: It is wrong; one line for each problem.
    """
    settings = load()
    chosen = dict(settings.chosen)
    if period_s is not None:
        chosen["period_s"] = Chosen(period_s, "--period")
    if is_all:
        chosen["all_jobs"] = Chosen(True, ALL_FLAG)
    return Settings(chosen)


def chosen_targets(words: Sequence[str], settings: Settings) -> list[Target]:
    """Targets of the command line, else those of the configuration; none where neither names any.

    Raises:
        TargetError: one is of no known form; the message says where it stands.
    """
    if words:
        return [parse(text) for text in words]
    try:
        return [parse(text) for text in settings.texts("targets")]
    except TargetError as error:
        raise TargetError(f"{settings.chosen['targets'].origin}: targets: {error}") from None


def past_of(settings: Settings) -> Callable[[], Renewable]:
    """Makes the memory of the past."""

    def history() -> Renewable:
        from gpumon.fleet.history.history import History

        return History(max_bytes=int(settings.number("history.max_mib") * 2**20))

    return history


def judge_of(settings: Settings, *, is_noted: bool = False) -> Callable[[], Detection]:
    """Makes the detection engine; one that is noted keeps what is said of findings."""

    def engine() -> Detection:
        from gpumon.detect.engine.engine import DetectionEngine
        from gpumon.detect.engine.notes_file import NotesFile, own_notes
        from gpumon.detect.worker.tuning import Tuning

        notes = NotesFile(own_notes()) if is_noted else None
        return DetectionEngine(tuning=Tuning.of(settings), notes=notes)

    return engine
