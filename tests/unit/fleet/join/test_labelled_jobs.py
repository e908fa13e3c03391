"""Jobs that only labels of exporters tell of, and labels beside what Slurm gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.fleet.join.join import join
from tests.unit.fleet.factories import (
    DEVICES,
    frame,
    gpu_block,
    job,
    node,
    process_blocks,
    queue,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.fleet.join.join import JoinedFleet
    from gpumon.model.records.frame import Frame, QueueRecords

PAGE = "dcgm+http://gpu[01-02]:9400/metrics"


def page(name: str, *told: str | None, at: float = 99.0) -> Frame:
    """A page of a node whose GPUs have these labels."""
    block = gpu_block(name, list(range(len(told))))
    block = block._replace(labels={**block.labels, "label_jobs": told})
    return frame(name, {"gpu": block})._replace(origin=PAGE, taken_at=at)


def picture(*frames: Frame, records: QueueRecords | None = None) -> JoinedFleet:
    return join(frames, records, {}, 100.0, 5.0)


def test_without_a_queue_labels_tell_which_gpus_a_job_holds_and_nothing_else() -> None:
    seen = picture(page("gpu01", "7", "7", None), page("gpu02", "7", "8 9", "8"))
    assert {view.job.job_id: view.gpu_uuids for view in seen.jobs} == {
        "7": (uuid("gpu01", 0), uuid("gpu01", 1), uuid("gpu02", 0)),
        "8": (uuid("gpu02", 1), uuid("gpu02", 2)),
        "9": (uuid("gpu02", 1),),
    }
    first = seen.jobs[0]
    assert first.job.is_labelled
    assert first.job.nodes == ("gpu01", "gpu02")
    assert (first.job.user, first.job.account, first.job.name) == ("", "", "")
    assert (first.job.submit_at, first.job.start_at, first.job.time_limit_s) == (None, None, None)
    assert first.gpus_unknown == 0
    assert first.contradictions == ()


def test_without_a_queue_and_labels_there_are_no_jobs() -> None:
    assert picture(page("gpu01", None)).jobs == ()


def test_labels_of_a_silent_page_tell_of_no_present_job() -> None:
    assert picture(page("gpu01", "7", at=90.0)).jobs == ()


def test_a_process_of_a_labelled_job_makes_ranks_and_is_contradicted_elsewhere() -> None:
    blocks = process_blocks([(41, [uuid("gpu01", 1)], "7", "0", {"RANK": "0"})])
    seen = picture(
        page("gpu01", "7", None), frame("gpu01", {"gpu": gpu_block("gpu01", [0, 1]), **blocks})
    )
    (view,) = seen.jobs
    assert view.gpu_uuids == (uuid("gpu01", 0),)
    assert view.gpu_uuids_used == (uuid("gpu01", 1),)
    assert view.contradictions == (
        f"a process of job 7 is on {uuid('gpu01', 1)} of gpu01, which no label names as its",
    )


def test_what_slurm_gave_counts_and_a_label_that_says_else_is_told(
    said: Callable[..., None],
) -> None:
    records = queue(
        [job("7", {"gpu01": (0,)}), job("8", {"gpu01": (1,)})], [node("gpu01", DEVICES)]
    )
    seen = picture(page("gpu01", "7", "7", "8"), records=records)
    seven, eight = seen.jobs
    assert seven.gpu_uuids == (uuid("gpu01", 0),)
    assert eight.gpu_uuids == (uuid("gpu01", 1),)
    begin = "the label of an exporter puts job"
    assert seven.contradictions == (
        f"{begin} 7 on {uuid('gpu01', 1)} of gpu01, which Slurm gave to job 8",
    )
    assert eight.contradictions == (
        f"{begin} 8 on {uuid('gpu01', 2)} of gpu01, which Slurm's allocation does not name",
    )
    assert not seven.job.is_labelled
    said(*seven.contradictions)


def test_labels_that_agree_and_those_of_jobs_that_slurm_lists_no_more_say_nothing() -> None:
    records = queue([job("7", {"gpu01": (0,)})], [node("gpu01", DEVICES)])
    seen = picture(page("gpu01", "7", "6"), records=records)
    (view,) = seen.jobs
    assert view.contradictions == ()


def test_where_slurm_names_no_gpu_a_label_does() -> None:
    records = queue([job("7", {"gpu01": (0,)})], [node("gpu01")])
    seen = picture(page("gpu01", None, "7"), records=records)
    (view,) = seen.jobs
    assert view.gpu_uuids == (uuid("gpu01", 1),)
    assert view.gpus_unknown == 0
