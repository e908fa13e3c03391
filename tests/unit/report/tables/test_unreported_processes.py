"""A job on GPUs whose processes no source reports is not a job without processes."""

from __future__ import annotations

from gpumon.model.missing import Reason
from gpumon.model.records.cluster import JobView
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.gpu import rank_why
from gpumon.report.wording.gpu_cells import unused_words
from tests.worlds.tick import BUSY, gpu, job, tick


def digest_and_why(*, is_reported: bool) -> tuple[Digest, str]:
    one = gpu(
        "n1", 0, {**BUSY, "process_count": 0 if is_reported else None, "clock_event_reasons": 0}
    )
    missing = {} if is_reported else {("process_count", 0): Reason.NOT_SHARED}
    one = one._replace(processes=(), block=one.block._replace(missing=missing))
    view = JobView(job("7", gpu_count=1), (one.uuid,), 0, (), ())
    made = tick((view,), [one])
    digest = Digest(made)
    (row,) = digest.rank_rows(view)
    return digest, rank_why(digest, row).text


def test_without_a_word_of_processes_none_is_called_absent() -> None:
    digest, why = digest_and_why(is_reported=False)
    assert why == "no rank: its source reports no processes"
    (one,) = digest.tick.gpus.values()
    assert unused_words(one, "7") == ""


def test_where_they_are_told_their_absence_is() -> None:
    digest, why = digest_and_why(is_reported=True)
    assert why == "no process"
    (one,) = digest.tick.gpus.values()
    assert unused_words(one, "7") == "no process"
