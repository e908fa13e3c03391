"""Pictures of the documentation, taken anew: screens, moving ones, places of `gpumon local`.

    python -m tools.pictures                    all; exit 1 if one could not be taken
    python -m tools.pictures jobs task-waste    these, in each size and of demo and lab
    python -m tools.pictures --at-once 1        one after the other

Each is taken by a program of its own, as many at once as there are processors: most of the time is
waiting for a screen. As an ordinary user the places, which need root, are passed over.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools import local_places, screencast, screenshots, tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent

_SMALL: Final = "-80x24"
_TASKS: Final = (*(f"task-{one.name}" for one in tasks.TASKS), screencast.QUESTIONS)

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        name: ("tools.screenshots", "--only", name)
        for name in dict.fromkeys(one.name.removesuffix(_SMALL) for one in screenshots.SHOTS)
    },
    **{name: ("tools.screencast", "--only", name.removeprefix("task-")) for name in _TASKS},
    "kinds": ("tests.bench.likeness", "--picture", "docs/images/kinds.svg"),
}
"""Modules that draw, with their words, by the picture's name without its size and its world."""

PLACES: Final = {f"local-{one.name}": one.name for one in local_places.PLACES}
"""Those of `gpumon local`: one program takes them one after the other, as root."""


def commands_of(names: Iterable[str], *, is_root: bool) -> list[tuple[str, ...]]:
    """What takes these pictures, each a module with its words.

    Args:
        names: Of `COMMANDS` and `PLACES`; none: all.
        is_root: Whether places can be made.
    """
    wanted = list(names) or [*COMMANDS, *PLACES]
    found = [command for name, command in COMMANDS.items() if name in wanted]
    places = [PLACES[name] for name in PLACES if name in wanted]
    if places and is_root:
        # First: they take the longest.
        return [("tools.local_places", "--only", ",".join(places)), *found]
    if places:
        print("places of local: passed over, they need root", flush=True)
    return found


def retaken(
    commands: Sequence[Sequence[str]], run: Callable[[Sequence[str]], int], at_once: int
) -> int:
    """Exit code of all commands, each of which is tried whatever became of the others.

    Args:
        commands: Modules with their words.
        run: Runs a command and gives its exit code.
        at_once: How many run at a time.
    """
    with ThreadPoolExecutor(at_once) as pool:
        codes = list(pool.map(run, [[sys.executable, "-m", *words] for words in commands]))
    failed = [command for command, code in zip(commands, codes, strict=True) if code]
    for command in failed:
        print(f"{' '.join(command)}: failed", file=sys.stderr)
    return 1 if failed else 0


def main() -> int:
    """Exit code of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="pictures; none: all")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, metavar="COUNT")
    options = parser.parse_args()
    known = [*COMMANDS, *PLACES]
    if unknown := sorted(set(options.names) - set(known)):
        wrong = f"no such picture: {', '.join(unknown)}; there are {', '.join(known)}"
        print(wrong, file=sys.stderr)
        return 2
    return retaken(
        commands_of(options.names, is_root=os.geteuid() == 0),
        lambda command: subprocess.run(command, cwd=ROOT, check=False).returncode,
        max(options.at_once, 1),
    )


if __name__ == "__main__":
    sys.exit(main())
