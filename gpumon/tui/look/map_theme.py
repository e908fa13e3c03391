"""Colours of the map: one ramp whose steps differ in lightness, and hues for owners."""

from __future__ import annotations

from typing import Final

MAP_DARK: Final = {
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

MAP_LIGHT: Final = {
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

MAP_CONTRAST: Final = {
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

MAP_BLIND: Final = {
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

MAP_GREY: Final = {
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

MAP_FALLBACKS: Final = {
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
"""Which of textual's own variables is used under a theme that does not know ours."""
