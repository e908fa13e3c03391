"""Every view of the terminal as text with styles, by keys pressed on a pseudo-terminal.

A page is taken when every thread of the program sleeps and nothing is drawn any more, so that a
slow machine gives the same pages as a fast one.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.tui.actions.action import ROOTS
from tests.bench.session import Session
from tests.bench.tree import descendants

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.bench.screen import Cell

TALL, SMALL = (160, 100), (80, 24)
"""So many lines show all of nearly every page; the usual terminal shows what is cut."""

CALM_S: Final = 0.25
"""So long nothing may move before a page is taken: a timer of the screen's own is shorter."""
BETWEEN_S: Final = 0.06
"""The same between two keys."""
POLL_S: Final = 0.012
"""From one look at the threads to the next."""
MOST_S: Final = 90.0
"""What is not at rest by then never will be."""
MOST_STARTS: Final = 4
"""A machine that is too busy may keep the findings from coming in time: once more, then."""

SAME_S: Final = 16.0
"""Three looks of the detectors, after which a finding has come or gone."""

UNJUDGED: Final = "no detector has reported yet"
UNREADY: Final = ("aiting for the first", "going to ", "simulating the")
CLEAN: Final = ("<esc>", "<esc>")
"""Out of any prompt and filter."""

FRESH: Final = frozenset((":", root) for root in ROOTS)
"""Keys with which a way leaves everything behind by itself."""
FIELDS: Final = 9
"""What a cell of the fleet's map can be coloured by."""
# An escape alone is told from the begin of a longer key by time; this form of it needs none.
BYTES: Final = {"<enter>": b"\r", "<esc>": b"\x1b[27u", "<tab>": b"\t", "<btab>": b"\x1b[Z"}


Ways = dict[str, tuple[str, ...]]
"""Keys that lead to each page."""


class PageError(Exception):
    """A page cannot be taken; the message says why."""


class Names(NamedTuple):
    """What a fleet calls the things that the ways lead to."""

    ranks: str
    """A running job with ranks on several nodes."""
    jobs: tuple[str, ...]
    """Further jobs: one with a finding, one that waits, one that has ended."""
    nodes: tuple[str, ...]


class Terminal(NamedTuple):
    """One program on a terminal, and the pages to take of it."""

    name: str
    words: tuple[str, ...]
    names: Names
    size: tuple[int, int] = TALL
    has_further: bool = False
    """Whether each view's own keys and help are gone through as well."""
    has_last: bool = False
    """Whether themes and times are."""
    is_live: bool = False
    more: tuple[tuple[str, str], ...] = ()
    """Variables of the environment."""


def command(text: str) -> tuple[str, ...]:
    """Typed behind the colon."""
    return (":", text, "<enter>")


def plain_ways(names: Names) -> Ways:
    """Keys that lead from the jobs to every view, once; before the dash is the view's name."""
    ranks, node = command(f"job {names.ranks}"), command(f"node {names.nodes[0]}")
    gpu = (*ranks, "<enter>")
    return {
        **{root: command(root) for root in ROOTS},
        "job": ranks,
        "gpu": gpu,
        "node": node,
        "page-help": ("?",),
        "page-errors": ("e",),
        "page-findings": ("f", "f"),
        "columns": ("c",),
        "findings": ("f",),
        "finding": ("f", "<enter>"),
        "curves-job": (*ranks, "v"),
        "curves-node": (*node, "v"),
        "curves-gpu": (*gpu, "v"),
        "ranks": (*ranks, "<tab>"),
        "ranks-map": (*ranks, "<tab>", "<tab>"),
        "commands": (*ranks, "x"),
    }


