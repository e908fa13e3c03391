"""What only looks as if it were scarce: busy CPUs that nobody waits for, one slow save."""

from __future__ import annotations

import pytest

from tests.unit.gpumon_detectors.wait_scenes import Job, played, work
from tests.unit.gpumon_detectors.waits.test_waiting_jobs import SAVING, STARVED, classes


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [
        ({"cpu_pressure": 0.0}, False),
        ({"cpu_pressure": 0.07}, True),
        ({"has_pressure": False}, True),
    ],
)
def test_cpus_that_no_task_waits_for_are_not_scarce_however_busy(changes, is_found):
    job = Job()._replace(**changes)
    scene, _ = played(10.0, "none", [(1700.0, STARVED)], job)
    assert ("input_bound" in classes(scene)) is is_found


@pytest.mark.parametrize(("seconds", "is_found"), [((9, 150, 11), False), ((70, 150, 65), True)])
def test_one_long_save_among_short_ones_is_not_how_a_job_saves(seconds, is_found):
    """The file system is slow for once: most saves tell how the job saves."""
    saves = [SAVING[1]._replace(seconds=float(length_s)) for length_s in seconds]
    parts = [part for save in saves for part in (work(480.0), save)]
    scene, _ = played(10.0, "none", [(sum(part.seconds for part in parts) + 120.0, parts)])
    assert ("checkpoint_stall" in classes(scene)) is is_found
