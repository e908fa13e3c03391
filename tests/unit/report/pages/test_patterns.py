"""Cards of patterns, as text and as a document."""

from __future__ import annotations

import json

import numpy as np

from gpumon.detect.features.table import FEATURES
from gpumon.detect.learning.patterns import Found, Pattern, Trait
from gpumon.detect.learning.unexplained import Behaviour, Gathered
from gpumon.report.document.patterns import patterns_document
from gpumon.report.pages.patterns import patterns_text


def job(job_id, user="ada", hours=1.0, since=1.767e9):
    return Behaviour(
        job_id, user, since, since + 900.0, 3600.0 * hours, 3, np.full(len(FEATURES), np.nan)
    )


JOBS = (job("12_3", "ada", 4.0), job("15", "bob", 2.5), job("9", "ada", 0.5), job("8", "eve", 0.5))
CARD = Pattern(JOBS, JOBS[1], (Trait("util_15m", 0.41, 0.92), Trait("read", 8.0, 6.0)))
ALONE = (job("77", "mallory\x1b[31m", 0.25),)
GATHERED = Gathered((*JOBS, *ALONE), (), 3600.0 * 9.0, 3600.0 * 100.0)


def test_a_card_names_time_jobs_people_and_what_they_share(monkeypatch):
    text = patterns_text(GATHERED, Found((CARD,), ALONE))
    assert text.splitlines()[0] == (
        "9.00 GPU-h of 100 GPU-h are unexplained; 5 jobs have most of it (7.75 GPU-h), in 1 pattern"
    )
    assert " 1  7.50 GPU-h  4 jobs of 3 users (ada, bob, eve), since 20" in text
    assert "like job 15; also 12_3, 9, 8\n" in text
    assert "Utilisation, mean of 15 minutes: 41 %, usually 92 %\n" in text
    assert "1e+08 B/s, usually 1e+06 B/s" in text
    assert "1 job resembles no other: 0.25 GPU-h (77)" in text


def test_what_others_wrote_is_harmless():
    one = Pattern((*JOBS, *ALONE), ALONE[0]._replace(job_id="7\x1b]0;x\x07"), ())
    text = patterns_text(GATHERED, Found((one,), ()))
    assert all(char.isprintable() or char == "\n" for char in text)


def test_without_a_pattern_it_says_so():
    assert "5 jobs have most of it (7.75 GPU-h), in no pattern" in patterns_text(
        GATHERED, Found((), GATHERED.unexplained)
    )
    nothing = patterns_text(Gathered((), (), 360.0, 7200.0), Found((), ()))
    assert (
        nothing
        == "0.10 GPU-h of 2.00 GPU-h are unexplained; no job has a quarter of an hour of it\n"
    )


def test_the_document_holds_all_of_it():
    made = patterns_document(GATHERED, Found((CARD,), ALONE))
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made["schema"] == "gpumon-patterns/1"
    assert (made["unexplained_gpu_seconds"], made["allocated_gpu_seconds"]) == (32400.0, 360000.0)
    (pattern,) = made["patterns"]
    assert pattern["exemplar"] == "15"
    assert [one["job_id"] for one in pattern["jobs"]] == ["12_3", "15", "9", "8"]
    assert pattern["traits"][0]["feature"] == "util_15m"
    assert pattern["gpu_seconds"] == 27000.0
    assert [one["job_id"] for one in made["single_jobs"]] == ["77"]
