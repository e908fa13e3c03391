"""Moving pictures of the five tasks: runs the program in tmux, presses keys, draws one SVG each.

    python -m tools.screencast                        those of the docs, demo and lab
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
from typing import Final

from tools.animation import Scene, animated, still
from tools.screenshots import IMAGES, png, running
from tools.tasks import DEMO, LAB, TASKS, Task

SIZE: Final = "120x40"
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


def scenes_of(command: str, keys: tuple[str, ...], size: tuple[int, int]) -> list[Scene]:
    """The picture before any key and the one after each."""
    with running(command, size) as pane:
        pane.wait_until_ready()
        time.sleep(CALM_S)
        scenes = [Scene(pane.picture(), FIRST_S)]
        for number, key in enumerate(keys, 1):
            pane.press(key)
            is_last, is_typed = number == len(keys), key.isdigit() and "T" in keys[:number]
            time.sleep(TYPED_S if is_typed else SETTLE_S)
            shown_s = LAST_S if is_last else TYPED_S if is_typed else KEY_S
            scenes.append(Scene(pane.picture(), shown_s))
    return scenes


def draw(task: Task, command: str, target: Path, options: argparse.Namespace) -> None:
    """Draw one task to a file."""
    width, height = (int(number) for number in options.size.split("x"))
    keys = task.keys_of(command)
    scenes = scenes_of(command, keys, (width, height))
    text = animated(scenes, width, task.question, keys)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"{target}: {len(text.encode()) / 1024:.0f} KB, {len(keys)} keys")
    if options.frames:
        options.frames.mkdir(parents=True, exist_ok=True)
        for number in range(len(scenes)):
            one = options.frames / f"{target.stem}-{number}.svg"
            one.write_text(still(scenes, number, width, task.question, keys), encoding="utf-8")
            png(one, options.frames)


def main() -> int:
    """Draw the tasks of the docs, or some of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="tasks, separated by commas")
    parser.add_argument("--of", choices=("demo", "lab", "both"), default="both")
    parser.add_argument("--size", default=SIZE)
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder")
    parser.add_argument("--frames", type=Path, help="folder for a PNG of each scene")
    options = parser.parse_args()
    if shutil.which("tmux") is None:
        print("tmux is not installed", file=sys.stderr)
        return 1
    only = {name for name in options.only.split(",") if name}
    if unknown := only - {task.name for task in TASKS}:
        known = ", ".join(task.name for task in TASKS)
        print(f"no such task: {', '.join(sorted(unknown))}; there are {known}", file=sys.stderr)
        return 2
    for task in TASKS:
        if only and task.name not in only:
            continue
        if options.of != "lab":
            draw(task, DEMO, options.out / f"task-{task.name}.svg", options)
        if options.of != "demo":
            draw(task, LAB, options.out / f"task-{task.name}-lab.svg", options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
