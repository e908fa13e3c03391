"""Scores of recordings: of one that nobody's code of gpumon wrote, and of a simulated one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from gpumon.cli import main
from tests.worlds.schemas import checked

START = 1_793_520_000.0
PERIOD_S = 30
MINUTES = 45
GIB = 2**30


def at(seconds):
    return datetime.fromtimestamp(START + seconds, UTC).isoformat()


def job(number, node):
    return {
        "job_id": number,
        "user": "ada",
        "state": "RUNNING",
        "nodes": [node],
        "gpu_count": 4,
        "start_at": START - 60.0,
        "allocations": [{"node": node, "gpu_count": 4, "gpu_indices": [0, 1, 2, 3]}],
    }


def gpus(node, used):
    """A block of four GPUs of which so many are used."""
    is_used = [index < used for index in range(4)]
    return {
        "keys": [f"GPU-{node}-{index}" for index in range(4)],
        "columns": {
            "index": [0, 1, 2, 3],
            "minor_number": [0, 1, 2, 3],
            "gpu_util_ratio": [0.97 if one else 0.0 for one in is_used],
            "process_count": [int(one) for one in is_used],
            "mem_used_bytes": [60.0 * GIB if one else 0.2 * GIB for one in is_used],
            "mem_total_bytes": [80.0 * GIB] * 4,
            "power_w": [600.0 if one else 70.0 for one in is_used],
        },
        "labels": {"name": ["NVIDIA H100 80GB HBM3"] * 4},
    }


@pytest.fixture
def recording(tmp_path):
    """Two nodes for three quarters of an hour, written from the documentation."""
    origin = "slurm"
    header = {"kind": "header", "format": "gpumon-recording", "version": 1, "tool": "by hand"}
    lines = [{**header, "started_at": START, "period_s": PERIOD_S, "targets": [origin]}]
    used = {"a1": 3, "b1": 4}
    for second in range(0, 60 * MINUTES + 1, PERIOD_S):
        now = {"origin": origin, "at": START + second, "late_s": 0.0, "kind": "frame"}
        is_first = second == 0
        if is_first:
            lines.append({"kind": "sync", "at": START})
        queue = {"jobs_at": START + second, "nodes_at": START + second}
        if is_first:
            queue["jobs"] = {"71": job("71", "a1"), "72": job("72", "b1")}
            queue["jobs_order"] = ["71", "72"]
            queue["nodes"] = {
                name: {"name": name, "host_name": name, "state": "allocated", "gpu_count": 4}
                for name in used
            }
            queue["nodes_order"] = list(used)
        lines.append({**now, "node": "", "queue": queue})
        for name, count in used.items():
            blocks = {"gpu": gpus(name, count)} if is_first else {}
            lines.append({**now, "node": name, "blocks": blocks})
    path = tmp_path / "hand.gpumon"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def label(path, *rows):
    keys = ("subject", "class", "start", "end", "gpu_seconds")
    told = [dict(zip(keys, row, strict=False)) for row in rows]
    path.with_name(f"{path.name}.labels.json").write_text(json.dumps(told))


def scored(capsys, *files):
    assert main(["evaluate", "--json", *map(str, files)]) == 0
    return checked("evaluation-1", capsys.readouterr().out)


def test_a_recording_written_by_hand_is_scored(capsys, recording):
    whole_s = 60.0 * MINUTES
    label(
        recording,
        ("job:71", "partial_gpus_idle", at(0), at(whole_s), whole_s),
        ("job:72", "healthy", at(0), at(whole_s)),
    )
    found = scored(capsys, recording)
    assert found["schema"] == "gpumon-evaluation/1"
    partial = found["classes"]["partial_gpus_idle"]
    assert (partial["precision"], partial["recall"], partial["n"]) == (1.0, 1.0, 1)
    assert partial["named"] == 1
    # Its first window is ten minutes long.
    assert partial["delay_s"]["p50"] == pytest.approx(600.0, abs=60.0)
    assert found["macro_f1"] == 1.0
    assert abs(found["gpu_hours_error_ratio"]) < 0.05
    assert abs(partial["wasted_error_ratio"]) < 0.05
    assert (found["benign"], found["benign_flagged"], found["false_alarms"]) == (1, 0, 0)
    assert found["benign_charged_gpu_hours"] == 0.0
    assert found["charged_above_claimed_gpu_hours"] == 0.0
    assert found["gpu_days"] == pytest.approx(8 * whole_s / 86400.0, rel=0.02)
    assert found["steps"]["established"]["found"] == 1
    assert found["errors"] == []
    assert found["calibration"]["established"]["true_ratio"] == 1.0
    assert found["calibration"]["established"]["n"] == 1
    baselines = found["baselines"]
    # Three quarters of an hour are too short for an hour of zeros, and there are no SM counters.
    for name in ("zero_60", "zero_240", "activity_thresholds", "relative_score_0.75"):
        assert (baselines[name]["jobs_judged"], baselines[name]["macro_f1"]) == (0, None)
    # The unused GPU draws less than the others; no rank is slow.
    spread = baselines["mean_1_sigma"]
    assert (spread["jobs"], spread["jobs_judged"], spread["false_alarms"]) == (2, 2, 1)
    assert spread["macro_f1"] == 0.0
    assert spread["macro_f1_of_its_classes"] is None
    assert baselines["three_symptom_stall"]["false_alarms"] == 0


def test_the_same_claim_is_false_where_the_truth_is_another(capsys, recording, monkeypatch):
    monkeypatch.setenv("GPUMON_DETECTORS_DISABLED", "checkpoint_stall")
    whole_s = 60.0 * MINUTES
    label(
        recording,
        ("job:71", "healthy", at(0), at(whole_s)),
        ("job:72", "checkpoint_stall", at(900), at(whole_s)),
        ("job:72", "healthy", at(0), at(900)),
    )
    found = scored(capsys, recording)
    assert (found["benign"], found["benign_flagged"]) == (1, 1)
    assert found["false_alarms"] == 1
    assert found["false_alarms_per_1000_gpu_days"] == pytest.approx(1000 / found["gpu_days"], 0.01)
    assert found["benign_charged_gpu_hours"] == pytest.approx(0.75, abs=0.05)
    assert found["classes"]["checkpoint_stall"]["is_looked_for"] is False
    # Without `gpu_seconds` a class that loses all counts all time of its four GPUs.
    assert found["classes"]["checkpoint_stall"]["true_gpu_hours"] == pytest.approx(2.0, abs=0.01)
    assert found["gpu_hours_error_ratio"] == -1.0
    assert found["confusion"] == {
        "checkpoint_stall": {"nothing": 1}, "healthy": {"partial_gpus_idle": 1},
    }  # fmt: skip
    assert main(["evaluate", str(recording)]) == 0
    told = capsys.readouterr().out
    assert "benign flagged  1 of 1 jobs" in told
    assert "not looked for" in told
    assert told.startswith("True class")
    assert "zero_60 abstains: watched too briefly, or without its counters" in told
    assert "mean_1_sigma" in told
    assert "claims true" in told


def test_what_cannot_be_scored_is_one_line(capsys, recording, tmp_path):
    label(recording, ("job:71", "no_such_class", at(0), at(60)))
    assert main(["evaluate", str(recording)]) == 1
    assert "label 1: not a class of findings: 'no_such_class'" in capsys.readouterr().err
    recording.with_name(f"{recording.name}.labels.json").unlink()
    assert main(["evaluate", "--json", str(recording)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"gpumon: {recording}.labels.json: No such file or directory\n"
    other = tmp_path / "none.gpumon"
    label(other, ("job:71", "healthy", at(0), at(60)))
    assert main(["evaluate", str(other)]) == 1
    assert "none.gpumon" in capsys.readouterr().err


def test_a_recording_of_which_nothing_can_be_read_has_no_scores(capsys, recording):
    label(recording, ("job:71", "healthy", at(0), at(60)))
    header = recording.read_text().splitlines()[0]
    recording.write_text(f"{header}\n" + '{"kind":"frame","origin":7,"at":"x"}\n' * 9)
    assert main(["evaluate", "--json", str(recording)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "has no tick with a job or a GPU" in err
    assert "Traceback" not in err


def test_labels_outside_of_the_recording_do_not_count(capsys, recording):
    label(
        recording,
        ("job:71", "partial_gpus_idle", at(-7200), at(-3600), 1.0),
        ("job:72", "healthy", at(0), at(60)),
    )
    assert main(["evaluate", "--json", str(recording)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["classes"] == {}
    assert json.loads(out)["claims_not_judged"] == 1
    assert "1 labels lie outside the recording and do not count" in err


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (3, "subject, class, start and end are needed"),
        (None, "subject, class, start and end are needed"),
        ({"subject": "job:71"}, "subject, class, start and end are needed"),
        ({"subject": 71}, "the subject is job:ID"),
        ({"also": "job:72"}, "also is a list of subjects"),
        ({"also": [None]}, "the subject is job:ID"),
        ({"class": ["hang"]}, "not a class of findings: \"['hang']\""),
        ({"start": 5}, "times are RFC 3339"),
        ({"end": None}, "times are RFC 3339"),
        ({"end": "2026-11-01T10:00:00"}, "times are RFC 3339"),
        ({"gpu_seconds": "7"}, "gpu_seconds is a number from 0"),
    ],
)
def test_a_label_that_is_none_is_refused_in_one_plain_line(capsys, recording, row, why):
    whole = {"subject": "job:71", "class": "hang", "start": at(0), "end": at(60)}
    is_part = isinstance(row, dict) and row != {"subject": "job:71"}
    given = {**whole, **row} if is_part else row
    recording.with_name(f"{recording.name}.labels.json").write_text(json.dumps([given]))
    assert main(["evaluate", str(recording)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"gpumon: {recording}.labels.json: label 1: {why}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "rows",
    [
        (),
        (("job:72", "healthy", at(0), at(900)),),
        (
            ("world:10.2.0.9:29500", "hang", at(60), at(900)),
            ("domain:leaf3", "fabric_degraded", at(60), at(900), 40.0),
            ("job:71/rank:2", "straggler", at(60), at(900), 0.0),
            ("node:a1", "healthy", at(60), at(900)),
            ("gpu:GPU-nowhere", "gpu_fault", at(60), at(900)),
        ),
    ],
    ids=["none", "only healthy", "every kind of subject"],
)
def test_whatever_is_labelled_is_scored(capsys, recording, rows):
    label(recording, *rows)
    found = scored(capsys, recording)
    labelled = {key for key, one in found["classes"].items() if one["n"]}
    assert labelled == {row[1] for row in rows} - {"healthy"}
    assert (found["macro_f1"] is None) == (not labelled)
    for key in (
        "delay_s", "false_alarms_per_1000_gpu_days", "benign_flagged_ratio", "calibration",
        "gpu_hours_error_ratio", "wasted_error_ratio", "benign_charged_gpu_hours", "confusion",
        "macro_f1_interval", "gpu_hours_error_interval", "wasted_error_interval",
    ):  # fmt: skip
        assert key in found


def test_a_line_that_is_none_is_told_beside_the_scores(capsys, recording):
    label(recording, ("job:72", "healthy", at(0), at(900)))
    lines = recording.read_text().splitlines()
    lines.insert(len(lines) - 12, '{"kind": "frame", "origin": 7}')
    recording.write_text("\n".join(lines) + "\n")
    assert main(["evaluate", "--json", str(recording)]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["errors"]
    assert "line " in err
