"""Names in code have the glossary's words, too."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

from tools.words import unwanted

ROOT = Path(__file__).parent.parent.parent
FURTHER_FORMS = {"say", "says", "telling", "keeps", "book", "booked", "looked", "looks", "heat"}
"""Of the words that docs/words.md does not want, and `heat` of the map."""
STAY = {
    "looks_at": "plugins call it",
    "tell": "a parameter that plugins give, `View.per_node`",
    "mem_kept_bytes": "plugins' scenes take it",
    "is_kept": "key of `gpumon train --json`, and of a field as CONTRIBUTING names it",
    "is_looked_for": "key of `gpumon evaluate --json`",
    "told": "key of `gpumon train --json`",
    "told_by": "key of the document",
    "kept_in": "key of the document",
    "says": "key of `gpumon doctor --json`",
    "pictures": "key of recordings",
    "heat": "of a board",
    "extra_heat": "of a board",
    "heat_w": "of a board",
    "heat_k_per_w": "of a board",
    "HEAT_TAU_S": "of a board",
    "REASON_HEAT": "of a board",
}


def names_in(source: str) -> set[str]:
    """Every name of a module that has one of the words as a part."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    unwritten = unwanted((ROOT / "docs" / "words.md").read_text(encoding="utf-8"))
    return {
        name
        for name in names
        if any(part in FURTHER_FORMS or unwritten.fullmatch(part) for part in parts_of(name))
    }


def parts_of(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_no_name_has_a_word_that_is_not_written() -> None:
    found: dict[str, list[str]] = {}
    for folder in ("gpumon", "detectors"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for name in names_in(file.read_text(encoding="utf-8")):
                found.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in found.items() if name not in STAY} == {}
    assert STAY.keys() <= found.keys()


def test_a_name_is_taken_apart_where_its_words_meet() -> None:
    source = "def is_told(KeptBooks, HEAT_MAP, telling_x, bookkeeper, standpoint): ..."
    assert names_in(source) == {"is_told", "KeptBooks", "HEAT_MAP", "telling_x"}
