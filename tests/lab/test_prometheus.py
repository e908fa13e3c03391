"""Prometheus and VictoriaMetrics of three Debians gather dcgm-exporter's pages; gpumon asks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from itertools import pairwise
from math import isnan
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import httpx
import pytest

from gpumon.cli import main
from gpumon.cli.recorded_past import filled_by_sources
from gpumon.fleet.history.history import History
from gpumon.fleet.join.join import join
from gpumon.fleet.sampler.newest import Newest
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.model.missing import Reason
from gpumon.sources.address import Sampling, parse
from gpumon.sources.open import open_source
from gpumon.sources.prometheus import questions, response
from gpumon.sources.prometheus.rules import SAMPLED_AT
from gpumon.sources.source import SystemClock, Wish
from tests.unit.sources.exporters.page_server import Answer, PageServer, page
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.fleet.join.join import JoinedFleet
    from gpumon.model.records.tick import Tick

PROGRAMS = ("prometheus", "victoria-metrics")
RELEASES = ("12", "13", "sid")
"""Of Debian: this machine's, and others of which only the programs were taken. The last one changes
any day, and is left out where it cannot be had or does not run here."""

TREES = Path(os.environ.get("GPUMON_LAB_TREES", "/var/cache/gpumon-lab"))
CONFIG = """
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: dcgm
    static_configs: [{targets: [%s]}]
"""
HOST = b"""node_load1 3.5
node_uname_info{nodename="gpu0%d"} 1
node_cpu_seconds_total{cpu="0",mode="user"} 10
node_cpu_seconds_total{cpu="0",mode="idle"} 20
node_cpu_seconds_total{cpu="1",mode="user"} 30
node_cpu_seconds_total{cpu="1",mode="idle"} 40
node_filesystem_avail_bytes{mountpoint="/scratch",fstype="xfs"} 5e9
"""
"""What node_exporter tells of a host, which bears an address here."""

STALE_S = 5.0
"""Beyond two intervals of a second no value is older than this and shown as the present."""


class Engine:
    """One server that gathers, and gpumon's source of it."""

    def __init__(self, program: str, folder: Path, release: str = RELEASES[0]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.program = program
        self.name = f"{program} of Debian {release}"
        self.file = taken(program, release) or program
        self.folder = folder
        self.more_words: tuple[str, ...] = ()
        """Of the command, beside those that every test needs."""
        self.url = f"prometheus+http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.source = open_source(
            parse(self.url), Sampling(1.0, False, lambda _: True), SystemClock()
        )
        self.newest = Newest()

    def start(self) -> None:
        config, data = self.folder / "gather.yml", self.folder / self.name
        at = f"127.0.0.1:{self.port}"
        words = {
            "prometheus": (
                *(f"--config.file={config}", f"--storage.tsdb.path={data}"),
                f"--web.listen-address={at}",
            ),
            "victoria-metrics": (
                *(f"-promscrape.config={config}", f"-storageDataPath={data}"),
                f"-httpListenAddr={at}",
            ),
        }[self.program]
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.file, *words, *self.more_words], stdout=log, stderr=log
            )

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def joined(self) -> JoinedFleet:
        """What somebody who watches is shown now."""
        self.newest.take(self.source.poll())
        return join(self.newest.frames, None, self.newest.node_errors, time.time(), STALE_S)

    def shows(self, *fresh: str) -> JoinedFleet | None:
        """What somebody is shown; None: other nodes than these are of the present."""
        fleet = self.joined()
        nodes = fleet.nodes.values()
        found = {node.name for node in nodes if node.gpu_uuids and not node.is_stale}
        return fleet if found == set(fresh) else None


class Judge:
    """Whoever evaluates rules for a server: Prometheus does it itself, vmalert for the other."""

    def __init__(self, engine: Engine, rules: Path) -> None:
        self.port = engine.port
        self.process: subprocess.Popen[bytes] | None = None
        if engine.program == "prometheus":
            return
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        server = f"http://127.0.0.1:{engine.port}"
        words = [f"-rule={rules}", f"-remoteWrite.url={server}"]
        # Else it is evaluated of what was half a minute ago.
        words += [f"-datasource.url={server}/?nocache=1"]
        words += ["-notifier.url=http://127.0.0.1:9", "-remoteWrite.flushInterval=1s"]
        words += ["-evaluationInterval=1s", f"-httpListenAddr=127.0.0.1:{self.port}"]
        with (engine.folder / "vmalert.log").open("ab") as log:
            self.process = subprocess.Popen(["vmalert", *words], stdout=log, stderr=log)

    def failures(self) -> dict[str, str]:
        """What was said of each rule that could not be evaluated."""
        answered = httpx.get(f"http://127.0.0.1:{self.port}/api/v1/rules").json()
        rules = [rule for group in answered["data"]["groups"] for rule in group["rules"]]
        assert rules
        return {one["name"]: one["lastError"] for one in rules if one.get("lastError")}

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def taken(program: str, release: str) -> str | None:
    """The program of a release of Debian; None: it is not here."""
    if release == RELEASES[0]:
        return shutil.which(program)
    return shutil.which(program, path=str(TREES / f"servers-{release}" / "usr" / "bin"))


