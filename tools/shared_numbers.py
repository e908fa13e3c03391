"""Numbers that several parts of gpumon go by, as `shared_numbers.toml` beside this lists them.

    python -m tools.shared_numbers    change each in turn, and see that the tests that hold it fail

Those of one row mean the same and are equal; a row names tests that turn red when it is changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
LISTED: Final = ROOT / "tools" / "shared_numbers.toml"
RED: Final = 1
"""pytest's exit code where tests failed."""


class Shared(NamedTuple):
    """One number."""

    what: str
    constants: tuple[str, ...]
    """`module:NAME` below gpumon of each place that defines it."""
    changed: float
    """Another value, which would be wrong."""
    tests: tuple[str, ...]
    """Files or tests below `tests`."""

    def values(self) -> list[float]:
        """What the code says in each place."""
        places = (constant.partition(":") for constant in self.constants)
        return [getattr(import_module(f"gpumon.{module}"), name) for module, _, name in places]

    def is_held(self, constant: str) -> bool:
        """Whether its tests fail once one of its places says something else."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider",
             "-p", "tools.changed_number", *(f"tests/{test}" for test in self.tests)],
            cwd=ROOT, env={**os.environ, "CHANGED_NUMBER": f"{constant}={self.changed}"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        return done.returncode == RED


def listed() -> list[Shared]:
    """The list, in its order."""
    rows = tomllib.loads(LISTED.read_text(encoding="utf-8"))["numbers"]
    return [
        Shared(row["what"], tuple(row["constants"]), row["changed"], tuple(row["tests"]))
        for row in rows
    ]


def main() -> int:
    """Exit code of the tool."""
    loose = 0
    for number in listed():
        for constant in number.constants:
            is_held = number.is_held(constant)
            loose += not is_held
            print(f"{'held ' if is_held else 'LOOSE'}  {constant}: {number.what}", flush=True)
    return 1 if loose else 0


if __name__ == "__main__":
    sys.exit(main())
