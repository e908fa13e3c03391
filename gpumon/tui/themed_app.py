"""The part of the application that knows how it looks, and what its user chose to see."""

from __future__ import annotations

import os
import time
from math import inf
from typing import TYPE_CHECKING, Final

from textual.app import App

from gpumon.tui.look.saved_choices import NO_HABITS, Habits, written
from gpumon.tui.look.sixteen import sixteen
from gpumon.tui.look.theme import FALLBACKS, ThemeStyles
from gpumon.tui.look.themes import DARK, MONO, SHORT_NAMES, THEMES
from gpumon.tui.textual_private.app_hooks import HookedApp
from gpumon.tui.textual_private.ascii_filter import AsciiFilter
from gpumon.tui.textual_private.one_layout import draw_afresh

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import RenderableType
    from textual.driver import Driver
    from textual.filter import LineFilter
    from textual.theme import Theme

    from gpumon.tui.look.saved_choices import Shelf
    from gpumon.tui.textual_private.idle_gc import QuietCollector

_OWN: Final = {theme.name: theme for theme in THEMES}


def _theme_at_first(habits: Habits) -> str:
    return habits.theme_at_first or habits.theme or ""


def _lean() -> Callable[[RenderableType | None], RenderableType | None]:
    """Writes updates with fewer bytes; nothing where this textual's own classes are others."""
    try:
        from gpumon.tui.textual_private.update_writer import lean
    except ImportError:
        return lambda renderable: renderable
    return lean


class DressedApp(HookedApp):
    """Themes, ASCII, and the choices that outlive the terminal."""

    def __init__(self, shelf: Shelf | None = None, habits: Habits = NO_HABITS) -> None:
        """Look as chosen.

        Args:
            shelf: Where to keep what the user chooses; None: it is forgotten at the end.
            habits: What was chosen before.
        """
        # Without colours, textual's own filter would only turn them into greys.
        self._has_colour = "NO_COLOR" not in os.environ
        # Before textual's own start, which asks for the theme's variables: set later, it would ask
        # for them twice and read every style twice before the first screen.
        self.set_reactive(App.theme, SHORT_NAMES.get(_theme_at_first(habits), DARK.name))
        self._variables: Mapping[str, str] = {}
        """What textual last got of the theme in force."""
        super().__init__(ansi_color=None if self._has_colour else True)
        self._shelf = shelf
        self.chosen_columns: dict[str, tuple[str, ...]] = dict(habits.columns)
        """Keys of the columns that a kind of view shows, where the user chose them."""
        self.sortings = dict(habits.sortings)
        """Order of a kind of table, where the user chose one."""
        self.map_field, self.map_grouping = habits.map_field, habits.map_grouping
        self.map_density = habits.map_density
        self.root = habits.view
        """View of the whole fleet that was chosen last."""
        at_first = habits.is_ascii_at_first
        self.is_ascii = bool(habits.is_ascii if at_first is None else at_first)
        self._chosen_theme, self._chosen_ascii = habits.theme, habits.is_ascii
        self._ascii_filter = AsciiFilter()
        self._lean = _lean()
        self.collector: QuietCollector | None = None
        """Looks for dead objects where Python itself may not."""
        self.typed_s = -inf
        """When the last key came, by `time.perf_counter`."""
        self.heard_s = -inf
        """When something was read from the terminal last, by that clock."""
        self.look = self._styles(self._variables)

    @property
    def available_themes(self) -> dict[str, Theme]:
        """Our own beside textual's, from the first word of its start on."""
        return {**super().available_themes, **_OWN}

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own variables under a theme that does not know them."""
        theme = self.current_theme
        if theme.name in _OWN:
            return {}
        known = theme.to_color_system().generate()
        return {name: known[other] for name, other in FALLBACKS.items()}

    def get_css_variables(self) -> dict[str, str]:
        """Those of the theme, or what replaces them where the terminal has sixteen colours."""
        variables = super().get_css_variables()
        if self._has_sixteen:
            variables |= sixteen(self.theme)
        self._variables = variables
        return variables

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, and in the end ASCII only."""
        filters = super().get_line_filters()
        return [*filters, self._ascii_filter] if self.is_ascii else filters

    def get_driver_class(self) -> type[Driver]:
        """Textual's own, and on a terminal the one that sleeps until there is input."""
        found = super().get_driver_class()
        if found.__module__ != "textual.drivers.linux_driver":
            return found
        try:
            from gpumon.tui.textual_private.input_driver import PatientDriver
        except ImportError:
            return found
        return PatientDriver

    def note_key(self) -> None:
        """A key has come: what takes long waits until it is answered."""
        self.typed_s = time.perf_counter()
        if self.collector is not None:
            self.collector.note_key()

    def note_input(self) -> None:
        """Something was read from the terminal; from the thread that reads."""
        self.heard_s = time.perf_counter()

    def to_send(self, renderable: RenderableType | None) -> RenderableType | None:
        """What changed, in fewer bytes than textual's own."""
        return self._lean(renderable)

    def note_frame(self, _renderable: RenderableType | None) -> None:
        """Dead objects may be looked for once a frame is out."""
        if self.collector is not None:
            self.collector.note_frame()

    def _styles(self, variables: Mapping[str, str]) -> ThemeStyles:
        is_mono = self.theme == MONO.name
        return ThemeStyles(
            variables,
            self._has_colour and not is_mono,
            is_ascii=self.is_ascii,
            has_greys=self._has_colour and is_mono,
            has_sixteen=self._has_sixteen,
        )

    @property
    def _has_sixteen(self) -> bool:
        """Whether the terminal has sixteen colours."""
        return self.console.color_system == "standard"

    def next_theme(self) -> None:
        """The theme after this one."""
        names = [theme.name for theme in THEMES]
        self.show_theme(names[(names.index(self.theme) + 1) % len(names)])

    def show_theme(self, name: str) -> None:
        """Draw everything in a theme."""
        self.theme = name
        self._chosen_theme = next((one for one in SHORT_NAMES if SHORT_NAMES[one] == name), None)
        self._restyle()
        self.save_habits()

    def draw_ascii(self, is_ascii: bool) -> None:
        """Draw ASCII only, or the signs that say most."""
        self.is_ascii = self._chosen_ascii = is_ascii
        self._restyle()
        self.save_habits()

    def save_habits(self) -> None:
        """Have the next terminal begin with what was chosen in this one."""
        if self._shelf is None:
            return
        habits = Habits(
            theme=self._chosen_theme,
            is_ascii=self._chosen_ascii,
            columns=dict(self.chosen_columns),
            sortings=dict(self.sortings),
            map_field=self.map_field,
            map_grouping=self.map_grouping,
            map_density=self.map_density,
            view=self.root,
        )
        self._shelf.write(written(habits))

    def save_root(self, view: str) -> None:
        """Have the next terminal begin with this view of the whole fleet."""
        if view != self.root:
            self.root = view
            self.save_habits()

    def _restyle(self) -> None:
        self.look = self._styles(self.get_css_variables())
        for screen in self.screen_stack:
            draw_afresh(screen)
            for widget in screen.walk_children():
                widget.refresh()
        self.show_again()

    def show_again(self) -> None:
        """Draw the tick once more."""
