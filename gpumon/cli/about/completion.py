"""Scripts by which a shell completes what is typed: bash, zsh and fish."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumon.cli.about.command_tree import Command, Option

_BASH: Final = """\
# Completion of gpumon for bash, made by `gpumon completion bash`.
_gpumon() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local command='' words='' takes_files=''
    if (( COMP_CWORD > 1 )); then
        case "${{COMP_WORDS[1]}}" in {first}) command="${{COMP_WORDS[1]}}" ;; esac
    fi
    if (( COMP_CWORD > 2 )); then
        case "$command ${{COMP_WORDS[2]}}" in {second}) command+=" ${{COMP_WORDS[2]}}" ;; esac
    fi
    COMPREPLY=()
    case "$command $previous" in
{values}
    esac
    case "$command" in
{commands}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    [ -z "$takes_files" ] || compopt -o default
}}
complete -F _gpumon gpumon
"""

_ZSH: Final = """\
#compdef gpumon
# Completion of gpumon for zsh, made by `gpumon completion zsh`.
_gpumon() {{
    local command='' previous="${{words[CURRENT-1]}}" takes_files=''
    local -a offered options
    if (( CURRENT > 2 )); then
        case "${{words[2]}}" in ({first}) command="${{words[2]}}" ;; esac
    fi
    if (( CURRENT > 3 )); then
        case "$command ${{words[3]}}" in ({second}) command+=" ${{words[3]}}" ;; esac
    fi
    case "$command $previous" in
{values}
    esac
    case "$command" in
{commands}
    esac
    (( ! $#offered )) || _describe -t commands word offered
    _describe -o -t options option options
    [[ -z "$takes_files" ]] || _files
}}
if [[ "${{funcstack[1]}}" == _gpumon ]]; then _gpumon "$@"; else compdef _gpumon gpumon; fi
"""

_FISH: Final = """\
# Completion of gpumon for fish, made by `gpumon completion fish`.
function __gpumon_command_is
    set -l typed (commandline -opc)
    set -l command ''
    contains -- "$typed[2]" {first}; and set command $typed[2]
    contains -- "$command $typed[3]" {second}; and set command "$command $typed[3]"
    test "$command" = "$argv[1]"
end
complete -c gpumon -f
"""


def _bash(commands: Sequence[Command]) -> str:
    """A function for `complete -F`; file names are left to readline, which quotes them."""
    values = _case(
        commands,
        lambda choices: f'COMPREPLY=($(compgen -W {_quoted(choices)} -- "$current")); return',
        "compopt -o default; return",
        "return",
        "        {pattern}) {act} ;;",
    )
    lines = []
    for command in commands:
        words = [*command.offers, *(name for one in command.options for name in one.names)]
        files = "; takes_files=1" if command.takes_files else ""
        lines.append(f"        {shlex.quote(command.name)}) words={_quoted(words)}{files} ;;")
    return _BASH.format(values=values, commands="\n".join(lines), **_levels(commands))


def _zsh(commands: Sequence[Command]) -> str:
    """A function of the completion system, for a folder of $fpath or to be sourced."""
    values = _case(
        commands,
        lambda choices: f"compadd -- {' '.join(map(shlex.quote, choices))}; return",
        "_files; return",
        "return",
        "        ({pattern}) {act} ;;",
    )
    docs = {command.name: command.doc for command in commands}
    lines = []
    for command in commands:
        offered = [_described(word, docs.get(_inner(command, word), "")) for word in command.offers]
        options = [_described(name, one.doc) for one in command.options for name in one.names]
        files = "; takes_files=1" if command.takes_files else ""
        lines.append(
            f"        ({shlex.quote(command.name)})\n"
            f"            offered=({' '.join(offered)})\n"
            f"            options=({' '.join(options)}){files} ;;"
        )
    return _ZSH.format(values=values, commands="\n".join(lines), **_levels(commands))


def _fish(commands: Sequence[Command]) -> str:
    """A line for each word that can be completed."""
    docs = {command.name: command.doc for command in commands}
    first, second = ([one.name for one in commands if len(one.words) == size] for size in (1, 2))
    lines = [_FISH.format(first=_fish_words(first), second=_fish_words(second))]
    for command in commands:
        test = f"__gpumon_command_is {_fish_quoted(command.name)}"
        when = f"complete -c gpumon -n {_fish_quoted(test)}"
        for word in command.offers:
            doc = _fish_quoted(_short(docs.get(_inner(command, word), "")))
            lines.append(f"{when} -a {_fish_quoted(word)} -d {doc}\n")
        if command.takes_files:
            lines.append(f"{when} -F\n")
        lines += [f"{when} {_fish_option(one)}\n" for one in command.options]
    return "".join(lines)


SHELLS: Final[Mapping[str, Callable[[Sequence[Command]], str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
"""What makes the script of each shell."""


def _levels(commands: Sequence[Command]) -> dict[str, str]:
    """Patterns of a `case` for the words of one and of two levels."""
    return {
        name: "|".join(shlex.quote(one.name) for one in commands if len(one.words) == size)
        for name, size in (("first", 1), ("second", 2))
    }


def _case(
    commands: Sequence[Command],
    offer: Callable[[Sequence[str]], str],
    files: str,
    nothing: str,
    line: str,
) -> str:
    """What follows each option that takes a value: its choices, a file, or nobody knows."""
    lines = []
    for command in commands:
        for one in command.options:
            if not one.metavar:
                continue
            act = offer(one.choices) if one.choices else files if one.is_file else nothing
            pattern = "|".join(shlex.quote(f"{command.name} {name}") for name in one.names)
            lines.append(line.format(pattern=pattern, act=act))
    return "\n".join(lines)


def _inner(command: Command, word: str) -> str:
    """Name of the command that a word of another one leads to."""
    return " ".join((*command.words, word))


def _short(doc: str) -> str:
    """The first clause of a description: a line beside a word has no room for more."""
    return (
        " ".join(doc.split()).partition(": ")[0].partition("; ")[0].partition(". ")[0].rstrip(".")
    )


def _quoted(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


def _described(word: str, doc: str) -> str:
    """A word with its description for `_describe`, where a colon parts the two."""
    summary = _short(doc)
    return shlex.quote(word.replace(":", "\\:") + (f":{summary}" if summary else ""))


def _fish_option(one: Option) -> str:
    """One option as arguments of `complete`."""
    parts = [
        f"-l {name.removeprefix('--')}" if name.startswith("--") else f"-s {name.removeprefix('-')}"
        for name in one.names
    ]
    if one.choices:
        parts.append(f"-x -a {_fish_quoted(' '.join(one.choices))}")
    elif one.metavar:
        parts.append("-r -F" if one.is_file else "-x")
    return " ".join((*parts, f"-d {_fish_quoted(_short(one.doc))}"))


def _fish_words(words: Iterable[str]) -> str:
    return " ".join(map(_fish_quoted, words))


def _fish_quoted(text: str) -> str:
    """A word of fish, where a quote and a backslash are escaped inside single quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
