"""The page of the five questions names the keys that are tested, and shows pictures of them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tools.screenshots import IMAGES, ROOT
from tools.tasks import DEMO, LAB, TASKS

MOST_BYTES = 300 * 1024
PAGE = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
PICTURES = [(task, "" if command == DEMO else "-lab", command) for task in TASKS
            for command in (DEMO, LAB)]  # fmt: skip


def section(task):
    return PAGE.split(f"## {task.question}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(("task", "suffix", "command"), PICTURES)
def test_the_page_names_the_keys_and_shows_the_picture(task, suffix, command):
    keys = " ".join(f"`{key}`" for key in task.keys_of(command))
    told = next(line for line in section(task).splitlines() if line.startswith("Keys: "))
    assert keys in told
    assert f"(images/task-{task.name}{suffix}.svg)" in section(task)


@pytest.mark.parametrize(("task", "suffix", "command"), PICTURES)
def test_a_picture_is_small_plays_by_itself_and_asks_for_nothing(task, suffix, command):
    file = IMAGES / f"task-{task.name}{suffix}.svg"
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST_BYTES
    root = ElementTree.fromstring(text)
    words = " ".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))
    assert task.question in words
    assert [key for key in task.keys_of(command) if key not in words.split()] == []
    assert "prefers-reduced-motion" in text
    assert "infinite" in text
    assert not re.search(r"<script|href|url\(|@import", text)
