"""`--filter`: what it keeps in documents and tables, and how it refuses."""

from __future__ import annotations

import json

import pytest

from gpumon.cli import main
from gpumon.cli.filtering import passing
from gpumon.cli.options import parser
from gpumon.report.document.document import document
from gpumon.report.lists.filter_tables import understood
from gpumon.report.lists.once import table
from tests.worlds.tick import fleet, tick


def passes(text):
    return parser().parse_args(["--filter", text]).passes


def test_a_document_holds_the_jobs_that_pass_and_their_findings():
    made = fleet()
    chosen = passes("user==grace")
    found = document(made, passing(chosen, made))
    assert [job["job_id"] for job in found["jobs"]] == ["4711"]
    assert [finding["subject"] for finding in found["findings"]] == ["job:4711"]
    chosen = passes("gpus>=16")
    found = document(made, passing(chosen, made))
    assert {job["job_id"] for job in found["jobs"]} == {"4690", "4730"}
    assert found["findings"] == []


def test_it_narrows_what_was_wanted_anyway():
    made = fleet()
    keeps = passing(passes("gpus>=16"), made, lambda view: view.job.job_id == "4690")
    assert [view.job.job_id for view in made.jobs if keeps(view)] == ["4690"]


def test_without_a_filter_all_is_kept():
    made = fleet()
    assert all(map(passing(None, made), made.jobs))


def test_a_table_holds_the_jobs_that_pass():
    text = table(fleet(), 120, understood("sm<60"))
    assert "4711" in text
    assert "4690" not in text
    assert "3 of 8 GPUs ran nothing" in text
    assert "3 of 8 GPUs ran nothing" not in table(fleet(), 120, understood("user==ada"))


def test_columns_that_only_gpus_have_make_it_their_table():
    text = table(fleet(), 140, understood("node==gpu01 & c<40"))
    assert "NODE" in text.splitlines()[0]
    rows = [line for line in text.splitlines() if line.startswith("gpu0")]
    assert len(rows) == 3


def test_without_jobs_the_filter_is_about_gpus():
    made = fleet()
    text = table(tick((), list(made.gpus.values()), queue_at=None), 140, understood("sm<10"))
    assert len([line for line in text.splitlines() if line.startswith("gpu0")]) == 3


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("usr==ada", "no column 'usr' here; did you mean user? (character 1)"),
        ("sm<20 & gpus>many", "gpus takes a number, such as 8 (character 14)"),
        ("(a", "a ( without its ) (character 1)"),
        ("sm<20%%", "sm takes percent"),
    ],
)
@pytest.mark.parametrize("command", [[], ["replay", "x.gpumon"]])
def test_an_error_is_one_line_and_a_usage_error(capsys, command, expression, said):
    assert main([*command, "--json", "--filter", expression]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", [["demo"], ["replay", "x.gpumon"]])
def test_a_document_takes_no_filter_about_gpus(capsys, command):
    assert main([*command, "--json", "--filter", "uuid==ab*"]) == 2
    assert "only GPUs have" in capsys.readouterr().err


def test_the_demo_with_a_filter(capsys):
    assert main(["demo", "--json", "--for", "0", "--filter", "state==running & gpus>=8"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["jobs"]
    assert all(job["state"] == "RUNNING" for job in found["jobs"])
