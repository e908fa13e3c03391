"""What a server costs: terminals attached to it, and its pages, by the size of the fleet.

`python -m tests.bench.attached [FOLLOWERS [NODES]]`: so many, 50 unless told, ask one `gpumon
serve` of a demo of NODES nodes with 8 GPUs for what is new, as terminals do, and only read it; one
of them also makes frames of it as a terminal does. What it shows of them is not among it.

With `--terminals COUNT` so many of them are gpumon itself, each in a terminal of its own with its
own detection, started one after the other; the others only read. Beside them one more reads, which
counts bytes and how late they are.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Final, NamedTuple

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
from tests.bench.stats import percentile
from tests.bench.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.sources.source import Source

FOLLOWERS: Final = 50
NODES: Final = 128
GPUS: Final = 8
PAGES: Final = (125, 1250)
"""Nodes of the fleets whose pages are made."""

SIZE: Final = (120, 40)
"""Columns and rows of a real terminal."""
MARKER: Final = "unobserved"
"""What a terminal has drawn once it shows data."""
START_S: Final = 90.0
"""A terminal that has no data by then is counted as one without; the next one is started."""

PERIOD_S: Final = 1.0
SETTLE_S: Final = 5.0
WATCH_S: Final = 12.0
ROUNDS: Final = 3


def main() -> None:
    """Measure and print."""
    words = sys.argv[1:]
    if words[:1] in (["--reads"], ["--decodes"]):
        follow(words[0][2:], words[1], int(words[2]))
        return
    parser = argparse.ArgumentParser(prog="python -m tests.bench.attached", description=__doc__)
    parser.add_argument("followers", type=int, nargs="?", default=FOLLOWERS)
    parser.add_argument("nodes", type=int, nargs="?", default=NODES)
    parser.add_argument("--terminals", type=int, metavar="COUNT", help="real ones among them")
    options = parser.parse_args(words)
    gpus = f"{options.nodes * GPUS:,} GPUs"
    if options.terminals is not None:
        rows = shown(options.terminals, options.followers, options.nodes)
        show(f"Real terminals, {SIZE[0]}x{SIZE[1]}, on one server of {gpus}", rows)
        return
    show(f"Attached to one server of {gpus}", attached(options.followers, options.nodes))
    show("Pages of one picture, made anew", [row for size in PAGES for row in pages(size)])


@contextmanager
def served(nodes: int) -> Iterator[tuple[int, str]]:
    """A server of a demo of so many nodes: its process and its socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "serve.sock"
        words = ["serve", f"demo:{nodes}x{GPUS}", "--listen", f"unix:{path}"]
        words += ["--period", str(PERIOD_S)]
        with subprocess.Popen([sys.executable, "-m", "gpumon", *words]) as server:
            try:
                while not path.exists():
                    time.sleep(0.1)
                time.sleep(SETTLE_S)
                yield server.pid, str(path)
            finally:
                server.kill()


class Followed(NamedTuple):
    """What those who follow were told, all of them together."""

    answers_per_s: float
    bytes_per_answer: float
    """The first one, which holds all, not counted."""
    ticks_per_s: float
    """Of the server."""
    late_s: list[float]
    """From the instant of a picture until somebody has it."""


