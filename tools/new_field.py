"""Adds a number that the driver tells of a GPU: its lines in four files, and what is left to do.

    python -m tools.new_field power_limit_set_w --call nvmlDeviceGetPowerManagementLimit \
        --unit W --highest 5000 --factor 0.001 --title PSET --section "Power and clocks" \
        --name "limit that was set" --doc "Power limit that somebody set." --made-of power_limit_mw

CONTRIBUTING.md says what each word means. A file in which the place is not found is named, and
nothing is written at all.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.probe import tiers
from gpumon.report.pages.gpu_layout import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent

GENERATED: Final = ("python -m tools.schema", "python -m tools.pages")
"""What writes the schema and the tables of the pages anew."""


class PlaceError(Exception):
    """A file does not look as it did when this tool was written; the message names it."""


class Change(NamedTuple):
    """Lines for one file."""

    path: str
    opening: str
    """The statement's first line, within which they stand last."""
    lines: str
    before: str = ""
    """Where they stand instead: before this line of the statement."""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """What is said of the field."""
    made = argparse.ArgumentParser(prog="python -m tools.new_field", description=__doc__)
    made.add_argument("key", help="name in JSON and history; ends in the unit")
    made.add_argument("--call", required=True, help="function of NVML that takes the device alone")
    made.add_argument("--unit", default="", help="ratio, W, C, MHz, bytes or s; none for a count")
    made.add_argument("--highest", type=float, default=1.0, help="what is more is garbage")
    made.add_argument("--factor", type=float, default=1.0, help="the driver's unit in this one")
    made.add_argument("--tier", choices=tiers.ALL, default=tiers.MEDIUM, help="how often")
    made.add_argument("--title", required=True, help="title of the column, upper case")
    made.add_argument("--section", choices=tuple(SECTIONS), required=True, help="of a GPU's page")
    made.add_argument("--name", required=True, help="its name on that page")
    made.add_argument("--doc", required=True, help="what it says, one or two sentences")
    made.add_argument("--dcgm", default="", help="DCGM's field of the same meaning")
    made.add_argument("--made-of", required=True, help="key of the stand-in driver's state")
    return made.parse_args(words)


def changes(options: argparse.Namespace) -> tuple[Change, ...]:
    """The lines that make the field, file by file."""
    section = next(name for name, keys in _sections().items() if keys == SECTIONS[options.section])
    field = (
        f"    Field(\n        {_q(options.key)},\n        \"gpu\",\n        Kind.GAUGE,\n"
        f"        {_q(options.unit)},\n        low=0,\n        high={options.highest:g},\n"
        f"        title={_q(options.title)},\n        doc={_q(options.doc)},\n"
        f"        origin={_q(options.call)},\n        dcgm={_q(options.dcgm)},\n"
        "        is_kept=False,\n    ),\n"
    )  # fmt: skip
    reading = f"        ({_q(options.key)}, {_q(options.call)}, (), {options.factor:g}),\n"
    expected = f"    {_q(options.key)}: _times({_q(options.made_of)}, {options.factor:g}),\n"
    return (
        Change("gpumon/model/catalogue/gpu.py", "GPU_FIELDS: Final = (", field,
               "    *GPU_ENGINE_FIELDS,"),
        Change("gpumon/probe/tiers.py", f"    {options.tier.upper()}: (", reading),
        Change("gpumon/report/pages/gpu_layout.py", f"{section}: Final = {{",
               f"    {_q(options.key)}: {_q(options.name)},\n"),
        Change("tests/contract/expected_gpu.py", "GPU: Final[Mapping[str, Reckon]] = {", expected),
    )  # fmt: skip


def _sections() -> dict[str, dict[str, str]]:
    """The sections of a GPU's page by the names that the module gives them."""
    from gpumon.report.pages import gpu_layout

    return {name: value for name, value in vars(gpu_layout).items() if isinstance(value, dict)}


def _q(text: str) -> str:
    """A string of the source, in double quotes as the formatter writes it."""
    return json.dumps(text, ensure_ascii=False)


def changed(text: str, change: Change) -> str:
    """The text of a file with the lines in their place.

    Raises:
        PlaceError: the statement is not in it, or not once.
    """
    opening = re.escape(change.opening)
    indent = change.opening[: len(change.opening) - len(change.opening.lstrip())]
    end = re.escape(change.before) if change.before else rf"{indent}[)}}],?"
    found = list(re.finditer(rf"^{opening}\n(?:.*\n)*?(?={end}$)", text, re.MULTILINE))
    if len(found) != 1:
        raise PlaceError(
            f"{change.path}: {change.opening.strip()!r} stands there {len(found)} times"
        )
    at = found[0].end()
    return text[:at] + change.lines + text[at:]


def add(options: argparse.Namespace, root: Path, report: Callable[[str], object]) -> None:
    """Write the field's lines below a folder, and tell what is left.

    Raises:
        PlaceError: one of the files is not as expected; none is written.
    """
    if options.key in CATALOGUE:
        raise PlaceError(f"the catalogue has {options.key} already")
    made = changes(options)
    texts = {one.path: changed((root / one.path).read_text(encoding="utf-8"), one) for one in made}
    for path, text in texts.items():
        (root / path).write_text(text, encoding="utf-8")
        report(f"written: {path}")
    report("left to do, in this order:")
    report(f"  ruff format {' '.join(texts)}")
    for command in GENERATED:
        report(f"  {command}")
    report("  GPUMON_SNAPSHOTS=write python -m pytest tests/tui/test_snapshots.py -k gpu")
    report("  python -m pytest tests/contract/test_catalogue_gpu.py")
    report("  tests/contract/products.py, where some board lacks it; CHANGELOG.md, one line")


def main(words: Sequence[str]) -> int:
    """0; 1 where nothing was written, as is said."""
    try:
        add(arguments(words), ROOT, print)
    except PlaceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
