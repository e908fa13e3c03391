"""Moving pictures of tasks: runs the program in tmux, presses keys, draws an SVG of each.

    python -m tools.screencast                        those of the docs, demo and lab
    python -m tools.screencast --only questions       the twenty questions, all in one
    python -m tools.screencast --only waste,past      these tasks
    python -m tools.screencast --frames FOLDER        each scene as a PNG as well, for looking at
    python -m tools.screencast --size 80x24 --out FOLDER

A scene is what stands after a key; the SVG plays them in a loop in any browser, without a script.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.animation import Part, Scene, animated, still
from tools.questions import DEMO as DEMO_ANSWERS
from tools.questions import LAB as LAB_ANSWERS
from tools.questions import Answer
from tools.screenshots import IMAGES, png, running
from tools.tasks import DEMO, LAB, TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZE: Final = "120x40"
QUESTIONS: Final = "questions"
QUESTIONS_SIZE: Final = "80x24"
"""Of the picture with all questions, which would be large otherwise."""
SETTLE_S: Final = 1.6
"""Wait after a key that opens something: a seek in a recording reads the hour before."""
TYPED_S: Final = 0.4
"""Wait after a character that is typed into a prompt."""
CALM_S: Final = 3.0
"""Wait once it is ready, for findings that count their looks."""
FIRST_S: Final = 2.4
"""How long the first scene stands, so that the question can be read."""
KEY_S: Final = 1.8
LAST_S: Final = 5.0
ONLY_S: Final = 4.0
"""Where the first screen answers."""


def scenes_of(command: str, keys: tuple[str, ...], size: tuple[int, int]) -> list[Scene]:
    """The picture before any key and the one after each."""
    with running(command, size) as pane:
        pane.wait_until_ready()
        time.sleep(CALM_S)
        scenes = [Scene(pane.screen(), FIRST_S if keys else ONLY_S)]
        for number, key in enumerate(keys, 1):
            pane.press(key)
            is_last, is_typed = number == len(keys), key.isdigit() and "T" in keys[:number]
            time.sleep(TYPED_S if is_typed else SETTLE_S)
            shown_s = LAST_S if is_last else TYPED_S if is_typed else KEY_S
            scenes.append(Scene(pane.screen(), shown_s))
    return scenes


def draw(parts: list[Part], width: int, target: Path, frames: Path | None) -> None:
    """Draw tasks to one file."""
    text = animated(parts, width)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"{target}: {len(text.encode()) / 1024:.0f} KB, {sum(len(p.keys) for p in parts)} keys")
    if frames:
        frames.mkdir(parents=True, exist_ok=True)
        for number in range(sum(len(part.scenes) for part in parts)):
            one = frames / f"{target.stem}-{number}.svg"
            one.write_text(still(parts, number, width), encoding="utf-8")
            png(one, frames)


def parts_of(name: str, command: str, size: tuple[int, int]) -> list[Part]:
    """A task, or all questions."""
    if name != QUESTIONS:
        (task,) = (task for task in TASKS if task.name == name)
        keys = task.keys_of(command)
        return [Part(task.question, keys, scenes_of(command, keys, size))]
    answers: Mapping[str, Answer] = DEMO_ANSWERS if command == DEMO else LAB_ANSWERS
    return [
        Part(f"{number}. {asked}", answer.keys, scenes_of(command, answer.keys, size))
        for number, (asked, answer) in enumerate(answers.items(), 1)
    ]


def main() -> int:
    """Draw the tasks of the docs, or some of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="tasks, separated by commas")
    parser.add_argument("--of", choices=("demo", "lab", "both"), default="both")
    parser.add_argument("--size", help=f"{SIZE}, of the questions {QUESTIONS_SIZE}")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder")
    parser.add_argument("--frames", type=Path, help="folder for a PNG of each scene")
    options = parser.parse_args()
    if shutil.which("tmux") is None:
        print("tmux is not installed", file=sys.stderr)
        return 1
    names = [*(task.name for task in TASKS), QUESTIONS]
    only = [name for name in options.only.split(",") if name] or names
    if unknown := set(only) - set(names):
        known = ", ".join(names)
        print(f"no such task: {', '.join(sorted(unknown))}; there are {known}", file=sys.stderr)
        return 2
    for name in only:
        size = options.size or (QUESTIONS_SIZE if name == QUESTIONS else SIZE)
        width, height = (int(number) for number in size.split("x"))
        stem = name if name == QUESTIONS else f"task-{name}"
        for world, command, suffix in (("demo", DEMO, ""), ("lab", LAB, "-lab")):
            if options.of in (world, "both"):
                parts = parts_of(name, command, (width, height))
                draw(parts, width, options.out / f"{stem}{suffix}.svg", options.frames)
    return 0


if __name__ == "__main__":
    sys.exit(main())