class Follower:
    """A process that follows a server so many times."""

    def __init__(self, path: str, how: str, count: int) -> None:
        words = [sys.executable, "-m", "tests.bench.attached", f"--{how}", path, str(count)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self._process.pid

    def told(self) -> Followed:
        """End it."""
        told, _ = self._process.communicate(b"\n")
        return Followed(*json.loads(told))


def attached(most: int, nodes: int) -> Rows:
    """What the server takes with nobody attached, with one, and with all."""
    with served(nodes) as (server, path):
        return [_with(server, path, *who) for who in _steps(most)]


def _steps(most: int) -> tuple[tuple[str, int], ...]:
    return (("reads", 0), ("decodes", 1), ("reads", 1), ("reads", most))


def _with(server: int, path: str, how: str, count: int) -> dict[str, object]:
    follower = Follower(path, how, count)
    time.sleep(SETTLE_S)
    before = tree.usage(follower.pid)
    cpu, rss, _ = tree.measure(server, WATCH_S)["main"]
    after = tree.usage(follower.pid)
    told = follower.told()
    assert before is not None
    assert after is not None
    own = 100 * (after.cpu_s - before.cpu_s) / WATCH_S
    return {
        "followers": f"{count} {how}",
        "server CPU %": 100 * cpu,
        "server RSS MiB": rss,
        "a follower's CPU %": own / count if count else None,
        "answers a second, each": told.answers_per_s / count if count else None,
        **_answers(told),
    }


def _answers(told: Followed) -> dict[str, object]:
    late = told.late_s
    return {
        "KB an answer": told.bytes_per_answer / 1e3 if late else None,
        "late p50 ms": 1e3 * percentile(late, 0.5) if late else None,
        "late p95 ms": 1e3 * percentile(late, 0.95) if late else None,
    }


def shown(count: int, followers: int, nodes: int) -> Rows:
    """What server and terminals take with one terminal and with so many.

    Args:
        count: Terminals.
        followers: All who follow, terminals among them.
        nodes: Nodes of the fleet, of which every job is on screen or a line below it.
    """
    rows: Rows = []
    terminals: list[Terminal] = []
    with served(nodes) as (server, path), ExitStack() as stack:
        words = [sys.executable, "-m", "gpumon", f"gpumon+unix://{path}"]
        for some in sorted({min(1, count), count}):
            others = max(0, followers - count) if some == count else 0
            for _ in range(some - len(terminals)):
                one = Terminal(words, dict(os.environ), MARKER, SIZE)
                terminals.append(stack.enter_context(one))
                one.wait_for_paint(START_S)
            rows.append(_with_terminals(server, path, terminals, others))
    return rows


def _with_terminals(
    server: int, path: str, terminals: list[Terminal], others: int
) -> dict[str, object]:
    follower = Follower(path, "reads", 1 + others)
    time.sleep(SETTLE_S)
    before = [one.traffic() for one in terminals]
    began = [tree.usage_of_all(one.pid) for one in terminals]
    of_server = tree.measure(server, WATCH_S)
    ended = [tree.usage_of_all(one.pid) for one in terminals]
    traffic = [
        (now.bytes - was.bytes, now.seconds - was.seconds)
        for was, now in zip(before, (one.traffic() for one in terminals), strict=True)
    ]
    told = follower.told()
    cpu, rss, _ = of_server["main"]
    cpus = [after.cpu_s - was.cpu_s for was, after in zip(began, ended, strict=True)]
    return {
        "terminals": f"{len(terminals)}, {1 + others} read",
        "server CPU %": 100 * cpu,
        "ms a tick": 1e3 * cpu / told.ticks_per_s,
        "its detection CPU %": 100 * of_server.get("detection worker", (0.0,))[0],
        "server RSS MiB": rss,
        "ticks/s": told.ticks_per_s,
        **_answers(told),
        "with data": sum(one.marker_s is not None and not one.has_ended for one in terminals),
        "each: CPU %": 100 * fmean(cpus) / WATCH_S if cpus else None,
        "PSS MiB": fmean(one.pss_mib for one in ended) if ended else None,
        "draws KB/s": fmean(size for size, _ in traffic) / WATCH_S / 1e3 if traffic else None,
        "draws in s": min(seconds for _, seconds in traffic) if traffic else None,
    }


def decodes(path: str, count: int, is_over: threading.Event) -> Followed:
    """Follow a server as a terminal's source does, and count how often frames came."""
    sources: list[Source] = []
    began = time.monotonic()
    for _ in range(count):
        look = Sampling(PERIOD_S, is_single=False, is_wanted=lambda _job: True)
        sources.append(open_source(parse(f"gpumon+unix://{path}"), look, SystemClock()))
        sources[-1].start(lambda: None)
    answers = 0
    while not is_over.wait(0.1):
        answers += sum(bool(source.poll()) for source in sources)
    for source in sources:
        source.close()
    return Followed(answers / (time.monotonic() - began), 0.0, 0.0, [])


class Reader:
    """Asks for what is new, and reads where it ends alone."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.answers = 0
        self.bytes = 0
        """Of all answers but the first."""
        self.late_s: list[float] = []
        self.first: tuple[int, float] | None = None
        self.last: tuple[int, float] | None = None
        """Number of a picture, and when it was there."""

    def run(self) -> None:
        """Read until the server ends."""
        since = ""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._path)
            stream = connection.makefile("rb")
            while True:
                asked = f"GET /v1/frames?wait=10&since={since} HTTP/1.1\r\n\r\n"
                connection.sendall(asked.encode())
                length = 0
                while (line := stream.readline()).strip():
                    if line.startswith(b"Content-Length:"):
                        length = int(line.split(b":")[1])
                if not line:
                    return
                body = stream.read(length)
                now = time.time()
                *lines, mark_line = body.splitlines()
                mark = json.loads(mark_line)
                if since and lines:
                    self.bytes += length
                    self.late_s.append(now - json.loads(lines[-1])["at"])
                    self.last = mark["sequence"], now
                    self.first = self.first or self.last
                since = f"{mark['run']}-{mark['sequence']}"
                self.answers += 1


def reads(path: str, count: int, is_over: threading.Event) -> Followed:
    """Follow a server and only read."""
    began = time.monotonic()
    readers = [Reader(path) for _ in range(count)]
    for one in readers:
        threading.Thread(target=one.run, daemon=True).start()
    is_over.wait()
    late = [seconds for one in readers for seconds in one.late_s]
    first, last = (readers[0].first, readers[0].last) if readers else (None, None)
    spent = last[1] - first[1] if first and last else 0.0
    return Followed(
        sum(one.answers for one in readers) / (time.monotonic() - began),
        sum(one.bytes for one in readers) / max(1, len(late)),
        (last[0] - first[0]) / spent if first and last and spent else 0.0,
        late,
    )


def follow(how: str, path: str, count: int) -> None:
    """Follow a server so many times until somebody writes a line; prints what was told."""
    is_over = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        is_over.set()

    threading.Thread(target=wait, daemon=True).start()
    print(json.dumps({"reads": reads, "decodes": decodes}[how](path, count, is_over)), flush=True)
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
