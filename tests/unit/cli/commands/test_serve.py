"""`gpumon serve` as a program: what it says, what it answers, and how it ends."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
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


def test_another_gpumon_shows_the_same_without_a_probe_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path) as program:
        eventually(lambda: program.get("/healthz")[0] == 200, "a picture")
        words = ["--json", "--for", "0", f"gpumon+unix://{program.socket}"]
        looked = subprocess.run(
            [sys.executable, "-m", "gpumon", *words], capture_output=True, timeout=PATIENCE_S
        )
        served = json.loads(program.get("/v1/snapshot")[1])
    seen = json.loads(looked.stdout)
    assert (looked.returncode, looked.stderr, seen["errors"]) == (0, b"", [])
    for name in ("nodes", "jobs"):
        key = "name" if name == "nodes" else "job_id"
        assert [one[key] for one in seen[name]] == [one[key] for one in served[name]]
    assert all(
        gpu["origin"] == f"gpumon+unix://{program.socket}"
        for node in seen["nodes"]
        for gpu in node["gpus"]
    )


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


def configured(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
    file = folder / "config.toml"
    lines = (f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    file.write_text("[serve]\n" + "".join(lines))
    monkeypatch.setenv("GPUMON_CONFIG", str(file))


def test_tokens_and_tls_open_it_to_other_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificate: tuple[Path, Path]
) -> None:
    token = "t" * 20
    file = tmp_path / "tokens"
    file.write_text(f"ada {token}\n")
    file.chmod(0o600)
    (tmp_path / "config.toml").write_text(
        f'[serve]\ntoken_file = "{file}"\ntokens = {{ ada = ["*"] }}\n'
        f'tls_certificate = "{certificate[0]}"\ntls_key = "{certificate[1]}"\n'
    )
    monkeypatch.setenv("GPUMON_CONFIG", str(tmp_path / "config.toml"))
    words = ["serve", "demo:1x1", "--listen", "0.0.0.0:0"]
    with subprocess.Popen(
        [sys.executable, "-m", "gpumon", *words], stderr=subprocess.PIPE, text=True
    ) as program:
        try:
            assert program.stderr
            said = program.stderr.readline()
            assert said.startswith("gpumon: serving demo:1x1 on https://0.0.0.0:")
            port = int(said.rstrip("/\n").rpartition(":")[2])
            context = ssl.create_default_context(cafile=str(certificate[0]))

            def status(**headers: str) -> int:
                client = http.client.HTTPSConnection(
                    "127.0.0.1", port, context=context, timeout=PATIENCE_S
                )
                try:
                    client.request("GET", "/", headers=headers)
                    return client.getresponse().status
                finally:
                    client.close()

            assert status() == 401
            assert status(Authorization=f"Bearer {token}") == 200
            program.terminate()
            assert token not in program.communicate(timeout=PATIENCE_S)[1]
        finally:
            program.kill()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"token_file": "/nowhere"}, "serve.token_file: /nowhere: No such file"),
        ({"tls_certificate": "/nowhere.pem"}, "/nowhere.pem, : No such file"),
    ],
)
def test_what_is_configured_wrongly_ends_it_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    told: Told,
    said: Say,
    settings: dict[str, object],
    words: str,
) -> None:
    configured(tmp_path, monkeypatch, **settings)
    code, told_line = told("demo")
    said(told_line)
    assert code == 2
    assert words in told_line
    assert told_line.count("\n") == 1


def test_what_tokens_show_without_a_file_of_them_is_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    (tmp_path / "config.toml").write_text('[serve.tokens]\nada = ["user:ada"]\n')
    monkeypatch.setenv("GPUMON_CONFIG", str(tmp_path / "config.toml"))
    assert told("demo") == (
        2,
        (
            "gpumon: serve.tokens is set without serve.token_file: name the file that holds the "
            "tokens\n"
        ),
    )


Told = Callable[..., tuple[int, str]]
Say = Callable[..., None]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """What the command says, and how it ends."""

    def run(*words: str) -> tuple[int, str]:
        code = main(["serve", *words])
        return code, capsys.readouterr().err

    return run


@pytest.mark.parametrize("where", ["0.0.0.0:9777", "[::]:9777", "login1:9777"])
def test_other_machines_are_not_let_in(told: Told, said: Say, where: str) -> None:
    code, line = told("demo", "--listen", where)
    assert code == 2
    said(line)
    assert line.startswith(f"gpumon: {where} can be reached from other machines")
    assert line.count("\n") == 1


@pytest.mark.parametrize("where", ["nowhere", "1.2.3.4:x"])
def test_what_is_no_address_is_said(told: Told, where: str) -> None:
    code, line = told("demo", "--listen", where)
    assert (code, line.count("\n")) == (2, 1)


def test_a_recording_is_not_served(told: Told) -> None:
    assert told("./x.gpumon") == (
        2,
        "gpumon: a recording has its own clock and cannot be served; gpumon replay shows it\n",
    )


def test_a_port_that_is_taken_is_said_with_the_way_out(told: Told, said: Say) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, line = told("demo", "--listen", str(port))
    said(line)
    assert code == 1
    assert "--listen names another place" in line
    assert line.count("\n") == 1
