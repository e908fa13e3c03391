"""Any text in ASCII, cell for cell: one table for everything that gpumon itself draws."""

from __future__ import annotations

import unicodedata
from typing import Final

_SIGNS: Final = {
    "–": "-", "—": "-", "−": "-", "…": "~", "·": ".", "›": ">", "‼": "X", "“": '"', "”": '"',
    "’": "'", "‘": "'", "°": "'", "≠": "!", "≤": "<", "≥": ">", "×": "x", "µ": "u", "±": "~",
    "←": "<", "→": ">", "↑": "^", "↓": "v", "⇧": "^", "▲": "^", "▼": "v", "▶": ">", "◀": "<",
    "●": "@", "◐": "o", "○": ".", "✓": "+", "✗": "x", "■": "#", "□": "o",
    "─": "-", "━": "-", "┄": "-", "│": "|", "┃": "|", "┊": ":", "├": "|", "┤": "|", "┼": "+",
    "┌": "+", "┐": "+", "└": "+", "┘": "+", "┬": "+", "┴": "+", "╭": "+", "╮": "+", "╯": "+",
    "╰": "+", "▔": "-", "▀": '"', "▌": "|", "▐": "|", "▏": "|", "▕": "|",
    "▁": "_", "▂": ".", "▃": "-", "▄": "=", "▅": "+", "▆": "*", "▇": "%", "█": "#",
    "░": ":", "▒": "+", "▓": "%", "≈": "=",
    "\N{REPLACEMENT CHARACTER}": "?",
}  # fmt: skip

BRAILLE: Final = 0x2800
"""First of the 256 braille characters; its lower bits are the dots (Unicode block U+2800)."""
_ROWS: Final = (0x09, 0x12, 0x24, 0xC0)
"""Bits of the dots of a braille character, the upper row first."""


def _dots(bits: int) -> str:
    """What comes nearest to the dots of a braille character: their height, or a bar."""
    rows = [row for row, mask in enumerate(_ROWS) if bits & mask]
    if not rows:
        return " "
    if len(rows) > 2:
        return "|"
    return "''---__"[rows[0] + rows[-1]]


_TABLE: Final = {ord(sign): shown for sign, shown in _SIGNS.items()} | {
    BRAILLE + bits: _dots(bits) for bits in range(256)
}


def ascii_only(text: str) -> str:
    """The text in printable ASCII, as many cells wide; letters lose their accents, others are `?`.

    Args:
        text: What `safe` has let through: no controls and no marks of width 0.
    """
    if text.isascii():
        return text
    text = text.translate(_TABLE)
    return text if text.isascii() else "".join(map(_plain, text))


def _plain(char: str) -> str:
    if char.isascii():
        return char
    first = unicodedata.normalize("NFKD", char)[0]
    shown = first if first.isascii() and first.isprintable() else "?"
    return shown.ljust(2, "?") if unicodedata.east_asian_width(char) in "WF" else shown
