"""Pictures of a terminal become one that plays: each scene, and what stands without motion."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tools.animation import Part, Scene, animated, still

SCENES = [
    Scene("one same\nfirst <a>\n", 2.0),
    Scene("one same\nsecond\n", 1.0),
    Scene("one same\nfirst <a>\n", 3.0),
]
KEYS = ("j", "Enter")
PARTS = [Part("Why?", KEYS, SCENES)]
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
    shown = shown_at(animated(PARTS, 20), percent)
    alone = words_of(ElementTree.fromstring(still(PARTS, number, 20)))
    assert sorted(shown) == sorted(alone)
    assert ("second" in shown) == (number == 1)
    assert {"one", "same", "Why?", *KEYS} <= set(shown)


def test_a_line_that_stays_or_comes_back_is_drawn_once():
    drawn = animated(PARTS, 20)
    assert drawn.count(">same<") == 1
    assert drawn.count(">first<") == 1


SEVERAL = [*PARTS, Part("Who?", ("x",), [SCENES[0], Scene("one same\nthird\n", 2.0)])]


@pytest.mark.parametrize("number", range(5))
def test_several_questions_play_one_after_the_other(number):
    """Each with its own keys, at its own time; the loop takes ten seconds."""
    begins = [0.0, 20.0, 30.0, 60.0, 80.0]
    seconds = sum(scene.seconds for part in SEVERAL for scene in part.scenes)
    assert seconds == 10.0
    shown = shown_at(animated(SEVERAL, 20), begins[number] + 1.0)
    assert sorted(shown) == sorted(words_of(ElementTree.fromstring(still(SEVERAL, number, 20))))
    assert ("Who?" in shown) == (number > 2) == ("Why?" not in shown)
    assert ("third" in shown) == (number == 4)
    assert ("first" in shown) == (number in (0, 2, 3))


def test_without_motion_the_last_scene_stands():
    root = ElementTree.fromstring(animated(PARTS, 20))
    shown = [
        word
        for child in root
        if "h" not in child.get("class", "").split()
        for word in words_of(child)
    ]
    assert sorted(shown) == sorted(words_of(ElementTree.fromstring(still(PARTS, 2, 20))))


def test_the_key_that_was_pressed_last_stands_out():
    for number, key in enumerate(KEYS, 1):
        root = ElementTree.fromstring(still(PARTS, number, 20))
        full = [box for box in root.iter(f"{SVG}rect") if box.get("fill") == "#f2c14e"]
        assert len(full) == 1
        assert any(word == key for word in words_of(root))
