"""What the user chose and finds again in the next terminal: theme, columns, order, map, view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from gpumon.report.facts.columns import Sorting
from gpumon.tui.look.themes import SHORT_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

FILE_NAME: Final = "terminal.json"
"""In gpumon's folder of $XDG_STATE_HOME."""

_MOST: Final = 200
"""Entries of a kind, and characters of a text, that are believed of a file."""


class Habits(NamedTuple):
    """What was chosen; None and what is absent: nothing was."""

    theme: str | None = None
    """Short name."""
    is_ascii: bool | None = None
    columns: Mapping[str, tuple[str, ...]] = {}
    """Keys of the columns by view."""
    sortings: Mapping[str, Sorting] = {}
    """Order by view."""
    map_field: str | None = None
    map_grouping: str | None = None
    map_density: str | None = None
    """Size of the map's cells; None: the closest look that fits."""
    view: str | None = None
    """View of the whole fleet that was shown last."""
    theme_at_first: str | None = None
    """With what this terminal begins whatever was chosen, or as nothing was; it is not stored."""
    is_ascii_at_first: bool | None = None


NO_HABITS: Final = Habits()


class Shelf(Protocol):
    """Where habits are stored."""

    @property
    def trouble(self) -> str:
        """Why what was chosen last is not stored, with the file's name; empty: it is."""
        ...

    def read(self) -> object:
        """What was stored; None where nothing was."""
        ...

    def write(self, notes: dict[str, object]) -> None:
        """Store this, without waiting."""
        ...

    def close(self) -> None:
        """Wait a moment for the last write."""
        ...


def habits_of(found: object) -> Habits:
    """The habits in a file; what gpumon does not know in it is left out."""
    if not isinstance(found, dict):
        return Habits()
    theme = _text(found.get("theme"))
    is_ascii = found.get("ascii")
    return Habits(
        theme=theme if theme in SHORT_NAMES else None,
        is_ascii=is_ascii if isinstance(is_ascii, bool) else None,
        columns=_by_view(found.get("columns"), _keys),
        sortings=_by_view(found.get("sort"), _sorting),
        map_field=_text(found.get("map_field")),
        map_grouping=_text(found.get("map_grouping")),
        map_density=_text(found.get("map_density")),
        view=_text(found.get("view")),
    )


def written(habits: Habits) -> dict[str, object]:
    """The habits as they are in the file."""
    return {
        "theme": habits.theme,
        "ascii": habits.is_ascii,
        "columns": {view: list(keys) for view, keys in habits.columns.items()},
        "sort": {view: list(sorting) for view, sorting in habits.sortings.items()},
        "map_field": habits.map_field,
        "map_grouping": habits.map_grouping,
        "map_density": habits.map_density,
        "view": habits.view,
    }


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= _MOST else None


def _by_view(value: object, read: Callable[[object], T | None]) -> dict[str, T]:
    if not isinstance(value, dict):
        return {}
    pairs = ((str(view), read(item)) for view, item in list(value.items())[:_MOST])
    return {view: item for view, item in pairs if item is not None}


def _keys(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    keys = [_text(key) for key in value[:_MOST]]
    return None if None in keys else tuple(key for key in keys if key is not None)


def _sorting(value: object) -> Sorting | None:
    match value:
        case [str() as key, bool() as is_descending] if len(key) <= _MOST:
            return Sorting(key, is_descending)
        case [None, True]:
            return Sorting(None, is_descending=True)
    return None
