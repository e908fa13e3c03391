"""`gpumon detectors`: what can be found here, and whether a plugin keeps the contract."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

from gpumon.cli.exits import DONE, NOTHING_READ, USAGE, narrate
from gpumon.cli.options import Parser
from gpumon.cli.output import write
from gpumon.detect.contract import DetectorError, declaration_of, parameters
from gpumon.detect.worker import registry
from gpumon.model.finding_classes import finding_class
from gpumon.report.text import units

if TYPE_CHECKING:
    from gpumon.detect.contract import Declaration
    from gpumon.detect.worker.registry import Entry

_PARTS: Final = {
    "list": "names of the installed detectors; imports none of them",
    "describe": "what a detector claims, and from which windows",
    "check": "run the conformance kit on a detector",
}


def parser() -> Parser:
    """What the command understands."""
    made = Parser(prog="gpumon detectors", description="List, describe or check detectors.")
    parts = made.add_subparsers(dest="part", required=True, metavar="list|describe|check")
    parsers = {
        name: parts.add_parser(name, help=does, description=f"{does[0].upper()}{does[1:]}.")
        for name, does in _PARTS.items()
    }
    parsers["describe"].add_argument(
        "name", metavar="NAME", help="name of an installed detector, or MODULE:CLASS"
    )
    parsers["check"].add_argument("target", metavar="MODULE:CLASS", help="where to import it from")
    return made


def detectors(words: list[str]) -> int:
    """Exit code of the command."""
    options = parser().parse_args(words)
    if options.part == "list":
        return _list()
    if options.part == "describe":
        return _describe(options.name)
    return _check(options.target)


def _list() -> int:
    for entry in registry.entries():
        write(f"{entry.key:<24} {entry.target}  ({entry.distribution})\n")
    return DONE


def _entry(name: str) -> Entry | None:
    found = registry.entries([name] if ":" in name else [])
    return next((entry for entry in found if name in (entry.key, entry.target)), None)


def _describe(name: str) -> int:
    entry = _entry(name)
    if entry is None:
        narrate(f"no detector is called {name!r}; see gpumon detectors list")
        return USAGE
    detector = registry.load(entry)
    declared = declaration_of(detector)
    write(
        f"{declared.name} {declared.version}  ({entry.distribution or entry.target})\n"
        f"classes        {', '.join(declared.finding_classes)}\n"
        f"category       {', '.join(_categories(declared))}\n"
        f"runs           {_runs(declared)}\n"
        f"judges         each {declared.subjects}\n"
        f"needs          {', '.join(declared.needs)}\n"
        f"samples        {_samples(declared)}\n"
        f"supported      after {units.period(declared.supported_after_s)} observed\n"
        f"established    after {units.period(declared.established_after_s)} observed\n"
        f"only guesses   {', '.join(declared.guesses) or 'none'}\n"
        f"parameters     {_parameters(detector)}\n\n"
        f"{inspect.getdoc(type(detector)) or ''}\n"
    )
    return DONE


def _runs(declared: Declaration) -> str:
    """Whether it runs without being asked to."""
    if declared.is_off_by_default:
        return "only where detectors.enabled in the configuration names it"
    return "unless detectors.disabled in the configuration names it"


def _samples(declared: Declaration) -> str:
    """How often it needs values."""
    longest_s = declared.longest_period_s
    return f"one every {units.period(longest_s)} at least" if longest_s else "however often"


def _parameters(detector: object) -> str:
    """What the configuration may set, with the defaults."""
    found = parameters(detector).items()
    return ", ".join(f"{name} = {value!r}" for name, value in found) or "none"


def _categories(declared: Declaration) -> tuple[str, ...]:
    """Categories of the classes, each once, in order."""
    own = dict(declared.categories)
    named = (finding_class(key, own).category.value for key in declared.finding_classes)
    return tuple(dict.fromkeys(named))


def _check(target: str) -> int:
    from gpumon.detect.checks import check_detector

    try:
        found = registry.load_class(target)
    except DetectorError as error:
        narrate(str(error))
        return USAGE
    results = check_detector(found)
    for result in results:
        sign = "FAULT " if result.problem else "ok    "
        write(f"{sign}  {result.name}{': ' + result.problem if result.problem else ''}\n")
    return NOTHING_READ if any(result.problem for result in results) else DONE
