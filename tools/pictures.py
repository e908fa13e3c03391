"""Every picture of the documentation, taken anew: screens, moving ones, places of `gpumon local`.

    python -m tools.pictures    what each drawing tool draws by itself; exit 1 if one of them fails

Each tool is a program of its own; as an ordinary user the places, which need root, are passed over.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
TOOLS: Final = (
    ("tools.screenshots",),
    ("tools.screencast",),
    ("tests.bench.likeness", "--picture", "docs/images/kinds.svg"),
    ("tools.local_places",),
)
"""Modules that draw, with their words."""

OF_ROOT: Final = frozenset({"tools.local_places"})
"""They make namespaces and other users."""


def retaken(run: Callable[[Sequence[str]], int], *, is_root: bool) -> int:
    """Exit code of all tools, each of which is tried whatever became of the one before.

    Args:
        run: Runs a command and gives its exit code.
        is_root: Whether those that need root can run.
    """
    failed = []
    for tool, *words in TOOLS:
        if tool in OF_ROOT and not is_root:
            print(f"{tool}: passed over, it needs root", flush=True)
        elif run([sys.executable, "-m", tool, *words]):
            failed.append(tool)
    for tool in failed:
        print(f"{tool}: failed", file=sys.stderr)
    return 1 if failed else 0


def main() -> int:
    """Exit code of the command."""
    return retaken(
        lambda command: subprocess.run(command, cwd=ROOT, check=False).returncode,
        is_root=os.geteuid() == 0,
    )


if __name__ == "__main__":
    sys.exit(main())
