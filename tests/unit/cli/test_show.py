"""What a terminal begins with: option, environment, last choice, files, in this order."""

from __future__ import annotations

import stat

import pytest

from gpumon.cli.show import begun_with
from gpumon.detect.engine.notes_file import NotesFile
from gpumon.model.settings import DEFAULTS, Chosen, Settings
from gpumon.report.facts.columns import Sorting
from gpumon.tui.look.saved_choices import FILE_NAME, Habits, habits_of, written

HABITS = Habits(
    "light", True, {"jobs": ("job", "user")}, {"gpus": Sorting("sm", True)}, "sm", "partition"
)


def settings(**chosen):
    named = {f"terminal.{key}": Chosen(*value) for key, value in chosen.items()}
    return Settings({**DEFAULTS.chosen, **named})


def test_what_was_chosen_is_read_as_it_was_written(tmp_path):
    file = NotesFile(tmp_path / "state" / FILE_NAME)
    file.write(written(HABITS))
    assert file._writing.settle(60.0)
    assert habits_of(file.read()) == HABITS
    assert stat.S_IMODE((tmp_path / "state" / FILE_NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        "x",
        {},
        {"theme": "pink", "ascii": 1, "columns": [], "sort": "s", "map_field": 3},
        {"columns": {"jobs": []}, "sort": {"jobs": ["a"]}, "map_field": "x" * 999},
        {"columns": {"jobs": [1]}, "sort": {"jobs": ["a", "b"], "gpus": [None, False]}},
    ],
)
def test_what_is_none_of_ours_counts_as_not_said(found):
    assert habits_of(found) == Habits()


@pytest.mark.parametrize("text", ["", "{", "\0\xff", "[" * 100_000])
def test_rubbish_counts_as_not_said(tmp_path, text):
    path = tmp_path / FILE_NAME
    path.write_text(text)
    assert habits_of(NotesFile(path).read()) == Habits()


def begins(habits, settings_, *, is_ascii=False):
    """Theme and signs with which a terminal begins; what was chosen stays what is kept."""
    begun = begun_with(habits, settings_, is_ascii=is_ascii)
    assert begun._replace(theme_at_first=None, is_ascii_at_first=None) == habits
    at_first = begun.is_ascii_at_first
    return begun.theme_at_first or begun.theme, begun.is_ascii if at_first is None else at_first


def test_without_a_choice_the_configuration_counts():
    assert begins(Habits(), settings(theme=("mono", "x.toml:1"))) == ("mono", False)


def test_a_choice_beats_a_file_and_the_environment_beats_a_choice():
    of_file = settings(theme=("mono", "x.toml:1"), ascii=(False, "x.toml:2"))
    assert begins(HABITS, of_file) == ("light", True)
    of_shell = settings(
        theme=("mono", "GPUMON_TERMINAL_THEME"), ascii=(False, "GPUMON_TERMINAL_ASCII")
    )
    assert begins(HABITS, of_shell) == ("mono", False)
    assert begins(HABITS, of_shell, is_ascii=True) == ("mono", True)


@pytest.mark.parametrize(
    ("told", "theme"),
    [
        ("0;15", "light"),
        ("0;default;7", "light"),
        ("15;0", "dark"),
        ("0;default", "dark"),
        ("", "dark"),
        ("\x1b;99", "dark"),
    ],
)
def test_a_terminal_that_tells_of_a_white_ground_begins_light(monkeypatch, told, theme):
    monkeypatch.setenv("COLORFGBG", told)
    assert begins(Habits(), settings())[0] == theme
    assert begins(Habits("blind"), settings())[0] == "blind"
    assert begins(Habits(), settings(theme=("dark", "x.toml:1")))[0] == "dark"
