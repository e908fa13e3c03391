"""`python -m tests.bench.live`: programs live on a pseudo-terminal, pressed and measured.

Key to paint is from writing a key to the terminal until the frame that shows its effect has been
read, drawn by an emulator in the reading process; the share of that drawing is told beside. Keys
come at moments that have nothing to do with the beat of the data.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.bench import live_cases, peers, tree
from tests.bench.node import busy_node
from tests.bench.session import Session
from tests.bench.shown import Rows, show
from tests.bench.stats import percentile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.bench.live_cases import Case, Stroke

PATIENCE_S: Final = 2.0
SETTLE_S: Final = 3.0
START_S: Final = 60.0
FLEETS: Final = (100, 1_000, 10_000)
"""Jobs of the fleets that are watched."""
WHICH: Final = ("node", "fleets", "peers", "rest")


def measure(
    case: Case, size: tuple[int, int], seconds: int, chance: random.Random
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows for the tables `start`, `live` and `keys`."""
    columns, rows = size
    with Session(case.words, case.env, columns, rows) as session:
        begin_s, text_s = _start(session, case)
        yield (
            "start",
            {
                "program": case.name,
                "first text ms": None if text_s is None else round(1e3 * (text_s - begin_s), 1),
                "data ms": round(1e3 * (session.arrived_s - begin_s), 1),
            },
        )
        session.pump(SETTLE_S)
        for view, key, strokes in case.views:
            if key:
                _go(session, view, key)
            name = f"{case.name}: {view}" if len(case.views) > 1 else case.name
            yield "live", {"program": name, **_watch(session, seconds)}
            for stroke in strokes:
                row = {"program": name, **press(session, stroke, chance)}
                yield "keys", row
        if session.has_ended:
            yield "start", {"program": f"{case.name} (ended)", "first text ms": 0, "data ms": 0}


def _go(session: Session, view: str, command: bytes) -> None:
    """Type a command; what is typed before the prompt is there goes elsewhere.

    Raises:
        RuntimeError: the view did not come.
    """
    title = f"› {view.partition(' (')[0]}"
    for patience_s in (0.5, 2.0, 5.0):
        session.press(command[:1])
        session.pump(patience_s)
        session.press(command[1:])
        if session.pump(SETTLE_S, lambda: title in session.screen.text()[0]):
            session.pump(SETTLE_S)
            return
        session.press(b"\x1b")
        session.pump(1.0)
    raise RuntimeError(f"the view {view} did not come")


def _start(session: Session, case: Case) -> tuple[float, float | None]:
    """When the program began, without what it made beforehand, and when the first text came."""
    has_preparation = any(word.startswith("tests.bench.") for word in case.words)
    if has_preparation:
        session.pump(START_S, lambda: session.ready_s is not None)
    begin_s = session.ready_s or session.began_s
    text_s: float | None = None

    def has_data() -> bool:
        nonlocal text_s
        text = session.screen.text()
        if text_s is None and sum(len(line.strip()) for line in text) >= 10:
            text_s = session.arrived_s
        return any(case.marker in line for line in text)

    session.pump(START_S, has_data)
    return begin_s, text_s


def _watch(session: Session, seconds: int) -> dict[str, Any]:
    before = tree.usage_of_all(session.pid)
    traffic = session.traffic(seconds)
    after = tree.usage_of_all(session.pid)
    area = session.screen.columns * session.screen.rows
    return {
        "CPU %": round(100 * (after.cpu_s - before.cpu_s) / traffic.seconds, 2),
        "RSS MiB": round(after.rss_mib),
        "KB/s": round(traffic.bytes / traffic.seconds / 1e3, 2),
        "cells/s": round(traffic.cells / traffic.seconds, 1),
        "cells %": round(100 * traffic.cells / traffic.seconds / area, 2),
        "frames/s": round(traffic.frames / traffic.seconds, 1),
    }


def press(session: Session, stroke: Stroke, chance: random.Random) -> dict[str, Any]:
    """Press the keys of one kind at odd moments."""
    if stroke.before:
        session.press(stroke.before)
        session.pump(0.5)
    taken: list[float] = []
    for key in stroke.keys:
        session.pump(chance.uniform(0.06, 0.3))
        found = session.key_to_paint(key, stroke.look, PATIENCE_S)
        if found is not None:
            taken.append(1e3 * found)
    if stroke.after:
        session.press(stroke.after)
        session.pump(0.5)
    shown = {
        name: round(percentile(taken, share), 1) if taken else None
        for name, share in (("median ms", 0.5), ("p95 ms", 0.95), ("max ms", 1.0))
    }
    return {"keys": stroke.name, "seen": f"{len(taken)}/{len(stroke.keys)}", **shown}


def tables(
    which: Sequence[str],
    size: tuple[int, int],
    seconds: int,
    has_peers: bool,
    fleets: Sequence[int] = FLEETS,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """All rows: `node`, `fleets`, `peers`, `rest` say which programs, `fleets` how many jobs."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        cases: list[Case] = []
        (Path(folder) / "driver").mkdir()
        with ExitStack() as stack:
            if "node" in which:
                env = stack.enter_context(busy_node(Path(folder) / "driver"))
                cases += live_cases.node(env)[: 2 if has_peers else 1]
            if "fleets" in which:
                cases += [live_cases.fleet(jobs) for jobs in fleets]
            if "rest" in which:
                cases.append(live_cases.at_rest())
            if "peers" in which:
                others = live_cases.lists(10_000, Path(folder))
                cases += [live_cases.empty(), *others[: 2 if has_peers else 1]]
            for case in cases:
                begin_s = time.monotonic()
                yield from measure(case, size, seconds, chance)
                load = os.getloadavg()[0]
                took_s = time.monotonic() - begin_s
                print(f"  … {case.name}: {took_s:.0f} s, load {load:.1f}", flush=True)


def show_live(
    which: Sequence[str],
    size: str,
    seconds: int,
    has_peers: bool,
    fleets: Sequence[int] = FLEETS,
) -> dict[str, Rows]:
    """The three tables, printed in the end; `size` as in `120x40`."""
    columns, _, rows = size.partition("x")
    found: dict[str, Rows] = {"start": [], "live": [], "keys": []}
    wide, high = int(columns), int(rows)
    for name, row in tables(which, (wide, high), seconds, has_peers, fleets):
        found[name].append(row)
    show(f"Start, {size}", found["start"])
    show(f"Live at 1 Hz without keys, {size}", found["live"])
    show(f"Key to paint, {size}", found["keys"])
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.live", description=__doc__)
    parser.add_argument("--size", default="120x40")
    parser.add_argument("--seconds", type=int, default=10, help="length of a watch without keys")
    parser.add_argument("--which", action="append", choices=WHICH)
    parser.add_argument("--jobs", type=int, action="append", help="sizes of the fleets")
    options = parser.parse_args()
    which, fleets = options.which or WHICH, options.jobs or FLEETS
    trouble = peers.install() if set(which) - {"fleets"} else ""
    if trouble:
        print(trouble)
    show_live(which, options.size, options.seconds, not trouble, fleets)


if __name__ == "__main__":
    main()
