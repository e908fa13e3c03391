"""`--filter`: the language of the terminal's `/` for everything that the command shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from gpumon.model.cluster import JobView
    from gpumon.model.tick import Tick

ONLY_GPUS: Final = "--filter names columns that only GPUs have; a document's filter is about jobs"
"""Why a command that writes documents refuses a filter."""


def is_refused(options: argparse.Namespace) -> bool:
    """Whether documents are asked for with a filter that is not about jobs."""
    writes_documents = options.json or options.watch_s is not None
    return writes_documents and options.passes is not None and options.passes.jobs is None


def passing(
    options: argparse.Namespace, tick: Tick, wanted: Callable[[JobView], bool] = lambda _view: True
) -> Callable[[JobView], bool]:
    """Which of the wanted jobs of a picture pass the filter, where there is one."""
    keeps = None if options.passes is None else options.passes.jobs
    if keeps is None:
        return wanted
    from gpumon.report.digest import Digest

    digest = Digest(tick)
    return lambda view: wanted(view) and keeps(digest, view)
