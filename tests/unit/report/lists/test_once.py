"""The plain table for scripts, logs and terminals without a terminal."""

from __future__ import annotations

import pytest

from gpumon.model.fault import SourceError
from gpumon.report.lists.once import table
from tests.worlds.tick import failed, fleet, gpu, job_with_gpus, tick


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_asked_and_none_ends_in_blanks(width):
    for line in table(fleet(), width).split("\n"):
        assert len(line) <= width
        assert line == line.rstrip()


def test_jobs_findings_and_time_in_that_order():
    text = table(fleet())
    lines = text.split("\n")
    assert lines[0] == "28 GPUs on 4 nodes"
    assert lines[2].startswith("JOBID")
    assert lines[3].startswith("4711")
    assert text.index("4730") < text.index("job:4711") < text.index("✓ slurm")
    assert "  → Ask for 5 GPUs: sbatch --gpus=5" in lines
    assert text.endswith("observed for 10m\n")


def test_gpus_where_there_are_no_jobs():
    text = table(tick((), [gpu("here", 0), gpu("here", 1)], queue_at=None))
    assert text.startswith("2 GPUs on 1 node\n\nNODE")
    assert text.count("612/700") == 2


def test_errors_with_the_way_out():
    text = table(failed())
    assert "no jobs and no GPUs" in text
    assert "✗ slurm: squeue: command not found" in text
    assert "→ load the slurm module" in text


def test_nothing_from_outside_reaches_the_terminal_raw():
    view, gpus = job_with_gpus("1", {"n": 1}, name="\x1b[31mred\x07\nrow", user="\x9bmallory")
    text = table(tick((view,), gpus, errors=(SourceError("\x1b]0;x", "\x08", "\u202e"),)), 200)
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in text.replace("\n", ""))
    assert "\u202e" not in text
    assert text.split("\n")[3].startswith("1 ")
