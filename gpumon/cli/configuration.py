"""Reads the settings: defaults, then the site's file, the user's file, the environment.

By os.path, because a single look cannot wait for pathlib.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.errors import InputError
from gpumon.base.paths import config_folders
from gpumon.model.settings import BY_KEY, DEFAULTS, SETTINGS, TABLES, Chosen, SettingError, Settings
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PATH_VARIABLE: Final = "GPUMON_CONFIG"
"""Names one file that is read in place of the others."""

MAX_BYTES: Final = 2**20
"""A longer file is nobody's configuration."""

_LONGEST_LINE: Final = 1000
"""Keys and names of tables stand on shorter lines; another one has no place of its own."""

_KEY: Final = r"[A-Za-z0-9_.\-\"' \t]+"
"""A key, dotted, quoted or bare, with the blanks behind it."""

_ENDLESS_KEY: Final = r"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){50}"
"""Python's reader takes time with the square of a key's parts."""


class ConfigurationError(InputError):
    """What is wrong with the configuration, one line each, with file and line."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems

    @property
    def lines(self) -> tuple[str, ...]:
        """Every problem."""
        return self.problems


class Place(NamedTuple):
    """A file that may hold settings."""

    path: str
    is_needed: bool = False
    """Whether it was asked for by name, so that its absence is an error."""


def places(environ: Mapping[str, str] | None = None) -> tuple[Place, ...]:
    """Files in the order in which they are read, a later one over an earlier one.

    One file that is named alone counts in place of those of the system's and the user's folders.
    """
    environ = os.environ if environ is None else environ
    if environ.get(PATH_VARIABLE):
        return (Place(environ[PATH_VARIABLE], is_needed=True),)
    folders = config_folders(environ)
    return tuple(Place(os.path.join(folder, "config.toml")) for folder in folders)


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Every setting with its origin.

    Raises:
        ConfigurationError: something in a file or in the environment is wrong.
    """
    environ = os.environ if environ is None else environ
    chosen = dict(DEFAULTS.chosen)
    problems: list[str] = []
    for place in places(environ):
        chosen |= _of_file(place, problems)
    for setting in SETTINGS:
        text = environ.get(setting.variable)
        if text is None:
            continue
        try:
            chosen[setting.key] = Chosen(setting.parsed(text), setting.variable)
        except SettingError as error:
            problems.append(f"{setting.variable} {error}")
    if problems:
        raise ConfigurationError(tuple(problems))
    return Settings(chosen)


def _of_file(place: Place, problems: list[str]) -> dict[str, Chosen]:
    """What a file sets; what is wrong with it goes to the problems."""
    try:
        with open(place.path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        if place.is_needed or not isinstance(error, FileNotFoundError | NotADirectoryError):
            problems.append(f"{place.path}: {error.strerror}")
        return {}
    if len(data) > MAX_BYTES:
        problems.append(
            f"{place.path}: larger than {MAX_BYTES} bytes, so not a gpumon configuration"
        )
        return {}
    import tomllib

    try:
        text = data.decode()
        endless = re.search(_ENDLESS_KEY, text)
        if endless:
            line = text.count("\n", 0, endless.start()) + 1
            problems.append(f"{place.path}: line {line}: a key of more than 50 parts")
            return {}
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problems.append(f"{place.path}: {_syntax(error)}")
        return {}
    lines = _lines_of_keys(text)
    found = {}
    for key, value in _leaves(document, ""):
        line = lines.get(key, lines.get(key.rpartition(".")[0], 1))
        where = f"{place.path}:{line}"
        try:
            found[key] = Chosen(_checked(key, value), where)
        except SettingError as error:
            problems.append(f"{where}: {plain(key)} {error}")
    return found


def _syntax(error: Exception) -> str:
    """What TOML's reader says, with its line in front as everywhere."""
    match = re.fullmatch(r"(.*) \(at line ([0-9]+), column ([0-9]+)\)", str(error))
    return f"line {match[2]}: {match[1]}" if match else f"not TOML: {plain(str(error))[:120]}"


def _leaves(table: Mapping[str, object], above: str) -> Iterator[tuple[str, object]]:
    """Dotted key and value of everything that is not a table that groups settings."""
    for name, value in table.items():
        key = f"{above}{name}"
        if key in TABLES and isinstance(value, dict):
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def _checked(key: str, value: object) -> object:
    setting = BY_KEY.get(key)
    if setting is not None:
        return setting.checked(value)
    if key in TABLES:
        raise SettingError(f"is a table: [{key}]")
    from difflib import get_close_matches

    near = get_close_matches(key, BY_KEY, 1, 0.75)
    raise SettingError(f"is not a setting{f'; did you mean {near[0]}?' if near else ''}")


def _lines_of_keys(text: str) -> dict[str, int]:
    """Line of each dotted key; of a key within a table of values, the line of the table."""
    import tomllib

    found: dict[str, int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _LONGEST_LINE:
            continue
        head = _table_in(line)
        written = head or _key_in(line)
        try:
            nested = tomllib.loads(f"{written} = 0") if written else {}
        except (ValueError, RecursionError):
            # A line of a longer text that only looks like a key or a table.
            continue
        path = []
        while isinstance(nested, dict) and nested:
            name, nested = next(iter(nested.items()))
            path.append(name)
        if head:
            table = tuple(path)
        if path:
            whole = path if head else [*table, *path]
            for length in range(1, len(whole) + 1):
                found.setdefault(".".join(whole[:length]), number)
    return found


def _table_in(line: str) -> str:
    """What stands between the brackets of a line that begins a table; empty where it is none."""
    text = line.strip()
    inside = text[1:].removeprefix("[") if text.startswith("[") else ""
    for end in re.finditer(r"\]", inside):
        rest = inside[end.end() :].removeprefix("]").lstrip()
        if not rest or rest.startswith("#"):
            return inside[: end.start()].strip()
    return ""


def _key_in(line: str) -> str:
    """What stands ahead of a line's first `=`; empty where that is no key."""
    written, equals, _ = line.partition("=")
    return written.strip() if equals and re.fullmatch(_KEY, written.strip()) else ""
