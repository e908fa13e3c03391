"""A row filter bound to the columns of a table: from a tree to one function of a row."""

from __future__ import annotations

import operator
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from gpumon.report.filter import tree
from gpumon.report.filter.names import column_of, unit_of
from gpumon.report.filter.parser import parse
from gpumon.report.filter.pattern import MOST_TEXT, Pattern
from gpumon.report.filter.pattern_parser import PatternError
from gpumon.report.filter.tree import FilterError
from gpumon.report.filter.units import number, scale_of
from gpumon.report.text.units import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.report.facts.columns import Column
    from gpumon.report.facts.tick_index import Digest

R = TypeVar("R")

_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_ABSENT: Final = frozenset({"", MISSING})
"""Texts of cells whose value is missing."""


def row_filter(
    text: str, columns: Sequence[Column[R]], search: Callable[[Digest, R], str]
) -> Callable[[Digest, R], bool]:
    """Whether a row passes a filter.

    Args:
        text: The filter; blank: every row passes.
        columns: What it may name.
        search: Lower-case text in which bare words are looked for.

    Raises:
        FilterError: It cannot be understood, or names what is not there.
    """
    if not text.strip():
        return lambda _digest, _row: True
    return _Binder(columns, search).bound(parse(text))


class Wanted(Generic[R]):
    """Whether a word is in a row's text: who has the texts need not ask for each row."""

    def __init__(self, word: str, search: Callable[[Digest, R], str]) -> None:
        """The word in lower case, and what makes the text of a row."""
        self.word = word
        self._search = search

    def __call__(self, digest: Digest, row: R) -> bool:
        """Whether it is in the row's text."""
        return self.word in self._search(digest, row)


class _Binder:
    """Makes one test of each node."""

    def __init__(
        self, columns: Sequence[Column[Any]], search: Callable[[Digest, Any], str]
    ) -> None:
        self._columns = columns
        self._search = search

    def bound(self, node: tree.Node) -> Callable[[Digest, Any], bool]:
        """The test of a node."""
        match node:
            case tree.Word(text):
                return Wanted(text.lower(), self._search)
            case tree.Missing(name, at):
                value = _known(column_of(name, at, self._columns))
                return lambda digest, row: not value(digest, row)
            case tree.Not(inner):
                test = self.bound(inner)
                return lambda digest, row: not test(digest, row)
            case tree.And(nodes):
                return _all([self.bound(one) for one in nodes])
            case tree.Or(nodes):
                return _any([self.bound(one) for one in nodes])
            case tree.Compare():
                return self._compared(node)

    def _compared(self, node: tree.Compare) -> Callable[[Digest, Any], bool]:
        column = column_of(node.name, node.at, self._columns)
        if node.operator in _ORDERS:
            return _ordered(column, node)
        if node.operator in ("~", "!~"):
            return _matching(column, node)
        return _equal(column, node)


def _all(tests: list[Callable[[Digest, Any], bool]]) -> Callable[[Digest, Any], bool]:
    def test(digest: Digest, row: object) -> bool:
        for one in tests:  # noqa: SIM110 - a generator costs more than all of the tests
            if not one(digest, row):
                return False
        return True

    return test


def _any(tests: list[Callable[[Digest, Any], bool]]) -> Callable[[Digest, Any], bool]:
    def test(digest: Digest, row: object) -> bool:
        for one in tests:  # noqa: SIM110 - as above
            if one(digest, row):
                return True
        return False

    return test


# Values


def numeric(column: Column[R]) -> Callable[[Digest, R], float | None]:
    """The number of a row in the unit of the column, None where it is missing."""
    value, order = column.value, column.order
    if value is not None:
        return lambda digest, row: _finite(value(digest, row))
    if order is None:
        return lambda _digest, _row: None

    def first(digest: Digest, row: R) -> float | None:
        key = order(digest, row)
        return None if key is None else _finite(key[0])

    return first


def _finite(value: float | str | None) -> float | None:
    return None if value is None or isinstance(value, str) or not isfinite(value) else value


def _texts(column: Column[R]) -> Callable[[Digest, R], tuple[str, ...]]:
    """The texts of a row, lower case; none where the value is missing."""
    cell, value, words = column.cell, column.value, column.words
    if words is not None:
        return lambda digest, row: tuple(one[:MOST_TEXT].lower() for one in words(digest, row))
    if value is None or unit_of(column) is not None:

        def shown(digest: Digest, row: R) -> tuple[str, ...]:
            text = cell(digest, row).text
            return () if text in _ABSENT else (text[:MOST_TEXT].lower(),)

        return shown

    def both(digest: Digest, row: R) -> tuple[str, ...]:
        text, beside = cell(digest, row).text, value(digest, row)
        if beside is None or beside == "":
            return ()
        return (text[:MOST_TEXT].lower(), str(beside)[:MOST_TEXT].lower())

    return both


def _known(column: Column[R]) -> Callable[[Digest, R], bool]:
    """Whether a row has a value."""
    if unit_of(column) is not None and (column.value or column.order):
        value = numeric(column)
        return lambda digest, row: value(digest, row) is not None
    texts = _texts(column)
    return lambda digest, row: bool(texts(digest, row))


# Comparisons


def _ordered(column: Column[R], node: tree.Compare) -> Callable[[Digest, R], bool]:
    unit = unit_of(column)
    if unit is None or not (column.value or column.order):
        raise FilterError(f"{node.name} is text: it takes == != ~ !~", node.at)
    wanted = number(node.value, unit)
    if wanted is None:
        message = f"{node.name} takes {scale_of(unit).says}"
        raise FilterError(message, node.value_at)
    value, compare, limit = numeric(column), _ORDERS[node.operator], wanted

    def test(digest: Digest, row: R) -> bool:
        found = value(digest, row)
        return found is not None and compare(found, limit)

    return test


def _equal(column: Column[R], node: tree.Compare) -> Callable[[Digest, R], bool]:
    """`==` with what is shown, `*` and `?` match any characters, or with the number."""
    matches, texts = _glob(node), _texts(column)
    unit = unit_of(column)
    wanted = None if unit is None else number(node.value, unit)
    is_equal = node.operator == "=="
    if wanted is None:

        def by_text(digest: Digest, row: R) -> bool:
            found = texts(digest, row)
            return bool(found) and any(map(matches, found)) is is_equal

        return by_text
    value = numeric(column)

    def by_number(digest: Digest, row: R) -> bool:
        found = value(digest, row)
        if found is None:
            return False
        return (found == wanted or any(map(matches, texts(digest, row)))) is is_equal

    return by_number


def _glob(node: tree.Compare) -> Callable[[str], bool]:
    """Whether a lower-case text is the one that is meant, `*` and `?` for any characters."""
    wanted = node.value.lower()
    if "*" not in wanted and "?" not in wanted:
        return wanted.__eq__
    signs = {"*": ".*", "?": "."}
    shape = "".join(signs.get(char) or _literal(char) for char in wanted)
    return _pattern(f"^{shape}$", node.value_at).found_in


def _literal(char: str) -> str:
    return char if char.isalnum() or char in "_ " else f"\\{char}"


def _pattern(text: str, at: int) -> Pattern:
    try:
        return Pattern(text)
    except PatternError as error:
        raise FilterError(str(error), at + error.at) from error


def _matching(column: Column[R], node: tree.Compare) -> Callable[[Digest, R], bool]:
    texts, found_in = _texts(column), _pattern(node.value, node.value_at).found_in
    is_wanted = node.operator == "~"

    def test(digest: Digest, row: R) -> bool:
        found = texts(digest, row)
        return bool(found) and any(map(found_in, found)) is is_wanted

    return test
