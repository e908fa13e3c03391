"""What is read from the argument parsers is the whole command line."""

from __future__ import annotations

import argparse

from gpumon.cli import COMMANDS
from gpumon.cli.about.command_tree import command_tree
from gpumon.cli.commands.completion import every_command


def test_every_command_and_part_is_in_the_tree() -> None:
    names = [command.name for command in every_command()]
    assert names[0] == ""
    assert {*COMMANDS, "config init", "detectors check"} <= set(names)


def test_an_option_says_what_it_takes() -> None:
    (report,) = (one for one in every_command() if one.name == "report")
    options = {one.names[-1]: one for one in report.options}
    assert "account" in options["--by"].choices
    assert options["--directory"].is_file
    assert (options["--json"].metavar, options["--since"].metavar) == ("", "WHEN")


def test_arguments_files_and_a_per_cent_sign() -> None:
    made = argparse.ArgumentParser(prog="x", description="50 %% of it.")
    made.add_argument("files", nargs="*", metavar="FILE", help="what is read")
    (command,) = command_tree({"": made})
    assert command.takes_files
    assert command.doc == "50 % of it."
    assert command.usage == "[-h] [FILE ...]"
    assert [(one.metavar, one.doc) for one in command.arguments] == [("FILE", "what is read")]
