"""Which programs are watched live, which keys are pressed, and what shows that a key worked.

What a look takes in is nothing that a tick changes: the cursor, names, titles.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.bench import peers
from tests.bench.fake_queue import queue_env

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.bench.screen import Screen

GPUMON: Final = str(Path(sys.executable).parent / "gpumon")
DOWN, UP, PAGE_DOWN, PAGE_UP, TAB = b"j", b"k", b"\x1b[6~", b"\x1b[5~", b"\t"
ARROW_DOWN, ARROW_UP, BACKSPACE = b"\x1bOB", b"\x1bOA", b"\x7f"
GPUS_A_NODE: Final = 8


class Stroke(NamedTuple):
    """Keys of one kind, pressed one after the other."""

    name: str
    keys: tuple[bytes, ...]
    look: Callable[[Screen], object]
    before: bytes = b""
    """Typed beforehand, unmeasured."""
    after: bytes = b""


class Case(NamedTuple):
    """One program with something to show."""

    name: str
    words: tuple[str, ...]
    marker: str
    """Shown once there are data: the power limit, a name."""
    views: tuple[tuple[str, bytes, tuple[Stroke, ...]], ...]
    """Name of a view as its title has it, in brackets what that does not tell, what is typed to get
    there, and what is pressed in it."""
    env: Mapping[str, str]


def names(screen: Screen) -> object:
    """The first cells of each line between the bars: names and the cursor."""
    return tuple(row[1:8] for row in screen.cells()[2:-3])


def jobs_of(screen: Screen) -> object:
    """The same behind what is lost an hour, which ticks change."""
    return tuple(row[9:17] for row in screen.cells()[2:-3])


def titles(screen: Screen) -> object:
    """The line of titles, which says by which column rows are in order."""
    return tuple(line for line in screen.text()[:8] if "▲" in line or "▼" in line)


def title(screen: Screen) -> object:
    """The first line."""
    return screen.text()[0]


def spot(screen: Screen) -> object:
    """What the map says that its cursor is on, whatever it says about it."""
    return screen.text()[-3].partition(" · ")[0]


def _there_and_back(there: bytes, back: bytes, times: int) -> tuple[bytes, ...]:
    return (there, back) * times


def table_strokes(look: Callable[[Screen], object]) -> tuple[Stroke, ...]:
    """What is pressed in a table of gpumon, and what of a line is no value."""
    typed = (b"7", b"3", BACKSPACE, BACKSPACE)
    return (
        Stroke("j, k", _there_and_back(DOWN, UP, 25), look),
        Stroke("PgDn, PgUp", _there_and_back(PAGE_DOWN, PAGE_UP, 12), look),
        Stroke("s (sort)", (b"s",) * 14, titles),
        Stroke("Enter, q (a page and back)", _there_and_back(b"\r", b"q", 10), title),
        Stroke("/ (typing)", typed * 5, look, b"/", b"\r"),
    )


def map_strokes() -> tuple[Stroke, ...]:
    """What is pressed on the map."""
    return (
        Stroke("j, k", _there_and_back(DOWN, UP, 25), spot),
        Stroke("PgDn, PgUp", _there_and_back(PAGE_DOWN, PAGE_UP, 12), spot),
        Stroke("c (field)", (b"c",) * 12, title),
        Stroke("b (group)", (b"b",) * 8, title),
    )


VIEWS_KEY: Final = Stroke("Tab (view)", (TAB,) * 20, title)


def fleet(jobs: int) -> Case:
    """Gpumon over a fleet of jobs with a node each."""
    words = (sys.executable, "-m", "tests.bench.live_app", str(jobs), str(GPUS_A_NODE))
    # No GPU of this fleet is named by a finding: only a job's row is gone to.
    problems = Stroke("n (next problem)", (b"n",) * 20, jobs_of, b"g")
    views = [("jobs", b":jobs\r", (*table_strokes(jobs_of), problems, VIEWS_KEY))]
    if jobs >= 10_000:
        views += [("fleet", b":fleet\r", map_strokes()), ("gpus", b":gpus\r", table_strokes(names))]
    name = f"gpumon, {jobs:,} jobs, {jobs * GPUS_A_NODE:,} GPUs"
    return Case(name, words, "n000", tuple(views), dict(os.environ))


JOB: Final = b":jobs\r:job 48214\r"
"""Opens the demo's job that has hung for some minutes: sixteen GPUs on two nodes."""

