"""One command takes every picture of the docs."""

from __future__ import annotations

from importlib.util import find_spec

from tools.pictures import TOOLS, retaken


def test_each_tool_is_run_and_one_that_fails_keeps_no_other_from_it(capsys) -> None:
    ran = []

    def run(command) -> int:
        ran.append(command[2])
        return int(command[2] == "tools.screenshots")

    assert retaken(run, is_root=True) == 1
    assert ran == [tool for tool, *_ in TOOLS]
    assert capsys.readouterr().err == "tools.screenshots: failed\n"


def test_what_needs_root_is_passed_over_without_it(capsys) -> None:
    ran = []
    assert retaken(lambda command: bool(ran.append(command)), is_root=False) == 0
    assert [command[2] for command in ran] == [tool for tool, *_ in TOOLS[:-1]]
    assert "local_places: passed over" in capsys.readouterr().out


def test_every_tool_is_there() -> None:
    assert all(find_spec(tool) for tool, *_ in TOOLS)
