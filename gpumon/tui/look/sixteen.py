"""The themes on terminals of sixteen colours, of which the nearest one would mostly be white.

Which shade a terminal gives each of them is its own matter; they differ on all of them. A
light ground has neither yellow nor green: most terminals draw both too pale to be read there. The
line under the cursor has one ink: no ground lets red, yellow and grey be read on every terminal.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from gpumon.tui.look.themes import BLIND, CONTRAST, DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLACK, _RED, _GREEN, _BROWN = "#000000", "#aa0000", "#00aa00", "#aa5500"
_BLUE, _MAGENTA, _CYAN, _WHITE = "#0000aa", "#aa00aa", "#00aaaa", "#aaaaaa"
_GREY, _BRIGHT_RED, _BRIGHT_GREEN, _YELLOW = "#555555", "#ff5555", "#55ff55", "#ffff55"
_BRIGHT_BLUE, _BRIGHT_MAGENTA, _BRIGHT_CYAN, _BRIGHT = "#5555ff", "#ff55ff", "#55ffff", "#ffffff"
# The shades by which rich finds the sixteen, so that each is found exactly.

_ON_BLACK: Final = {
    "foreground": _WHITE,
    "background": _BLACK,
    "surface": _BLACK,
    "panel": _BLACK,
    "primary": _BRIGHT_CYAN,
    "secondary": _WHITE,
    "accent": _BRIGHT_CYAN,
    "warning": _YELLOW,
    "error": _BRIGHT_RED,
    "success": _BRIGHT_GREEN,
    "tone-strong": _BRIGHT,
    "tone-dim": _WHITE,
    "tone-past": _CYAN,
    "cursor": _BLUE,
    "cursor-ink": _BRIGHT,
    "bar": _BLACK,
    "input-cursor-background": _WHITE,
    "heat-0": _BRIGHT_BLUE,
    "heat-1": _CYAN,
    "heat-2": _BRIGHT_CYAN,
    "heat-3": _BRIGHT,
    "owner-0": _BRIGHT_CYAN,
    "owner-1": _BROWN,
    "owner-2": _GREEN,
    "owner-3": _YELLOW,
    "owner-4": _BRIGHT_RED,
    "owner-5": _BRIGHT_MAGENTA,
}

_ON_WHITE: Final = {
    "foreground": _BLACK,
    "background": _BRIGHT,
    "surface": _BRIGHT,
    "panel": _BRIGHT,
    "primary": _BLUE,
    "secondary": _GREY,
    "accent": _BLUE,
    "warning": _MAGENTA,
    "error": _RED,
    "success": _BLACK,
    "tone-strong": _BLACK,
    "tone-dim": _GREY,
    "tone-past": _GREY,
    "cursor": _BLUE,
    "cursor-ink": _BRIGHT,
    "bar": _BRIGHT,
    "input-cursor-background": _BLACK,
    "heat-0": _GREEN,
    "heat-1": _BRIGHT_BLUE,
    "heat-2": _BLUE,
    "heat-3": _BLACK,
    "owner-0": _BLUE,
    "owner-1": _BROWN,
    "owner-2": _GREEN,
    "owner-3": _MAGENTA,
    "owner-4": _RED,
    "owner-5": _BRIGHT_BLUE,
}

_BY_THEME: Final[Mapping[str, Mapping[str, str]]] = {
    DARK.name: _ON_BLACK,
    LIGHT.name: _ON_WHITE,
    CONTRAST.name: {**_ON_BLACK, "foreground": _BRIGHT, "error": _BRIGHT_MAGENTA},
    BLIND.name: {
        **_ON_BLACK, "primary": _CYAN, "accent": _CYAN, "success": _BRIGHT_CYAN,
        "error": _BRIGHT_MAGENTA,
    },
}  # fmt: skip

_AS_IT_IS: Final[Mapping[str, str]] = MappingProxyType({})


def sixteen(theme: str) -> Mapping[str, str]:
    """What a theme's variables are on such a terminal; empty for one whose nearest colours do."""
    return _BY_THEME.get(theme, _AS_IT_IS)
