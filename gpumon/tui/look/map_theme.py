"""Colours of the heat map: one ramp whose steps differ in lightness, and hues for owners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.style import Style

from gpumon.report.fleet_map.marks import Ink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.color import Color

HEAT_DARK: Final = {
    "heat-0": "#4c6784",
    "heat-1": "#628ebd",
    "heat-2": "#8dbbe6",
    "heat-3": "#d3e9fc",
    "owner-0": "#6fb6e8",
    "owner-1": "#e0a03c",
    "owner-2": "#4fb08c",
    "owner-3": "#d9cf5a",
    "owner-4": "#e07b53",
    "owner-5": "#c58fc0",
}

HEAT_LIGHT: Final = {
    "heat-0": "#7391ae",
    "heat-1": "#4274a8",
    "heat-2": "#265586",
    "heat-3": "#0b2f57",
    "owner-0": "#1f6fa8",
    "owner-1": "#8a5a00",
    "owner-2": "#1f7a5a",
    "owner-3": "#6b6200",
    "owner-4": "#b34a1e",
    "owner-5": "#8a4a86",
}

HEAT_CONTRAST: Final = {
    "heat-0": "#6f7f96",
    "heat-1": "#5fa8ee",
    "heat-2": "#a8d8ff",
    "heat-3": "#ffffff",
    "owner-0": "#8ad8ff",
    "owner-1": "#ffbf4d",
    "owner-2": "#66e0b0",
    "owner-3": "#fff27a",
    "owner-4": "#ff9d70",
    "owner-5": "#f0a8e6",
}

HEAT_BLIND: Final = {
    "heat-0": "#52688a",
    "heat-1": "#5b91cc",
    "heat-2": "#8fc1f0",
    "heat-3": "#dcefff",
    "owner-0": "#56b4e9",
    "owner-1": "#e69f00",
    "owner-2": "#3fb98e",
    "owner-3": "#f0e442",
    "owner-4": "#e8763a",
    "owner-5": "#d493bd",
}

HEAT_GREY: Final = {
    "heat-0": "#6e6e6e",
    "heat-1": "#959595",
    "heat-2": "#c2c2c2",
    "heat-3": "#f2f2f2",
    "owner-0": "#d0d0d0",
    "owner-1": "#d0d0d0",
    "owner-2": "#d0d0d0",
    "owner-3": "#d0d0d0",
    "owner-4": "#d0d0d0",
    "owner-5": "#d0d0d0",
}

HEAT_FALLBACKS: Final = {
    "heat-0": "primary-darken-3",
    "heat-1": "primary-darken-1",
    "heat-2": "primary",
    "heat-3": "primary-lighten-3",
    "owner-0": "primary",
    "owner-1": "warning",
    "owner-2": "success",
    "owner-3": "warning-lighten-2",
    "owner-4": "error",
    "owner-5": "accent-lighten-2",
}
"""Which of textual's own variables stands in under a theme that does not know ours."""

_OF_TONES: Final = {
    Ink.TEXT: "foreground",
    Ink.DIM: "tone-dim",
    Ink.STRONG: "tone-strong",
    Ink.INFO: "primary",
    Ink.WARN: "warning",
    Ink.BAD: "error",
}


class HeatLook:
    """The styles of a map's inks in one theme, on the ground and on one another."""

    def __init__(
        self, variables: Mapping[str, str], *, has_colour: bool, has_areas: bool, plain: Style
    ) -> None:
        """The inks of a theme.

        Args:
            variables: Colours by name.
            has_colour: Whether hues may be used.
            has_areas: Whether areas of colour tell values; else signs do.
            plain: The style of everything where there are no colours.
        """
        self.has_colour = has_colour
        self.has_areas = has_areas
        self._plain = plain
        self._made: dict[tuple[Ink, Ink | None], Style] = {}
        self._names = {ink: variables[_OF_TONES.get(ink, ink)] for ink in Ink} if has_colour else {}
        self._ground = variables["background"]

    def style(self, ink: Ink, ground: Ink | None) -> Style:
        """The style of a character; text on an ink is as light or as dark as can be read."""
        made = self._made.get((ink, ground))
        if made is None:
            made = self._made[ink, ground] = self._make(ink, ground)
        return made

    def _make(self, ink: Ink, ground: Ink | None) -> Style:
        if not self.has_colour:
            return self._plain + Style(bold=True if ink in (Ink.BAD, Ink.STRONG) else None)
        behind = self._ground if ground is None else self._names[ground]
        colour = self._names[ink]
        if ink is Ink.TEXT and ground is not None:
            below = Style(color=behind).color
            assert below is not None
            colour = "#000000" if _lightness(below) > _MIDDLE else "#ffffff"
        return Style(color=colour, bgcolor=behind)


_MIDDLE: Final = 0.179
"""Relative luminance on which black and white have the same contrast, by WCAG 2.1."""


def _lightness(colour: Color) -> float:
    """Relative luminance by WCAG 2.1."""
    parts = (part / 255 for part in colour.get_truecolor())
    r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
