"""The last step of every line on a terminal that draws ASCII only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.filter import LineFilter

from gpumon.report.text.ascii_only import ascii_only

if TYPE_CHECKING:
    from textual.color import Color


class AsciiFilter(LineFilter):
    """Replaces what is not ASCII, also in what textual itself draws: scrollbars, the prompt."""

    def apply(self, segments: list[Segment], _background: Color) -> list[Segment]:
        """The same cells in ASCII."""
        return [
            segment if segment.text.isascii() else Segment(ascii_only(segment.text), segment.style)
            for segment in segments
        ]
