"""`gpumon report`: where GPU time went, from the books on disk."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from gpumon.cli.configuration import load
from gpumon.cli.configured_ledger import folder_of, prices_of
from gpumon.cli.exits import DONE, NOTHING_READ, USAGE, narrate
from gpumon.cli.options import Parser
from gpumon.cli.output import write, write_json
from gpumon.cli.since import Since, since
from gpumon.report.text import units

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.fleet.ledger.journal_reader import Entry
    from gpumon.model.records.ledger import Added, Prices
    from gpumon.report.document import command_forms

SCHEMA: Final[Literal["gpumon-report/2"]] = "gpumon-report/2"
"""Name and major version of the form of `gpumon report --json`."""

NAMES: Final[Mapping[str, Callable[[Entry], str]]] = {
    "user": lambda entry: entry.user,
    "account": lambda entry: entry.account,
    "partition": lambda entry: entry.partition,
    "gpu": lambda entry: entry.gpu,
    "node": lambda entry: entry.node,
    "job": lambda entry: entry.job_id,
    "class": lambda _entry: "",
}
"""What totals can be made by, and where an entry says it."""


def parser() -> Parser:
    """What the command understands."""
    made = Parser(
        prog="gpumon report",
        description="Where GPU time went: useful, wasted by class, suspected, unexplained, "
        "unobserved. Reads the ledger that gpumon writes if ledger.is_kept is set. With --since, "
        "the span of the same length before is shown beside it.",
    )
    made.add_argument(
        "--since", type=since, metavar="WHEN", help="24h, 7days, 2026-11-20 (default: everything)"
    )
    made.add_argument("--by", choices=tuple(NAMES), default="user", help="default: user")
    made.add_argument("--json", action="store_true", help="one JSON document")
    made.add_argument("--directory", metavar="DIR", help="folder of the ledger")
    return made


def report(words: list[str]) -> int:
    """Exit code of the command."""
    options = parser().parse_args(words)
    settings = load()
    from gpumon.fleet.ledger.journal_reader import Pages
    from gpumon.fleet.ledger.stored import compared
    from gpumon.fleet.ledger.totals import add_up

    try:
        folder = Path(options.directory) if options.directory else folder_of(settings)
    except OSError as error:
        narrate(f"ledger.directory: {error.filename}: {error.strerror}")
        return USAGE
    pages = Pages(folder)
    if not pages.files():
        narrate(_no_ledger(folder))
        return NOTHING_READ
    for link in pages.links():
        narrate(f"{link} is a symbolic link, and no ledger is written through one: move it away")
    now = time.time()
    began = options.since.seen_from(now) if isinstance(options.since, Since) else None
    prices = prices_of(settings)
    try:
        name_of, before = NAMES[options.by], None
        if began is None or began >= now:
            added = add_up(pages.entries(began), name_of, prices)
        else:
            spans = compared(pages, began, now - began, name_of, prices)
            added, before = spans.newest, spans.before
    except OSError as error:
        narrate(f"{error.filename or folder}: {error.strerror}")
        return NOTHING_READ
    if options.json:
        write_json(_document(added, before, options.by, began, pages.skipped, prices))
    else:
        write(_text(added, before, options.by, prices))
        if pages.skipped:
            lines = units.counted(pages.skipped, "line")
            narrate(f"{lines} of {folder} skipped: not an entry of the ledger")
    return DONE


def _no_ledger(folder: Path) -> str:
    """Why there are no ledger in a folder: nobody keeps them, or it cannot be read."""
    try:
        next(folder.iterdir(), None)
    except FileNotFoundError:
        pass
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return f"no ledger in {folder}; gpumon writes one if ledger.is_kept is set"


def _document(
    added: Added,
    before: Added | None,
    by: str,
    began: float | None,
    skipped: int,
    prices: Prices,
) -> command_forms.Report:
    from gpumon.report.document.ledger import line, lines
    from gpumon.report.facts.entities import moment

    def span_of(one: Added) -> command_forms.ReportSpan:
        return {"total": line(one.whole), "lines": [] if by == "class" else lines(one.by_name)}

    return {
        "schema": SCHEMA,
        "since": None if began is None else moment(began),
        "until": None if added.end is None else moment(added.end),
        "currency": prices.currency or None,
        "skipped_lines": skipped,
        "by": by,
        **span_of(added),
        "before": None if before is None else span_of(before),
    }


def _text(added: Added, before: Added | None, by: str, prices: Prices) -> str:
    from gpumon.report.pages.ledger_table import class_table, ledger_table

    if by == "class":
        table = class_table(added.whole, prices.currency, before.whole if before else None)
    else:
        table = ledger_table(added.by_name, added.whole, by, prices.currency, before)
    seen = added.whole.observed_since
    observed = "nothing was observed" if seen is None else f"observed since {_local(seen)}"
    began_at = added.whole.began_at
    first = "" if began_at is None else f"GPU time from {_local(began_at)}, "
    return f"{table}\n{first}{observed}\n"


def _local(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
