"""Writes families of metrics as text: OpenMetrics 1.0, or Prometheus' older format 0.0.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""Type of OpenMetrics 1.0 (its specification, "Protocol Negotiation")."""

CLASSIC: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Type of the format that OpenMetrics came from (prometheus.io, "Exposition formats")."""

LONGEST_LABEL: Final = 256
"""Characters of a label's value: as many as a name may have (`model.text`)."""

_COUNTED: Final = "_total"


class Family(NamedTuple):
    """Everything that has one name."""

    name: str
    """Of a counter with its `_total`."""
    kind: str
    """`gauge` or `counter`."""
    doc: str
    unit: str
    """The end of the name that is a unit; empty: none."""
    samples: Sequence[tuple[str, float | int]]
    """Labels as `labelled` writes them, and a value; what is missing is not there."""


def labelled(labels: Mapping[str, str]) -> str:
    """Labels as they are written behind a name; empty values are left out."""
    pairs = (f'{name}="{_quoted(value)}"' for name, value in labels.items() if value)
    return f"{{{','.join(pairs)}}}"


def _quoted(value: str) -> str:
    if len(value) > LONGEST_LABEL:
        value = value[: LONGEST_LABEL - 1] + "…"
    return _documented(value).replace('"', '\\"')


def _documented(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def written(families: Iterable[Family], *, is_open: bool) -> bytes:
    """The page.

    Args:
        families: What it publishes; one without samples is left out.
        is_open: Whether as OpenMetrics; else as the older format.
    """
    lines = (line for family in families if family.samples for line in _lines(family, is_open))
    # A name from outside may hold half a pair of UTF-16, which no UTF-8 can write.
    return ("".join(lines) + ("# EOF\n" if is_open else "")).encode("utf-8", "replace")


def _lines(family: Family, is_open: bool) -> Iterator[str]:
    name = family.name
    title = name.removesuffix(_COUNTED) if is_open and family.kind == "counter" else name
    yield f"# TYPE {title} {family.kind}\n"
    if is_open and family.unit:
        yield f"# UNIT {title} {family.unit}\n"
    doc = _documented(family.doc)
    # Only the newer format escapes quotes here.
    quoted = doc.replace('"', '\\"')
    yield f"# HELP {title} {quoted if is_open else doc}\n"
    for labels, value in family.samples:
        yield f"{name}{labels} {value}\n"
