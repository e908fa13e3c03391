"""Who holds a GPU by what a server tells: each job, or pod, on it has a series of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.sources.exporters.plan import LABELS, MOST_HOLDERS, label_of

if TYPE_CHECKING:
    from collections.abc import Mapping

JOB_ID: Final = "nvidia_gpu_jobId"
"""Princeton's nvidia_gpu_prometheus_exporter tells a GPU's job as this value."""

_LARGEST_ID: Final = 2**32
"""Numbers of Slurm's jobs are smaller."""


def added(
    first: Mapping[str, str], others: tuple[Mapping[str, str], ...], labels: Mapping[str, str]
) -> tuple[Mapping[str, str], ...]:
    """The further labels of one GPU with one more; the same where it names nobody new.

    Args:
        first: The labels that the GPU is known by.
        others: Further ones of the same sample.
        labels: One more, made harmless.
    """
    whose = _whose(labels)
    known = (first, *others)
    if not any(whose) or len(known) >= 2 * MOST_HOLDERS or whose in map(_whose, known):
        return others
    return (*others, labels)


def with_job(
    first: Mapping[str, str], others: tuple[Mapping[str, str], ...], number: float
) -> tuple[Mapping[str, str], ...]:
    """The further labels of one GPU with the job that a value names; 0 says that there is none."""
    if not 0 < number < _LARGEST_ID or number != int(number):
        return others
    bare = {name: text for name, text in first.items() if name not in _HOLDERS}
    return added(first, others, {**bare, LABELS["job"][0]: f"{number:.0f}"})


_HOLDERS: Final = frozenset(
    name for what in ("job", "pod", "namespace", "container") for name in LABELS[what]
)


def _whose(labels: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(label_of(labels, what) for what in ("job", "namespace", "pod", "container"))
