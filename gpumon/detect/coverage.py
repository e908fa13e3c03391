"""What a detector could and could not see on one look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumon.model.finding import Coverage

if TYPE_CHECKING:
    from gpumon.detect.contract import Declaration
    from gpumon.detect.view import View


def coverage_of(view: View, declared: Declaration) -> Coverage:
    """Counts subjects with and without a value now for each field that the detector needs.

    A job of which some GPUs are unnamed or silent counts as blind: part of it was not judged.
    """
    column = {uuid: position for position, uuid in enumerate(view.gpus)}
    is_there = np.isfinite(view.latest(tuple(column), declared.needs))
    if declared.subjects == "gpu":
        groups = [[position] for position in column.values()]
        is_named = [True] * len(groups)
    else:
        groups = [[column[uuid] for uuid in job.uuids] for job in view.jobs]
        is_named = [not job.gpus_unknown for job in view.jobs]
    seen = 0
    lacking = np.zeros(len(declared.needs), bool)
    for group, named in zip(groups, is_named, strict=True):
        there = is_there[:, group].all(axis=1)
        lacking |= ~there
        seen += bool(named and group and there.all())
    missing = tuple(key for key, gone in zip(declared.needs, lacking, strict=True) if gone)
    observed_s = view.now - view.observed_since
    if observed_s >= declared.supported_after_s:
        return Coverage(declared.name, seen, len(groups) - seen, missing, "ok")
    note = f"observed for {observed_s:.0f} s of {declared.supported_after_s:.0f} s"
    return Coverage(declared.name, seen, len(groups) - seen, missing, "waiting", note)
