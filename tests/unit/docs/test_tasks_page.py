"""The page of the five questions names the keys that are tested, and shows pictures of them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tools import questions
from tools.screenshots import IMAGES, ROOT
from tools.tasks import DEMO, LAB, TASKS

MOST_BYTES = 320 * 1024
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


def checked(file):
    """The words of a picture that is small, plays by itself and asks for nothing."""
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST_BYTES
    assert "prefers-reduced-motion" in text
    assert "infinite" in text
    assert not re.search(r"<script|href|url\(|@import", text)
    root = ElementTree.fromstring(text)
    return [element.text or "" for element in root.iter() if element.tag.endswith("text")]


@pytest.mark.parametrize(("task", "suffix", "command"), PICTURES)
def test_a_picture_of_a_task_shows_its_question_and_keys(task, suffix, command):
    words = " ".join(checked(IMAGES / f"task-{task.name}{suffix}.svg"))
    assert task.question in words
    assert [key for key in task.keys_of(command) if key not in words.split()] == []


@pytest.mark.parametrize(("name", "answers"), [("", questions.DEMO), ("-lab", questions.LAB)])
def test_one_picture_shows_all_questions_and_their_keys(name, answers):
    words = checked(IMAGES / f"questions{name}.svg")
    for number, (asked, answer) in enumerate(answers.items(), 1):
        assert f"{number}. {asked}" in words
        assert [key for key in answer.keys if key not in words] == []
    assert f"(images/questions{name}.svg)" in PAGE