def needed(*releases: str) -> None:
    """Skip where the engines are not here."""
    missing = [
        program for program in (*PROGRAMS, "promtool", "vmalert") if shutil.which(program) is None
    ]
    missing += [
        f"{program} of Debian {release}"
        for release in releases
        for program in PROGRAMS
        if taken(program, release) is None
    ]
    if missing:
        reason = f"needs {', '.join(missing)}: tests/lab/install-packages installs what is missing"
        (pytest.fail if os.environ.get("GPUMON_LAB") == "require" else pytest.skip)(reason)


def runs(release: str) -> bool:
    """Whether the servers of a release are here and of a kind that runs on this machine."""
    files = [taken(program, release) for program in PROGRAMS]
    return all(
        file is not None and not subprocess.run([file, "--version"], capture_output=True).returncode
        for file in files
    )


@pytest.fixture
def pages() -> Iterator[list[PageServer]]:
    values = {
        "DEV_GPU_UTIL": 97,
        "DEV_FB_USED": 1000,
        "DEV_FB_FREE": 79000,
        "DEV_POWER_USAGE": 300.5,
        "PROF_SM_ACTIVE": 0.5,
        "DEV_MEMORY_TEMP": 0,
        "DEV_ROW_REMAP_FAILURE": 2147483634,
    }
    bodies = [page(2, f"gpu0{n}", **values).replace(b"GPU-", f"GPU-{n}".encode()) for n in (1, 2)]
    bodies = [body + HOST % number for number, body in enumerate(bodies, 1)]
    found = [PageServer(Answer(body)) for body in bodies]
    yield found
    for server in found:
        server.stop()


@pytest.fixture
def engines(tmp_path: Path, pages: list[PageServer]) -> Iterator[list[Engine]]:
    """The servers of all releases at once, as most of a test is waiting."""
    needed(*RELEASES[:-1])
    targets = ", ".join(f"'127.0.0.1:{server.port}'" for server in pages)
    (tmp_path / "gather.yml").write_text(CONFIG % targets)
    found = [
        Engine(program, tmp_path, release)
        for release in RELEASES
        if release != RELEASES[-1] or runs(release)
        for program in PROGRAMS
    ]
    for engine in found:
        engine.start()
        engine.source.start(lambda: None)
    yield found
    for engine in found:
        engine.source.close()
        engine.stop()


def test_gathered_pages_are_shown_and_a_server_or_an_exporter_that_ends_is_stale_and_comes_back(
    engines: list[Engine], pages: list[PageServer], capsys: pytest.CaptureFixture[str]
) -> None:
    for engine in engines:
        fleet = eventually(lambda one=engine: one.shows("gpu01", "gpu02"), f"{engine.name} is read")
        asked = {
            "query": "DCGM_FI_DEV_GPU_UTIL",
            "time": f"{time.time() - 2.0:.3f}",
            "nocache": "1",
        }
        answered = httpx.get(f"http://127.0.0.1:{engine.port}/api/v1/query", params=asked)
        assert response.opened(answered.content, 200).cut is not None, answered.text[:200]
        gpu = fleet.gpus["GPU-10"]
        assert (gpu.node, gpu.value("gpu_util_ratio"), gpu.value("power_w")) == (
            "gpu01",
            0.97,
            300.5,
        )
        assert gpu.value("mem_total_bytes") == 80000 * 2**20
        assert gpu.reason("mem_temp_c") is Reason.NOT_SUPPORTED
        assert gpu.reason("remap_failure") is Reason.NOT_SUPPORTED
        assert gpu.reason("tensor_active_ratio") is Reason.NOT_SHARED
        host = fleet.nodes["gpu02"]
        assert host.block is not None
        assert (host.block.value("load_1m", 0), host.block.value("cpu_count", 0)) == (3.5, 2)
        assert main(["--json", "--for", "0", engine.url]) == 0
        document = json.loads(capsys.readouterr().out)
        assert {node["name"] for node in document["nodes"]} == {"gpu01", "gpu02"}
        assert document["errors"] == []

    # One exporter ends: its node alone is of the past, and each server has a line about it.
    whole, pages[1].answer = pages[1].answer, Answer(status="503 No")
    for engine in engines:
        eventually(lambda one=engine: one.shows("gpu01"), f"{engine.name} misses one")
        # A node may be of the past by its age, just before the server is asked again.
        eventually(
            lambda one=engine: one.shows("gpu01") and one.newest.node_errors.get("gpu02"),
            f"{engine.name} has a line about it",
        )
    pages[1].answer = whole
    for engine in engines:
        eventually(lambda one=engine: one.shows("gpu01", "gpu02"), f"{engine.name} has it")

    # The servers end: all of it is, within the age that a second's interval allows.
    for engine in engines:
        engine.stop()
    for engine in engines:
        eventually(lambda one=engine: one.shows(), f"{engine.name} is gone")
        # A question that it was answering as it ended was reset; those after it are refused.
        eventually(lambda one=engine: is_refused(one), f"{engine.name} refuses connections")
        engine.start()
    for engine in engines:
        eventually(lambda one=engine: one.shows("gpu01", "gpu02"), f"{engine.name} is back")
        assert engine.newest.errors == ()


