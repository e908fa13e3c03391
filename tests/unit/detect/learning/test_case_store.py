"""What somebody says of findings is kept with how their jobs behave."""

from __future__ import annotations

import threading

import pytest

from gpumon.detect.learning.case_store import CaseStore
from gpumon.detect.learning.cases import read_cases
from gpumon.detect.scene import WORKING, Scene
from gpumon.model.finding import Confidence, Finding, Severity, Window
from tests.worlds.probe import PATIENCE_S


@pytest.fixture(scope="module")
def tick():
    """A job of two GPUs that has worked for half an hour."""
    scene = Scene()
    uuids = scene.node("n1", 2)
    scene.job("42", uuids)
    return scene.run(1800.0, dict.fromkeys(uuids, WORKING))


def finding(subject="job:42", lost_s=450.0):
    window = Window(0.0, 900.0, 90)
    return Finding(
        "input_bound", "input_bound", subject, Severity.WARNING, Confidence.SUPPORTED, "waits",
        (), window, 0.0, 900.0, (), lost_s,
    )  # fmt: skip


@pytest.fixture
def book(tmp_path):
    renewed = []
    made = CaseStore("ada", lambda: renewed.append(1), tmp_path / "cases.json")
    made.renewed = renewed
    made.path = tmp_path / "cases.json"
    return made


def test_a_case_holds_how_the_job_behaves_and_what_was_said(book, tick):
    said = book.store(tick, finding(), is_right=True)
    assert said == f"stored as right: 1 case in {book.path}; gpumon train learns from them"
    (case,) = read_cases(book.path)
    assert (case.finding_class, case.job_id, case.owner) == ("input_bound", "42", "ada")
    assert case.is_right
    assert case.at == tick.at
    assert case.lost == 0.25
    assert case.features["util_15m"] == pytest.approx(0.9, abs=0.01)
    assert case.features["gpus"] == 1.0
    assert book.renewed == [1]


def test_of_a_class_that_rules_alone_tell_it_is_said_that_no_model_learns_it(book, tick):
    said = book.store(tick, finding()._replace(finding_class="never_started"), is_right=False)
    assert said.endswith("; no model is trained for this class: its rule decides")
    assert len(read_cases(book.path)) == 1


def test_the_last_word_counts_and_can_be_taken_back(book, tick):
    book.store(tick, finding("job:42/rank:1"), is_right=True)
    assert "stored as wrong: 1 case" in book.store(tick, finding(), is_right=False)
    assert [one.is_right for one in read_cases(book.path)] == [False]
    assert book.store(tick, finding(), is_right=None) == f"judgement undone; 0 cases in {book.path}"
    assert "there is no judgement" in book.store(tick, finding(), is_right=None)
    assert read_cases(book.path) == ()


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("gpu:GPU-0", "only findings about jobs"),
        ("node:n1", "only findings about jobs"),
        ("job:43", "no longer runs"),
    ],
)
def test_what_cannot_be_a_case_is_said(book, tick, subject, words):
    assert words in book.store(tick, finding(subject), is_right=True)
    assert not book.path.exists()
    assert book.renewed == []


def test_of_an_instant_without_its_past_nothing_is_kept(book, tick):
    assert "past" in book.store(tick._replace(history=None), finding(), is_right=True)


def test_simulated_jobs_teach_nothing(tmp_path, tick):
    book = CaseStore("ada", cases=tmp_path / "cases.json", is_real=False)
    assert "simulated" in book.store(tick, finding(), is_right=True)
    assert not (tmp_path / "cases.json").exists()


def test_what_somebody_said_is_never_more_than_all_of_the_time(book, tick):
    book.store(tick, finding(lost_s=9e9), is_right=True)
    book.store(tick, finding()._replace(finding_class="hang", gpu_seconds=None), is_right=True)
    assert [one.lost for one in read_cases(book.path)] == [1.0, None]


def test_a_home_that_fails_or_hangs_is_told(book, tick, monkeypatch):
    book.path.mkdir()
    assert str(book.path) in book.store(tick, finding(), is_right=True)
    held = threading.Event()
    monkeypatch.setattr("gpumon.detect.learning.json_file.ANSWERS_WITHIN_S", 0.01)
    monkeypatch.setattr(
        "gpumon.detect.learning.cases.cases_rewritten", lambda *_given: held.wait(PATIENCE_S)
    )
    said = book.store(tick, finding(), is_right=True)
    assert said == f"{book.path} does not answer: it may not have been stored"
    held.set()
    assert book.renewed == []
