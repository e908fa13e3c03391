"""The look of each tone in the theme in force; only `themes` and `map_theme` name colours."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, cast

from rich.style import Style

from gpumon.report.text.cells import Tone
from gpumon.tui.look.map_theme import MAP_FALLBACKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.widget import Widget

    from gpumon.tui.look.map_look import MapLook

VARIABLES: Final = {
    Tone.PLAIN: "foreground",
    Tone.STRONG: "tone-strong",
    Tone.DIM: "tone-dim",
    Tone.GOOD: "success",
    Tone.INFO: "primary",
    Tone.WARN: "warning",
    Tone.BAD: "error",
    Tone.PAST: "tone-past",
}

FALLBACKS: Final = {
    "tone-strong": "foreground",
    "tone-dim": "secondary",
    "tone-past": "secondary",
    "cursor": "panel",
    "bar": "panel",
    **MAP_FALLBACKS,
}
"""Which of textual's own variables is used under a theme that does not know ours."""


class ThemeStyles:
    """The styles in force: one per tone, and the marks of cursor, bars and titles."""

    def __init__(
        self,
        variables: Mapping[str, str],
        has_colour: bool,
        *,
        is_ascii: bool = False,
        has_greys: bool = False,
        has_sixteen: bool = False,
    ) -> None:
        """The styles of a theme.

        Args:
            variables: The theme's colours by name.
            has_colour: Whether hues may be used; without, bold and reverse replace them.
            is_ascii: Whether only ASCII is drawn.
            has_greys: Without hues, whether the theme's greys are drawn; else the terminal's own.
            has_sixteen: Whether the terminal has sixteen colours, whose shades are its own.
        """
        ground = Style(color=variables["foreground"], bgcolor=variables["background"])
        plain = ground if has_greys else Style()
        self._variables, self._plain = variables, plain
        self._has_colour, self._is_ascii = has_colour, is_ascii
        self._has_sixteen = has_sixteen
        if has_colour:
            self.base = ground
            self.tones = {tone: Style(color=variables[name]) for tone, name in VARIABLES.items()}
            self.tones[Tone.STRONG] += Style(bold=True)
            self.cursor = Style(color=variables.get("cursor-ink"), bgcolor=variables["cursor"])
            self.bar = Style(bgcolor=variables["bar"])
            self.title = Style(color=variables["tone-dim"], bgcolor=variables["bar"], bold=True)
            self.sorted_title = Style(
                color=variables["primary"], bgcolor=variables["bar"], bold=True
            )
        else:
            self.base = plain
            self.tones = dict.fromkeys(Tone, Style())
            if has_greys:
                self.tones[Tone.DIM] = Style(color=variables["tone-dim"])
            self.tones[Tone.STRONG] = self.tones[Tone.BAD] = Style(bold=True)
            # Not the reverse of the greys below it, of which the bar would have several.
            self.cursor = (
                Style(color=variables["background"], bgcolor=variables["foreground"])
                if has_greys
                else Style(reverse=True)
            )
            self.bar = Style(bgcolor=variables["bar"] if has_greys else None)
            self.title = plain + self.bar + Style(bold=True, underline=True)
            self.sorted_title = self.title
        self._mixed: dict[tuple[Tone, Style | None], Style] = {}
        used = (self.base, self.cursor, self.bar, self.title, self.sorted_title)
        self.has_true_colours = all(map(_is_true, (*used, *self.tones.values())))
        """Whether no style has a colour of the terminal's own, or is dimmed by it."""

    @cached_property
    def map(self) -> MapLook:
        """The styles of maps, made for the first of them."""
        from gpumon.tui.look.map_look import MapLook

        # Sixteen colours have no shades: on some terminals three of a scale's four look alike.
        has_areas = self._has_colour and not (self._is_ascii or self._has_sixteen)
        return MapLook(
            self._variables,
            has_colour=self._has_colour,
            has_areas=has_areas,
            has_sixteen=self._has_sixteen,
            plain=self._plain,
        )

    def over_ground(self, tone: Tone, extra: Style | None = None) -> Style:
        """A tone on the ground of the terminal; `extra` lies over both."""
        found = self._mixed.get((tone, extra))
        if found is None:
            found = self.base + self.tones[tone]
            found = self._mixed[tone, extra] = found if extra is None else found + extra
        return found


def _is_true(style: Style) -> bool:
    colours = (style.color, style.bgcolor)
    return not style.dim and all(one is None or one.triplet is not None for one in colours)


class HasLook(Protocol):
    """What the application gives its widgets."""

    look: ThemeStyles


def look_of(widget: Widget) -> ThemeStyles:
    """The styles in force where a widget is drawn."""
    return cast("HasLook", widget.app).look