def is_refused(engine: Engine) -> bool:
    """Whether the newest sample says that nobody listens there."""
    return any("Connection refused" in error.message for error in engine.newest.errors)


class Growing(PageServer):
    """The page of a node whose energy counts on, at 300 W."""

    def __init__(self, host: str, more: bytes = b"") -> None:
        super().__init__()
        self.host = host
        self.more = more

    def answer_to(self, head: bytes) -> Answer:
        return Answer(page_at(self.host, time.time()) + self.more)


def page_at(host: str, at: float) -> bytes:
    values = {
        "DEV_GPU_UTIL": 97,
        "DEV_POWER_USAGE": round(200.0 + at % 100.0, 1),
        "DEV_TOTAL_ENERGY_CONSUMPTION": round((at - 1.7e9) * 300e3),
    }
    gpus = page(2, host, **values).replace(b"GPU-", f"GPU-{host[-1]}".encode())
    counted = f'node_network_receive_bytes_total{{device="eth0"}} {(at - 1.7e9) * 7e6:.0f}\n'
    return gpus + HOST % int(host[-1]) + counted.encode()


def past_of(server: Growing, now: float) -> list[str]:
    """What a server that has gathered a page for three hours holds, by time."""
    lines = []
    more = f'instance="127.0.0.1:{server.port}",job="dcgm"'
    at = now - PAST_S
    while at < now - 10.0:
        for line in page_at(server.host, at).decode().splitlines():
            if not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                name, _, own = series.removesuffix("}").partition("{")
                labels = f"{own},{more}" if own else more
                lines.append(f"{name}{{{labels}}} {value} {at:.3f}")
        at += 5.0
    return sorted(lines, key=lambda line: line.partition("{")[0])


PAST_S = 3 * 3600.0


def remember(engine: Engine, lines: list[str]) -> None:
    """Give a server a past, series by series, by the road that its makers have for that."""
    if engine.program == "prometheus":
        by_name: dict[str, list[str]] = {}
        for line in lines:
            by_name.setdefault(line.partition("{")[0], []).append(line)
        text = "".join(
            f"# TYPE {name} gauge\n" + "".join(f"{line}\n" for line in some)
            for name, some in sorted(by_name.items())
        )
        (engine.folder / "past.om").write_text(text + "# EOF\n")
        made = ("create-blocks-from", "openmetrics", engine.folder / "past.om")
        subprocess.run(
            ["promtool", "tsdb", *made, engine.folder / engine.name],
            check=True,
            capture_output=True,
        )
        engine.start()
        return
    engine.start()
    body = "".join(
        f"{line.rpartition(' ')[0]} {float(line.rpartition(' ')[2]) * 1000:.0f}\n" for line in lines
    )

    def taken() -> bool:
        url = f"http://127.0.0.1:{engine.port}/api/v1/import/prometheus"
        try:
            return httpx.post(url, content=body, timeout=20.0).is_success
        except httpx.HTTPError:
            return False

    eventually(taken, "the past is taken in")


