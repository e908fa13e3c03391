"""Sections of the page of a GPU."""

from __future__ import annotations

import pytest

from gpumon.model.missing import Reason
from gpumon.report.facts.tick_index import Digest
from gpumon.report.pages.gpu_sections import gpu_sections
from tests.worlds.tick import BUSY, gpu, tick


@pytest.mark.parametrize(
    ("reason", "note"),
    [
        (Reason.NOT_SHARED, "not reported by an exporter"),
        (Reason.NO_PERMISSION, "not known: this user may not read it"),
        (Reason.LOST, "not known: the GPU fell off the bus"),
        (None, "none holds a context on it"),
    ],
)
def test_that_no_process_is_there_is_shown_only_where_it_is_known(reason, note):
    one = gpu("n1", 0, {**BUSY, "process_count": 0.0 if reason is None else None})
    if reason is not None:
        missing = {**one.block.missing, ("process_count", 0): reason}
        one = one._replace(block=one.block._replace(missing=missing))
    made = Digest(tick((), [one], queue_at=None))
    (found,) = [section for section in gpu_sections(made, one, 100) if section.title == "Processes"]
    assert found.note == note
