"""Cuts what `scontrol show` prints into records and their lines.

We ask for the form with one line per group of keys, not for `-o`: a blank or an `=` in a job's
name, comment or command then cannot pass for a key, because those values end their line. A line
break in a name still can; the number of records that `--verbose` announces reveals it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_INDENT: Final = "   "
_HEAD_CHARS: Final = 65536
"""How far the announcement is looked for: beyond any login shell's greeting."""


def split_records(text: str, first_key: str) -> list[list[str]]:
    """Lines of each record that begins with `first_key=`.

    The first may follow anything, since a login shell may print a greeting; each other one follows
    an empty line. Only a line feed ends a line: names may hold Unicode's other separators.
    """
    first = re.search(rf"^{first_key}=", text, re.MULTILINE)
    if first is None:
        return []
    records = re.split(rf"\n[ \t]*\n(?={first_key}=)", text[first.start() :])
    return [record.split("\n") for record in records]


def announced(text: str, first_key: str) -> int | None:
    """Number of records that `--verbose` announces ahead of them; None where it doesn't."""
    head = re.split(rf"^{first_key}=", text[:_HEAD_CHARS], maxsplit=1, flags=re.MULTILINE)[0]
    counts = re.findall(r"^last_update_time=.*\brecords=([0-9]{1,9})$", head, re.MULTILINE)
    return int(counts[-1]) if counts else None


def keyed_lines(lines: list[str]) -> Iterator[tuple[str, str]]:
    """First key and whole text of each line at a record's own indent."""
    for line in lines:
        if line.startswith(_INDENT) and not line.startswith(_INDENT + " "):
            text = line.strip()
            yield text.partition("=")[0], text


def pairs(text: str) -> dict[str, str]:
    """Keys and values of a line whose values hold no blanks; the first of each key counts."""
    found: dict[str, str] = {}
    for token in text.split():
        key, equals, value = token.partition("=")
        if equals:
            found.setdefault(key, value)
    return found
