"""Responses of Prometheus' HTTP API, read strictly: what has another form is counted, not read."""

from __future__ import annotations

import json
from array import array
from http import HTTPStatus
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from gpumon.model.text import plain
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.http.failures import SHOWN
from gpumon.sources.prometheus.cut import cut_of
from gpumon.sources.prometheus.label_columns import Labelling, by_names, of_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpumon.sources.prometheus.cut import Cut, Order, Orders

T = TypeVar("T")

MOST_ROWS: Final = 2**19
"""Rows of one answer that are read: 64,000 GPUs in seven instances each (arithmetic)."""

MOST_WARNINGS: Final = 3
"""Warnings of one answer that are shown; of more the number."""

LATEST: Final = 2.0**40
"""Seconds beyond which nothing is a Unix time: it is the year 36812."""

OF_QUESTION: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
"""So servers refuse one question: what they could not evaluate, or what is too much for a limit.
Mimir's limits on a question's length and time are 400 (grafana/mimir,
pkg/frontend/querymiddleware/errors.go, at 90aa4cfb)."""

_NO_ANSWER: Final = "check host, port and prefix: the server has to speak Prometheus' interface"


class Answer(NamedTuple):
    """What a server answers, its envelope opened."""

    data: Any
    warnings: tuple[str, ...]
    """What it reports beside its data: parts that are missing, above all."""
    cut: Cut | None = None
    """Its series, where they have the form that all servers give them; they are not in `data`."""


class Row(NamedTuple):
    """One series at one instant."""

    labels: Mapping[str, str]
    """As they came: who shows one makes it harmless."""
    value: float


class Samples(NamedTuple):
    """One series over time."""

    labels: Mapping[str, str]
    """As they came."""
    pairs: list[tuple[float, float]]
    """Unix time and value of each sample."""


class Rows(NamedTuple):
    """Series at one instant."""

    rows: list[Row]
    left_out: int
    """Those that cannot be read, or are too many."""


def opened(body: bytes, status: int, orders: Orders | None = None) -> Answer:
    """The data in an answer.

    Args:
        body: The answer.
        status: Its number in HTTP.
        orders: What remembers series of earlier answers.

    Raises:
        FetchError: There are none; its message is the server's.
    """
    found = cut_of(body, orders)
    cut, envelope = (None, body) if found is None else found
    try:
        # VictoriaMetrics repeats bytes of a label as its page had them, UTF-8 or not.
        parsed = json.loads(envelope.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict) or parsed.get("status") not in ("success", "error"):
        shown = plain(" ".join(body[:400].decode("utf-8", "replace").split()), 60)
        message = f"answered HTTP {status} with something in another form: {shown!r}"
        raise FetchError(message, _NO_ANSWER)
    if parsed["status"] == "error":
        kind, text = _text(parsed.get("errorType")), _text(parsed.get("error"))
        message = f"answers with an error (HTTP {status}): {kind or 'error'}: {text}"
        is_of_question = status in OF_QUESTION
        hint = "look at the log of the server; gpumon asks again"
        raise FetchError(plain(message), hint, is_of_question=is_of_question)
    listed = parsed.get("warnings")
    warnings = [one for one in map(_text, listed if isinstance(listed, list) else ()) if one]
    if parsed.get("isPartial") is True:
        # So says VictoriaMetrics' cluster where a part of its storage is away.
        warnings.append("its answer is partial")
    if len(warnings) > MOST_WARNINGS:
        warnings[MOST_WARNINGS:] = [f"and {len(warnings) - MOST_WARNINGS:,} more warnings"]
    return Answer(parsed.get("data"), tuple(warnings), cut)


def names(answer: Answer) -> list[str]:
    """Every text of a list of them; some servers write `null` for an empty one.

    Raises:
        FetchError: It is no list.
    """
    if answer.data is None:
        return []
    if not isinstance(answer.data, list):
        raise _wrong("a list of names")
    return [one for one in answer.data[:MOST_ROWS] if isinstance(one, str)]


def at_instant(question: str, at: float) -> dict[str, str]:
    """A question about one instant; VictoriaMetrics would shift it by half a minute otherwise."""
    return {"query": question, "time": f"{at:.3f}", "nocache": "1"}


def instant(answer: Answer) -> float:
    """The Unix time that `time()` is.

    Raises:
        FetchError: It is none.
    """
    data = answer.data if isinstance(answer.data, dict) else {}
    found = _pair(data.get("result")) if data.get("resultType") == "scalar" else None
    if found is None:
        # VictoriaMetrics makes a vector of it.
        rows = vector(answer).rows
        found = (0.0, rows[0].value) if len(rows) == 1 else None
    if found is None or not 0 < found[1] < LATEST:
        raise _wrong("a time")
    return found[1]


