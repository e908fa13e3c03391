"""Questions over HTTP: what lets us in, and every other answer in one line with a way out."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.http.exchange import FetchError
from gpumon.sources.prometheus import client
from gpumon.sources.prometheus.client import Client
from gpumon.sources.prometheus_address import EngineAddress
from tests.unit.sources.exporters.page_server import Answer, PageServer
from tests.unit.sources.prometheus.engine import JSON

if TYPE_CHECKING:
    from pathlib import Path

    from gpumon.sources.prometheus.response import Answer as Said

Say = Callable[..., None]
GOOD = b'{"status":"success","data":["a"]}'


@pytest.fixture
def server() -> Iterator[PageServer]:
    found = PageServer(Answer(GOOD, headers=JSON))
    yield found
    found.stop()


def asked(server: PageServer | int, timeout_s: float = 20.0, **more: str) -> Said:
    port = server if isinstance(server, int) else server.port
    address = EngineAddress(f"http://127.0.0.1:{port}/pre", **more)

    async def run() -> Said:
        made = Client(address, timeout_s)
        try:
            made.renew()
            return await made.ask("query", {"query": "up"})
        finally:
            await made.close()

    return asyncio.run(run())


def failed(said: Say, server: PageServer | int, timeout_s: float = 20.0, **more: str) -> FetchError:
    with pytest.raises(FetchError) as caught:
        asked(server, timeout_s, **more)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) <= 256
    assert caught.value.hint
    said(caught.value.message, caught.value.hint)
    return caught.value


def secret(folder: Path, text: str, mode: int = 0o600) -> str:
    file = folder / "secret"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_a_question_stands_behind_the_prefix(server: PageServer) -> None:
    assert asked(server).data == ["a"]
    head = server.requests[0].decode()
    assert head.startswith("GET /pre/api/v1/query?query=up&timeout=20s HTTP/1.1\r\n")
    assert "authorization" not in head.lower()
    assert "x-scope" not in head.lower()


def test_a_token_a_login_and_a_tenant_are_headers(server: PageServer, tmp_path: Path) -> None:
    asked(server, token_file=secret(tmp_path, "abc.def\n"), tenant="a|b")
    head = server.requests[-1].decode().lower()
    assert "authorization: bearer abc.def\r\n" in head
    assert "x-scope-orgid: a|b\r\n" in head
    asked(server, login_file=secret(tmp_path, "ada:hunter2\n"))
    assert "authorization: basic ywrhomh1bnrlcji=\r\n" in server.requests[-1].decode().lower()


@pytest.mark.parametrize(
    ("option", "text", "mode", "words"),
    [
        ("token_file", "abc", 0o644, "is open to others"),
        ("token_file", "a b", 0o600, "holds no token"),
        ("token_file", "x" * 17000, 0o600, "holds no token"),
        ("login_file", "ada", 0o600, "holds no login"),
        ("login_file", "ada:x\r\ny", 0o600, "holds no login"),
    ],
)
def test_a_secret_that_cannot_be_used_is_not_sent(
    server: PageServer, tmp_path: Path, said: Say, option: str, text: str, mode: int, words: str
) -> None:
    error = failed(said, server, **{option: secret(tmp_path, text, mode)})
    assert words in error.message
    assert text not in error.message
    assert server.requests == []


def test_a_secret_that_the_server_repeats_is_struck_out(
    server: PageServer, tmp_path: Path, said: Say
) -> None:
    body = b'{"status":"error","errorType":"x","error":"no such hunter2"}'
    server.answer = Answer(body, "400 Bad", JSON)
    error = failed(said, server, login_file=secret(tmp_path, "ada:hunter2"))
    assert "hunter2" not in error.message


def test_a_certificate_of_ours_that_is_none_is_told(tmp_path: Path, said: Say) -> None:
    address = EngineAddress("https://127.0.0.1:1", client_cert=secret(tmp_path, "x"))
    with pytest.raises(FetchError, match="client_cert= cannot be used"):
        Client(address, 1.0).renew()


def test_a_certificate_of_ours_lets_us_in_and_theirs_is_checked(
    certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Say
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.load_verify_locations(certificate[0])
    context.verify_mode = ssl.CERT_REQUIRED
    server = PageServer(Answer(GOOD, headers=JSON), tls=context)
    own = secret(tmp_path, "".join(file.read_text() for file in certificate))
    address = EngineAddress(f"https://127.0.0.1:{server.port}", client_cert=own)

    async def run(address: EngineAddress) -> Said:
        made = Client(address, 20.0)
        try:
            made.renew()
            return await made.ask("query", {"query": "up"})
        finally:
            await made.close()

    try:
        with pytest.raises(FetchError) as caught:
            asyncio.run(run(address))
        said(caught.value.message, caught.value.hint)
        assert "CERTIFICATE_VERIFY_FAILED" in caught.value.message
        assert "SSL_CERT_FILE" in caught.value.hint
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert asyncio.run(run(address)).data == ["a"]
        with pytest.raises(FetchError):
            asyncio.run(run(address._replace(client_cert="")))
    finally:
        server.stop()


LIMIT = b'{"status":"error","errorType":"too_many_requests","error":"too many requests"}'
RANGE = (
    b'{"status":"error","errorType":"execution","error":"the total query time range exceeds the '
    b'limit (query length: 24h0m0s, limit: 12h0m0s) (err-mimir-max-total-query-length)"}'
)
"""As Mimir's code and runbook have it."""

