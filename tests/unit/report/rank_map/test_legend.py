"""How many ranks and GPUs a chart of a job shows, in the words of the job's page."""

from __future__ import annotations

import pytest

from gpumon.report.facts.tick_index import Digest
from gpumon.report.rank_map.legend import amount_words
from tests.worlds.tick import job_with_gpus, tick


def amount(gpus: int, idle: int) -> str:
    view, made = job_with_gpus("1", {"n1": gpus}, idle=idle)
    digest = Digest(tick((view,), made))
    return amount_words(digest.rank_rows(digest.tick.jobs[0]))


@pytest.mark.parametrize(
    ("gpus", "idle", "words"),
    [(8, 0, "8 ranks"), (8, 3, "5 ranks, 8 GPUs"), (2, 1, "1 rank, 2 GPUs"), (4, 4, "4 GPUs")],
)
def test_a_gpu_without_a_process_is_no_rank(gpus, idle, words):
    assert amount(gpus, idle) == words
