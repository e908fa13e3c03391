"""Text from outside made harmless: job names, labels and command names are hostile."""

from __future__ import annotations

import unicodedata
from typing import Final

MAX_TEXT: Final = 256
"""Longest outside text that is stored."""

_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def plain(text: str, limit: int = MAX_TEXT) -> str:
    """The text without control, format and private characters, cut at `limit`.

    What is taken out leaves U+FFFD, so that two different names stay different from an empty one.
    """
    if text.isascii() and text.isprintable() and len(text) <= limit:
        return text
    cleaned = "".join("�" if unicodedata.category(c) in _UNSAFE else c for c in text[: limit + 1])
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"