def test_the_past_that_a_server_has_gathered_is_ones_own_from_the_first_minute(
    tmp_path: Path,
) -> None:
    needed()
    servers = [Growing("gpu01"), Growing("gpu02")]
    (tmp_path / "gather.yml").write_text(
        CONFIG % ", ".join(f"'127.0.0.1:{server.port}'" for server in servers)
    )
    engines = [Engine(program, tmp_path) for program in PROGRAMS]
    samplers: list[Sampler] = []
    try:
        for engine in engines:
            now = time.time()
            remember(engine, [line for server in servers for line in past_of(server, now)])
            targets, sources = [parse(engine.url)], [engine.source]
            past = filled_by_sources(History, sources, targets)
            sampler = Sampler(sources, SystemClock(), 1.0, past)
            samplers.append(sampler)
            newest: list[Tick] = []
            sampler.start(newest.append)
            eventually(
                lambda seen=newest: seen and seen[-1].at - seen[-1].observed_since > PAST_S - 600.0,
                f"{engine.program} has told its past",
            )
            # The first page of a node may be gathered a moment after its past was asked for.
            eventually(
                lambda seen=newest: not seen[-1].errors, f"{engine.program} tells the present"
            )
            tick = newest[-1]
            assert tick.history is not None
            window = tick.history.window
            times, power = window("GPU-10", "power_w", tick.at - 3500.0, tick.at)
            known = [value for value in power if not isnan(value)]
            assert len(known) > 600
            assert max(after - before for before, after in pairwise(times)) < 60.0
            assert all(199.0 < value < 301.0 for value in known)
            old, _ = window("GPU-10", "power_w", tick.at - PAST_S, tick.at - 7500.0)
            assert 5 < len(old) < 20
            has_past_of_host(tick)
            # Energy is one counter over the border between the past and what was seen.
            times, energy = window("GPU-21", "energy_j", tick.at - 3000.0, tick.at)
            counted = [(at, joule) for at, joule in zip(times, energy, strict=True) if joule > 0]
            rates = [
                (joule - before) / (at - then)
                for (then, before), (at, joule) in pairwise(counted)
                if at - then > 4.0
            ]
            assert median(rates) == pytest.approx(300.0, rel=0.05)
            assert min(joule - before for (_, before), (_, joule) in pairwise(counted)) >= 0
    finally:
        for sampler in samplers:
            sampler.close()
        for engine in engines:
            engine.source.close()
            engine.stop()
        for server in servers:
            server.stop()


def has_past_of_host(tick: Tick) -> None:
    """It is told with that of GPUs, by what the host calls itself, though coarser."""
    assert tick.history is not None
    window, until = tick.history.window, tick.at - 60.0
    _, load = window("gpu01", "load_1m", tick.at - 3500.0, until, "node")
    assert len([value for value in load if value == 3.5]) > 200
    _, received = window("gpu01", "net_rx_bytes_per_s", tick.at - PAST_S, until, "node")
    rates = [value for value in received if not isnan(value)]
    assert len(rates) > 200
    assert rates == [pytest.approx(7e6, rel=0.05)] * len(rates)


def test_rules_that_are_printed_are_evaluated_and_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed()
    assert main(["config", "rules"]) == 0
    file = tmp_path / "gpumon-rules.yml"
    # Evaluated as often as this server reads its pages.
    file.write_text(capsys.readouterr().out.replace("interval: 30s", "interval: 1s"))
    checked = subprocess.run(
        ["promtool", "check", "rules", file], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    monkeypatch.setattr(questions, "MANY_GPUS", 1)
    servers = [Growing("gpu01"), Growing("gpu02")]
    targets = ", ".join(f"'127.0.0.1:{server.port}'" for server in servers)
    engines, judges = [], []
    try:
        for program in PROGRAMS:
            folder = tmp_path / program
            folder.mkdir()
            own = f"rule_files: [{file}]\n" if program == "prometheus" else ""
            (folder / "gather.yml").write_text(CONFIG % targets + own)
            engines.append(Engine(program, folder))
            engines[-1].start()
            judges.append(Judge(engines[-1], file))
        for engine, judge in zip(engines, judges, strict=True):
            eventually(lambda one=engine: has_recorded(one), "the rules are evaluated")
            assert judge.failures() == {}
            engine.source.start(lambda: None)
            fleet = eventually(lambda one=engine: one.shows("gpu01", "gpu02"), "it is read")
            gpu = fleet.gpus["GPU-10"]
            assert (gpu.value("gpu_util_ratio"), gpu.value("energy_j")) == (0.97, None)
            assert gpu.block.label("name", gpu.row) == "NVIDIA H100 80GB HBM3"
            engine.source.wish(Wish(zoom_nodes=("gpu01",)))
            eventually(
                lambda one=engine: one.joined().gpus["GPU-10"].value("energy_j") is not None,
                "a node that is looked at is told whole",
            )
            assert engine.joined().gpus["GPU-20"].value("energy_j") is None
            assert engine.newest.errors == ()
    finally:
        for judge in judges:
            judge.stop()
        for engine in engines:
            engine.source.close()
            engine.stop()
        for server in servers:
            server.stop()


def has_recorded(engine: Engine) -> bool:
    """Whether rules have made something of all four GPUs."""
    url = f"http://127.0.0.1:{engine.port}/api/v1/query"
    asked = {"query": f"count({SAMPLED_AT})", "nocache": "1", "time": f"{time.time():.3f}"}
    try:
        answer = httpx.get(url, params=asked)
    except httpx.HTTPError:
        return False
    # A server that reads its files answers, with a text that is no JSON.
    answered = answer.json()["data"]["result"] if answer.is_success else []
    return bool(answered) and answered[0]["value"][1] == "4"
