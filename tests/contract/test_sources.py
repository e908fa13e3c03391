"""What every source keeps to, one suite over all of them: gpumon.sources.source.Source."""

from __future__ import annotations

import json
import math
import os
import shlex
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpumon.model.catalogue.fields import CATALOGUE, LABELS
from gpumon.model.missing import Reason
from gpumon.serve import exchange as served
from gpumon.serve.frames import FrameFeed
from gpumon.serve.listen import Listen, bound, released
from gpumon.serve.server import HttpServer
from gpumon.sources.address import KINDS, Sampling, parse
from gpumon.sources.open import open_source
from gpumon.sources.rest_address import RestAddress
from gpumon.sources.served_address import NDJSON
from gpumon.sources.slurm.poll.queue import SlurmQueue
from gpumon.sources.slurm.poll.rest_queue import RestQueue
from gpumon.sources.source import SystemClock, Wish
from tests.unit.sources.exporters.page_server import Answer, PageServer, page
from tests.unit.sources.prometheus.engine import JSON, Engine, labels
from tests.unit.sources.slurm.restd import Reply, Restd, jwt, reply
from tests.worlds.probe import children, eventually

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from gpumon.model.records.frame import Frame
    from gpumon.sources.source import Source
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

DATA = Path(__file__).parent.parent / "unit/sources/slurm/data"
HOSTILE = "\x1b]0;owned\x07\u202e[bold]\x1b[2J"
RENAMER = """
import os, sys
open("/proc/self/comm", "w").write(sys.argv[1])
print(os.getpid(), flush=True)
sys.stdin.read()
"""
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
printf '{noise}'
exec sh -c "$3"
"""
"""Stands for ssh and a login: runs what the node is asked to run. The lab covers the real one."""


class Workshop:
    """Builds each source with its surroundings: a driver, commands on the PATH, hostile names."""

    def __init__(self, folder: Path, standin: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.standin = standin
        self.bin = folder / "bin"
        self.bin.mkdir()
        monkeypatch.setenv("PATH", f"{self.bin}:{os.environ['PATH']}")
        self.children: list[subprocess.Popen[str]] = []
        self.restds: list[Restd] = []
        self.exporters: list[PageServer] = []
        self.servers: list[tuple[HttpServer, Listen, socket.socket]] = []

    def command(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(script)
        path.chmod(0o755)

    def open(self, url: str, once: bool = False) -> Source:
        return open_source(parse(url), Sampling(0.15, once, lambda _: True), SystemClock())

    def node(self, **options: Any) -> Standin:
        """A node on which a program with a hostile name holds a GPU."""
        node = self.standin("h100", gpus=2, **options)
        program = subprocess.Popen(
            [sys.executable, "-c", RENAMER, "\x1b[31mx\n"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "MASTER_ADDR": HOSTILE, "RANK": "1"},
        )
        self.children.append(program)
        assert program.stdout
        node.state.process(0, int(program.stdout.readline()), 2**30)
        node.state.write()
        return node

    def scontrol(self) -> None:
        jobs = (DATA / "jobs-22.05.txt").read_text().replace("JobName=", f"JobName={HOSTILE}")
        (self.bin / "job.txt").write_text(jobs)
        (self.bin / "node.txt").write_text((DATA / "nodes-22.05.txt").read_text())
        answer = f'for what; do :; done\ncat {shlex.quote(str(self.bin))}/"$what".txt\n'
        self.command("scontrol", f"#!/bin/sh\n{answer}")

    def refuse(self, name: str, status: int) -> None:
        words = shlex.quote(
            f"scontrol: error: {HOSTILE} refused\r\nConnection refused\r\n{HOSTILE}"
        )
        self.command(name, f"#!/bin/sh\nprintf %s {words} >&2\nexit {status}\n")

    def local(self) -> Source:
        self.node()
        return self.open("local")

    def single(self) -> Source:
        self.node()
        return self.open("local", once=True)

    def no_driver(self) -> Source:
        self.node().state.path.unlink()
        return self.open("local")

    def lost(self) -> Source:
        node = self.node()
        node.state.lose(1)
        node.state.error("nvmlDeviceGetName", 999)
        node.state.write()
        return self.open("local")

    def ssh(self) -> Source:
        self.node()
        noise = r"\033]0;owned\007 Welcome \377\n no line end"
        self.command("ssh", SSH.format(noise=noise))
        return self.open("ssh://ada@gpu[1-2]")

    def ssh_refused(self) -> Source:
        self.refuse("ssh", 255)
        return self.open("ssh://gpu1")

    def ssh_rubbish(self) -> Source:
        self.command("ssh", "#!/bin/sh\nexec yes '\x1b[31m{\"gpumon_probe\"'\n")
        return self.open("ssh://gpu1")

    def demo(self) -> Source:
        return self.open("demo:2x4")

    def queue(self) -> Source:
        self.scontrol()
        return SlurmQueue("slurm", clock=SystemClock())

    def queue_refused(self) -> Source:
        self.refuse("scontrol", 1)
        return SlurmQueue("slurm", clock=SystemClock())

    def queue_rubbish(self) -> Source:
        self.command("scontrol", f"#!/bin/sh\nprintf %s {shlex.quote(HOSTILE)}\n")
        return SlurmQueue("slurm", clock=SystemClock())

    def rest(self) -> Source:
        restd = self.restd()
        for what in ("jobs", "nodes"):
            text = (DATA / f"{what}-v0.0.38.json").read_text()
            hostile = text.replace('"name":"arr', f'"name":{json.dumps(HOSTILE)[:-1]}')
            restd.answers[what] = Reply(200, hostile.encode())
        return self.ask(restd)

    def rest_refused(self) -> Source:
        restd = self.restd()
        error = {"description": f"{HOSTILE}\r\n" * 99, "error": HOSTILE}
        restd.answers["jobs"] = reply(500, jobs=[], errors=[error] * 9)
        return self.ask(restd)

    def rest_rubbish(self) -> Source:
        restd = self.restd()
        restd.answers["jobs"] = Reply(200, HOSTILE.encode() * 99)
        return self.ask(restd)

    def restd(self) -> Restd:
        self.restds.append(Restd())
        return self.restds[-1]

    def ask(self, restd: Restd) -> Source:
        address = RestAddress(f"http://127.0.0.1:{restd.port}")
        return RestQueue("slurm+http://127.0.0.1", address, environ={"SLURM_JWT": jwt()})

    def pages(self) -> Source:
        hostile = page(1, DEV_GPU_UTIL=97).replace(b"NVIDIA H100", HOSTILE.encode())
        return self.scrape(Answer(hostile))

    def pages_refused(self) -> Source:
        location = ("Location", f"http://other/{HOSTILE!r}")
        return self.scrape(Answer(status="302 Found", headers=(location,)))

    def pages_rubbish(self) -> Source:
        return self.scrape(Answer(f"{HOSTILE} 1\n".encode() * 99))

    def scrape(self, answer: Answer) -> Source:
        self.exporters.append(PageServer(answer))
        return self.open(f"dcgm+{self.exporters[-1].url}")

    def engine(self, fault: Answer | None = None) -> Source:
        engine = Engine()
        self.exporters.append(engine)
        for name in ("DEV_GPU_UTIL", "DEV_TOTAL_ENERGY_CONSUMPTION", "DEV_XID_ERRORS"):
            engine.hold(name, (labels("GPU-0", modelName=HOSTILE), 97.0), (labels(HOSTILE), 5.0))
        engine.warnings = [f"{HOSTILE}\r\n" * 99]
        engine.fault = fault
        return self.open(engine.target)

    def engine_refused(self) -> Source:
        body = json.dumps({"status": "error", "errorType": HOSTILE, "error": f"{HOSTILE}\n" * 99})
        return self.engine(Answer(body.encode(), "422 Unprocessable", JSON))

    def engine_rubbish(self) -> Source:
        return self.engine(Answer(HOSTILE.encode() * 99, headers=JSON))

    def served(self) -> Source:
        feed, told = FrameFeed(["demo:2x4"], 1.0, SystemClock().now), self.open("demo:2x4")
        with started(told) as look:
            frames = settled(told, look)
        hostile = {"gpu001": HOSTILE}
        feed.frames(frame._replace(node=hostile.get(frame.node, frame.node)) for frame in frames)
        feed.end_tick(SystemClock().now(), 1.0)
        lines = b"".join(feed.since(None).result())
        feed.close()
        return self.attach(served.Answer(200, lines, NDJSON))

    def served_refused(self) -> Source:
        return self.attach(served.Answer(302, b"", headers=(("Location", HOSTILE),)))

    def served_rubbish(self) -> Source:
        return self.attach(served.Answer(200, HOSTILE.encode() * 99, NDJSON))

    def attach(self, answer: served.Answer) -> Source:
        async def say(_asked: object) -> served.Answer:
            return answer

        where = Listen("s", path=str(self.folder / "serve"))
        listening = bound(where)
        server = HttpServer(listening, say)
        server.start()
        self.servers.append((server, where, listening))
        return self.open(f"gpumon+unix://{where.path}")

    def slurm(self) -> Source:
        self.scontrol()
        self.node()
        self.command("ssh", SSH.format(noise="motd"))
        return self.open("slurm")

    def close(self) -> None:
        for server in (*self.restds, *self.exporters):
            server.stop()
        for one, where, listening in self.servers:
            one.close()
            released(where, listening)
        for program in self.children:
            program.kill()
            program.communicate()


SOUND = {
    **dict.fromkeys(("local", "single", "lost"), "local"),
    **dict.fromkeys(("queue", "rest", "slurm"), "slurm"),
    "ssh": "ssh",
    "demo": "demo",
    "pages": "exporter",
    "engine": "prometheus",
    "served": "served",
}
"""The kind of target of each sound one."""
TROUBLED = {
    "no_driver": "local",
    **dict.fromkeys(("ssh_refused", "ssh_rubbish"), "ssh"),
    **dict.fromkeys(("queue_refused", "queue_rubbish"), "slurm"),
    **dict.fromkeys(("rest_refused", "rest_rubbish"), "slurm"),
    **dict.fromkeys(("pages_refused", "pages_rubbish"), "exporter"),
    **dict.fromkeys(("engine_refused", "engine_rubbish"), "prometheus"),
    **dict.fromkeys(("served_refused", "served_rubbish"), "served"),
}
"""The kind of target of each in trouble."""
REPLAYED = {"recording"}
"""Kinds that no source reads beside others: `gpumon replay` feeds them in."""
NEVER_TROUBLED = {"demo"}
"""Kinds that read nothing which could fail."""


@pytest.fixture
def workshop(tmp_path: Path, standin: Start, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    shop = Workshop(tmp_path, standin, monkeypatch)
    yield shop
    shop.close()


@contextmanager
def started(source: Source) -> Iterator[Callable[[], list[Frame]]]:
    """A source that runs; afterwards it is closed twice and has left no child behind."""
    before = children()
    seen: list[Frame] = []

    def look() -> list[Frame]:
        seen.extend(source.poll())
        return seen

    source.start(lambda: None)
    try:
        yield look
    finally:
        source.close()
        source.close()
    source.wish(Wish(period_s=2.0))
    source.poll()
    eventually(lambda: children() <= before, "every child has ended")


def settled(source: Source, look: Callable[[], list[Frame]]) -> list[Frame]:
    """Every frame up to the first report or failure of everything."""

    def is_settled() -> bool:
        look()
        return not source.pending()

    eventually(is_settled, "nothing is awaited any more")
    look()
    eventually(is_settled, "nor what that set off")
    return list(look())


def texts(thing: Any) -> Iterator[str]:
    """Every text within a frame, however deep."""
    if isinstance(thing, str):
        yield thing
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from texts(key)
            yield from texts(value)
    elif isinstance(thing, tuple):
        for part in thing:
            yield from texts(part)


def assert_sound(frame: Frame, source: Source) -> None:
    assert frame.origin == source.url
    assert math.isfinite(frame.taken_at)
    assert math.isfinite(frame.lateness_s)
    assert all(text.isprintable() for text in texts(tuple(frame))), frame
    for name, block in frame.blocks.items():
        assert name in LABELS
        assert len(set(block.keys)) == len(block.keys)
        for key, column in block.columns.items():
            assert CATALOGUE[key].block == name
            assert len(column) == len(block.keys)
            assert column.typecode == ("q" if CATALOGUE[key].kind.is_integer else "d")
            for row in range(len(column)):
                value = block.value(key, row)
                if value is not None:
                    assert CATALOGUE[key].low <= value <= CATALOGUE[key].high, (key, value)
        for label, values in block.labels.items():
            assert label in LABELS[name]
            assert len(values) == len(block.keys)
        for key, row in block.missing:
            assert key in CATALOGUE or key in LABELS[name]
            assert 0 <= row < len(block.keys)
            assert isinstance(block.missing[key, row], Reason)
    for error in frame.errors:
        assert error.where
        assert error.message


def test_each_kind_of_target_is_tried_sound_and_in_trouble() -> None:
    assert set(SOUND.values()) == set(KINDS) - REPLAYED
    assert set(TROUBLED.values()) == set(KINDS) - REPLAYED - NEVER_TROUBLED


@pytest.mark.parametrize("kind", [*SOUND, *TROUBLED])
def test_frames_are_made_of_the_vocabulary_and_harmless(workshop: Workshop, kind: str) -> None:
    source = getattr(workshop, kind)()
    with started(source) as look:
        frames = settled(source, look)
    assert frames
    for frame in frames:
        assert_sound(frame, source)


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_target_gives_values_or_records(workshop: Workshop, kind: str) -> None:
    source = getattr(workshop, kind)()
    with started(source) as look:
        frames = settled(source, look)
    assert any(frame.block("gpu").keys or frame.queue for frame in frames)
    if kind in ("ssh", "slurm"):
        reached = {frame.node for frame in frames if frame.block("gpu").keys}
        assert {"ssh": {"gpu1", "gpu2"}, "slurm": {"gpu02", "gpu03"}}[kind] <= reached
    if kind in ("local", "single", "ssh", "slurm"):
        named = {name for f in frames for name in f.block("process").labels.get("name", ())}
        assert "\ufffd[31mx" in named
    if kind in ("slurm", "queue", "rest"):
        names = {job.name for frame in frames if frame.queue for job in frame.queue.jobs}
        assert any("\ufffd]0;owned\ufffd\ufffd[bold]" in name for name in names)


@pytest.mark.parametrize("kind", TROUBLED)
def test_trouble_is_told_in_lines_that_name_it(workshop: Workshop, kind: str) -> None:
    source = getattr(workshop, kind)()
    with started(source) as look:
        frames = settled(source, look)
    errors = [error for frame in frames for error in frame.errors]
    assert errors
    for error in errors:
        assert len(error.message) <= 256
        assert "\n" not in error.message
    assert not any(frame.queue for frame in frames)
    assert any(error.hint for error in errors)


@pytest.mark.parametrize("kind", [*SOUND, *TROUBLED])
def test_before_the_start_nothing_runs_and_closing_is_enough(workshop: Workshop, kind: str) -> None:
    source = getattr(workshop, kind)()
    before = children()
    assert source.pending()
    if kind != "demo":
        assert source.poll() == []
    source.wish(Wish(period_s=3.0, zoom_nodes=("gpu1",)))
    source.close()
    source.close()
    assert children() <= before


@pytest.mark.parametrize("kind", ["local", "ssh", "demo", "pages", "engine"])
def test_frames_go_on_and_a_wish_changes_their_beat(workshop: Workshop, kind: str) -> None:
    source = getattr(workshop, kind)()
    with started(source) as look:
        source.wish(Wish(period_s=0.1))
        eventually(lambda: len(look()) >= 6, "six frames arrive")
        frames = look()
    for node in {frame.node for frame in frames}:
        times = [frame.taken_at for frame in frames if frame.node == node]
        assert times == sorted(times)


HUNG = {
    "local": lambda shop: shop.node().state,
    "ssh": lambda shop: shop.command("ssh", "#!/bin/sh\ntrap '' TERM\nsleep 600 & wait\n"),
    "queue": lambda shop: shop.command("scontrol", "#!/bin/sh\ntrap '' TERM\nsleep 600 & wait\n"),
}


@pytest.mark.parametrize("kind", HUNG)
def test_what_never_answers_blocks_neither_start_nor_poll_nor_close(
    workshop: Workshop, kind: str
) -> None:
    state = HUNG[kind](workshop)
    if kind == "local":
        state.hang("nvmlInitWithFlags")
        state.write()
    urls = {"local": "local", "ssh": "ssh://gpu[1-3]"}
    source = SlurmQueue("slurm") if kind == "queue" else workshop.open(urls[kind])
    before = children()
    with started(source) as look:
        eventually(lambda: children() - before, "it has started something")
        for _ in range(1000):
            assert look() == []
        assert source.pending()
