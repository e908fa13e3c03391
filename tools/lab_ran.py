"""Fails when a lab test was skipped, or a version of Slurm has none: `tools.lab_ran JUNIT_XML`.

What needs a Slurm of a suite that changes any day may be skipped where it could not be had.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.lab.release import RELEASES


def is_moving(name: str) -> bool:
    """Whether a test, by its name with its parameters, needs a suite that changes any day."""
    return any(one.is_moving and f"[{one.version}" in name for one in RELEASES.values())


def complaints(results: str) -> list[str]:
    """What is wrong with the lab's part of a pytest run, one line each, by its JUnit XML."""
    cases = ElementTree.fromstring(results).iter("testcase")
    lab = [case for case in cases if case.get("classname", "").startswith("tests.lab.")]
    if not lab:
        return ["no test of the lab was run"]
    found = []
    for case in lab:
        skipped = case.find("skipped")
        if skipped is not None and not is_moving(case.get("name", "")):
            name = f"{case.get('classname')}::{case.get('name')}"
            found.append(f"skipped: {name}: {skipped.get('message')}")
    names = [case.get("name", "") for case in lab]
    found += [
        f"no test of the lab was run on Slurm {version}"
        for version, release in RELEASES.items()
        if not release.is_moving and not any(f"[{version}" in name for name in names)
    ]
    return found


def main() -> int:
    """Exit code of the tool."""
    found = complaints(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for line in found:
        print(line, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
