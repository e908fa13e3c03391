"""Cards of patterns, as text and as a document."""

from __future__ import annotations

import json

import numpy as np

from gpumon.detect.features.table import FEATURES
from gpumon.detect.learning.patterns import Found, Pattern
from gpumon.detect.learning.unexplained import Behaviour, Gathered
from gpumon.model.records.pattern import Patterns, Trait
from gpumon.report.document.patterns import patterns_document
from gpumon.report.pages.patterns import pattern_entries, patterns_text
from tests.worlds.schemas import checked


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


def test_without_a_pattern_the_text_is_one_line():
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
    assert checked("patterns-1", made) == made
    assert made["schema"] == "gpumon-patterns/1"
    assert (made["unexplained_gpu_seconds"], made["allocated_gpu_seconds"]) == (32400.0, 360000.0)
    (pattern,) = made["patterns"]
    assert pattern["exemplar"] == "15"
    assert [one["job_id"] for one in pattern["jobs"]] == ["12_3", "15", "9", "8"]
    assert pattern["traits"][0]["feature"] == "util_15m"
    assert pattern["gpu_seconds"] == 27000.0
    assert [one["job_id"] for one in made["single_jobs"]] == ["77"]


ODD = Pattern(ALONE, ALONE[0], (Trait("util_15m", 0.07, 0.92),), 2.34)


def test_a_job_like_nothing_usual_has_a_card_with_how_much_and_by_what():
    text = patterns_text(GATHERED, Found((CARD._replace(times=1.0),), ALONE, (ODD,)))
    card, odd = text.split("Jobs unlike anything usual here. This proves no waste")
    assert "no more unusual than other jobs here\n" in card
    # Its number goes on from the patterns': one of both gets a name.
    assert " 2  job 77 of mallory" in odd
    assert "0.25 GPU-h unexplained\n" in odd
    assert "2.3 times as far from all others as jobs here usually are\n" in odd
    assert "Utilisation, mean of 15 minutes: 7 %, usually 92 %\n" in odd
    assert all(char.isprintable() or char == "\n" for char in text)


def test_the_card_of_a_gpu_without_a_job_has_no_hours():
    one = job("gpu:GPU-4f\x1b[31m", "uid 1007", 0.0)
    text = patterns_text(GATHERED, Found((), ALONE, (ODD._replace(jobs=(one,), exemplar=one),)))
    assert " 1  GPU-4f" in text
    assert " without a job of uid 1007, since 20" in text
    assert text.count("unexplained") == 1
    assert all(char.isprintable() or char == "\n" for char in text)


def test_the_screen_shows_the_same_cards():
    found = Patterns(2e9, 1e9, (), ("77",), 900.0, 9000.0, odd=(ODD.card,))
    lines = ["".join(cell[0] for cell in line) for entry in pattern_entries(found, 100)
             for line in entry]  # fmt: skip
    text = "\n".join(lines)
    assert "unlike anything usual" in text
    assert "\n1 job 77 of mallory" in text
    assert "2.3 times as far" in text
    assert ":name 1 some_name" in text


def test_the_document_has_how_far_and_null_where_it_is_unknown():
    made = patterns_document(GATHERED, Found((CARD,), ALONE, (ODD,)))
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert made["patterns"][0]["times_usual"] is None
    (odd,) = made["odd_jobs"]
    assert (odd["exemplar"], odd["times_usual"]) == ("77", 2.34)
