"""Changes samples as their format is built: lines, keys, columns, numbers, trees of JSON, bytes."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, Final

from tests.fuzz.edges import BYTES, CHARACTERS, NUMBERS, VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

MOST_CHARS: Final = 1 << 15
"""Length of an ordinary input; a rare one is as long as `LONG_CHARS`."""
LONG_CHARS: Final = 1 << 17

_NEAR_CHARS: Final = 400
_NUMBER: Final = re.compile(r"[0-9]{1,40}(?:\.[0-9]{1,40})?")
_WORD: Final = re.compile(r"[A-Za-z_][\w.-]{0,40}")
_PAIR: Final = re.compile(r"([^\s=,;|]{1,40})[=:]([^\s,;|]{0,80})")
_RAW: Final = re.compile(r'"@@((?:[^"\\]|\\.)*?)@@"')
_DELIMITERS: Final = ("|", ",", ":", ";", "=", "\t", " ", "/", "@5eed@")


def text(rng: Random, chunks: Sequence[str], join: str = "\n", most: int = 3) -> str:
    """Some of the chunks, one after the other, changed a few times."""
    made = join.join(rng.choice(chunks) for _ in range(rng.randint(1, most)))
    for _ in range(changes(rng)):
        made = rng.choice(TEXT_CHANGES)(rng, made, chunks)
    return made[:LONG_CHARS]


def changes(rng: Random) -> int:
    """How many changes one input gets: mostly few, so that the rest of it is still understood."""
    return rng.choice((0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 6, 10))


def encoded(rng: Random, made: str) -> bytes:
    """The text as bytes, now and then damaged as only bytes can be."""
    raw = made.encode("utf-8", "surrogatepass")
    return damaged(rng, raw) if rng.random() < 0.1 else raw


def damaged(rng: Random, raw: bytes) -> bytes:
    """Bytes flipped, cut, put in or taken twice."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(raw) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(raw):
            raw = raw[:at] + bytes((raw[at] ^ 1 << rng.randrange(8),)) + raw[at + 1 :]
        elif kind == 1:
            raw = raw[:at]
        elif kind == 2:
            raw = raw[:at] + rng.choice(BYTES) + raw[at:]
        elif kind == 3:
            raw = raw[:at] + raw[at + rng.randint(1, 64) :]
        elif kind == 4:
            raw = raw[:at] + raw[at : at + rng.randint(1, 512)] + raw[at:]
        else:
            raw = raw[:at] + rng.randbytes(rng.randint(1, 16)) + raw[at:]
    return raw[:LONG_CHARS]


# Text


def _replaced(made: str, begin: int, end: int, by: str) -> str:
    return made[:begin] + by + made[end:]


def _found(rng: Random, pattern: re.Pattern[str], made: str) -> re.Match[str] | None:
    """One of the places that appear so, not far behind a place by chance."""
    at = rng.randrange(len(made) + 1)
    return pattern.search(made, at, at + _NEAR_CHARS) or pattern.search(made, 0, _NEAR_CHARS)


def _number(rng: Random, made: str, _: Sequence[str]) -> str:
    match = _found(rng, _NUMBER, made)
    return made if match is None else _replaced(made, *match.span(), rng.choice(NUMBERS))


