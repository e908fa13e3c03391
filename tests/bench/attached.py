"""What a server costs: terminals attached to it, and its pages, by the size of the fleet.

`python -m tests.bench.attached [FOLLOWERS [NODES]]`: so many, 50 unless told, follow one
`gpumon serve` of a demo of NODES nodes with 8 GPUs, as terminals do. They run in one process, whose
own CPU time is told apart: what a terminal makes of the frames is not among it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from gpumon.fleet.join.join import join
from gpumon.fleet.sampler.newest import Newest
from gpumon.model.records.tick import TargetState, Tick
from gpumon.report.document.document import document
from gpumon.report.openmetrics.families import page
from gpumon.report.withheld import withheld
from gpumon.simulate.blocks.frames import FrameMaker
from gpumon.simulate.cluster.sim_cluster import Fleet
from gpumon.sources.address import Look, parse
from gpumon.sources.open import open_source
from gpumon.sources.source import SystemClock
from tests.bench import tree
from tests.bench.shown import Rows, show

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.sources.source import Source

FOLLOWERS: Final = 50
NODES: Final = 128
GPUS: Final = 8
PAGES: Final = (125, 1250)
"""Nodes of the fleets whose pages are made."""

PERIOD_S: Final = 1.0
SETTLE_S: Final = 5.0
WATCH_S: Final = 12.0
ROUNDS: Final = 3


def main() -> None:
    """Measure both and print two tables."""
    words = sys.argv[1:]
    if words[:1] == ["--follow"]:
        follow(words[1], int(words[2]))
        return
    followers = int(words[0]) if words else FOLLOWERS
    nodes = int(words[1]) if len(words) > 1 else NODES
    show(f"Attached to one server of {nodes * GPUS:,} GPUs", attached(followers, nodes))
    show("Pages of one picture, made anew", [row for size in PAGES for row in pages(size)])


def attached(most: int, nodes: int) -> Rows:
    """What the server takes with nobody attached, with one, and with all."""
    rows: Rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "serve.sock"
        words = ["serve", f"demo:{nodes}x{GPUS}", "--listen", f"unix:{path}"]
        words += ["--period", str(PERIOD_S)]
        with subprocess.Popen([sys.executable, "-m", "gpumon", *words]) as server:
            try:
                while not path.exists():
                    time.sleep(0.1)
                time.sleep(SETTLE_S)
                for count in (0, 1, most):
                    rows.append(_with(server.pid, str(path), count))
            finally:
                server.kill()
    alone, least = rows[0], rows[0]["server CPU %"]
    for row in rows[1:]:
        row["more a follower, CPU %"] = (row["server CPU %"] - least) / row["followers"]
        more = row["server RSS MiB"] - alone["server RSS MiB"]
        row["more a follower, MiB"] = more / row["followers"]
    return rows


def _with(server: int, path: str, count: int) -> dict[str, object]:
    words = [sys.executable, "-m", "tests.bench.attached", "--follow", path, str(count)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as follower:
        time.sleep(SETTLE_S)
        before = tree.usage(follower.pid)
        cpu, rss, _ = tree.measure(server, WATCH_S)["main"]
        after = tree.usage(follower.pid)
        told, _ = follower.communicate(b"\n")
    assert before is not None
    assert after is not None
    own = 100 * (after.cpu_s - before.cpu_s) / WATCH_S
    return {
        "followers": count,
        "server CPU %": 100 * cpu,
        "server RSS MiB": rss,
        "followers' CPU %, each": own / count if count else None,
        "frames a second, each": json.loads(told) / count if count else None,
        "more a follower, CPU %": None,
        "more a follower, MiB": None,
    }


def follow(path: str, count: int) -> None:
    """Follow a server so many times until somebody writes a line; prints the frames a second."""
    sources: list[Source] = []
    for _ in range(count):
        look = Look(PERIOD_S, is_single=False, keeps=lambda _job: True)
        sources.append(open_source(parse(f"gpumon+unix://{path}"), look, SystemClock()))
        sources[-1].start(lambda: None)
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), is_over.set()), daemon=True).start()
    frames, began = 0, time.monotonic()
    while not is_over.wait(0.2):
        frames += sum(len(source.poll()) for source in sources)
    print(frames / (time.monotonic() - began))
    for source in sources:
        source.close()


def pages(nodes: int) -> Rows:
    """What it takes to make each page of a picture."""
    tick = picture(nodes)
    users = frozenset({next(view.job.user for view in tick.jobs if view.job.user)})
    makers: dict[str, Callable[[], bytes]] = {
        "/metrics": lambda: page(tick, is_open=False),
        "/v1/snapshot": lambda: json.dumps(document(tick), separators=(",", ":")).encode(),
        "/metrics of one user": lambda: page(withheld(tick, users, b"k"), is_open=False),
    }
    rows: Rows = []
    for name, make in makers.items():
        spent, size = [], 0
        for _ in range(ROUNDS):
            begin = time.process_time()
            size = len(make())
            spent.append(time.process_time() - begin)
        cpu_ms = 1e3 * median(spent)
        rows.append(
            {
                "page": name,
                "GPUs": len(tick.gpus),
                "CPU ms": cpu_ms,
                "us a GPU": 1e3 * cpu_ms / len(tick.gpus),
                "MB": size / 1e6,
            }
        )
    return rows


def picture(nodes: int) -> Tick:
    """A demo's picture."""
    at = time.time()
    newest = Newest()
    newest.take(FrameMaker(Fleet(nodes, GPUS, 7, at - 900.0), "demo").frames(at, PERIOD_S))
    told = join(newest.frames, newest.queue, {}, at, 5.0)
    targets = (TargetState("demo", True, None, 0.1),)
    return Tick(
        1, at, at - 900.0, PERIOD_S, targets, told.nodes, told.gpus, told.jobs, at, (), (), (), 0.0,
        queue=newest.queue,
    )  # fmt: skip


if __name__ == "__main__":
    main()
