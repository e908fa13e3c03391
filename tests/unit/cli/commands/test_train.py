"""`gpumon train`: what it reads, what it writes, and what it says when it cannot."""

from __future__ import annotations

import stat

import pytest

from gpumon.cli import main
from gpumon.cli.request import settings_with
from gpumon.detect.learning import fitting
from gpumon.detect.learning.cases import case_of, cases_rewritten
from gpumon.detect.learning.examples import Collector
from gpumon.detect.learning.model import read_model
from gpumon.detect.worker.tuning import Tuning
from tests.unit.detect.learning.made import KEY, examples
from tests.worlds.schemas import checked


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Two short ones with labels."""
    folder = tmp_path_factory.mktemp("lessons")
    paths = [folder / f"{seed}.gpumon" for seed in (31, 32)]
    for path in paths:
        words = ["--seed", path.stem, "--for", "16m", "--period", "30", "--nodes", "3x4"]
        assert main(["simulate", str(path), *words]) == 0
    return [str(path) for path in paths]


def test_too_little_teaches_nothing(recordings, tmp_path, capsys):
    """Nothing is written, and that is said."""
    out = tmp_path / "m.json"
    assert main(["train", *recordings, "--out", str(out)]) == 1
    told = capsys.readouterr()
    assert "no class has enough jobs to learn from" in told.out
    assert "nothing is written" in told.err
    assert not out.exists()


def test_a_recording_without_labels_is_refused(tmp_path, capsys):
    """In one line that names it."""
    path = tmp_path / "bare.gpumon"
    path.write_text("", encoding="utf-8")
    assert main(["train", str(path)]) == 1
    assert str(path) in capsys.readouterr().err


@pytest.fixture
def taught(monkeypatch):
    """Recordings that teach a class."""
    monkeypatch.setattr(Collector, "examples", lambda _self: examples(41))


def test_what_is_learnt_is_kept_for_its_owner_alone(
    taught, recordings, tmp_path, capsys, monkeypatch
):
    """And what is shown for the configuration is one that has it used."""
    out = tmp_path / "sub" / "m.json"
    assert main(["train", recordings[0], "--out", str(out)]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [one.key for one in read_model(out).classes] == [KEY]
    told = capsys.readouterr()
    shown = tmp_path / "config.toml"
    shown.write_text(told.err[told.err.index("[") :], encoding="utf-8")
    monkeypatch.setenv("GPUMON_CONFIG", str(shown))
    assert main(["config", "validate"]) == 0
    parameters = Tuning.of(settings_with()).parameters
    assert parameters == {"learned": {"model": str(out)}}
    assert "kept" in told.out
    assert [path.name for path in out.parent.iterdir()] == ["m.json"]


def test_the_default_is_below_the_state_folder(taught, recordings, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["train", recordings[0]]) == 0
    assert (tmp_path / "gpumon" / "model.json").exists()


def test_scores_as_json(taught, recordings, tmp_path, capsys):
    """Numbers or null, never NaN."""
    assert main(["train", recordings[0], "--json", "--out", str(tmp_path / "m.json")]) == 0
    found = checked("train-1", capsys.readouterr().out)
    assert found["classes"][KEY]["is_kept"] is True
    assert found["classes"][KEY]["jobs"] >= fitting.LEAST_JOBS


def test_a_folder_that_cannot_be_written_is_named(taught, recordings, tmp_path, capsys):
    """A file where a folder is meant."""
    (tmp_path / "f").write_text("", encoding="utf-8")
    assert main(["train", recordings[0], "--out", str(tmp_path / "f" / "m.json")]) == 1
    assert str(tmp_path / "f" / "m.json") in capsys.readouterr().err


@pytest.fixture
def judged(tmp_path):
    """A file of cases: two that count, and one of a version with other features."""
    path = tmp_path / "cases.json"
    rows = examples(42).features
    cases = [
        case_of(KEY, str(number), rows[number], "ada", 1.7e9, None, is_right=number > 0)
        for number in range(3)
    ]
    cases[2] = cases[2]._replace(made_with="older")
    cases_rewritten(path, lambda _none: tuple(cases))
    return str(path)


def test_what_was_judged_in_the_terminal_is_taken_along(
    taught, recordings, judged, tmp_path, capsys
):
    out = tmp_path / "m.json"
    assert main(["train", judged, recordings[0], "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert "1 recordings and 2 cases read; fitting" in told
    assert f"{judged}: 1 cases are of a version with other features, and do not count" in told
    assert read_model(out).made_of["cases"] == 2


@pytest.mark.parametrize(("text", "why"), [("{}", "no gpumon-cases/1"), (None, "it has no cases")])
def test_a_file_that_holds_no_case_is_named(recordings, tmp_path, capsys, text, why):
    """Before anything else is read."""
    path = tmp_path / "odd.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert main(["train", recordings[0], str(path)]) == 1
    assert f"{path}: {why}" in capsys.readouterr().err


def test_cases_alone_teach_nothing(judged, capsys):
    """What healthy jobs are like only recordings tell."""
    assert main(["train", judged]) == 1
    assert "no class has enough jobs to learn from" in capsys.readouterr().out
