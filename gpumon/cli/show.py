"""Opens the terminal with what its user chose before, and with what is configured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gpumon.model.settings import BY_KEY, DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.model.settings import Settings
    from gpumon.report.lists.filter_tables import RowFilter
    from gpumon.tui.beside import Beside
    from gpumon.tui.feed import Feed
    from gpumon.tui.look.saved_choices import Habits

_WHITES: Final = ("7", "15")
"""The two whites among a terminal's sixteen colours, by their numbers."""


def show(
    feed: Feed,
    title: str,
    settings: Settings,
    passes: RowFilter | None,
    *,
    is_ascii: bool,
    allows_actions: bool = False,
    beside: Callable[[], Beside] | None = None,
) -> int:
    """Run the terminal; its exit code. `beside` is called once the first picture is out."""
    from gpumon.detect.engine.notes_file import NotesFile, own_notes
    from gpumon.tui.look.saved_choices import FILE_NAME, habits_of
    from gpumon.tui.terminal import run_terminal

    shelf = NotesFile(own_notes().with_name(FILE_NAME))
    habits = begun_with(habits_of(shelf.read()), settings, is_ascii=is_ascii)
    return run_terminal(
        feed,
        title,
        passes,
        shelf,
        habits,
        allows_actions=allows_actions,
        rings_bell=settings.flag("terminal.bell"),
        beside=beside,
    )


def shown(text: str, *, is_ascii: bool) -> str:
    """A text that is written to a terminal, in ASCII where that was asked for."""
    from gpumon.report.text.ascii_only import ascii_only

    return ascii_only(text) if is_ascii else text


def begun_with(habits: Habits, settings: Settings, *, is_ascii: bool) -> Habits:
    """What a terminal begins with: the option, the environment, what was chosen last, the files.

    A configuration file says how to begin, so what was chosen in a terminal later beats it. Where
    neither says a theme, a terminal that tells of a light ground has the light one.
    """
    theme, flag = (settings.chosen[key] for key in ("terminal.theme", "terminal.ascii"))
    is_unsaid = theme == DEFAULTS.chosen["terminal.theme"]
    is_light = is_unsaid and has_light_ground(os.environ.get("COLORFGBG", ""))
    if habits.theme is None or theme.origin == BY_KEY["terminal.theme"].variable:
        habits = habits._replace(theme_at_first="light" if is_light else str(theme.value))
    if habits.is_ascii is None or flag.origin == BY_KEY["terminal.ascii"].variable:
        habits = habits._replace(is_ascii_at_first=bool(flag.value))
    return habits._replace(is_ascii_at_first=True) if is_ascii else habits


def has_light_ground(colours: str) -> bool:
    """Whether COLORFGBG tells of a white ground: `0;15`, `0;default;15`."""
    return colours.rpartition(";")[2] in _WHITES
