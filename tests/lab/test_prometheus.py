"""Debian's Prometheus and VictoriaMetrics gather pages of dcgm-exporter's form; gpumon asks."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from gpumon.cli import main
from gpumon.fleet.join.join import join
from gpumon.fleet.sampler.newest import Newest
from gpumon.model.missing import Reason
from gpumon.sources.address import Look, parse
from gpumon.sources.open import open_source
from gpumon.sources.source import SystemClock
from tests.unit.sources.exporters.page_server import Answer, PageServer, page
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpumon.fleet.join.join import Picture

PROGRAMS = ("prometheus", "victoria-metrics")
CONFIG = """
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: dcgm
    static_configs: [{targets: [%s]}]
"""
STALE_S = 5.0
"""Beyond two intervals of a second no value is older than this and shown as the present."""


class Engine:
    """One server that gathers, and gpumon's source of it."""

    def __init__(self, program: str, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.program = program
        self.folder = folder
        self.url = f"prometheus+http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.source = open_source(parse(self.url), Look(1.0, False, lambda _: True), SystemClock())
        self.newest = Newest()

    def start(self) -> None:
        config, data = self.folder / "gather.yml", self.folder / self.program
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
        with (self.folder / f"{self.program}.log").open("ab") as log:
            self.process = subprocess.Popen([self.program, *words], stdout=log, stderr=log)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def picture(self) -> Picture:
        """What somebody who watches is shown now."""
        self.newest.take(self.source.poll())
        return join(self.newest.frames, None, self.newest.node_errors, time.time(), STALE_S)

    def shows(self, *fresh: str) -> bool:
        nodes = self.picture().nodes.values()
        return {node.name for node in nodes if node.gpu_uuids and not node.is_stale} == set(fresh)


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
    found = [PageServer(Answer(body)) for body in bodies]
    yield found
    for server in found:
        server.stop()


@pytest.fixture
def engines(tmp_path: Path, pages: list[PageServer]) -> Iterator[list[Engine]]:
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        reason = f"needs {', '.join(missing)}: tests/lab/install-packages installs what is missing"
        (pytest.fail if os.environ.get("GPUMON_LAB") == "require" else pytest.skip)(reason)
    targets = ", ".join(f"'127.0.0.1:{server.port}'" for server in pages)
    (tmp_path / "gather.yml").write_text(CONFIG % targets)
    found = [Engine(program, tmp_path) for program in PROGRAMS]
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
        eventually(lambda one=engine: one.shows("gpu01", "gpu02"), f"{engine.program} is read")
        gpu = engine.picture().gpus["GPU-10"]
        assert (gpu.node, gpu.value("gpu_util_ratio"), gpu.value("power_w")) == (
            "gpu01",
            0.97,
            300.5,
        )
        assert gpu.value("mem_total_bytes") == 80000 * 2**20
        assert gpu.reason("mem_temp_c") is Reason.NOT_SUPPORTED
        assert gpu.reason("remap_failure") is Reason.NOT_SUPPORTED
        assert gpu.reason("tensor_active_ratio") is Reason.NOT_SHARED
        assert main(["--json", "--for", "0", engine.url]) == 0
        document = json.loads(capsys.readouterr().out)
        assert {node["name"] for node in document["nodes"]} == {"gpu01", "gpu02"}
        assert document["errors"] == []

    # One exporter ends: its node alone is of the past, and each server has a line about it.
    whole, pages[1].answer = pages[1].answer, Answer(status="503 No")
    for engine in engines:
        eventually(lambda one=engine: one.shows("gpu01"), f"{engine.program} misses one")
        assert engine.newest.node_errors["gpu02"]
    pages[1].answer = whole
    for engine in engines:
        eventually(lambda one=engine: one.shows("gpu01", "gpu02"), f"{engine.program} has it")

    # The servers end: all of it is, within the age that a second's interval allows.
    for engine in engines:
        engine.stop()
    for engine in engines:
        eventually(lambda one=engine: one.shows(), f"{engine.program} is gone")
        assert "Connection refused" in engine.newest.errors[0].message
        engine.start()
    for engine in engines:
        eventually(lambda one=engine: one.shows("gpu01", "gpu02"), f"{engine.program} is back")
        assert engine.newest.errors == ()