def _near(rng: Random, made: str, _: Sequence[str]) -> str:
    """A number that is a little off, or far."""
    match = _found(rng, _NUMBER, made)
    if match is None or len(match[0]) > 30:
        return made
    value = float(match[0]) if "." in match[0] else int(match[0])
    other = rng.choice((value + 1, value - 1, -value, value * 2, value * 1000, value // 2))
    return _replaced(
        made, *match.span(), f"{other:.6f}" if isinstance(other, float) else str(other)
    )


def _word(rng: Random, made: str, chunks: Sequence[str]) -> str:
    mine = _found(rng, _WORD, made)
    theirs = _found(rng, _WORD, rng.choice(chunks))
    if mine is None or theirs is None:
        return made
    return _replaced(made, *mine.span(), theirs[0] if rng.random() < 0.8 else "")


def _pair(rng: Random, made: str, chunks: Sequence[str]) -> str:
    """A pair of key and value taken out, put in twice, or given another's value."""
    mine = _found(rng, _PAIR, made)
    theirs = _found(rng, _PAIR, rng.choice((made, rng.choice(chunks))))
    if mine is None or theirs is None:
        return made
    by = rng.choice(("", mine[0] + " " + theirs[0], theirs[0], mine[1] + "=", mine[2]))
    if rng.random() < 0.5:
        return _replaced(
            made, *mine.span(2), rng.choice((theirs[2], theirs[1], "", "(null)", "N/A"))
        )
    return _replaced(made, *mine.span(), by)


def _lines(rng: Random, made: str, chunks: Sequence[str]) -> str:
    lines = made.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(other, lines[at])
    elif kind == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3:
        lines.insert(at, rng.choice(rng.choice(chunks).split("\n")))
    elif kind == 4:
        lines[at] = rng.choice(("", " ", "\t")) + lines[at].strip()
    else:
        lines[at : at + 2] = ["".join(lines[at : at + 2])]
    return "\n".join(lines)


def _splice(rng: Random, made: str, chunks: Sequence[str]) -> str:
    other = rng.choice(chunks)
    return made[: rng.randrange(len(made) + 1)] + other[rng.randrange(len(other) + 1) :]


def _insert(rng: Random, made: str, _: Sequence[str]) -> str:
    at = rng.randrange(len(made) + 1)
    return _replaced(made, at, at + rng.randrange(2), rng.choice(CHARACTERS))


def _cut(rng: Random, made: str, _: Sequence[str]) -> str:
    at = rng.randrange(len(made) + 1)
    return made[:at] if rng.random() < 0.5 else made[:at] + made[at + rng.randint(1, 40) :]


def _again(rng: Random, made: str, _: Sequence[str]) -> str:
    """A short piece very often: what takes time with the square of its length shows by it."""
    at = rng.randrange(len(made) + 1)
    piece = made[at : at + rng.randint(1, 40)] if rng.random() < 0.7 else rng.choice(CHARACTERS)
    most = (
        LONG_CHARS
        if rng.random() < 0.01
        else rng.choice((8, 16, 64, 64, 512, 512, MOST_CHARS // 8))
    )
    return _replaced(made, at, at, piece * (most // max(1, len(piece))))


def _columns(rng: Random, made: str, _: Sequence[str]) -> str:
    """Columns of one line taken out, put in twice, swapped or emptied."""
    lines = made.split("\n")
    at = rng.randrange(len(lines))
    delimiter = rng.choice(_DELIMITERS)
    parts = lines[at].split(delimiter)
    one, other = rng.randrange(len(parts)), rng.randrange(len(parts))
    kind = rng.randrange(5)
    if kind == 0:
        del parts[one]
    elif kind == 1:
        parts.insert(other, parts[one])
    elif kind == 2:
        parts[one], parts[other] = parts[other], parts[one]
    elif kind == 3:
        parts[one] = rng.choice(NUMBERS)
    else:
        parts[one] = rng.choice(("", " ", "(null)", "None", "Unknown", "UNLIMITED", "*"))
    lines[at] = delimiter.join(parts)
    return "\n".join(lines)


def _case(rng: Random, made: str, _: Sequence[str]) -> str:
    match = _found(rng, _WORD, made)
    return made if match is None else _replaced(made, *match.span(), match[0].swapcase())


TEXT_CHANGES: Final[tuple[Callable[[Random, str, Sequence[str]], str], ...]] = (
    _number,
    _number,
    _number,
    _near,
    _word,
    _word,
    _pair,
    _pair,
    _lines,
    _lines,
    _splice,
    _insert,
    _insert,
    _cut,
    _again,
    _columns,
    _columns,
    _case,
)


# JSON


def tree(rng: Random, chunks: Sequence[str]) -> Any:
    """One of the values that the chunks are, changed a few times."""
    made = json.loads(rng.choice(chunks))
    for _ in range(changes(rng)):
        made = changed(rng, made, chunks)
    return made


def changed(rng: Random, made: Any, chunks: Sequence[str]) -> Any:
    """The tree with one change somewhere in it."""
    if not isinstance(made, dict | list) or not made or rng.random() < 0.02:
        return _other(rng, made)
    above, key = made, _key(rng, made)
    while isinstance(above[key], dict | list) and above[key] and rng.random() < 0.85:
        above = above[key]
        key = _key(rng, above)
    _change_at(rng, above, key, chunks)
    return made


def _key(rng: Random, node: Any) -> Any:
    return rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))


def _change_at(rng: Random, above: Any, key: Any, chunks: Sequence[str]) -> None:
    node = above[key]
    kind = rng.randrange(10)
    if kind < 4:
        above[key] = _other(rng, node)
    elif kind == 4:
        above[key] = _part(rng, json.loads(rng.choice(chunks)))
    elif kind == 5 and isinstance(above, dict):
        del above[key]
    elif kind == 6 and isinstance(above, list):
        rng.choice((above.append, lambda one: above.insert(0, one)))(copy.deepcopy(node))
    elif kind == 7 and isinstance(above, dict):
        del above[key]
        above[rng.choice((*above, key.swapcase(), key + "s", "", "-1", "65536", key[:-1]))] = node
    elif kind == 8 and isinstance(above, list):
        above[:] = rng.choice(
            (above[::-1], above[:key], [], above[key:], copy.deepcopy(above) + above)
        )
    elif isinstance(node, str):
        above[key] = rng.choice(TEXT_CHANGES)(rng, node, (node, "a=1,b[0-3]"))[:MOST_CHARS]
    else:
        above[key] = _other(rng, node)


def _other(rng: Random, node: Any) -> Any:
    """The value as another type, or one at the edge."""
    if rng.random() < 0.65:
        return copy.deepcopy(rng.choice(VALUES))
    if isinstance(node, bool) or node is None:
        return rng.choice((str(node), [node], {"set": node}, 1))
    if isinstance(node, int | float):
        near = (
            node + 1,
            node - 1,
            -node,
            node * 1000,
            str(node),
            [node],
            {"set": True, "number": node},
        )
        return rng.choice(near)
    if isinstance(node, str):
        return rng.choice(
            (rng.choice(NUMBERS), rng.choice(CHARACTERS) + node, [node], [node] * 3, len(node))
        )
    return rng.choice((json.dumps(node), [node], {"0": node}, len(node)))


def _part(rng: Random, made: Any) -> Any:
    """A part of a tree, of any depth."""
    while isinstance(made, dict | list) and made and rng.random() < 0.75:
        made = made[_key(rng, made)]
    return made


def dumped(rng: Random, made: Any) -> str:
    """The tree as text, with the raw texts that are in it."""
    try:
        text = json.dumps(made, ensure_ascii=rng.random() < 0.5)
    except RecursionError:
        return "[" * 100
    if "@@" in text:
        text = _RAW.sub(lambda match: json.loads(f'"{match[1]}"'), text)
    if rng.random() < 0.05:
        text = rng.choice((_insert, _cut, _again, _number))(rng, text, (text,))
    return text[:LONG_CHARS]
