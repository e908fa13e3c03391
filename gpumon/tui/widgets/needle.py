"""What a table does with a filter while it is typed, which mostly is not whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumon.report.columns import Column
    from gpumon.report.digest import Digest
    from gpumon.report.filter_tree import FilterError

R = TypeVar("R")


class Needle(NamedTuple, Generic[R]):
    """A filter as far as it can be understood."""

    text: str | None
    """The filter to be at work; None: the one before."""
    keeps: Callable[[Digest, R], bool] | None
    """Whether a row passes; None: every row does."""
    trouble: FilterError | None
    """What is wrong with the filter that was typed."""


def row_filter_of(
    typed: str, columns: Sequence[Column[R]], search: Callable[[Digest, R], str]
) -> Needle[R]:
    """The filter; of one that is wrong, what stands before that."""
    if not typed.strip():
        return Needle("", None, None)
    # Imported for the first filter, not for the first picture.
    from gpumon.report.filter_tree import FilterError

    try:
        return _whole(typed, columns, search, None)
    except FilterError as error:
        head = typed[: max(typed.rfind(sign, 0, error.at) for sign in "&|") + 1]
        try:
            return _whole(head.rstrip("&| "), columns, search, error)
        except FilterError:
            return Needle(None, None, error)


def _whole(
    text: str,
    columns: Sequence[Column[R]],
    search: Callable[[Digest, R], str],
    trouble: FilterError | None,
) -> Needle[R]:
    from gpumon.report.filter_bind import row_filter

    keeps = row_filter(text, columns, search)
    text = text.strip()
    return Needle(text, keeps if text else None, trouble)
