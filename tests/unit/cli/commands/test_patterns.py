"""`gpumon patterns`: what it reads, and what it says."""

from __future__ import annotations

import json

import pytest

from gpumon.cli import main
from gpumon.detect.learning import patterns
from gpumon.detect.learning.named import named_patterns
from tests.unit.detect.learning.test_patterns import gathered
from tests.worlds.schemas import checked


def simulated(folder, span):
    """A recording; nobody needs its labels."""
    path = folder / "a.gpumon"
    words = ["--seed", "5", "--for", span, "--period", "30", "--nodes", "3x4"]
    assert main(["simulate", str(path), *words]) == 0
    path.with_name(path.name + ".labels.json").unlink()
    return str(path)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Long enough for a pattern."""
    return simulated(tmp_path_factory.mktemp("patterns"), "40m")


@pytest.fixture(scope="module")
def moment(tmp_path_factory):
    """A recording for tests that are given their patterns."""
    return simulated(tmp_path_factory.mktemp("moment"), "2m")


def test_it_tells_what_is_unexplained_and_of_how_much(recording, capsys):
    assert main(["patterns", recording]) == 0
    assert "are unexplained; " in capsys.readouterr().out
    assert main(["patterns", recording, recording, "--json"]) == 0
    made = checked("patterns-1", capsys.readouterr().out)
    assert made["schema"] == "gpumon-patterns/1"
    assert 0.0 <= made["unexplained_gpu_seconds"] < made["allocated_gpu_seconds"]
    # Twelve GPUs at most, for less than forty minutes, twice.
    assert made["allocated_gpu_seconds"] <= 2 * 12 * 2400.0


@pytest.mark.parametrize(
    "name", ["missing.gpumon", "loop.gpumon", "empty.gpumon", "garbage.gpumon"]
)
def test_what_cannot_be_read_is_named_in_one_line(tmp_path, capsys, name, said):
    path = tmp_path / name
    if name.startswith("loop"):
        path.symlink_to(path)
    elif not name.startswith("missing"):
        path.write_bytes(b"" if name.startswith("empty") else b"\x00\x01 no recording\n" * 9)
    assert main(["patterns", str(path)]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert str(path) in told.err
    assert len(told.err.splitlines()) <= 2
    assert "itself failed" not in told.err
    said(told.err.splitlines()[0])


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A state folder of one's own, and recordings that hold three patterns."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = patterns.patterns_in(gathered(3))
    monkeypatch.setattr(patterns, "patterns_in", lambda _: found)
    return tmp_path / "gpumon" / "patterns.json", found


def test_a_pattern_gets_a_name_that_can_be_taken_back(moment, state, capsys):
    path, found = state
    assert main(["patterns", moment, "--name", "2=slow_copies", "--name", "1=sleepers"]) == 0
    assert "named: sleepers, version 1, in " in capsys.readouterr().err
    assert path.stat().st_mode & 0o777 == 0o600
    told = {one.name: one for one in named_patterns()}
    assert told.keys() == {"slow_copies", "sleepers"}
    assert told["slow_copies"].traits == found.patterns[1].traits
    assert told["slow_copies"].exemplar == found.patterns[1].exemplar.job_id
    assert main(["patterns", moment, "--name", "3=sleepers"]) == 0
    capsys.readouterr()
    assert main(["patterns", "--named", "--json"]) == 0
    listed = checked("named-patterns-1", capsys.readouterr().out)["patterns"]
    assert {one["name"]: one["version"] for one in listed} == {"sleepers": 2, "slow_copies": 1}
    assert main(["patterns", "--named"]) == 0
    shown = capsys.readouterr().out
    assert "sleepers  named by " in shown
    assert ", version 2" in shown
    assert main(["patterns", "--named", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(one["name"], one["version"]) for one in listed["patterns"]] == [
        ("sleepers", 2),
        ("slow_copies", 1),
    ]
    assert main(["patterns", "--undo", "sleepers"]) == 0
    assert capsys.readouterr().err.endswith(
        "removed: sleepers, version 2; version 1 counts again\n"
    )
    assert main(["patterns", "--undo", "slow_copies"]) == 0
    assert capsys.readouterr().err.endswith("version 1; no pattern has this name now\n")
    assert {one.name: one.traits for one in named_patterns()} == {
        "sleepers": found.patterns[0].traits
    }


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--name", "9=late"], "no pattern 9: there are 3"),
        (["--name", "1=Hang"], "'Hang' is not a name"),
        (["--name", "1=hang"], "hang already has a meaning"),
        (["--name", "1=fine", "--name", "2=idle_held"], "idle_held already has a meaning"),
    ],
)
def test_a_name_that_cannot_be_given_is_told_and_nothing_is_kept(
    moment, state, capsys, words, told
):
    path, _ = state
    assert main(["patterns", moment, *words]) == 1
    assert told in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--undo", "x", "--named"],
        ["--name", "1=x"],
        ["--named", "a.gpumon"],
        ["a.gpumon", "--name", "x"],
        ["a.gpumon", "--name", "one=x"],
    ],
)
def test_words_that_do_not_go_together_are_wrong_usage(state, capsys, words):
    assert main(["patterns", *words]) == 2
    assert capsys.readouterr().err.endswith("; see gpumon patterns --help\n")


def test_nothing_to_undo_and_nothing_named(state, capsys):
    assert main(["patterns", "--undo", "nobody"]) == 1
    assert "no pattern is called 'nobody'" in capsys.readouterr().err
    assert main(["patterns", "--named"]) == 0
    assert capsys.readouterr().out.startswith("no pattern has a name yet")


def test_a_file_of_names_that_is_none_is_left_as_it_is(moment, state, capsys):
    path, _ = state
    path.parent.mkdir(parents=True)
    path.write_text("not mine", encoding="utf-8")
    for words in (["--named"], ["--undo", "x"], [moment, "--name", "1=x"]):
        assert main(["patterns", *words]) == 1
        assert f"{path}: no JSON" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "not mine"


def test_a_folder_that_cannot_be_written_is_named(moment, state, capsys):
    path, _ = state
    path.parent.parent.joinpath("gpumon").write_text("", encoding="utf-8")
    assert main(["patterns", moment, "--name", "1=x"]) == 1
    assert str(path) in capsys.readouterr().err
