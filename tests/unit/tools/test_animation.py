"""Pictures of a terminal become one that plays: each scene, and what stands without motion."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tools.animation import Scene, animated, still

SCENES = [
    Scene("one same\nfirst <a>\n", 2.0),
    Scene("one same\nsecond\n", 1.0),
    Scene("one same\nfirst <a>\n", 3.0),
]
KEYS = ("j", "Enter")
SVG = "{http://www.w3.org/2000/svg}"


def words_of(element):
    return [text.text for text in element.iter(f"{SVG}text")]


def shown_at(document, percent):
    """The words in sight at a share of the loop, by the rules of the picture's own style."""
    root = ElementTree.fromstring(document)
    style = next(root.iter(f"{SVG}style")).text
    steps = {
        name: [(float(at), word) for at, word in re.findall(r"([\d.]+)%\{visibility:(\w+)\}", body)]
        for name, body in re.findall(r"@keyframes (\w+)\{((?:[^{}]*\{[^{}]*\})*)\}", style)
    }
    found = []
    for child in root:
        names = child.get("class", "").split()
        if names[:1] == ["v"]:
            before = [word for at, word in steps[names[1]] if at <= percent]
            if before[-1] == "hidden":
                continue
        found += words_of(child)
    return found


@pytest.mark.parametrize(
    ("number", "percent"), [(0, 0.0), (0, 33.0), (1, 34.0), (1, 49.0), (2, 60)]
)
def test_at_each_moment_the_scene_of_it_is_shown(number, percent):
    shown = shown_at(animated(SCENES, 20, "Why?", KEYS), percent)
    alone = words_of(ElementTree.fromstring(still(SCENES, number, 20, "Why?", KEYS)))
    assert sorted(shown) == sorted(alone)
    assert ("second" in shown) == (number == 1)
    assert {"one", "same", "Why?", *KEYS} <= set(shown)


def test_a_line_that_stays_is_drawn_once():
    assert animated(SCENES, 20, "Why?", KEYS).count(">same<") == 1


def test_without_motion_the_last_scene_stands():
    root = ElementTree.fromstring(animated(SCENES, 20, "Why?", KEYS))
    shown = [
        word
        for child in root
        if "h" not in child.get("class", "").split()
        for word in words_of(child)
    ]
    assert sorted(shown) == sorted(
        words_of(ElementTree.fromstring(still(SCENES, 2, 20, "Why?", KEYS)))
    )


def test_the_key_that_was_pressed_last_stands_out():
    for number, key in enumerate(KEYS, 1):
        root = ElementTree.fromstring(still(SCENES, number, 20, "Why?", KEYS))
        full = [box for box in root.iter(f"{SVG}rect") if box.get("fill") == "#f2c14e"]
        assert len(full) == 1
        assert any(word == key for word in words_of(root))
