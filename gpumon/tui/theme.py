"""Two calm themes, and the look of each tone; only `heat_theme` names colours, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from rich.style import Style
from textual.theme import Theme

from gpumon.report.columns import Tone
from gpumon.tui.heat_theme import HEAT_DARK, HEAT_FALLBACKS, HEAT_LIGHT, HeatLook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.widget import Widget

DARK: Final = Theme(
    name="gpumon-dark",
    primary="#7aa2c8",
    secondary="#8a93a6",
    accent="#7aa2c8",
    foreground="#c6ccd6",
    background="#14171c",
    surface="#14171c",
    panel="#1c2027",
    warning="#d8a657",
    error="#e06c6c",
    success="#8fb573",
    dark=True,
    variables={
        "tone-strong": "#e8ecf2",
        "tone-dim": "#8790a0",
        "tone-past": "#4f6b86",
        "cursor": "#2b3442",
        "bar": "#1c2027",
        "input-cursor-background": "#c6ccd6",
        **HEAT_DARK,
    },
)

LIGHT: Final = Theme(
    name="gpumon-light",
    primary="#1f5f99",
    secondary="#5a6372",
    accent="#1f5f99",
    foreground="#2a2f38",
    background="#fafaf8",
    surface="#fafaf8",
    panel="#eceeee",
    warning="#8a5a00",
    error="#b3261e",
    success="#3d6b1f",
    dark=False,
    variables={
        "tone-strong": "#0c0f14",
        "tone-dim": "#6b7280",
        "tone-past": "#8fb0cf",
        "cursor": "#d5e0ec",
        "bar": "#eceeee",
        "input-cursor-background": "#2a2f38",
        **HEAT_LIGHT,
    },
)

THEMES: Final = (DARK, LIGHT)

_VARIABLES: Final = {
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
    **HEAT_FALLBACKS,
}
"""Which of textual's own variables stands in under a theme that does not know ours."""


class Look:
    """The styles in force: one per tone, and the marks of cursor, bars and titles."""

    def __init__(self, variables: Mapping[str, str], has_colour: bool) -> None:
        self.heat = HeatLook(variables, has_colour=has_colour)
        if has_colour:
            self.base = Style(color=variables["foreground"], bgcolor=variables["background"])
            self.tones = {tone: Style(color=variables[name]) for tone, name in _VARIABLES.items()}
            self.tones[Tone.STRONG] += Style(bold=True)
            self.cursor = Style(bgcolor=variables["cursor"])
            self.bar = Style(bgcolor=variables["bar"])
            self.title = Style(color=variables["tone-dim"], bgcolor=variables["bar"], bold=True)
            self.sorted_title = Style(
                color=variables["primary"], bgcolor=variables["bar"], bold=True
            )
        else:
            self.base = Style()
            self.tones = dict.fromkeys(Tone, Style())
            self.tones[Tone.STRONG] = self.tones[Tone.BAD] = Style(bold=True)
            self.cursor = Style(reverse=True)
            self.bar = Style()
            self.title = Style(bold=True, underline=True)
            self.sorted_title = Style(bold=True, underline=True)


class HasLook(Protocol):
    """What the application gives its widgets."""

    look: Look


def look_of(widget: Widget) -> Look:
    """The styles in force where a widget is drawn."""
    return cast("HasLook", widget.app).look
