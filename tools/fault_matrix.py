"""The matrix of faults: what goes wrong, what survives, what is said, what is lost.

    python -m tools.fault_matrix run          make every fault, and keep what was said
    python -m tools.fault_matrix keep XML     keep what was said in a run of all tests
    python -m tools.fault_matrix check XML    the faults of such a run that are not green

A fault is green where all its tests passed and one of them was told its words. `run` needs the lab;
the others read the JUnit XML of a run. The page is made of what is kept, as all pages are.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.etree import ElementTree

from tools.fault_rows import FAULTS
from tools.lab_ran import is_moving

if TYPE_CHECKING:
    from tools.fault_rows import Fault

ROOT: Final = Path(__file__).resolve().parent.parent
STORED: Final = ROOT / "tools" / "faults.json"
"""What was said when the faults were last made, by the test."""

HEAD: Final = ("fault", "survives", "message", "lost", "made by")
_MOST_SHOWN: Final = 240


class Made(NamedTuple):
    """A test that made a fault, over all its parameters."""

    passed: int
    other: int
    """How often it failed or was skipped."""
    shown: tuple[str, ...]


def made(results: str) -> dict[str, Made]:
    """By the name of each test, without its parameters, how it ended and what was said."""
    found: dict[str, Made] = {}
    for case in ElementTree.fromstring(results).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name', '').partition('[')[0]}"
        if case.find("skipped") is not None and is_moving(case.get("name", "")):
            # Of a Slurm that changes any day, and could not be had today.
            continue
        is_whole = not any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
        shown = tuple(
            one.get("value", "") for one in case.iter("property") if one.get("name") == "said"
        )
        before = found.get(name, Made(0, 0, ()))
        found[name] = Made(
            before.passed + is_whole, before.other + (not is_whole), (*before.shown, *shown)
        )
    return found


def shown_of(fault: Fault, results: dict[str, Made]) -> str | None:
    """The words that its tests were told; None where one of them failed, or nothing fits."""
    own = [results.get(_in_xml(name), Made(0, 1, ())) for name in fault.tests]
    if any(not one.passed or one.other for one in own):
        return None
    fits = (line for one in own for line in one.shown if re.search(fault.words_shown, line))
    return next(fits, None)


def complaints(results: dict[str, Made]) -> list[str]:
    """The faults that are not green, a line each."""
    return [
        f"not green: {fault.what}: {', '.join(fault.tests)}"
        for faults in FAULTS.values()
        for fault in faults
        if shown_of(fault, results) is None
    ]


def _in_xml(name: str) -> str:
    """A test as JUnit's XML calls it."""
    file, _, test = name.partition("::")
    return f"{file.removesuffix('.py').replace('/', '.')}::{test.replace('::', '.')}"


def page() -> str:
    """The tables of the page, by heading, with what was said when the faults were last made."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    parts = [f"Last made on {stored['date']}: {stored['green']} of {stored['faults']} are green."]
    for heading, faults in FAULTS.items():
        rows = [(one.what, one.survives, _shown(stored["said"].get(one.what)), one.lost,
                 ", ".join(f"`{name}`" for name in one.tests)) for one in faults]  # fmt: skip
        lines = [HEAD, ("---",) * len(HEAD), *rows]
        table = "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in lines)
        parts.append(f"## {heading}\n\n{table}")
    return "\n\n".join(parts)


def _shown(shown: str | None) -> str:
    if shown is None:
        return "**not green**"
    return f"“{shown[:_MOST_SHOWN]}{'…' if len(shown) > _MOST_SHOWN else ''}”"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def main() -> int:
    """Exit code of the tool."""
    match sys.argv[1:]:
        case ["check", path]:
            found = complaints(made(Path(path).read_text(encoding="utf-8")))
            for line in found:
                print(line, file=sys.stderr)
            return int(bool(found))
        case ["keep", path]:
            return _store(made(Path(path).read_text(encoding="utf-8")))
        case ["run"]:
            return _store(_run())
    print(__doc__)
    return 2


def _run() -> dict[str, Made]:
    """How the tests of all faults end."""
    tests = sorted({name for faults in FAULTS.values() for one in faults for name in one.tests})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.xml")
        words = ["-q", "-p", "no:cacheprovider", f"--junit-xml={path}", *tests]
        subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, check=False)
        return made(path.read_text(encoding="utf-8"))


def _store(results: dict[str, Made]) -> int:
    """Keep what was said, for the page; 1: some faults are not green."""
    every = [fault for faults in FAULTS.values() for fault in faults]
    shown = {fault.what: shown_of(fault, results) for fault in every}
    green = sum(words is not None for words in shown.values())
    stored = {
        "date": time.strftime("%Y-%m-%d"),
        "faults": len(every),
        "green": green,
        "said": shown,
    }
    STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for line in complaints(results):
        print(line, file=sys.stderr)
    return int(green < len(every))


if __name__ == "__main__":
    sys.exit(main())
