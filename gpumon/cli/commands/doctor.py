"""`gpumon doctor`: what works here, what does not, and the way out, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.cli.examined import check, checks, permissions
from gpumon.cli.examined.forecast import forecasts
from gpumon.cli.exits import DONE, NOTHING_READ
from gpumon.cli.options import Parser
from gpumon.cli.output import write, write_json
from gpumon.sources.address import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.cli.examined.check import Check
    from gpumon.cli.examined.forecast import Forecast
    from gpumon.report.document import command_forms
    from gpumon.sources.address import Target

_SIGNS: Final = {
    check.OK: "ok    ",
    check.ABSENT: "absent",
    check.LESS: "less  ",
    check.FAULT: "FAULT ",
}


def parser() -> Parser:
    """What the command understands."""
    made = Parser(prog="gpumon doctor", description="Check what gpumon needs, and how to get it.")
    made.add_argument("targets", nargs="*", metavar="TARGET", help="also check these targets")
    made.add_argument("--json", action="store_true", help="one JSON document")
    return made


def doctor(words: list[str]) -> int:
    """0 where nothing is at fault, 1 otherwise."""
    options = parser().parse_args(words)
    targets = [parse(text) for text in options.targets]
    found: list[Check] = []
    numbers_found: list[Forecast] = []
    for one in _every(targets, numbers_found.append):
        found.append(one)
        if not options.json:
            write(_line(one))
    if options.json:
        write_json(_document(found, numbers_found), is_pretty=True)
    is_faulty = any(one.state == check.FAULT for one in found)
    return NOTHING_READ if is_faulty else DONE


def _every(targets: list[Target], report: Callable[[Forecast], None]) -> Iterator[Check]:
    """What the targets will take comes first, while nothing of them runs."""
    for line, numbers in forecasts(targets, checks.sample_of):
        if numbers is not None:
            report(numbers)
        yield line
    yield checks.binding()
    yield from checks.driver()
    yield from permissions.every()
    yield from checks.slurm()
    yield checks.ssh()
    yield from checks.configuration()
    for asked in targets:
        yield from checks.target(asked)


def _document(found: list[Check], numbers_found: list[Forecast]) -> command_forms.Doctor:
    return {
        "schema": "gpumon-doctor/1",
        "checks": [
            {"what": one.what, "state": one.state, "says": one.says, "way_out": one.way_out}
            for one in found
        ],
        "forecasts": [
            {
                "target": one.target,
                "whose": one.whose,
                "nodes": one.nodes,
                "connections": one.connections,
                "nodes_at_once": one.nodes_at_once,
                "slurm_calls_per_minute": one.slurm_calls_per_minute,
                "client_bytes": one.client_bytes,
                "own_bytes": one.own_bytes,
                "history_bytes": one.history_bytes,
                "login_cpu_s": one.login_cpu_s,
            }
            for one in numbers_found
        ],
    }


def _line(one: Check) -> str:
    way_out = f" -> {one.way_out}" if one.way_out else ""
    return f"{_SIGNS[one.state]}  {one.what:<11}  {one.says}{way_out}\n"