GPU: Final = b":jobs\r:gpu gpu006:3\r"
"""Opens the GPU that is too hot."""

NODE: Final = b":jobs\r:node gpu006\r"


def at_rest() -> Case:
    """Every view and every kind of page of the demo, which nobody touches."""
    roots = ["jobs", "gpus", "nodes", "pending", "ended", "users", "accounts", "partitions"]
    roots += ["fleet", "reservations", "processes"]
    views: list[tuple[str, bytes, tuple[Stroke, ...]]] = [
        (name, f":{name}\r".encode(), ()) for name in roots
    ]
    views += [
        ("48214", JOB, ()),
        ("curves", JOB + b"v", ()),
        ("curves (roofline)", JOB + b"v" + TAB, ()),
        ("curves (around a rank)", JOB + b"i", ()),
        ("SM active over time", JOB + TAB, ()),
        ("verdict of ranks", JOB + TAB + TAB, ()),
        ("gpu006:3", GPU, ()),
        ("curves (of a GPU)", GPU + b"v", ()),
        ("node gpu006", NODE, ()),
        ("curves (of a node)", NODE + b"v", ()),
        ("findings", b":jobs\rf", ()),
        ("hang", b":jobs\rf\r", ()),
        ("commands", b":jobs\rx", ()),
        ("books", b":jobs\rB", ()),
        ("errors", b":jobs\re", ()),
    ]
    words = (sys.executable, "-m", "gpumon", "demo")
    return Case("gpumon demo", words, "sam2-video", tuple(views), dict(os.environ))


def node(env: Mapping[str, str]) -> tuple[Case, ...]:
    """The eight GPUs of the stand-in driver, in gpumon and in nvitop where it is installed."""
    moves = Stroke("j, k", _there_and_back(DOWN, UP, 25), names)
    own = Case(
        "gpumon local, 8 GPUs",
        (GPUMON, "local"),
        "every",
        (("gpus", b":gpus\r", (moves, Stroke("s (sort)", (b"s",) * 14, titles), VIEWS_KEY)),),
        env,
    )
    arrows = Stroke(
        "Down, Up",
        _there_and_back(ARROW_DOWN, ARROW_UP, 25),
        lambda s: [[cell.style for cell in row[6:12]] for row in s.cells()[24:]],
    )
    nvitop = (peers.program("nvitop"), "--interval", "1")
    return own, Case("nvitop, 8 GPUs", nvitop, "700", (("all", b"", (arrows,)),), env)


def lists(rows: int, folder: Path) -> tuple[Case, ...]:
    """Other lists with as many rows: Textual's own table, and turm with a queue that answers."""
    table = Case(
        f"Textual DataTable, {rows:,} rows",
        (sys.executable, "-m", "tests.bench.table_app", str(rows)),
        "100003",
        (
            (
                "table",
                b"",
                (
                    Stroke("j, k", _there_and_back(DOWN, UP, 25), names),
                    Stroke("PgDn, PgUp", _there_and_back(PAGE_DOWN, PAGE_UP, 12), names),
                    Stroke("s (sort)", (b"s",) * 12, names),
                ),
            ),
        ),
        dict(os.environ),
    )
    turm = Case(
        f"turm, {rows:,} jobs",
        (peers.program("turm"), "--slurm-refresh", "1"),
        "100003",
        (
            (
                "jobs",
                b"",
                (Stroke("j, k", _there_and_back(DOWN, UP, 25), names),),
            ),
        ),
        queue_env(folder, rows),
    )
    return table, turm


def empty() -> Case:
    """Textual with one line of text."""
    words: Sequence[str] = (sys.executable, "-m", "tests.bench.empty_app")
    return Case("empty Textual app", tuple(words), "Textual", (("", b"", ()),), dict(os.environ))
