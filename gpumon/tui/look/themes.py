"""The themes: two calm ones, one of high contrast, one without red and green, one without hues."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

from gpumon.tui.look.map_theme import MAP_BLIND, MAP_CONTRAST, MAP_DARK, MAP_GREY, MAP_LIGHT

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
        "tone-past": "#587799",
        "cursor": "#2b3442",
        "bar": "#1c2027",
        "input-cursor-background": "#c6ccd6",
        **MAP_DARK,
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
        "tone-dim": "#646b78",
        "tone-past": "#648bb2",
        "cursor": "#d5e0ec",
        "bar": "#eceeee",
        "input-cursor-background": "#2a2f38",
        **MAP_LIGHT,
    },
)

CONTRAST: Final = Theme(
    name="gpumon-contrast",
    primary="#8ad8ff",
    secondary="#d0d0d0",
    accent="#8ad8ff",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1a1a1a",
    warning="#ffd95a",
    error="#ff9d9d",
    success="#8dff8d",
    dark=True,
    variables={
        "tone-strong": "#ffffff",
        "tone-dim": "#c8c8c8",
        "tone-past": "#7fb8e6",
        "cursor": "#16355c",
        "bar": "#1a1a1a",
        "input-cursor-background": "#ffffff",
        **MAP_CONTRAST,
    },
)

BLIND: Final = Theme(
    name="gpumon-blind",
    primary="#8cc8f0",
    secondary="#9aa3b2",
    accent="#8cc8f0",
    foreground="#ccd2dc",
    background="#12161d",
    surface="#12161d",
    panel="#1b212b",
    warning="#f0dc6a",
    error="#ff9440",
    success="#5aa9e6",
    dark=True,
    variables={
        "tone-strong": "#eef1f6",
        "tone-dim": "#8e97a6",
        "tone-past": "#4f7aa6",
        "cursor": "#2a3648",
        "bar": "#1b212b",
        "input-cursor-background": "#ccd2dc",
        **MAP_BLIND,
    },
)
"""Blue against yellow and orange, which all kinds of colour blindness keep apart; the three also
differ in lightness. The hues of owners are those of Okabe and Ito (2008), lightened."""

MONO: Final = Theme(
    name="gpumon-mono",
    primary="#d6d6d6",
    secondary="#9c9c9c",
    accent="#d6d6d6",
    foreground="#d0d0d0",
    background="#121212",
    surface="#121212",
    panel="#1f1f1f",
    warning="#e6e6e6",
    error="#ffffff",
    success="#d0d0d0",
    dark=True,
    variables={
        "tone-strong": "#ffffff",
        "tone-dim": "#9c9c9c",
        "tone-past": "#7a7a7a",
        "cursor": "#3a3a3a",
        "bar": "#1f1f1f",
        "input-cursor-background": "#d0d0d0",
        **MAP_GREY,
    },
)
"""Greys, bold and reverse: signs and words say everything. `NO_COLOR` goes further: it leaves
even the greys to the terminal."""

THEMES: Final = (DARK, LIGHT, CONTRAST, BLIND, MONO)
"""In the order of their key."""

SHORT_NAMES: Final = {
    "dark": DARK.name,
    "light": LIGHT.name,
    "contrast": CONTRAST.name,
    "blind": BLIND.name,
    "mono": MONO.name,
}
"""The themes as people write them."""
