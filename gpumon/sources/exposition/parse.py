"""Reads a page of metrics strictly: the text format 0.0.4 and OpenMetrics 1.0.

A line that is none costs itself alone: it is counted, and the first ones are shown. Nothing is
grouped by `# TYPE`, because exporters are known to give wrong ones.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.errors import DamagedError
from gpumon.model.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_SERIES: Final = 65536
"""Series that are read of one page: a node with 16 GPUs in 7 instances each and 200 metrics has a
third of it (arithmetic)."""

LONGEST_LINE_BYTES: Final = 65536
"""A line with 30 labels of Kubernetes' longest values (63 characters) has a thirtieth of it."""

MOST_LABELS: Final = 128
"""Labels of one series: exporters of GPUs are known to give up to 20."""

LONGEST_LABEL: Final = 1024
"""Characters of a name or of a label's value that are read (our choice)."""

MOST_WRONG_LINES: Final = 3
"""Wrong lines of one page that are shown; of more the number."""

_SHOWN: Final = 60
"""Characters of a wrong line that are shown."""

_NAME: Final = rb"[a-zA-Z_:][a-zA-Z0-9_:]*"

_LABELS: Final = rb'\{((?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+)\}'
"""What is in braces; a brace within quotes ends nothing."""

_LINE: Final = re.compile(
    rb"[ \t]*+(" + _NAME + rb")?+[ \t]*+(?:" + _LABELS + rb"[ \t]*+|(?<=[ \t]))"
    rb"([^ \t{}\"]+)(?:[ \t]+([0-9.eE+-]+))?[ \t]*(?:#[ \t]*\{.*)?"
)
"""Name, labels, value, time; behind a `#` an exemplar, which nothing here needs."""

_STARTED: Final = re.compile(rb"[ \t]st@[0-9.eE+-]+(?=[ \t]*(?:#[ \t]*\{|\Z))")
"""When a counter began, which OpenMetrics 2.0 has beside the time."""

_COMPOSITE: Final = re.compile(
    rb"[ \t]*+(?:" + _NAME + rb")?+(?:(?![ \t]*+\{(?:count|sum):)[ \t]*+" + _LABELS + rb")?"
    rb"[ \t]++\{(?:count|sum):[^\"{}]*\}.*"
)
"""A histogram or a summary in one value (OpenMetrics 2.0): nothing here is one of them."""

_LABEL: Final = re.compile(
    r'[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)|"((?:[^"\\]++|\\.)*+)")[ \t]*'
    r'(=[ \t]*"((?:[^"\\]++|\\.)*+)")?[ \t]*(?:,|\Z)'
)
"""One label; a name that only UTF-8 can write is in quotes, that of the metric alone."""

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "\\": "\\", '"': '"'}

_END: Final = b"# EOF"

_UTF_8: Final = b"\xef\xbb\xbf"
"""What editors put before text in UTF-8."""

NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


class Sample(NamedTuple):
    """One series of a page with its value."""

    name: str
    labels: Mapping[str, str]
    """Made harmless; one object for all series of a page that write them alike."""
    value: float
    """Not a number and infinities as the page has them."""
    sampled_at: float | None
    """Unix time beside the value, which hardly any exporter writes."""
    place: int | None
    """Number of its line, where its value is what follows the last blank there, for `Shape`; None:
    it is not."""


class Page(NamedTuple):
    """What a page holds."""

    samples: tuple[Sample, ...]
    wrong: tuple[str, ...]
    """What cannot be read: the first lines that are wrong, and how many more are."""


class _WrongError(DamagedError):
    """Why a line is none."""


def parse(body: bytes) -> Page:
    """Every series of the page, in its order."""
    lines = body.removeprefix(_UTF_8).split(b"\n")
    is_open = body.rstrip().endswith(_END)
    # What follows the last end of a line has broken off, unless it is the end that is written.
    last = lines.pop()
    wrong: list[str] = []
    count = 0
    if last.strip() and last.rstrip() != _END:
        count, wrong = 1, [f"the page ends within a line: {_shown(last)}"]
    samples: list[Sample] = []
    memory = _Memory()
    left_out = composites = 0
    for place, line in enumerate(lines):
        head, blank, tail = line.rpartition(b" ")
        word = tail if blank and tail.split() == [tail] else b""
        start = line.lstrip()[:1]
        if not start or start == b"#":
            continue
        if len(samples) >= MOST_SERIES:
            left_out += 1
            continue
        try:
            found = memory.sample(head, word, place) if word else None
            samples.append(found or _sample(line, memory, place, word, is_open))
        except _WrongError as error:
            if _COMPOSITE.fullmatch(line.rstrip()):
                composites += 1
                continue
            count += 1
            if len(wrong) < MOST_WRONG_LINES:
                wrong.append(f"{error}: {_shown(line)}")
    if count > len(wrong):
        wrong.append(f"{count - len(wrong):,} more lines are wrong")
    if composites and not samples:
        wrong.append("it has only histograms in one value, which gpumon does not read")
    if left_out:
        wrong.append(f"reports {MOST_SERIES + left_out:,} series; {MOST_SERIES:,} are read")
    return Page(tuple(samples), tuple(wrong))


