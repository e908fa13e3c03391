"""What Jobstats wrote of a job's use into its AdminComment when it ended.

`JS1:` and the base64 of gzipped JSON, as jobstats' own `jobstats` command writes it (README and
`jobstats.py` of PrincetonUniversity/jobstats at dfc9aa0c, read 2026-10). `JS1:None` and `JS1:Short`
are jobs of which it has nothing. Anybody who may write the comment may have written this: it is
bounded before and after it is unpacked, and what cannot be is left out.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.sources.slurm.accounting.usage import MAX_BYTES, MAX_SECONDS, sane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.model.records.accounting import EndedJob

_MARK: Final = "JS1:"
MOST_PACKED: Final = 1 << 18
"""Characters of a comment that are read: 1,000 nodes of eight GPUs pack into less."""

MOST_UNPACKED: Final = 1 << 22
"""Bytes of JSON; more of it is no summary."""

_GZIP: Final = 16 + zlib.MAX_WBITS


class Summary(NamedTuple):
    """Use of a job on all its nodes; None where it does not say, or not of every node or GPU."""

    gpu_utils: tuple[float, ...] = ()
    """Mean utilisation of each reported GPU, as ratios."""
    gpu_mem_bytes: float | None = None
    cpu_used_s: float | None = None
    mem_used_bytes: float | None = None


def read_summary(comment: str) -> Summary | None:
    """The summary that a comment holds; None where it holds none that can be read."""
    if not comment.startswith(_MARK) or len(comment) > MOST_PACKED:
        return None
    try:
        packed = base64.b64decode(comment[len(_MARK) :], validate=True)
        unpacker = zlib.decompressobj(_GZIP)
        text = unpacker.decompress(packed, MOST_UNPACKED)
        found = json.loads(text) if unpacker.eof else None
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        return None
    nodes = found.get("nodes") if isinstance(found, dict) else None
    if not isinstance(nodes, dict) or not nodes:
        return None
    reporting = [node for node in nodes.values() if isinstance(node, dict)]
    if len(reporting) < len(nodes):
        return None
    utils = [util for node in reporting for util in _each(node.get("gpu_utilization"), 100.0)]
    return Summary(
        () if None in utils else tuple(util / 100.0 for util in utils if util is not None),
        _sum([mem for node in reporting for mem in _each(node.get("gpu_used_memory"), MAX_BYTES)]),
        _sum([_number(node.get("total_time"), MAX_SECONDS) for node in reporting]),
        _sum([_number(node.get("used_memory"), MAX_BYTES) for node in reporting]),
    )


def with_jobstats(ended: EndedJob, comment: str) -> EndedJob:
    """The run, with what Jobstats knows of it where Slurm has nothing."""
    summary = read_summary(comment)
    if summary is None:
        return ended
    count, utils = ended.job.gpu_count, summary.gpu_utils
    # A GPU that is not reported is not idle: then the mean is not known.
    mean = sum(utils) / count if count and len(utils) == count else None
    known = {
        "gpu_util_ratio": mean,
        "gpu_mem_bytes": summary.gpu_mem_bytes if count and len(utils) == count else None,
        "cpu_used_s": summary.cpu_used_s,
        "mem_used_bytes": summary.mem_used_bytes,
    }
    filled: dict[str, Any] = {
        field: value
        for field, value in known.items()
        if value is not None and getattr(ended, field) is None
    }
    return ended._replace(**filled, jobstats_fields=tuple(filled))


def _each(value: object, most: float) -> Iterator[float | None]:
    """Numbers by GPU; None for one that is none."""
    if isinstance(value, dict):
        for one in value.values():
            yield _number(one, most)


def _number(value: object, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An int of any length is JSON, too, but no float.
    return sane(float(value), most) if abs(value) <= most else None


def _sum(values: list[float | None]) -> float | None:
    """None where there is none, or where one is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
