"""The command line as data, read from the argument parsers: completion and man page use it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TARGET_WORDS: Final = ("local", "slurm", "demo")
"""Targets that are one word; the others begin with a scheme, or are files."""

_FILES: Final = ("FILE", "TARGET", "DIR", "MODEL")
"""Words in a metavar that a file or a folder may be given for."""


class Option(NamedTuple):
    """An option of one command."""

    names: tuple[str, ...]
    """As typed: `-h`, `--help`."""
    metavar: str
    """What stands behind it; empty: nothing does."""
    choices: tuple[str, ...]
    """The values that it takes, where there are only so many."""
    is_file: bool
    """Whether its value is the name of a file or a folder."""
    doc: str


class Argument(NamedTuple):
    """A word of one command that is no option."""

    metavar: str
    doc: str


class Command(NamedTuple):
    """A command, or a part of one."""

    words: tuple[str, ...]
    """Behind `gpumon`; empty for the main command."""
    doc: str
    usage: str
    """How it is called, in one line, without `gpumon` and the words."""
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    offers: tuple[str, ...]
    """Words that may come first: the parts of a command, choices, targets."""
    takes_files: bool

    @property
    def name(self) -> str:
        """The words with a blank between them."""
        return " ".join(self.words)


def command_tree(parsers: Mapping[str, argparse.ArgumentParser]) -> tuple[Command, ...]:
    """Every command with its parts, in the order in which they are given.

    Args:
        parsers: The parser of each command by its word; the main command's is the empty one.
    """
    found: list[Command] = []
    for word, parser in parsers.items():
        found += _commands((word,) if word else (), parser)
    names = tuple(word for word in parsers if word)
    return tuple(one if one.words else one._replace(offers=names + one.offers) for one in found)


def _commands(words: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[Command]:
    """A command, then its parts."""
    options: list[Option] = []
    arguments: list[Argument] = []
    offers: list[str] = []
    parts: dict[str, argparse.ArgumentParser] = {}
    takes_files = False
    # argparse has no public list of what was added to a parser.
    for action in parser._actions:
        metavar = _metavar(action)
        is_file = any(word in metavar.replace("[", " ").split() for word in _FILES)
        if action.option_strings:
            options.append(_option(action, metavar, is_file=is_file))
            continue
        if isinstance(action, argparse._SubParsersAction):
            parts.update(action.choices)
        arguments.append(Argument(metavar, _doc(action.help)))
        offers += [str(choice) for choice in action.choices or ()]
        offers += TARGET_WORDS if "TARGET" in metavar else ()
        takes_files = takes_files or is_file
    usage = " ".join(parser.format_usage().split()).removeprefix(f"usage: {parser.prog}").strip()
    doc = _doc(parser.description)
    yield Command(
        words=words,
        doc=doc,
        usage=usage,
        options=tuple(options),
        arguments=tuple(arguments),
        offers=tuple(offers),
        takes_files=takes_files,
    )
    for part, inner in parts.items():
        yield from _commands((*words, part), inner)


def _option(action: argparse.Action, metavar: str, *, is_file: bool) -> Option:
    choices = tuple(str(choice) for choice in action.choices or ())
    names = tuple(action.option_strings)
    return Option(
        names=names, metavar=metavar, choices=choices, is_file=is_file, doc=_doc(action.help)
    )


def _metavar(action: argparse.Action) -> str:
    """What stands for the value; empty for an option without one."""
    if action.nargs == 0:
        return ""
    if action.metavar is None and action.choices:
        return f"{{{','.join(str(choice) for choice in action.choices)}}}"
    return str(action.metavar or action.dest.upper())


def _doc(text: str | None) -> str:
    """What the parser says in its help, where `%%` is a per cent sign."""
    return (text or "").replace("%%", "%")