class _Memory:
    """Names and labels of one page that have been read: most come again in other series."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        self.labels: dict[bytes, Mapping[str, str]] = {}

    def sample(self, head: bytes, word: bytes, place: int) -> Sample | None:
        """The series whose name and labels have both been read; None: it has to be read whole.

        Args:
            head: The line up to the blank before its last word.
            word: That word.
            place: Number of the line.
        """
        raw_name, _, raw = head.removesuffix(b"}").partition(b"{")
        name, labels = self.names.get(raw_name), self.labels.get(raw)
        value = None if name is None or labels is None else number(word)
        if name is None or labels is None or value is None:
            return None
        return Sample(name=name, labels=labels, value=value, sampled_at=None, place=place)


def _sample(line: bytes, memory: _Memory, place: int, word: bytes, is_open: bool) -> Sample:
    """The series of one line.

    Args:
        line: Without its end.
        memory: What has been read of names and labels of this page.
        place: Number of the line.
        word: That word; empty: it ends in none.
        is_open: Whether the page is OpenMetrics, which counts times in seconds.
    """
    if len(line) > LONGEST_LINE_BYTES:
        raise _WrongError("a line is too long")
    match = _LINE.fullmatch(line.rstrip())
    if match is None and (started := _STARTED.search(line)):
        # What is left has no place, as the line does not end with its value.
        match = _LINE.fullmatch((line[: started.start()] + line[started.end() :]).rstrip())
        word = b""
    if match is None or match[1] is match[2] is None:
        raise _WrongError("a line is not a series")
    raw_name, raw_labels, raw_value, raw_time = match.groups()
    known = memory.labels.get(raw_labels or b"") if raw_name else None
    if known is None:
        name, labels = _named(raw_name, raw_labels)
    else:
        name, labels = plain(raw_name.decode("ascii"), LONGEST_LABEL), known
    value = number(raw_value)
    if value is None:
        raise _WrongError("a value is not a number")
    sampled_at = None
    if raw_time is not None:
        sampled_at = number(raw_time)
        if sampled_at is None:
            raise _WrongError("a time is not a number")
        sampled_at = sampled_at if is_open else sampled_at / 1000.0
    if raw_name:
        memory.names[raw_name] = name
        memory.labels[raw_labels or b""] = labels
    is_last = raw_time is None and match.end() == match.end(3) and word == raw_value
    return Sample(
        name=name,
        labels=labels,
        value=value,
        sampled_at=sampled_at,
        place=place if is_last else None,
    )


def number(word: bytes) -> float | None:
    """The value of a word; None: it is none."""
    if b"_" in word:
        # Python allows it between digits, the format does not.
        return None
    try:
        return float(word)
    except ValueError:
        return None


def _named(raw_name: bytes | None, raw: bytes | None) -> tuple[str, Mapping[str, str]]:
    """Name and labels of a series."""
    name = plain(raw_name.decode("ascii"), LONGEST_LABEL) if raw_name else ""
    if not raw or not raw.strip():
        if not name:
            raise _WrongError("a series has no name")
        return name, NO_LABELS
    text = raw.decode("utf-8", "replace")
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            raise _WrongError("a label is malformed")
        bare, quoted, has_value, value = match.groups()
        key = bare if bare is not None else _unescaped(quoted)
        if not has_value:
            if bare is not None or name:
                raise _WrongError("a label has no value")
            name = plain(key, LONGEST_LABEL)
        elif key in labels:
            raise _WrongError("a label comes twice")
        elif len(labels) >= MOST_LABELS:
            raise _WrongError("a series has too many labels")
        else:
            labels[plain(key, LONGEST_LABEL)] = plain(_unescaped(value), LONGEST_LABEL)
        at = match.end()
        if not text[at:].strip():
            break
    if not name:
        raise _WrongError("a series has no name")
    return name, MappingProxyType(labels)


def _unescaped(text: str) -> str:
    """The text without its escapes; a backslash before any other character stays."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), text)


def _shown(line: bytes) -> str:
    return repr(plain(line[: 4 * _SHOWN].decode("utf-8", "replace").strip(), _SHOWN))
