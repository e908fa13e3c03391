"""Pages, help and messages use the words of the glossary; the pages get no longer."""

from __future__ import annotations

import json
import re

import pytest

from tools import words

GLOSSARY = (words.ROOT / "docs" / words.GLOSSARY).read_text(encoding="utf-8")


def test_no_page_no_help_and_no_message_has_more_of_the_words_that_are_not_written() -> None:
    most = json.loads(words.COUNTS.read_text(encoding="utf-8"))
    assert words.above(words.today(), most) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Nobody told it.", 2),
        ("A stand-in for `told`.", 0),
        ("```\nsaid\n```\n[x](told.md)", 0),
        ("Rows as it is", 1),
        ("Rows as it\n    is", 1),
        ("This is no target.", 1),
        ("There is no target, and it is no longer named.", 0),
        ("The memory is no\none's.", 0),
    ],
)
def test_words_are_counted_outside_of_code(text: str, count: int) -> None:
    assert words.counted({"page": text}, GLOSSARY).get("page", 0) == count


MODULE = '''
"""Nobody told it."""
COUNT = 3
"""What a constant says is read by nobody but authors."""
KEY = "is told"
def lines(name):
    """Nobody told it."""
    yield f"{name} was kept by {name.upper()}, and it is told"
    raise ValueError("one was told " "in two parts")
'''


def test_messages_of_a_module_are_its_sentences_and_no_docstring() -> None:
    told = words.said(MODULE)
    assert told == ["{} was kept by {}, and it is told", "one was told in two parts"]
    assert words.counted({"a.py": "\n".join(told)}, GLOSSARY) == {"a.py": 3}


def test_messages_are_looked_for_in_the_program_and_in_the_detectors() -> None:
    said = words.messages()
    assert "--steps shows one job" in said["gpumon/cli/commands/watch.py"]
    assert "their owner" not in said["detectors/gpumon_detectors/idle/idle_held.py"]
    assert "let the program exit" in said["detectors/gpumon_detectors/idle/idle_held.py"]
    assert words.HELP not in said


def test_generated_parts_do_not_count() -> None:
    assert words.hand_written("a <!-- generated: x -->\ntold\n<!-- end --> b").split() == ["a", "b"]


def test_what_is_new_may_hold_none() -> None:
    told = ["new.md: 1, at most 0; docs/words.md has the words to use"]
    assert words.above({"new.md": 1}, {}) == told
    assert words.above({"new.md": 1}, {"new.md": 1}) == []


def test_a_new_page_has_room_until_all_pages_are_too_long() -> None:
    assert words.above({words.TOTAL: 21_999, words.README_WORDS: 699}, {words.TOTAL: 21_000}) == []
    longer = words.above({words.TOTAL: 22_001, words.README_WORDS: 700}, {words.TOTAL: 30_000})
    assert longer == [f"{words.TOTAL}: 22001, at most 22000; shorten another page"]


def test_generated_parts_are_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {name: page.count("<!-- end -->") for name, page in words.pages().items()}
    marked = {
        name: page.replace("<!-- end -->", "Nobody knows.\n<!-- end -->")
        for name, page in words.pages().items()
    }
    monkeypatch.setattr(words, "pages", lambda: dict(marked))
    monkeypatch.setattr(words, "messages", dict)
    found = words.today()
    assert {name: found.get(name, 0) for name in ends} == ends
    assert {"json.md", "detectors.md", "hardware.md", "plugins.md"} <= {
        name for name, count in ends.items() if count
    }


def test_shipped_files_are_looked_through() -> None:
    found = words.shipped()
    assert "of the nodes report nothing" in found["gpumon/serve/prometheus-alerts.yml"]
    assert "What gpumon serve reports" in found["gpumon/serve/grafana-dashboard.json"]
    assert "GPUs and jobs at one instant" in found["gpumon/report/document-2.schema.json"]
    assert '"told"' not in found["gpumon/report/train-1.schema.json"]


def test_the_manual_page_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "unwanted", lambda _glossary: re.compile(r"\.SH"))
    assert words.today()[words.MANUAL] > 0
