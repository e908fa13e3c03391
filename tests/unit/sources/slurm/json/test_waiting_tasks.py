"""Tasks of arrays as slurmctld keeps them and as squeue prints them."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.sources.slurm.json.jobs import read_jobs, waiting_tasks


@pytest.mark.parametrize(
    ("told", "most", "listed"),
    [
        ("", None, ""),
        ("(null)", 4, ""),
        ("2-7%2", 2, "2-7%2"),
        ("0x1FFFFE", 0, "1-20"),
        ("0x1FFFFE", 3, "1-20%3"),
        ("0x1FFFFE%5", 5, "1-20%5"),
        ("0x000B", None, "0-1,3"),
        # Single tasks at equal distances, from eleven on.
        ("0x40200", None, "9,18"),
        ("0x49249", None, "0-18:3"),
        ("0x0", None, "0x0"),
        ("0xQQ", None, "0xQQ"),
    ],
)
def test_a_bitmap_is_told_as_slurms_commands_tell_it(told, most, listed):
    assert waiting_tasks(told, most) == listed


@given(st.sets(st.integers(0, 400), min_size=1))
def test_every_task_of_a_short_list_comes_back(tasks):
    listed = waiting_tasks(hex(sum(1 << task for task in tasks)))
    if listed.endswith("..."):
        assert len(listed) == 63
        return
    found = set()
    for part in listed.split(","):
        bounds, _, step = part.partition(":")
        first, _, last = bounds.partition("-")
        found.update(range(int(first), int(last or first) + 1, int(step or 1)))
    assert found == tasks


def test_what_waits_of_an_array_goes_by_the_numbers_of_its_tasks():
    tasks = "0x" + "F" * 24 + "E"
    record = {
        "job_id": 21, "job_state": "PENDING", "user_name": "alice", "array_job_id": 21,
        "array_task_string": tasks, "array_max_tasks": 7,
    }  # fmt: skip
    (job,) = read_jobs([record]).jobs
    assert job.label == "21_[1-99%7]"


def test_of_a_long_list_no_more_is_written_out_than_is_told() -> None:
    told = "0x" + "d" * 700_000
    tracemalloc.start()
    try:
        assert waiting_tasks(told).startswith("0,2-4,6-8,10-12,")
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()
    assert waiting_tasks("0x" + "1" * 700_000) == f"0-{4 * 699_999}:4"
