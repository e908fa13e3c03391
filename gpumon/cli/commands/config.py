"""`gpumon config`: where settings are read from, what they are, and whether they are right."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpumon.base.own_file import write_own
from gpumon.cli.configuration import load, places
from gpumon.cli.examined.configured import problems_beyond
from gpumon.cli.exits import DONE, NOTHING_READ, USAGE, narrate
from gpumon.cli.options import Parser
from gpumon.cli.output import write
from gpumon.model.settings import SETTINGS, Form

if TYPE_CHECKING:
    from gpumon.model.settings import Setting

_PARTS: Final = {
    "path": "files that are read, a later one over an earlier one",
    "print": "every setting with its value and where it comes from",
    "validate": "show what is wrong, with file and line",
    "init": "write a file with every setting, its default and its meaning",
    "rules": "recording rules for a Prometheus that scrapes dcgm-exporter",
}


def parser() -> Parser:
    """What the command understands."""
    made = Parser(prog="gpumon config", description="Show, check or create the configuration.")
    parts = made.add_subparsers(
        dest="part", required=True, metavar="path|print|validate|init|rules"
    )
    for name, does in _PARTS.items():
        parts.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.")
    return made


def config(words: list[str]) -> int:
    """Exit code of the command."""
    part = parser().parse_args(words).part
    if part == "path":
        return _paths()
    if part == "rules":
        from gpumon.sources.prometheus.rules import rules

        write(rules())
        return DONE
    if part == "init":
        return _init(Path(places()[-1].path))
    settings = load()
    if part == "print":
        for line in _lines({key: chosen.value for key, chosen in settings.chosen.items()}):
            key = line[0]
            origin = f"  # {settings.chosen[key].origin}" if key in settings.chosen else ""
            write(f"{line[1]}{origin}\n", _escaped)
        return DONE
    problems = problems_beyond(settings)
    for problem in problems:
        narrate(problem)
    if problems:
        return USAGE
    write("the configuration is valid\n")
    return DONE


def _paths() -> int:
    for place in places():
        state = "" if Path(place.path).exists() else "  (absent)"
        write(f"{place.path}{state}\n")
    return DONE


def _init(path: Path) -> int:
    """Write the template, never over a file that is there."""
    try:
        write_own(path, template(), is_new=True)
    except OSError as error:
        if os.path.lexists(path):
            narrate(f"{path} already exists; gpumon config print shows what it sets")
            return NOTHING_READ
        # A file where a folder is to be exists as well.
        narrate(f"{path} was not written: {error.strerror}; GPUMON_CONFIG names another place")
        return NOTHING_READ
    write(f"{path}\n")
    return DONE


def template() -> str:
    """A file in which every setting stands as a comment with its default."""
    docs = {setting.key: setting for setting in SETTINGS}
    lines = ["# Settings of gpumon. A line takes effect without the # in front."]
    for key, line in _lines({setting.key: setting.default for setting in SETTINGS}):
        if key in docs:
            lines += ["", f"# {docs[key].doc}", f"# {_example(docs[key], line)}"]
        elif line:
            lines += ["", line]
    return "\n".join(lines) + "\n"


def _example(setting: Setting, line: str) -> str:
    """The default, or an example where the default is an empty table."""
    if setting.form is Form.NUMBERS_BY_NAME:
        return f'{line.partition(" =")[0]} = {{ "H100" = 2.5, "default" = 1.0 }}'
    if setting.form is Form.TEXTS_BY_NAME:
        return f'{line.partition(" =")[0]} = {{ "ada" = ["user:ada"], "operators" = ["*"] }}'
    if setting.form is Form.PARAMETERS_BY_NAME:
        return f"{line.partition(' =')[0]} = {{ partial_gpus_idle = {{ idle_mem_ratio = 0.02 }} }}"
    return line


def _lines(values: dict[str, object]) -> list[tuple[str, str]]:
    """Key and line of TOML for each value, and a line for each table's head."""
    lines: list[tuple[str, str]] = []
    table = ""
    for key, value in values.items():
        above, _, name = key.rpartition(".")
        if above != table:
            table = above
            lines += [("", ""), ("", f"[{table}]")]
        lines.append((key, f"{name} = {shown(value)}"))
    return lines


def _escaped(char: str) -> str:
    """A character as TOML writes it where it cannot stand itself."""
    return f"\\U{ord(char):08x}"


def shown(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON text is a TOML text: both escape with a backslash.
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        inner = (f"{json.dumps(k, ensure_ascii=False)} = {shown(v)}" for k, v in value.items())
        return f"{{ {', '.join(inner)} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(shown(item) for item in value)}]"
    return f"{value:.15g}"
