"""GPUs in Slurm's gres and TRES strings.

Only the gres named `gpu` is a device to us: `shard` and `mps` are shares of one, `gpumem` and
`gpuutil` are accounting. IDX numbers the gres NAME on a node, whatever its types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.hostlist import split_list
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_GPUS_PER_NODE: Final = 1024
"""Largest position or count on one node that is not garbage; Slurm's own bitmaps stop there."""

MAX_GPUS: Final = 2**31
"""More GPUs than any cluster has: a larger count is garbage."""

_NOTHING: Final = frozenset({"", "(null)", "N/A", "none"})
_COUNT: Final = re.compile(r"([0-9]{1,12})([KMGTP]?)", re.IGNORECASE)
_INDICES: Final = re.compile(r"\(IDX:([^)]*)\)")
_FILELESS: Final = re.compile(r"\(CNT:([0-9]{1,12})\)")
_SCALE: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}


class GpuHolding(NamedTuple):
    """GPUs of one job, or of all jobs, on one node."""

    gpu_count: int
    indices: tuple[int, ...] | None
    """Positions in gres.conf, ascending; None where Slurm does not say which."""
    has_shares: bool = False
    """Whether shares of GPUs are held besides."""
    types: tuple[str, ...] = ()
    """Type of each GPU, in the order of `indices` where these are known; empty where it has none.
    None are listed where none has a type."""


def gpus_held(text: str) -> GpuHolding:
    """GPUs of a string such as `gpu:h100:2(IDX:0,2-3),shard:4`.

    Raises:
        ValueError: the string cannot be read.
    """
    count = 0
    types: list[str] = []
    type_at: dict[int, str] = {}
    is_known = True
    for item in _gpu_items(text):
        item_count, item_type = _item_count(item), _item_type(item)
        count += item_count
        if count > MAX_GPUS_PER_NODE:
            raise ValueError(f"{count} GPUs on one node")
        types += [item_type] * item_count
        listed = _INDICES.search(item)
        if listed is not None and listed[1] not in ("", "N/A"):
            type_at.update(dict.fromkeys(_index_list(listed[1]), item_type))
        elif item_count:
            is_known = False
    indices = tuple(sorted(type_at)) if is_known else None
    if indices is not None:
        types = [type_at[index] for index in indices]
    return GpuHolding(count, indices, _has_shares(text), tuple(types) if any(types) else ())


def _has_shares(text: str) -> bool:
    """Whether a string holds shares of a GPU: `shard:h100:4(2/4,2/4)` or `mps:50`."""
    held = (re.fullmatch(r"(?:shard|mps)(?::[^(]*)?:([0-9]+)(?:\(.*\))?", i) for i in _items(text))
    return any(match is not None and int(match[1]) > 0 for match in held)


def gpus_listed(text: str) -> int:
    """GPUs of a node's `Gres=` or of a request: `gpu:tesla:2(S:0-1),gpu:kepler:2`, `gres:gpu:8`.

    Raises:
        ValueError: the string cannot be read.
    """
    count = sum(_item_count(item) for item in _gpu_items(text))
    if count > MAX_GPUS:
        raise ValueError(f"{count} GPUs")
    return count


def types_listed(text: str) -> tuple[str, ...]:
    """Type of each GPU of such a string, `""` for one without.

    None where none has a type, or where it is of more GPUs than a node can have.

    Raises:
        ValueError: the string cannot be read.
    """
    found: list[str] = []
    for item in _gpu_items(text):
        count = _item_count(item)
        if len(found) + count > MAX_GPUS_PER_NODE:
            return ()
        found += [_item_type(item)] * count
    return tuple(found) if any(found) else ()


def types_asked(texts: Iterable[str]) -> tuple[str, ...]:
    """The types that requests name, each once, of `gres/gpu:a100:4` or `gres/gpu:a100=4`.

    Raises:
        ValueError: a request cannot be read.
    """
    items = (item for text in texts for item in _gpu_items(text))
    return tuple(dict.fromkeys(filter(None, map(_item_type, items))))


def gpus_in_tres(text: str) -> int | None:
    """GPUs of a TRES string such as `cpu=16,gres/gpu=16,gres/gpu:h100=16`.

    Typed counts repeat the untyped one and are added up only where it is absent. None: the
    string names no GPUs, which with an accounting that leaves them out does not mean none.

    Raises:
        ValueError: a count cannot be read.
    """
    typed: int | None = None
    for item in _items(text):
        name, _, count = item.partition("=")
        if name == "gres/gpu":
            return _number(count)
        if name.startswith("gres/gpu:"):
            typed = (typed or 0) + _number(count)
    if typed is not None and typed > MAX_GPUS:
        raise ValueError(f"{typed} GPUs")
    return typed


def _items(text: str) -> list[str]:
    return [] if text.strip() in _NOTHING else [item for item in split_list(text) if item]


def _gpu_items(text: str) -> list[str]:
    """Items whose gres name is `gpu`, without the `gres:` or `gres/` in front."""
    bare = [re.sub(r"^gres[:/]", "", item) for item in _items(text)]
    return [item for item in bare if re.split(r"[:=(]", item, maxsplit=1)[0] == "gpu"]


def _item_count(item: str) -> int:
    """Count of one item; where it names none that of its positions, or one, as of a bare `gpu`.

    Up to 18.08 an allocation has positions alone: `gpu(IDX:0,2-3)`.
    """
    fileless = _FILELESS.search(item)
    if fileless is not None:
        return int(fileless[1])
    fields = [field for field in re.split(r"[:=]", item.partition("(")[0]) if field]
    last = fields[-1]
    if len(fields) > 1 and _COUNT.fullmatch(last):
        return _number(last)
    listed = _INDICES.search(item)
    return len(_index_list(listed[1])) if listed is not None and listed[1] else 1


def _item_type(item: str) -> str:
    """Type of one item, such as `h100` of `gpu:h100:2`, harmless; empty where it names none."""
    fields = [field for field in re.split(r"[:=]", item.partition("(")[0]) if field]
    has_type = len(fields) > 1 and not (len(fields) == 2 and _is_count(fields[1]))
    return plain(fields[1]) if has_type else ""


def _is_count(text: str) -> bool:
    return _COUNT.fullmatch(text) is not None


def _number(text: str) -> int:
    match = _COUNT.fullmatch(text)
    if match is None:
        # Accounting leaks NO_VAL, which means "not set", as a negative count.
        if re.fullmatch(r"-[0-9]+", text):
            return 0
        raise ValueError(f"{text[:40]!r} is not a count")
    count = int(match[1]) * int(1024 ** _SCALE[match[2].upper()])
    if count > MAX_GPUS:
        raise ValueError(f"{text} is not a count of GPUs")
    return count


def _index_list(text: str) -> list[int]:
    """Positions of a list with gaps such as `0,2-3`."""
    indices: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise ValueError(f"{part[:40]!r} is not an IDX range")
        first, last = int(low), int(high or low)
        if not first <= last < MAX_GPUS_PER_NODE:
            raise ValueError(f"the IDX range {part[:40]} is out of bounds")
        indices.extend(range(first, last + 1))
        if len(indices) > MAX_GPUS_PER_NODE:
            raise ValueError("more positions than a node has")
    return indices
