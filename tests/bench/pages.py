"""What pages of exporters cost: 1,000 of them in one process, and what reading one takes.

`python -m tests.bench.pages [PAGES]`: so many hosts, 1,000 unless told. A process of its own serves
the pages on a port each: 8 GPUs with 40 metrics, 320 series. What it takes is not gpumon's.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import subprocess
import sys
import threading
import time
from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from gpumon.cli import GC_THRESHOLDS
from gpumon.sources.exporter_address import PageAddress
from gpumon.sources.exporters.dcgm import PageReader
from gpumon.sources.exporters.gpu_names import METRICS
from gpumon.sources.exporters.pages import ExporterPages
from gpumon.sources.exposition.parse import parse
from gpumon.sources.source import SystemClock, Wish
from tests.bench.shown import Rows, show

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

PAGES: Final = 1000
GPUS: Final = 8
METRIC_COUNT: Final = 40
SWEEPS: Final = 4
ROUNDS: Final = 7
PERIOD_S: Final = 5.0
HOLES: Final = 0.2
"""Share of hosts that take the question and never answer, in the second part."""


def page(host: str, turn: int) -> bytes:
    """A page of a host; its values are others at every turn."""
    lines = []
    names = sorted(name for name in METRICS if "UTIL_RATIO" not in name)[:METRIC_COUNT]
    for name in names:
        lines += [f"# HELP {name} What it is.", f"# TYPE {name} gauge"]
        lines += [
            f'{name}{{gpu="{gpu}",UUID="GPU-{host}-{gpu}",pci_bus_id="00000000:{gpu:02X}:00.0",'
            f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="{host}",'
            f'DCGM_FI_DRIVER_VERSION="550.54.15",hpc_job="4711"}} {1000 + gpu + turn}'
            for gpu in range(GPUS)
        ]
    return "\n".join([*lines, ""]).encode()


async def serve(count: int, holes: int) -> None:
    """Serve pages, the last of them never; prints their ports."""
    ports = []
    for number in range(count):
        host = f"n{number:04d}"
        answers = [_answer(page(host, turn)) for turn in (0, 1)]
        server = await asyncio.start_server(
            _handler([] if number >= count - holes else answers), "127.0.0.1", 0
        )
        ports.append(server.sockets[0].getsockname()[1])
    print(*ports, flush=True)
    await asyncio.Event().wait()


def _answer(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _handler(
    answers: Sequence[bytes],
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    turns = [0]

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            if not answers:
                await reader.read()
                return
            turns[0] += 1
            writer.write(answers[turns[0] % len(answers)])
            await writer.drain()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await talk(reader, writer)
        writer.close()

    return handle


class _Served:
    """A process that serves pages."""

    def __init__(self, count: int, holes: int = 0) -> None:
        words = [sys.executable, "-m", "tests.bench.pages", "serve", str(count), str(holes)]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.ports = [int(word) for word in self._process.stdout.readline().split()]

    def __enter__(self) -> _Served:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


class _Sweep(NamedTuple):
    """One look at all pages that answer."""

    wall_s: float
    cpu_s: float


def sweeps(count: int, holes: int, number: int) -> tuple[list[_Sweep], list[float], float]:
    """So many sweeps; with them the times between two later frames of each page that answers.

    A sweep begins with its beat and ends with the last page that answers. Later ones are as long as
    the first, whatever they cost: each page has its own beat from then on. So the last number is
    what one takes, in seconds, where all pages are asked at once.
    """
    live = count - holes
    arrived = threading.Event()
    gaps: list[float] = []
    last: dict[str, float] = {}
    found: list[_Sweep] = []
    with _Served(count, holes) as served:
        addresses = [
            PageAddress(f"http://127.0.0.1:{port}/metrics", f"n{place:04d}", True)
            for place, port in enumerate(served.ports)
        ]
        source = ExporterPages("dcgm+http://bench", addresses, PERIOD_S, SystemClock(), once=False)
        begin, cpu = time.monotonic(), time.process_time()
        source.start(arrived.set)
        seen: set[str] = set()
        while len(found) < number:
            arrived.wait(0.5)
            arrived.clear()
            for frame in source.poll():
                if not frame.blocks:
                    continue
                now = time.monotonic()
                if not seen and found:
                    begin = now - frame.lateness_s
                if frame.node in last and len(found) > 1:
                    gaps.append(now - last[frame.node])
                last[frame.node] = now
                seen.add(frame.node)
            if len(seen) >= live:
                now_cpu = time.process_time()
                found.append(_Sweep(time.monotonic() - begin, now_cpu - cpu))
                seen, cpu = set(), now_cpu
        at_once_s = min(_at_once_s(source, arrived, live) for _ in range(number))
        source.close()
    return found, gaps, at_once_s


def _at_once_s(source: ExporterPages, arrived: threading.Event, live: int) -> float:
    """Seconds until every page that answers has, since all were asked as by a key."""
    source.poll()
    seen: set[str] = set()
    begin = time.monotonic()
    source.wish(Wish(is_by_hand=True))
    while len(seen) < live:
        arrived.wait(0.5)
        arrived.clear()
        seen |= {frame.node for frame in source.poll() if frame.blocks}
    return time.monotonic() - begin


def swept(count: int) -> Rows:
    """Sweeps of some numbers of hosts."""
    rows: Rows = []
    for pages, holes in ((count // 4, 0), (count, 0), (count, int(count * HOLES))):
        taken, gaps, at_once_s = sweeps(pages, holes, SWEEPS)
        first, later = taken[0], taken[1:]
        live = pages - holes
        rows.append(
            {
                "pages": f"{pages:,}" + (f", {holes} silent" if holes else ""),
                "first sweep s": round(first.wall_s, 2),
                "its CPU ms/page": round(1e3 * first.cpu_s / live, 2),
                "later sweep s": round(median(one.wall_s for one in later), 2),
                "at once s": round(at_once_s, 2),
                "CPU ms/page": round(1e3 * median(one.cpu_s for one in later) / live, 2),
                "longest gap s": round(max(gaps), 2),
            }
        )
    return rows


def _each_ms(work: Callable[[], object], times: int) -> float:
    """CPU time of a call, the least of some rounds: what else runs only adds to it."""
    rounds = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(times):
            work()
        rounds.append(1e3 * (time.process_time() - begin) / times)
    return min(rounds)


def parsing() -> Rows:
    """What one page takes: read by the reference, strictly, planned, and as the one before."""
    pages = [page("n0001", turn) for turn in (0, 1)]
    text = pages[0].decode()
    reference = _each_ms(lambda: list(text_string_to_metric_families(text)), 5)
    reader = PageReader("n0001")
    reader.read(pages[0], 0.0, 0.0)
    turns = iter(range(10**6))

    def again() -> None:
        turn = next(turns)
        reader.read(pages[turn % 2], float(turn), float(turn))

    def shape_alone() -> None:
        shape = reader._shape
        assert shape is not None
        words = shape.words(pages[0])
        assert words is not None
        [float(word) for word in words]

    ways = {
        "prometheus_client": reference,
        "strictly": _each_ms(lambda: parse(pages[0]), 50),
        "strictly, with its plan": _each_ms(lambda: PageReader("x").read(pages[0], 0.0, 0.0), 50),
        "as the page before": _each_ms(shape_alone, 500),
        "as the page before, with its frame": _each_ms(again, 200),
    }
    return [
        {"way": way, "ms/page": round(taken, 3), "times faster": round(reference / taken, 1)}
        for way, taken in ways.items()
    ]


def main() -> None:
    """Print the tables."""
    if sys.argv[1:2] == ["serve"]:
        _raise_limit()
        asyncio.run(serve(int(sys.argv[2]), int(sys.argv[3])))
        return
    _raise_limit()
    # Python's own setting took a third of a sweep.
    gc.set_threshold(*GC_THRESHOLDS)
    show(f"One page, {GPUS} GPUs, {GPUS * METRIC_COUNT} series", parsing())
    show("Pages of hosts in one process", swept(int(sys.argv[1]) if sys.argv[1:] else PAGES))


def _raise_limit() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    main()
