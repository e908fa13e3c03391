"""Every sentence that a built-in detector can make stands in docs/detectors.md."""

from __future__ import annotations

import ast
import os
import re
import time
from typing import TYPE_CHECKING

import pytest

from gpumon.detect.worker import registry
from gpumon_detectors.hardware.gpu_missing import GpuMissing
from tools import pages
from tools.sentences import block

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RULES = pages.ROOT / "detectors" / "gpumon_detectors"
LEAST_WORDS = 2
"""What is shorter is a name, a unit or a joint between two numbers."""


def is_silent(node: ast.AST) -> bool:
    """Whether what is below is never told: a docstring, an exception's text, a pattern."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    is_pattern = isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile"
    return isinstance(node, ast.Raise) or is_pattern


def fragments(tree: ast.AST) -> Iterator[str]:
    """Parts of sentences that code holds, those of f-strings one by one."""
    if is_silent(tree):
        return
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        words = tree.value.split()
        if sum(bool(re.search("[A-Za-z]", word)) for word in words) >= LEAST_WORDS:
            yield " ".join(words)
    for child in ast.iter_child_nodes(tree):
        yield from fragments(child)


def said() -> dict[str, str]:
    """What the page has each detector say."""
    page = (pages.ROOT / "docs" / "detectors.md").read_text(encoding="utf-8")
    found = {}
    for section in page.split("\n## ")[1:]:
        name, _, rest = section.partition("\n")
        found[name] = " ".join(rest.partition(block.HEAD)[2].split())
    return found


def unsaid(files: list[Path]) -> list[str]:
    """Fragments that no detector says on the page; of a detector's own file, that it does not."""
    everything = said()
    return [
        f"{file.name}: {fragment}"
        for file in files
        for fragment in fragments(ast.parse(file.read_text(encoding="utf-8")))
        if fragment not in everything.get(file.stem, " ".join(everything.values()))
    ]


def test_every_sentence_of_a_detector_stands_on_the_page() -> None:
    files = sorted(RULES.rglob("*.py"))
    assert len(files) > 30
    assert unsaid(files) == [], "add a scene to tools/sentences, then run: make docs"


def test_a_sentence_without_a_scene_is_found(tmp_path: Path) -> None:
    rule = tmp_path / "throttled.py"
    rule.write_text(
        '"""A docstring is no sentence of it."""\n'
        "_PATTERN = re.compile('one or two words')\n"
        "def look(gpu):\n"
        "    raise ValueError('an exception is none either')\n"
        "    return (f'{gpu} is painted in a wrong colour', 'Report this to the administrators')\n"
    )
    assert unsaid([rule]) == ["throttled.py: is painted in a wrong colour"]


def test_every_detector_has_scenes_and_every_scene_a_detector() -> None:
    built_in = {e.key for e in registry.entries() if e.distribution.startswith("gpumon ")}
    assert block.SCENES.keys() == built_in == said().keys()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_times_do_not_depend_on_where_pages_are_made(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert "gone since 22:18 " in block.sentences_of(GpuMissing())
        assert os.environ["TZ"] == zone
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_sentence_that_differs_by_numbers_stands_once() -> None:
    text = block.sentences_of(GpuMissing())
    assert text.count("the driver lists") == 1
    assert "- *warning*, *hypothesis* / *critical*, *established*: “n1: 1 GPU gone since" in text


def test_a_detector_that_says_nothing_in_a_scene_is_an_error() -> None:
    class Mute(GpuMissing):
        def evaluate(self, view):
            return iter(())

    with pytest.raises(block.SentenceError, match="nothing new in missing_for_a_moment"):
        block.sentences_of(Mute())
    Mute.name = "unheard_of"
    with pytest.raises(block.SentenceError, match="no scene for unheard_of"):
        block.sentences_of(Mute())
