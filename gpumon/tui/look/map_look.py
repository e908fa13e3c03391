"""The styles of a map's inks in one theme; imported for the first map, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.style import Style

from gpumon.report.fleet_map.marks import Ink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.color import Color

_OF_TONES: Final = {
    Ink.TEXT: "foreground",
    Ink.DIM: "tone-dim",
    Ink.STRONG: "tone-strong",
    Ink.INFO: "primary",
    Ink.WARN: "warning",
    Ink.BAD: "error",
}


class MapLook:
    """The styles of a map's inks in one theme, on the ground and on one another."""

    def __init__(
        self,
        variables: Mapping[str, str],
        *,
        has_colour: bool,
        has_areas: bool,
        plain: Style,
        has_sixteen: bool = False,
    ) -> None:
        """The inks of a theme.

        Args:
            variables: Colours by name.
            has_colour: Whether hues may be used.
            has_areas: Whether areas of colour show values; else signs do.
            plain: The style of everything where there are no colours.
            has_sixteen: Whether the terminal has sixteen colours, whose shades are its own.
        """
        self.has_colour = has_colour
        self.has_areas = has_areas
        self.has_grounds = has_areas or has_sixteen
        """Whether numbers are on areas of colour, also where these alone show no step."""
        self._plain = plain
        self._middle = _MIDDLE_OF_SIXTEEN if has_sixteen else _MIDDLE
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
            colour = "#000000" if _lightness(below) > self._middle else "#ffffff"
        return Style(color=colour, bgcolor=behind)


_MIDDLE: Final = 0.179
"""Relative luminance on which black and white have the same contrast, by WCAG 2.1."""

_MIDDLE_OF_SIXTEEN: Final = 0.13
"""The same of the shades by which rich knows the sixteen: terminals draw brown and bright blue
lighter than those, and nothing that is darker."""


def _lightness(colour: Color) -> float:
    """Relative luminance by WCAG 2.1."""
    parts = (part / 255 for part in colour.get_truecolor())
    r, g, b = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