HTML = (("Content-Type", "text/html; charset=x"),)
TEXT = (("Content-Type", "text/plain"),)


@pytest.mark.parametrize(
    ("answer", "words", "way_out"),
    [
        (Answer(b"Client sent an HTTP request", "400 Bad", TEXT), "HTTP 400", "+https://"),
        (Answer(status="401 No"), "does not let gpumon in (HTTP 401)", "token_file"),
        (Answer(status="403 No"), "does not let gpumon in (HTTP 403)", "login_file"),
        (Answer(b"x", "404 No", TEXT), "no such interface (HTTP 404)", "prefix"),
        (Answer(b"x", "502 No", TEXT), "an error (HTTP 502)", "log"),
        (Answer(b"<html>", "502 No", HTML), "HTTP 502 with a web page", "prefix"),
        (Answer(b"<html>", headers=HTML), "a web page", "port"),
        (Answer(b"<html>", headers=JSON), "a web page", "port"),
        (
            Answer(status="302 Found", headers=(("Location", "http://other/x"),)),
            "redirects to http://other/",
            "use that address",
        ),
        (Answer(GOOD, headers=TEXT), "answers with text/plain", "port"),
        (Answer(b"\xff\xfe", headers=JSON), "another form", "port"),
        (Answer(GOOD, headers=JSON, is_short=True), "broke off", "port"),
        (Answer(raw=b"SSH-2.0-OpenSSH_9.2\r\n"), "not HTTP", "https"),
        (Answer(b'{"status":"error","error":"e"}', "422 No", JSON), "error: e", "log"),
        (Answer(b"too many requests", "429 No", TEXT), "too many requests (HTTP 429)", "limits"),
        (Answer(LIMIT, "429 No", JSON), "too many requests (HTTP 429)", "limits"),
        (Answer(RANGE, "422 No", JSON), "err-mimir-max-total-query-length", "log"),
        (Answer(b"no org id", "401 No", TEXT), "does not let gpumon in", "?tenant=NAME"),
        (Answer(b"no", headers=(*JSON, ("Content-Encoding", "gzip"))), "gzip", "proxy"),
        (
            Answer(GOOD, headers=(*JSON, ("Content-Encoding", "br"))),
            "compresses its answer",
            "proxy",
        ),
    ],
)
def test_whatever_else_answers_is_named_with_the_way_out(
    server: PageServer, answer: Answer, words: str, way_out: str, said: Say
) -> None:
    server.answer = answer
    error = failed(said, server)
    assert words in error.message
    assert way_out in error.hint
    assert error.is_refused == answer.status.startswith("502")


def test_a_refusal_of_what_was_sent_names_the_file(
    server: PageServer, tmp_path: Path, said: Say
) -> None:
    server.answer = Answer(status="401 No")
    assert "?token_file=" in failed(said, server, token_file=secret(tmp_path, "abc")).hint


def test_a_packed_answer_is_unpacked(server: PageServer) -> None:
    headers = (*JSON, ("Content-Encoding", "gzip"))
    server.answer = Answer(gzip.compress(GOOD), headers=headers)
    assert asked(server).data == ["a"]


def test_on_this_machine_nothing_is_packed(server: PageServer) -> None:
    asked(server)
    assert b"accept-encoding: identity" in server.requests[0].lower()


@pytest.mark.parametrize("url", ["http://prometheus:9090", "https://10.1.2.3/127.0.0.1"])
def test_from_elsewhere_an_answer_may_be_packed(url: str) -> None:
    made = Client(EngineAddress(url), 1.0)
    made.renew()
    assert made._client is not None
    assert made._client.headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("is_packed", [False, True])
def test_an_answer_that_is_too_large_is_cut_off(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, said: Say, is_packed: bool
) -> None:
    monkeypatch.setattr(client, "LARGEST_ANSWER_BYTES", 2**20)
    body = b" " * 2**21
    headers = (*JSON, ("Content-Encoding", "gzip")) if is_packed else JSON
    server.answer = Answer(gzip.compress(body) if is_packed else body, headers=headers)
    assert "larger than 1 MiB and was cut off" in failed(said, server).message


def test_nobody_listens(said: Say) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = failed(said, taken.getsockname()[1])
    assert error.message == "cannot be reached: Connection refused"
    assert error.is_refused


def test_a_server_that_begins_is_asked_again_soon(server: PageServer, said: Say) -> None:
    server.answer = Answer(b"starting", "503 Service Unavailable", TEXT)
    assert failed(said, server).is_refused


def test_a_server_that_says_nothing_is_given_up(server: PageServer, said: Say) -> None:
    server.is_mute = True
    assert failed(said, server, 0.2).message == "gave no complete answer within 0.2 s"


def test_a_byte_now_and_then_puts_off_no_deadline(server: PageServer, said: Say) -> None:
    server.drips = True
    assert failed(said, server, 0.3).message == "gave no complete answer within 0.3 s"
