"""Every bound on what comes from outside, as `bounds.toml` beside this lists them.

Whoever adds a bound to the code adds its row, and a test that meets it; the numbers are the code's.
"""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent

GROUPS: Final = (
    "a node",
    "Slurm",
    "exporters",
    "Prometheus",
    "recordings and files",
    "the terminal",
    "clients of the server",
    "plugins",
)
"""The parts of the page, in order."""

HEAD: Final = ("what", "at most", "when it is met")

FLOORS: Final = (
    *("base", "probe", "model", "sources", "fleet", "detect", "cli", "report/filter"),
    *("report/openmetrics", "serve"),
)
"""Below gpumon, where something comes in. What is only drawn has no bound that anybody meets."""

_SOUNDS_LIKE: Final = re.compile(r"(?:^|_)(?:MAX|MOST|LONGEST|LARGEST|LIMIT|TIMEOUT|BUDGET)(?:_|$)")

_SIZES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_SPANS: Final = ((86400, "days"), (3600, "h"), (60, "min"))


class Bound(NamedTuple):
    """A limit on what comes from outside, and what becomes of more."""

    group: str
    what: str
    """The thing that is counted or measured, as the page names it."""
    constant: str
    """`module:NAME` below gpumon, where it is enforced."""
    said: str
    """What becomes of it, and what is said, when it is met."""
    test: str
    """File and name below `tests` of a test that meets it."""
    unit: str = ""
    """`bytes` or `s`, where the constant's name does not end in it."""

    @property
    def shown(self) -> str:
        """Its value as people read it."""
        module, _, name = self.constant.partition(":")
        value = getattr(import_module(f"gpumon.{module}"), name)
        unit = self.unit or name.rpartition("_")[2].lower()
        if isinstance(value, dict):
            return ", ".join(f"{key} {quantity(one, unit)}" for key, one in value.items())
        if isinstance(value, tuple):
            return " to ".join(quantity(one, unit) for one in value)
        return quantity(value, unit)


def quantity(value: float, unit: str) -> str:
    """A number with its unit, of `bytes` and `s` the largest that leaves it whole."""
    steps = {"bytes": _SIZES, "s": _SPANS}.get(unit, ())
    for size, word in steps:
        # One day is 24 hours, as one is used to it.
        if value >= (size if unit == "bytes" else 2 * size) and value % size == 0:
            return f"{value / size:,.0f} {word}"
    number = f"{value:,.0f}" if value == int(value) else f"{value:g}"
    return f"{number} {unit}" if steps else number


def _listed() -> tuple[tuple[Bound, ...], dict[str, str]]:
    path = Path(__file__).with_suffix(".toml")
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(Bound(**row) for row in found["bounds"]), found["others"]


BOUNDS, OTHERS = _listed()
"""The bounds, and constants that sound like one, with the reason why they have no row."""


def constants() -> Iterator[str]:
    """Every constant of a module whose name sounds like a bound, as `Bound.constant` writes it."""
    for floor in FLOORS:
        for path in sorted((ROOT / "gpumon" / floor).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT / "gpumon").with_suffix("").parts)
            for line in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(line, ast.Assign | ast.AnnAssign):
                    targets = line.targets if isinstance(line, ast.Assign) else [line.target]
                    for one in targets:
                        if isinstance(one, ast.Name) and _SOUNDS_LIKE.search(one.id):
                            yield f"{module}:{one.id}"


def rows(group: str) -> list[tuple[str, ...]]:
    """Rows of one part of the page."""
    return [(one.what, one.shown, one.said) for one in BOUNDS if one.group == group]
