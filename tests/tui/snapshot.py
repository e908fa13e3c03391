"""Snapshots of the screen: its text, then the style of every stretch that is not plain."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from gpumon.report.text.cells import Tone
from gpumon.tui.look.theme import VARIABLES
from gpumon.tui.screens.base.files import without_fonts

if TYPE_CHECKING:
    from rich.color import Color
    from rich.segment import Segment
    from rich.style import Style

    from gpumon.tui.app import GpumonApp

FOLDER = Path(__file__).parent / "snapshots"
REGENERATE = "GPUMON_SNAPSHOTS=write .venv/bin/python -m pytest tests/tui/test_snapshots.py"
MOST_OF_A_DIFF = 60
"""Lines of a difference that are printed."""

_NAMED = ("background", "bar", "cursor", *(f"heat-{n}" for n in range(4)),
          *(f"owner-{n}" for n in range(6)))  # fmt: skip
_ATTRIBUTES = ("bold", "dim", "italic", "underline", "reverse", "strike")


class Names:
    """Names of a theme's colours: tones by their own, all others as the theme calls them."""

    def __init__(self, app: GpumonApp) -> None:
        variables = app.get_css_variables()
        of_tones = {variables[VARIABLES[tone]].lower(): str(tone) for tone in reversed(Tone)}
        of_theme = {variables[name].lower(): name for name in reversed(_NAMED)}
        self._names = {**of_theme, **of_tones}
        self._ground = variables["background"].lower()

    def of(self, colour: Color | None) -> str:
        """A colour's name; the terminal's own is `default`, one of no name is its number."""
        if colour is None or colour.is_default:
            return "default"
        number = colour.get_truecolor().hex
        return self._names.get(number, number)

    def style(self, text: str, style: Style | None) -> str:
        """`warn/bar bold`; empty for plain text on the ground, and for blanks on it."""
        if style is None:
            return ""
        marks = [name for name in _ATTRIBUTES if getattr(style, name)]
        front, back = self.of(style.color), self.of(style.bgcolor)
        if text.isspace():
            front = "" if "reverse" not in marks else front
            marks = [name for name in marks if name in ("underline", "reverse")]
        front = "" if front in ("plain", "default") else front
        back = "" if back in ("background", "default") else f"/{back}"
        return " ".join(part for part in (front + back, *marks) if part)


def written(app: GpumonApp) -> str:
    """The screen as a snapshot holds it."""
    names = Names(app)
    lines, styles = [], []
    for number, strip in enumerate(app.screen._compositor.render_strips()):
        text = "".join(segment.text for segment in strip)
        lines.append(f"{number:02} {text}".rstrip())
        if runs := _runs(list(strip), names):
            named_runs = ", ".join(f"{first}-{end - 1} {named}" for first, end, named in runs)
            styles.append(f"{number:02} {named_runs}")
    return "\n".join((*lines, "-- styles", *styles)) + "\n"


def _runs(segments: list[Segment], names: Names) -> list[tuple[int, int, str]]:
    """First cell, the cell after the last, and style of each stretch that is not plain."""
    runs: list[tuple[int, int, str]] = []
    at = 0
    for segment in segments:
        end = at + cell_len(segment.text)
        named = names.style(segment.text, segment.style) if segment.text else ""
        if named and runs and runs[-1][1:] == (at, named):
            runs[-1] = (runs[-1][0], end, named)
        elif named:
            runs.append((at, end, named))
        at = end
    return runs


def drawn(app: GpumonApp) -> str:
    """The screen as the key `E` writes it, in fewer bytes: short names, no blanks around lines."""
    made = re.sub(r"terminal-\d+-?", "t", without_fonts(app.screen.screenshot()))
    return "\n".join(line.strip() for line in made.splitlines() if line.strip()) + "\n"


def compared(path: Path, now: str) -> str:
    """What differs from the snapshot, empty where nothing does; written where that is wanted."""
    if os.environ.get("GPUMON_SNAPSHOTS") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(now, encoding="utf-8")
        return ""
    name = path.relative_to(FOLDER)
    if not path.exists():
        return f"{name} is missing"
    before = path.read_text(encoding="utf-8")
    if before == now:
        return ""
    lines = difflib.unified_diff(
        before.splitlines(), now.splitlines(), f"{name}", f"{name} now", lineterm="", n=0
    )
    found = [line[:300] for line in lines]
    more = len(found) - MOST_OF_A_DIFF
    shown = found[:MOST_OF_A_DIFF] + ([f"… {more} more lines"] if more > 0 else [])
    return "\n".join(shown)
