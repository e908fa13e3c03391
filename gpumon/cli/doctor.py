"""`gpumon doctor`: what works here, what does not, and the way out, one line each."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

from gpumon.cli import checks
from gpumon.cli.exits import DONE, NOTHING_READ, USAGE, narrate
from gpumon.cli.options import Parser
from gpumon.sources.target import TargetError, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.cli.checks import Check
    from gpumon.sources.target import Target

_SIGNS: Final = {checks.OK: "ok    ", checks.ABSENT: "absent", checks.FAULT: "FAULT "}


def doctor(words: list[str]) -> int:
    """0 where nothing is at fault, 1 otherwise."""
    made = Parser(prog="gpumon doctor", description="Check what gpumon needs, with the way out.")
    made.add_argument("targets", nargs="*", metavar="TARGET", help="also check these targets")
    made.add_argument("--json", action="store_true", help="one JSON document")
    options = made.parse_args(words)
    try:
        targets = [parse(text) for text in options.targets]
    except TargetError as error:
        narrate(str(error))
        return USAGE
    found: list[Check] = []
    for check in _every(targets):
        found.append(check)
        if not options.json:
            sys.stdout.write(_line(check))
            sys.stdout.flush()
    if options.json:
        document = {"schema": "gpumon-doctor/1", "checks": [check._asdict() for check in found]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    is_faulty = any(check.state == checks.FAULT for check in found)
    return NOTHING_READ if is_faulty else DONE


def _every(targets: list[Target]) -> Iterator[Check]:
    yield checks.binding()
    yield from checks.driver()
    yield from checks.slurm()
    yield checks.ssh()
    for asked in targets:
        yield from checks.target(asked)


def _line(check: Check) -> str:
    way_out = f" -> {check.way_out}" if check.way_out else ""
    return f"{_SIGNS[check.state]}  {check.what:<10}  {check.says}{way_out}\n"
