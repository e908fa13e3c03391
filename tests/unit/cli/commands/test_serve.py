"""`gpumon serve` as a program: what it says, what it answers, and how it ends."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open

from gpumon.cli import main
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 60.0


class Client(http.client.HTTPConnection):
    """Over a UNIX socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(self._path)


class Program(subprocess.Popen[str]):
    """A server of a demo."""

    socket = ""

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        client = Client(self.socket)
        try:
            client.request("GET", path, headers=headers)
            response = client.getresponse()
            return response.status, response.read()
        finally:
            client.close()


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Program]:
    path = str(folder / "serve.sock")
    words = ["serve", "demo:2x8", "--listen", f"unix:{path}", "--period", "0.2", *options]
    with Program(
        [sys.executable, "-m", "gpumon", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        program.socket = path
        try:
            assert program.stderr
            assert program.stderr.readline() == f"gpumon: serving demo:2x8 on unix:{path}\n"
            yield program
        finally:
            program.kill()


def test_metrics_document_and_health_of_a_demo(tmp_path: Path) -> None:
    with serving(tmp_path) as program:
        eventually(lambda: program.get("/healthz")[0] == 200, "a picture")
        status, body = program.get("/metrics", Accept="application/openmetrics-text")
        assert status == 200
        names = {family.name for family in read_open(body.decode())}
        assert {"gpumon_power_watts", "gpumon_ledger_gpu_seconds", "gpumon_jobs"} <= names
        said = json.loads(program.get("/v1/snapshot")[1])
        assert said["schema"] == "gpumon-document/2"
        assert sum(bool(node["gpus"]) for node in said["nodes"]) == 2


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)]
)
def test_it_ends_as_it_is_told_and_leaves_no_socket(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with serving(tmp_path) as program:
        program.send_signal(number)
        out, err = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, out, err) == (code, "", "")
    assert not (tmp_path / "serve.sock").exists()


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["serve", *words])
    return code, capsys.readouterr().err


@pytest.mark.parametrize("where", ["0.0.0.0:9777", "[::]:9777", "login1:9777"])
def test_other_machines_are_not_let_in(capsys: pytest.CaptureFixture[str], where: str) -> None:
    code, said = told(capsys, "demo", "--listen", where)
    assert code == 2
    assert said.startswith(f"gpumon: {where} can be reached from other machines")
    assert said.count("\n") == 1


@pytest.mark.parametrize("where", ["nowhere", "1.2.3.4:x"])
def test_what_is_no_address_is_said(capsys: pytest.CaptureFixture[str], where: str) -> None:
    code, said = told(capsys, "demo", "--listen", where)
    assert (code, said.count("\n")) == (2, 1)


def test_a_recording_is_not_served(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "./x.gpumon") == (
        2,
        "gpumon: a recording has a time of its own and is not served; gpumon replay shows it\n",
    )


def test_a_port_that_is_taken_is_said_with_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, said = told(capsys, "demo", "--listen", str(port))
    assert code == 1
    assert "--listen names another place" in said
    assert said.count("\n") == 1
