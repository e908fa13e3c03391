"""`gpumon completion`: a script by which the shell completes commands, options and targets."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gpumon.cli import COMMANDS, options
from gpumon.cli.about.command_tree import command_tree
from gpumon.cli.about.completion import SHELLS
from gpumon.cli.exits import DONE
from gpumon.cli.output import write

if TYPE_CHECKING:
    from gpumon.cli.about.command_tree import Command


def parser() -> options.Parser:
    """What the command understands."""
    made = options.Parser(
        prog="gpumon completion",
        description="Write a script that completes commands, options and targets. Load it with "
        'eval "$(gpumon completion bash)" in ~/.bashrc, the same with zsh behind compinit in '
        "~/.zshrc, or gpumon completion fish | source in fish's configuration.",
    )
    made.add_argument("shell", choices=tuple(SHELLS), help="for which shell")
    return made


def completion(words: list[str]) -> int:
    """Exit code of the command."""
    write(SHELLS[parser().parse_args(words).shell](every_command()))
    return DONE


def every_command() -> tuple[Command, ...]:
    """The whole command line as data, the main command first."""
    modules = {word: import_module(f"gpumon.cli.commands.{word}") for word in COMMANDS}
    own = {word: module.parser() for word, module in modules.items()}
    return command_tree({"": options.parser(), **own})