def further_ways(names: Names) -> Ways:
    """What each view shows after its own keys, and its help."""
    plain = plain_ways(names)
    fleet, ranks, ranked = plain["fleet"], plain["job"], plain["ranks"]
    named = ("gpus", "gpu", "node", "users", "partitions", "fleet", "ranks", "finding")
    made: Ways = {}
    made |= {
        f"page-help-{name}": (*keys, "?") for name, keys in plain.items() if "page" not in name
    }
    made |= {f"commands-{name}": (*plain[name], "x") for name in named}
    made |= {f"columns-{name}": (*plain[name], "c")
             for name in (*ROOTS[1:8], "reservations", "job", "findings")}  # fmt: skip
    # The map keeps its field and grouping, so each press leads on from the one before.
    made |= {f"fleet-field-{n}": (*fleet, "c") for n in range(1, FIELDS)}
    made |= {f"fleet-by-{n}": (*fleet, "b") for n in range(1, 6)}
    made |= {"fleet-large": (*fleet, "z", "z"), "fleet-small": (*fleet, *"ZZZ"),
             "fleet-mean": (*fleet, "M")}  # fmt: skip
    made |= {f"ranks-map-{n}": (*plain["ranks-map"], *"c" * n) for n in range(1, 5)}
    made |= {"ranks-sorted": (*ranked, "s"), "ranks-lines": (*ranked, "z"),
             "ranks-long": (*ranked, "w"), "curves-rank": (*ranked, "i"),
             "curves-long": (*plain["curves-job"], "w"),
             "curves-more": (*plain["curves-node"], "G"), "gpu-end": (*plain["gpu"], "G"),
             "node-end": (*plain["node"], "G")}  # fmt: skip
    made |= {f"job-{job}": command(f"job {job}") for job in (*names.jobs, "987654")}
    made |= {f"node-{node}": command(f"node {node}") for node in names.nodes[1:]}
    made |= {f"finding-{n}": ("f", *"j" * n, "<enter>") for n in range(1, 5)}
    made |= {f"{name}-opened": (*plain[name], "<enter>") for name in
             ("gpus", "nodes", "pending", "ended", "users", "accounts", "partitions", "fleet",
              "reservations")}  # fmt: skip
    made |= {"jobs-sorted": ("s", "s"), "jobs-turned": ("S",), "jobs-wasted": ("W",)}
    made |= {f"jobs-filter-{n}": ("/", text) for n, text in enumerate(
             ("user==you & gpus>=2", "user=", "sm<50", "nosuchname"))}  # fmt: skip
    made |= {"jobs-filtered": ("/", "gpus>=2", "<enter>"), "jobs-command": (":",),
             "jobs-commanding": (":", "no"), "jobs-wrong": command("nosuchview"),
             "finding-mute": (*plain["finding"], "m"), "jobs-export": ("E",),
             "job-job": (*ranks, "j", "s")}  # fmt: skip
    return made


def last_ways(names: Names) -> Ways:
    """What changes the look or the time of everything that comes after it."""
    plain = plain_ways(names)
    made: Ways = {f"jobs-theme-{n}": ("t",) for n in range(1, 6)}
    made |= {"jobs-ascii": command("ascii"), "ranks-ascii": plain["ranks-map"],
             "curves-ascii": plain["curves-job"], "fleet-ascii": plain["fleet"],
             "gpu-ascii": plain["gpu"], "jobs-unicode": command("ascii")}  # fmt: skip
    made |= {"jobs-time": ("T",), "jobs-time-wrong": ("T", "25:99", "<enter>"),
             "jobs-before": ("T", "10", "<enter>"), "findings-before": ("f",),
             "curves-before": plain["curves-job"], "jobs-picture-back": (",",),
             "jobs-picture-on": (".",), "fleet-minute-back": (*plain["fleet"], "{"),
             "fleet-minute-on": (*plain["fleet"], "}"),
             "jobs-first": ("T", "-3h", "<enter>")}  # fmt: skip
    return made


def ways(terminal: Terminal) -> Ways:
    """All pages of a terminal, in the order in which they are taken."""
    further = further_ways(terminal.names) if terminal.has_further else {}
    last = last_ways(terminal.names) if terminal.has_last else {}
    return {**plain_ways(terminal.names), **further, **last}


