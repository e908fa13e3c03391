"""The part of a Python module that a program needs: what travels to a node is compiled there."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_WORD: Final = re.compile(r"\w+")
_DEFINITION: Final = re.compile(r"(?:def|class) (\w+)")


class _Part(NamedTuple):
    """Lines of one top-level statement, its decorators included."""

    name: str
    """What it defines where it is a function or a class, else empty."""
    text: str


def lean(source: str, user: str) -> str:
    """The module without the functions and classes that nothing reaches.

    Every other statement stays, and so do the comments before the first one, which hold the
    licence. A name counts as used wherever it occurs as a word, so that names which are looked up
    as text are found too.

    Args:
        source: Text of the module.
        user: Text of the program that uses it.
    """
    head, parts = _split(source)
    needed = set(_WORD.findall(user))
    for part in parts:
        if not part.name:
            needed.update(_WORD.findall(part.text))
    included: set[int] = set()
    grows = True
    while grows:
        grows = False
        for place, part in enumerate(parts):
            if part.name in needed and place not in included:
                included.add(place)
                needed.update(_WORD.findall(part.text))
                grows = True
    return head + "".join(
        part.text for place, part in enumerate(parts) if not part.name or place in included
    )


def _split(source: str) -> tuple[str, list[_Part]]:
    """The comments at the top, and then the statements without the comments between them."""
    head: list[str] = []
    statements: list[list[str]] = []
    is_in_text = is_decorated = False
    for line in source.splitlines(keepends=True):
        is_bare = not is_in_text and line.startswith("#")
        if is_bare and not statements:
            head.append(line)
        elif not is_bare:
            is_first = not is_in_text and not line[0].isspace() and line[0] not in ")]}"
            if (is_first and not is_decorated) or not statements:
                statements.append([])
            statements[-1].append(line)
            if is_first:
                is_decorated = line.startswith("@")
        if (line.count('"""') + line.count("'''")) % 2 and not is_bare:
            is_in_text = not is_in_text
    return "".join(head), [_part(lines) for lines in statements]


def _part(lines: list[str]) -> _Part:
    first = next((line for line in lines if not line.startswith("@")), "")
    found = _DEFINITION.match(first)
    return _Part(found.group(1) if found else "", "".join(lines))
