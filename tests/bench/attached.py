"""What a server costs: terminals attached to it, and its pages, by the size of the fleet.

`python -m tests.bench.attached [FOLLOWERS [NODES]]`: so many, 50 unless told, ask one `gpumon
serve` of a demo of NODES nodes with 8 GPUs for what is new, as terminals do, and only read it; one
of them also makes frames of it as a terminal does. What it shows of them is not among it.
"""

from __future__ import annotations

import json
import os
import socket
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
from gpumon.serve.frames import whole
from gpumon.sources.address import Sampling, parse
from gpumon.sources.demo import DemoSource
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
    if words[:1] in (["--reads"], ["--decodes"]):
        follow(words[0][2:], words[1], int(words[2]))
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
                rows += [_with(server.pid, str(path), *who) for who in _steps(most)]
            finally:
                server.kill()
    return rows


def _steps(most: int) -> tuple[tuple[str, int], ...]:
    return (("reads", 0), ("decodes", 1), ("reads", 1), ("reads", most))


def _with(server: int, path: str, how: str, count: int) -> dict[str, object]:
    words = [sys.executable, "-m", "tests.bench.attached", f"--{how}", path, str(count)]
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
        "followers": f"{count} {how}",
        "server CPU %": 100 * cpu,
        "server RSS MiB": rss,
        "a follower's CPU %": own / count if count else None,
        "answers a second, each": json.loads(told) / count if count else None,
    }


def decodes(path: str, count: int, is_over: threading.Event) -> float:
    """Follow a server as a terminal's source does; how often frames came."""
    sources: list[Source] = []
    for _ in range(count):
        look = Sampling(PERIOD_S, is_single=False, keeps=lambda _job: True)
        sources.append(open_source(parse(f"gpumon+unix://{path}"), look, SystemClock()))
        sources[-1].start(lambda: None)
    answers = 0
    while not is_over.wait(0.1):
        answers += sum(bool(source.poll()) for source in sources)
    for source in sources:
        source.close()
    return answers


def reads(path: str, count: int, is_over: threading.Event) -> float:
    """Ask for what is new, and read where it ends alone; how many answers there were."""
    answers = [0] * count

    def one(place: int) -> None:
        since = ""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            stream = connection.makefile("rb")
            while not is_over.is_set():
                asked = f"GET /v1/frames?wait=10&since={since} HTTP/1.1\r\n\r\n"
                connection.sendall(asked.encode())
                length = 0
                while (line := stream.readline()).strip():
                    if line.startswith(b"Content-Length:"):
                        length = int(line.split(b":")[1])
                mark = json.loads(stream.read(length).splitlines()[-1])
                since = f"{mark['run']}-{mark['sequence']}"
                answers[place] += 1

    for place in range(count):
        threading.Thread(target=one, args=(place,), daemon=True).start()
    is_over.wait()
    return sum(answers)


def follow(how: str, path: str, count: int) -> None:
    """Follow a server so many times until somebody writes a line; prints the answers a second."""
    is_over = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        is_over.set()

    threading.Thread(target=wait, daemon=True).start()
    began = time.monotonic()
    answers = {"reads": reads, "decodes": decodes}[how](path, count, is_over)
    print(answers / (time.monotonic() - began), flush=True)
    os._exit(0)


def pages(nodes: int) -> Rows:
    """What it takes to make each page of a picture."""
    tick = picture(nodes)
    users = frozenset({next(view.job.user for view in tick.jobs)})
    makers: dict[str, Callable[[], bytes]] = {
        "/metrics": lambda: page(tick, is_open=False),
        "/v1/snapshot": lambda: json.dumps(document(tick), separators=(",", ":")).encode(),
        "/v1/frames of one user": lambda: whole(withheld(tick, users, b"k")),
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
    source, newest = DemoSource(f"demo:{nodes}x{GPUS}", nodes, GPUS, 7, SystemClock()), Newest()
    newest.take(source.poll())
    at = time.time()
    told = join(newest.frames, newest.queue, {}, at, 5.0)
    targets = (TargetState("demo", True, None, 0.1),)
    return Tick(
        1, at, at - 900.0, PERIOD_S, targets, told.nodes, told.gpus, told.jobs, at, (), (), (), 0.0,
        queue=newest.queue,
    )  # fmt: skip


if __name__ == "__main__":
    main()
