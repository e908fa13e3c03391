"""The columns that a row filter may name, and how people call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.report.filter.tree import SPECIAL, FilterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.report.facts.columns import Column

R = TypeVar("R")

_UNIT_ENDS: Final = ("_bytes_per_s", "_bytes", "_ratio", "_count", "_mhz", "_w", "_c", "_s")
"""Ends of keys that users leave out."""

_EARLIER: Final = {"power_w": "pwr", "local_rank": "lrank"}
"""What columns were called before, where no other name begins so: filters that people keep."""

LEAST_PREFIX: Final = 2
"""Characters of a name that may be cut short: one says too little."""


def unit_of(column: Column[R]) -> str | None:
    """The unit of what a column compares, None for a column of text."""
    if column.unit is not None:
        return column.unit
    field = CATALOGUE.get(column.key)
    return None if field is None else field.unit


def names_of(column: Column[R]) -> tuple[str, ...]:
    """How a column may be called, lower case, the shortest way to say it first.

    By its title, by the first word of its title without signs, by its key, by its key without the
    unit, and by what it was called before.
    """
    title = column.title.lower()
    first = title.split()[0] if title.split() else ""
    bare = first.strip("%°?/").removesuffix("/s")
    key = column.key.lower()
    short = next((key.removesuffix(end) for end in _UNIT_ENDS if key.endswith(end)), key)
    found = (bare, short, first, title, key, _EARLIER.get(key, ""))
    return tuple(dict.fromkeys(name for name in found if name))


def column_of(name: str, at: int, columns: Sequence[Column[R]]) -> Column[R]:
    """The column of this name, or the only one whose name begins so.

    Raises:
        FilterError: None or several are called so.
    """
    wanted = name.lower()
    named = [(column, names_of(column)) for column in columns]
    for column, names in named:
        if wanted in names:
            return column
    if len(wanted) >= LEAST_PREFIX:
        begun = [column for column, names in named if any(one.startswith(wanted) for one in names)]
        if len(begun) == 1:
            return begun[0]
        if begun:
            several = " or ".join(_typed(column) for column in begun[:3])
            raise FilterError(f"{_brief(name)!r} may be {several}", at)
    raise FilterError(_unknown(wanted, name, [names for _, names in named]), at)


def _unknown(wanted: str, name: str, named: Iterable[tuple[str, ...]]) -> str:
    from difflib import get_close_matches

    every = list(named)
    close = get_close_matches(wanted, [one for names in every for one in names], 1, 0.6)
    text = f"no column {_brief(name)!r} here"
    if close:
        return f"{text}; did you mean {close[0]}?"
    listed = ", ".join(names[0] for names in every[:8])
    return f"{text}: {listed}{' …' if len(every) > 8 else ''}"


def _brief(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def _typed(column: Column[R]) -> str:
    """The name of a column that can be typed and means no other."""
    return names_of(column)[0]


def typable(columns: Sequence[Column[R]]) -> tuple[str, ...]:
    """One name for each column, in their order, as it can be typed in a filter."""
    taken: dict[str, None] = {}
    for column in columns:
        for name in names_of(column):
            can_be_typed = not any(char in SPECIAL or char.isspace() for char in name)
            if can_be_typed and name not in taken and column_of(name, 0, columns) is column:
                taken[name] = None
                break
    return tuple(taken)


def completed(text: str, columns: Sequence[Column[R]]) -> str:
    """The text with the name of a column at its end written out as far as it is sure."""
    start = len(text)
    while start and not (text[start - 1] in SPECIAL or text[start - 1].isspace()):
        start -= 1
    begun = text[start:].lower()
    if not begun or text[:start].rstrip()[-1:] in tuple("=~<>\"'"):
        return text
    found = [name for name in typable(columns) if name.startswith(begun)]
    if not found:
        return text
    first, last = min(found), max(found)
    same = next((i for i, char in enumerate(first) if last[i : i + 1] != char), len(first))
    return text[:start] + first[:same]