def vector(answer: Answer) -> Rows:
    """Series at one instant.

    Raises:
        FetchError: They are something else.
    """
    rows: list[Row] = []
    listed = _result(answer, "vector")
    if answer.cut is not None:
        read: dict[str, Mapping[str, str] | None] = {}
        found, values, left_out = by_labels(answer, read, Labelling.rows)
        pairs = zip(found, values, strict=True)
        rows = [Row(labels, value) for labels, value in pairs if labels is not None]
        return Rows(rows, left_out)
    for one in listed[:MOST_ROWS]:
        if not isinstance(one, dict):
            continue
        labels, pair = one.get("metric"), _pair(one.get("value"))
        if pair is None or not isinstance(labels, dict):
            continue
        for text in labels.values():
            if not isinstance(text, str):
                break
        else:
            rows.append(Row(labels, pair[1]))
    return Rows(rows, len(listed) - len(rows))


def by_labels(
    answer: Answer,
    known: dict[str, T | None],
    read: Callable[[Labelling], Sequence[T | None]],
) -> tuple[list[T | None], array[float], int]:
    """What the labels of each series name, their values, and how many cannot be read.

    Args:
        answer: Series at one instant.
        known: What each text of labels names; gets what is new. The same text is read once.
        read: What the labels of each series name; None: nothing. Is given all new ones at once.

    Raises:
        FetchError: They are something else.
    """
    _result(answer, "vector")
    if answer.cut is None:
        rows, left_out = vector(answer)
        found = [*read(by_names([row.labels for row in rows]))]
        return found, array("d", [row.value for row in rows]), left_out
    labels, values = answer.cut.labels, answer.cut.values
    left_out = max(0, len(labels) - MOST_ROWS)
    if left_out:
        labels, values = labels[:MOST_ROWS], values[:MOST_ROWS]
    try:
        return [*map(known.__getitem__, labels)], values, left_out
    except KeyError:
        # Some are new, as nearly never.
        pass
    new = [text for text in dict.fromkeys(labels) if text not in known]
    parsed = of_texts(new)
    left_out += len(new) - sum(len(some.numbers) for some in parsed.groups)
    found = [*read(parsed)]
    known.update(zip(new, found, strict=True))
    if len(new) == len(labels):
        return found, values, left_out
    return [known[text] for text in labels], values, left_out


def in_order(answer: Answer) -> tuple[Order, array[float]] | None:
    """The order in which an answer lists its series, and their values; None: it has none.

    Raises:
        FetchError: They are something else.
    """
    _result(answer, "vector")
    if answer.cut is None or answer.cut.order is None or len(answer.cut.labels) > MOST_ROWS:
        return None
    return answer.cut.order, answer.cut.values


def samples(answer: Answer) -> list[Samples]:
    """Every series over time; what cannot be read of one is left out.

    Raises:
        FetchError: It has no series over time.
    """
    found = []
    for one in _result(answer, "matrix")[:MOST_ROWS]:
        labels = one.get("metric") if isinstance(one, dict) else None
        if not isinstance(labels, dict) or not all(isinstance(t, str) for t in labels.values()):
            continue
        values = one.get("values")
        pairs = map(_pair, values if isinstance(values, list) else ())
        found.append(Samples(labels, [pair for pair in pairs if pair is not None]))
    return found


def times(answer: Answer) -> list[list[float]]:
    """When the samples of each series were taken.

    Raises:
        FetchError: It has no series over time.
    """
    return [[at for at, _ in one.pairs] for one in samples(answer)]


def _result(answer: Answer, kind: str) -> list[Any]:
    data = answer.data if isinstance(answer.data, dict) else {}
    # Thanos 0.1 and Google's frontend write `null` for an empty list (thanos-io/thanos#576,
    # GoogleCloudPlatform/prometheus-engine#1645).
    result = data.get("result", "")
    result = [] if result is None else result
    if data.get("resultType") != kind or not isinstance(result, list):
        raise _wrong(f"a {kind}")
    return result


def _pair(given: object) -> tuple[float, float] | None:
    """Time and value of a sample; None: it is none."""
    if not isinstance(given, list) or len(given) != 2:
        return None
    at, value = given
    if isinstance(at, bool) or not isinstance(at, int | float) or not isinstance(value, str):
        return None
    try:
        # Python takes an underscore between digits for none.
        found = None if "_" in value else (float(at), float(value))
    except (ValueError, OverflowError):
        return None
    return found if found is not None and isfinite(found[0]) else None


def _text(given: object) -> str:
    return plain(" ".join(given.split()), SHOWN) if isinstance(given, str) else ""


def _wrong(what: str) -> FetchError:
    return FetchError(f"its answer has another form than {what}", _NO_ANSWER)