def pages(terminal: Terminal, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name and text of each page.

    Raises:
        PageError: the program ended, or does not come to rest.
    """
    for _ in range(MOST_STARTS):
        with Session(terminal.words, {**env, **dict(terminal.more)}, *terminal.size) as session:
            if not (_settles(session) if terminal.is_live else _is_judged(session)):
                continue
            for name, keys in ways(terminal).items():
                _begin(session, name, is_fresh=keys[:2] in FRESH)
                _press(session, keys, name)
                rest(session, CALM_S, name)
                yield name, drawn(session.screen.cells())
            _press(session, CLEAN, "the end")
            return
    raise PageError(f"{terminal.name}: no findings come; is this machine too busy?")


def _is_judged(session: Session) -> bool:
    """Whether the first picture is there with its findings."""
    ends_at = time.monotonic() + MOST_S
    while time.monotonic() < ends_at:
        rest(session, 4 * CALM_S, "the start")
        text = "\n".join(session.screen.text())
        if text.strip() and not any(words in text for words in UNREADY):
            break
    _press(session, ("f", "f"), "the start")
    rest(session, CALM_S, "the start")
    return not any(UNJUDGED in line for line in session.screen.text())


def _settles(session: Session) -> bool:
    """Whether the findings of a clock that stands stay the same, and are then held."""
    ends_at = time.monotonic() + MOST_S
    is_judged, before, same_since = _is_judged(session), "", time.monotonic()
    while time.monotonic() < ends_at:
        session.pump(1.0)
        rest(session, CALM_S, "the start")
        text = "\n".join(session.screen.text()[:-3])
        if text != before or UNJUDGED in text:
            before, same_since = text, time.monotonic()
        elif time.monotonic() - same_since >= SAME_S:
            _press(session, ("p",), "the start")
            return True
    return is_judged


def _begin(session: Session, page: str, *, is_fresh: bool) -> None:
    """Leave everything open behind, for the jobs unless the way begins elsewhere.

    Raises:
        PageError: the jobs do not come.
    """
    for _ in range(MOST_STARTS):
        _press(session, CLEAN, page)
        if is_fresh:
            return
        _press(session, command("jobs"), page)
        # On a machine that is very busy the prompt may have missed its Enter.
        if not any(line.strip() == "jobs" for line in session.screen.text()):
            _press(session, ("g",), page)
            return
    raise PageError(f"{page}: the jobs do not come")


def _press(session: Session, keys: Sequence[str], page: str) -> None:
    for key in keys:
        session.press(BYTES.get(key, key.encode()))
        rest(session, BETWEEN_S, page)


def rest(session: Session, calm_s: float, page: str) -> None:
    """Until nothing has been drawn and no thread has had anything to do for so long.

    Raises:
        PageError: it never is so.
    """
    ends_at = time.monotonic() + MOST_S
    calm_since = time.monotonic()
    while time.monotonic() < ends_at:
        if session.has_ended:
            raise PageError(f"{page}: the program has ended")
        before = session.bytes
        session.pump(POLL_S)
        if session.bytes != before or not _sleeps(session.pid):
            calm_since = time.monotonic()
        elif time.monotonic() - calm_since >= calm_s:
            return
    raise PageError(f"{page}: it does not come to rest")


def _sleeps(pid: int) -> bool:
    """Whether no thread of the program and its children runs, or waits for a core or a disk."""
    for one in descendants(pid):
        for stat in Path(f"/proc/{one}/task").glob("*/stat"):
            try:
                state = stat.read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state in "RD":
                return False
    return True


PROMPTS: Final = 4
"""Lines at the bottom among which a prompt is."""
FOOTPRINT: Final = re.compile(r"(?: [·.] ! )?gpumon itself uses <?\d+ % of a core, \d+ MiB")
"""What gpumon itself takes, at the end of the status line and of the page of errors."""


def drawn(rows: Sequence[Sequence[Cell]]) -> str:
    """Lines of text, then the style of each stretch of a line that has one."""
    lines, styles = [], []
    for number, row in enumerate(rows):
        cells = _masked(_steady(row) if number >= len(rows) - PROMPTS else row)
        lines.append(f"{number:03} {''.join(cell.char for cell in cells)}".rstrip())
        runs: list[str] = []
        first = 0
        for at in range(1, len(cells) + 1):
            if at == len(cells) or cells[at].style != cells[first].style:
                if cells[first].style:
                    runs.append(f"{first}-{at - 1} {'+'.join(cells[first].style)}")
                first = at
        if runs:
            styles.append(f"{number:03} {', '.join(runs)}")
    return "\n".join((*lines, "-- styles", *styles)) + "\n"


def _masked(row: Sequence[Cell]) -> Sequence[Cell]:
    """The row with its ground in the place of the footprint."""
    # One character a cell, so that places in the text are cells.
    found = FOOTPRINT.search("".join(cell.char or " " for cell in row))
    if found is None:
        return row
    # The line begins with its ground; it may end with the footprint.
    return [*row[: found.start()], *([row[0]] * (len(row) - found.start()))]


def _steady(row: Sequence[Cell]) -> Sequence[Cell]:
    """The row without a prompt's cursor, which blinks: a cell on another ground than its sides."""
    steady = list(row)
    for at in range(1, len(row) - 1):
        before, here, after = map(_ground, row[at - 1 : at + 2])
        if before == after != here:
            steady[at] = row[at]._replace(style=row[at + 1].style)
    return steady


def _ground(cell: Cell) -> str:
    return next((part for part in cell.style if part.startswith("48")), "")
