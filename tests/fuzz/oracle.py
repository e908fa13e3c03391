"""What must hold of all that a parser makes, however broken its input was."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from enum import Enum
from math import isfinite, isinf, isnan
from typing import TYPE_CHECKING, Any, Final

from gpumon.model.hostlist import is_host_name, is_job_id
from gpumon.model.job_name import job_name
from gpumon.model.text import plain
from gpumon.sources.recording.decode import Decoder
from gpumon.sources.recording.encode import Encoder
from gpumon.sources.recording.records import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpumon.model.records.block import Block
    from gpumon.model.records.frame import Frame

MOST_NODES: Final = 5000
"""Values of one result that are checked."""

LARGEST: Final = 2**64
LONGEST_TEXT: Final = 8192


class BrokenError(AssertionError):
    """A parser returned what must not be."""


def well_formed(found: object) -> None:
    """Every number finite and of 64 bits, every text of bounded length and harmless."""
    waiting: list[Any] = [found]
    for _ in range(MOST_NODES):
        if not waiting:
            return
        one = waiting.pop()
        if isinstance(one, str):
            _text(one)
        elif isinstance(one, bool | Enum) or one is None:
            continue
        elif isinstance(one, int):
            _hold(abs(one) < LARGEST, "a whole number beyond 64 bits", one)
        elif isinstance(one, float):
            _hold(isfinite(one), "a number that is not finite", one)
        elif isinstance(one, Mapping):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, tuple | list | frozenset | set):
            waiting += one


def _text(one: str) -> None:
    _hold(len(one) <= LONGEST_TEXT, "a text of any length", one)
    _hold(plain(one, len(one)) == one, "a text that is not harmless", one)


def _hold(is_so: bool, what: str, one: object) -> None:
    if not is_so:
        raise BrokenError(f"{what}: {one!r:.120}")


def record(one: Any) -> None:  # any of the record types
    """What Slurm reported of a job, a node and so on outlives a recording."""
    well_formed(one)
    again = unpack(type(one), json.loads(json.dumps(pack(one), allow_nan=False)))
    _hold(again == one, "a record that a recording changes", (one, again))


def job(one: Any) -> None:
    """A job whose names commands may take."""
    record(one)
    _hold(is_job_id(one.job_id), "an id that is none", one.job_id)
    _hold(all(map(is_host_name, one.nodes)), "a node's name that is none", one.nodes)
    for value in (one.gpu_count, one.time_limit_s, one.mem_bytes, one.cpu_count, one.node_count):
        _hold(value is None or value >= 0, "a negative amount", value)
    name = job_name(one.job_id, one.label)
    if name is not None:
        _hold(name.label == "" or len(name.label) < LONGEST_TEXT, "a name of any length", name)


def frames(found: Iterable[Frame]) -> None:
    """Frames of one source, in order, that a recorder can write and a replay read."""
    encoder, decoder = Encoder(), Decoder()
    decoder.read(encoder.header(1.0, 1.0, ["local"]))
    for frame in found:
        well_formed(frame._replace(blocks={}))
        for name, block in frame.blocks.items():
            _block(name, block)
        again = decoder.read(encoder.frame(frame))
        stored = getattr(again, "blocks", {})
        _hold(stored.keys() == frame.blocks.keys(), "blocks that a recording loses", frame)
        for name, block in frame.blocks.items():
            _hold(stored[name].keys == block.keys, "rows that a recording changes", name)


def _block(name: str, block: Block) -> None:
    rows = len(block.keys)
    well_formed((name, block.keys[:100], list(block.labels.items())))
    for key, column in block.columns.items():
        _hold(len(column) == rows, "a column of another length", key)
        is_bad = isinstance(column, array) and column.typecode == "d" and any(map(isinf, column))
        _hold(not is_bad, "an endless value", key)
    for field, row in block.missing:
        _text(field)
        _hold(0 <= row < rows, "a reason for a row that is not there", (field, row))


def not_nan(value: float | None) -> None:
    """A number that can be reckoned with, or none."""
    _hold(value is None or not isnan(value), "not a number", value)
