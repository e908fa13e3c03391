"""Slurm's hostlists, and the grammar of names that may become operands of a command.

`gpu[01-03,07]` means four names. The order of the list stays, because Slurm's per-node
details follow it.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Final

MAX_PORT: Final = 65535
"""Highest port of TCP."""

MAX_RANGE: Final = 65536
"""Most numbers in one `low-high`, Slurm's own limit."""

MAX_NAMES: Final = 262144
"""Most names in one list: four times the largest range, far above any cluster."""

MAX_CHARS: Final = 2**25
"""Most characters of all names together: twice as many as the longest list of ordinary ones has."""

_NO_NODES: Final = frozenset({"", "(null)", "None assigned"})
_PIECE: Final = r"([^\[\],]+)|\[([^\[\]]*)\]"
_NUMBERS: Final = r"([0-9]{1,18})(?:-([0-9]{1,18}))?"
_HOST: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?"
_IPV6: Final = r"[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9_.-]{1,32})?"
_JOB_ID: Final = r"[1-9][0-9]{0,9}(?:[_+][0-9]{1,10})?"


def expand(text: str) -> tuple[str, ...]:
    """Names that a hostlist means, in its order; none for Slurm's words for no node.

    Several brackets in one name form a cross product, text may follow a bracket, and the low bound
    of each range shows how wide its numbers are padded.

    Raises:
        ValueError: the text is not a hostlist, or means more than `MAX_NAMES` names or
            `MAX_CHARS` characters.
    """
    if text.strip() in _NO_NODES:
        return ()
    if "(" in text or ")" in text:
        # Parentheses group in gres strings; no node's name holds one.
        raise ValueError(f"parentheses in the hostlist {_shown(text)}")
    names: list[str] = []
    room = MAX_CHARS
    for item in split_list(text):
        if item:
            more = _expand_item(item, MAX_NAMES - len(names), room)
            room -= sum(map(len, more))
            names.extend(more)
    return tuple(names)


def split_list(text: str) -> list[str]:
    """Items of a comma list, stripped; commas within brackets or parentheses do not separate.

    Raises:
        ValueError: a bracket or parenthesis is opened twice, closed without an opening, or left
            open.
    """
    items: list[str] = []
    start = 0
    closing = ""
    for place, letter in enumerate(text):
        if letter in "[(":
            if closing:
                raise ValueError(f"{letter!r} within brackets in {_shown(text)}")
            closing = "]" if letter == "[" else ")"
        elif letter in "])":
            if letter != closing:
                raise ValueError(f"{letter!r} closes nothing in {_shown(text)}")
            closing = ""
        elif letter == "," and not closing:
            items.append(text[start:place].strip())
            start = place + 1
    if closing:
        raise ValueError(f"{closing!r} is missing in {_shown(text)}")
    items.append(text[start:].strip())
    return items


def is_host_name(text: str) -> bool:
    """Whether the text is one host name or address, safe as a single operand of ssh or srun.

    No leading dash, no blank, no character that a shell reads; IPv6 addresses have no brackets.
    """
    if ":" not in text:
        return re.fullmatch(_HOST, text) is not None
    if re.fullmatch(_IPV6, text) is None:
        return False
    from ipaddress import AddressValueError, IPv6Address

    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def is_job_id(text: str) -> bool:
    """Whether the text names one job as Slurm's commands take it: `6`, `6_1` or `7+1`."""
    return re.fullmatch(_JOB_ID, text) is not None


def _expand_item(item: str, room: int, room_chars: int) -> list[str]:
    """Names of one item, in order."""
    if "[" not in item:
        if room < 1:
            raise ValueError(f"more than {MAX_NAMES} names in one hostlist")
        return [item]
    choices: list[list[str]] = []
    size = 1
    longest = 0
    place, pieces = 0, re.compile(_PIECE)
    while place < len(item):
        piece = pieces.match(item, place)
        if piece is None:
            raise ValueError(f"{_shown(item)} is not a hostlist")
        literal, ranges = piece.groups()
        choices.append([literal] if literal is not None else _expand_ranges(ranges))
        size *= len(choices[-1])
        longest += max(map(len, choices[-1]))
        if size > room:
            raise ValueError(f"more than {MAX_NAMES} names in one hostlist")
        if size * longest > room_chars:
            raise ValueError(f"more than {MAX_CHARS} characters in one hostlist")
        place = piece.end()
    return ["".join(parts) for parts in product(*choices)]


def _expand_ranges(text: str) -> list[str]:
    """Numbers of one bracket as text, padded as in each range."""
    numbers: list[str] = []
    for part in text.split(","):
        match = re.fullmatch(_NUMBERS, part.strip())
        if match is None:
            raise ValueError(f"{_shown(part)} is not a number or range")
        low, high = match[1], match[2] or match[1]
        count = int(high) - int(low) + 1
        if count < 1:
            raise ValueError(f"the range {_shown(part)} runs backwards")
        if count > MAX_RANGE or len(numbers) + count > MAX_NAMES:
            raise ValueError(f"the range {_shown(part)} is longer than {MAX_RANGE}")
        numbers.extend(f"{n:0{len(low)}d}" for n in range(int(low), int(high) + 1))
    return numbers


def _shown(text: str) -> str:
    """The text, quoted and short enough for a message."""
    return repr(text if len(text) <= 60 else text[:59] + "…")
