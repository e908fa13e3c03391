"""One command takes the pictures of the docs: all, or those that are named."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tools import pictures
from tools.pictures import COMMANDS, PLACES, commands_of, retaken
from tools.screenshots import IMAGES


def test_each_command_is_run_and_one_that_fails_keeps_no_other_from_it(capsys) -> None:
    ran = []

    def run(command) -> int:
        ran.append(tuple(command[2:]))
        return int(command[2] == "tools.screencast")

    commands = [("tools.screencast", "--only", "waste"), ("tools.screenshots",)]
    assert retaken(commands, run, at_once=1) == 1
    assert ran == commands
    assert capsys.readouterr().err == "tools.screencast --only waste: failed\n"
    assert retaken(commands[1:], run, at_once=2) == 0


def test_what_needs_root_is_passed_over_without_it(capsys) -> None:
    every = commands_of([], is_root=True)
    assert commands_of([], is_root=False) == every[1:] == list(COMMANDS.values())
    assert every[0][0] == "tools.local_places"
    assert "passed over" in capsys.readouterr().out


def test_some_are_named(monkeypatch, capsys) -> None:
    assert commands_of(["local-mig", "jobs"], is_root=True) == [
        ("tools.local_places", "--only", "mig"),
        ("tools.screenshots", "--only", "jobs"),
    ]
    monkeypatch.setattr("sys.argv", ["pictures", "jobs", "nosuch"])
    assert pictures.main() == 2
    assert capsys.readouterr().err.startswith("no such picture: nosuch; there are gpu, ")


def test_every_picture_of_the_docs_has_a_name_and_every_tool_is_there() -> None:
    shown = {path.stem.removesuffix("-80x24").removesuffix("-lab") for path in IMAGES.glob("*.svg")}
    # Other programs' screens, beside which ours is shown.
    assert shown - {"local-nvitop", "local-nvtop"} == {*COMMANDS, *PLACES}
    assert all(find_spec(tool) for tool, *_ in commands_of([], is_root=True))


@pytest.mark.parametrize("name", ["task-waste", "questions", "kinds"])
def test_moving_ones_are_named_as_their_files_are(name) -> None:
    assert (IMAGES / f"{name}.svg").exists()
    assert len(commands_of([name], is_root=False)) == 1
