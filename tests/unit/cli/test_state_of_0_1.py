"""Files that gpumon 0.1.0 left on disk are read by this version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpumon.cli import main
from gpumon.detect.engine.finding_life import Mute, notes_from
from gpumon.report.facts.columns import Sorting
from gpumon.tui.look.saved_choices import Habits, habits_of

STATE = Path(__file__).parents[2] / "data/state-0.1"


def test_the_books_add_up_to_what_they_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--directory", str(STATE / "ledger"), "--by", "job", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["skipped_lines"] == 0
    assert told["total"]["allocated_gpu_seconds"] == 205214.732
    assert told["total"]["waste"] == {"partial_gpus_idle": 3510.011}
    assert told["total"]["unobserved_gpu_seconds"] == 185774.249
    assert [line["name"] for line in told["lines"]] == ["48210", "48208", "48212"]


def test_what_was_acknowledged_and_muted_is_so_still() -> None:
    known, mutes = notes_from(json.loads((STATE / "notes.json").read_text()))
    assert known == [("partial_gpus_idle", "partial_gpus_idle", "job:48210")]
    gpu = "gpu:GPU-7fe4fb73-e92f-4faa-acad-e12d400a89af"
    assert mutes == [
        Mute("fabric_degraded", gpu, 4102444800.0),
        Mute(None, "node:gpu002", 4102444800.0),
    ]


def test_a_terminal_finds_what_was_chosen() -> None:
    assert habits_of(json.loads((STATE / "terminal.json").read_text())) == Habits(
        theme="light",
        is_ascii=True,
        columns={"jobs": ("job_id", "user", "verdict")},
        sortings={"jobs": Sorting("job_id", False)},
        map_field="sm_active_ratio",
        map_grouping="partition",
        map_density="2",
        view="fleet",
    )


@pytest.mark.parametrize(
    ("name", "gpus", "jobs", "instant"),
    [("plain.gpumon", 2, 8, "00:01"), ("packed.gpumon.zst", 8, 11, "00:02")],
)
def test_a_recording_is_replayed(
    name: str, gpus: int, jobs: int, instant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(STATE / name), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(len(node["gpus"]) for node in told["nodes"]) == gpus
    assert len(told["jobs"]) == jobs
    assert told["generated_at"] == f"2026-01-01T{instant}:00.000Z"
