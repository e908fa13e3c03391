from __future__ import annotations

import json
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from gpumon.fleet.ledger.ledger import Ledger
from gpumon.model.records.ledger import Prices
from gpumon.report.document.document import document
from gpumon.report.pages.ledger_table import ledger_table
from tests.unit.fleet.ledger_world import START, claim, gpu, tick, view

FORM = json.loads((files("gpumon.report") / "document-2.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def booked():
    """A picture whose books hold an idle job and a blind one."""
    ledger = Ledger(Prices({"default": 2.0}, 0.0, "EUR"))
    jobs = [view("1", ["a"], user="ada"), view("2", [], unknown=2, user="bob")]
    for second in range(101):
        at = START + second
        found = (claim("idle_tail", "job:1", START, at, share=1),) if second == 100 else ()
        picture = tick(at, jobs, [gpu("a", at)], found)
        ledger.take(picture)
    return picture._replace(ledger=ledger.summary())


def test_the_document_says_where_gpu_time_went(booked):
    data = json.loads(json.dumps(document(booked), allow_nan=False))
    assert list(Draft202012Validator(FORM).iter_errors(data)) == []
    ledger = data["ledger"]
    assert ledger["total"]["allocated_gpu_seconds"] == 300
    assert ledger["total"]["waste"] == {"idle_tail": 100}
    assert [line["name"] for line in ledger["by_user"]] == ["ada", "bob"]
    assert ledger["by_user"][1]["unobserved_gpu_seconds"] == 200
    assert ledger["by_user"][1]["observed_since"] is None
    assert ledger["currency"] == "EUR"
    jobs = {job["job_id"]: job["waste"] for job in data["jobs"]}
    assert jobs["1"]["wasted_gpu_seconds"] == 100
    assert jobs["2"]["unobserved_gpu_seconds"] == 200


def test_without_books_the_document_says_null(booked):
    data = json.loads(json.dumps(document(booked._replace(ledger=None))))
    assert list(Draft202012Validator(FORM).iter_errors(data)) == []
    assert data["ledger"] is None
    assert [job["waste"] for job in data["jobs"]] == [None, None]


def test_a_long_name_does_not_tear_the_table(booked):
    totals = {"x" * 200: booked.ledger.total(), "\x1b[2J": booked.ledger.total()}
    text = ledger_table(totals, booked.ledger.total(), "user", "EUR")
    assert max(map(len, text.splitlines())) < 150
    assert "\x1b" not in text
