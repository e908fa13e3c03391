"""A page over HTTP, and everything else that may answer, each in one line with a way out."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx
import pytest

from gpumon.sources.exporters import fetch
from gpumon.sources.exporters.fetch import Fetcher, Rooms
from gpumon.sources.http import exchange
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.http.failures import failure
from tests.unit.sources.exporters.page_server import KIND, Answer, PageServer, page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = page()


@pytest.fixture
def server() -> Iterator[PageServer]:
    found = PageServer()
    yield found
    found.stop()


def fetched(url: str, times: int = 1, *, stays_open: bool = True, timeout_s: float = 20.0) -> bytes:
    async def run() -> bytes:
        fetcher = Fetcher(url, Rooms(), stays_open=stays_open, timeout_s=timeout_s)
        try:
            for _ in range(times - 1):
                await fetcher.page()
            return await fetcher.page()
        finally:
            await fetcher.close()

    return asyncio.run(run())


Say = Callable[..., None]


def failed(said: Say, url: str, timeout_s: float = 20.0) -> tuple[str, str]:
    """Message and way out of a fetch that fails."""
    with pytest.raises(FetchError) as caught:
        fetched(url, timeout_s=timeout_s)
    message, hint = caught.value.message, caught.value.hint
    assert "\n" not in message
    assert len(message) < 256
    assert hint
    said(message, hint)
    return message, hint


def kind(text: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return (("Content-Type", text), *more)


def test_a_page_is_what_was_served(server: PageServer) -> None:
    assert fetched(server.url) == PAGE
    head = server.requests[0].decode()
    assert head.startswith("GET /metrics HTTP/1.1\r\n")
    assert "text/plain;version=0.0.4" in head
    assert "authorization" not in head.lower()


def test_a_connection_is_kept_where_that_is_asked_for(server: PageServer) -> None:
    fetched(server.url, 3)
    assert server.connections == 1
    fetched(server.url, 3, stays_open=False)
    assert server.connections == 4


def test_a_connection_that_the_server_has_ended_is_no_failure(server: PageServer) -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\na 1\n"
    server.answer = Answer(raw=raw)
    assert fetched(server.url, 3) == b"a 1\n"


@pytest.mark.parametrize(
    "content", [KIND, "text/plain", "", "application/openmetrics-text; version=1.0.0"]
)
def test_each_kind_of_content_that_is_a_page_is_one(server: PageServer, content: str) -> None:
    server.answer = Answer(PAGE, headers=kind(content) if content else ())
    assert fetched(server.url) == PAGE


@pytest.mark.parametrize(
    "content", ["application/octet-stream", "application/json", "text", "text/csv; header=absent"]
)
def test_a_page_is_one_whatever_it_is_called(server: PageServer, content: str) -> None:
    """Servers of files call one without a suffix `application/octet-stream`."""
    page = b"# HELP a text\n\n" + PAGE
    for body in (page, page.replace(b"\n", b"\r\n"), b"# about\n" * 4000 + PAGE):
        server.answer = Answer(body, headers=kind(content))
        assert fetched(server.url) == body


@pytest.mark.parametrize("body", [b"", b"# only words\n", b"\x89PNG\n\x00\n", b"a" * 2**21])
def test_what_is_no_page_is_named_by_its_kind(server: PageServer, said: Say, body: bytes) -> None:
    server.answer = Answer(body, headers=kind("application/octet-stream"))
    message = "answers with application/octet-stream, which is not a page of metrics"
    assert failed(said, server.url)[0] == message


@pytest.mark.parametrize("name", ["", "identity"])
def test_a_page_may_say_that_it_is_not_packed(server: PageServer, name: str) -> None:
    server.answer = Answer(PAGE, headers=kind(KIND, ("Content-Encoding", name)))
    assert fetched(server.url) == PAGE


@pytest.mark.parametrize("name", ["gzip", "x-gzip"])
def test_a_packed_page_is_unpacked_in_one_part_or_several(server: PageServer, name: str) -> None:
    headers = kind(KIND, ("Content-Encoding", name))
    server.answer = Answer(gzip.compress(PAGE), headers=headers)
    assert fetched(server.url) == PAGE
    parts = gzip.compress(PAGE[:5]) + gzip.compress(b"") + gzip.compress(PAGE[5:])
    server.answer = Answer(parts, headers=headers)
    assert fetched(server.url) == PAGE


def test_a_page_that_came_whole_may_lack_its_last_end_of_a_line(server: PageServer) -> None:
    server.answer = Answer(b'a{p="x"} 12')
    assert fetched(server.url) == b'a{p="x"} 12\n'
    # It is unknown whether this one did.
    server.answer = Answer(raw=b'HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\na{p="x"} 1')
    assert fetched(server.url) == b'a{p="x"} 1'


def test_a_few_bytes_that_unpack_to_any_number_are_cut_off(server: PageServer, said: Say) -> None:
    lines = gzip.compress(b"a 1\n" * (fetch.LARGEST_PAGE_BYTES // 4 + 1))
    server.answer = Answer(lines, headers=kind(KIND, ("Content-Encoding", "gzip")))
    message, _ = failed(said, server.url)
    assert message == "its page is larger than 8 MiB and was cut off"


@pytest.mark.parametrize(
    "body",
    [
        b"no gzip",
        gzip.compress(PAGE)[:-12],
        gzip.compress(PAGE) + b"more",
        gzip.compress(b"") * 65 + gzip.compress(PAGE),
    ],
)
def test_what_is_packed_wrongly_says_so(server: PageServer, body: bytes, said: Say) -> None:
    server.answer = Answer(body, headers=kind(KIND, ("Content-Encoding", "gzip")))
    assert "compressed with gzip, but it is not" in failed(said, server.url)[0]


def test_a_packing_that_nobody_asked_for_is_named(server: PageServer, said: Say) -> None:
    server.answer = Answer(PAGE, headers=kind(KIND, ("Content-Encoding", "br")))
    assert "compresses its page as br" in failed(said, server.url)[0]


def test_a_page_that_is_too_large_is_cut_off(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, said: Say
) -> None:
    monkeypatch.setattr(fetch, "LARGEST_PAGE_BYTES", 2**20)
    server.answer = Answer(b"a 1\n" * 2**19)
    assert failed(said, server.url)[0] == "its page is larger than 1 MiB and was cut off"


def test_a_large_page_waits_for_room_and_gives_it_back(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MOST_LARGE", 1)
    monkeypatch.setattr(fetch, "SMALL_PAGE_BYTES", 16)
    assert fetched(server.url, 3) == PAGE

    async def without_room() -> bytes:
        rooms = Rooms()
        await rooms.large.acquire()
        fetcher = Fetcher(server.url, rooms, stays_open=False, timeout_s=0.2)
        try:
            return await fetcher.page()
        finally:
            await fetcher.close()

    with pytest.raises(FetchError, match="no complete page"):
        asyncio.run(without_room())


def test_a_line_without_an_end_is_given_up(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, said: Say
) -> None:
    monkeypatch.setattr(fetch, "LONGEST_LINE_BYTES", 2**17)
    server.answer = Answer(b"a 1\n" + b"x" * 2**19)
    assert "a line without an end" in failed(said, server.url)[0]


@pytest.mark.parametrize(
    ("answer", "words", "way_out"),
    [
        (Answer(status="401 No"), "does not let gpumon in (HTTP 401)", "open the page"),
        (Answer(status="403 No"), "does not let gpumon in (HTTP 403)", "open the page"),
        (Answer(status="404 No"), "no such page (HTTP 404)", "/metrics"),
        (Answer(status="500 No"), "an error (HTTP 500)", "log"),
        (Answer(status="503 No"), "an error (HTTP 503)", "log"),
        (
            Answer(status="302 Found", headers=(("Location", "http://other/x"),)),
            "redirects to http://other/",
            "use that address",
        ),
        (Answer(b"<html>no", headers=kind("text/html; charset=x")), "a web page", "port"),
        (Answer(b"\n<!DOCTYPE html>", headers=kind("text/plain")), "a web page", "port"),
        (Answer(b"{}", headers=kind("application/json")), "application/json", "path"),
        (Answer(b"Client sent an HTTP request", "400 Bad"), "HTTP 400", "wants dcgm+https://"),
        (Answer(b"\n", headers=kind("application/vnd.google.protobuf")), "protobuf", "text"),
        (Answer(raw=b"SSH-2.0-OpenSSH_9.2\r\n"), "is not HTTP", "https"),
        (Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Le"), "broke off", "port"),
        (Answer(raw=b""), "broke off", "port"),
        (Answer(PAGE, is_short=True), "broke off", "port"),
    ],
)
def test_whatever_else_answers_is_named_with_the_way_out(
    server: PageServer, answer: Answer, words: str, way_out: str, said: Say
) -> None:
    server.answer = answer
    message, hint = failed(said, server.url)
    assert words in message
    assert way_out in hint
    assert message.isprintable()


def test_a_redirect_is_not_followed(server: PageServer, said: Say) -> None:
    server.answer = Answer(status="302 Found", headers=(("Location", server.url + "x"),))
    failed(said, server.url)
    assert len(server.requests) == 1


def test_nobody_listens(said: Say) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        message, hint = failed(said, f"http://127.0.0.1:{taken.getsockname()[1]}/metrics")
    assert message == "cannot be reached: Connection refused"
    assert "exporter runs there" in hint


def test_a_node_that_takes_no_connection_is_told_to_be_silent(
    monkeypatch: pytest.MonkeyPatch, said: Say
) -> None:
    monkeypatch.setattr(exchange, "CONNECT_TIMEOUT_S", 0.1)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        # The kernel takes one more than it is told to, and lets all others wait.
        waiting = [socket.socket() for _ in range(3)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        message, hint = failed(said, f"http://127.0.0.1:{port}/metrics")
        for one in waiting:
            one.close()
    assert message == "cannot be reached: no answer"
    assert "node is up" in hint


def test_a_server_that_says_nothing_is_given_up(server: PageServer, said: Say) -> None:
    server.is_mute = True
    assert failed(said, server.url, 0.2)[0] == "gave no complete page within 0.2 s"


def test_a_byte_now_and_then_puts_off_no_deadline(server: PageServer, said: Say) -> None:
    server.drips = True
    assert failed(said, server.url, 0.3)[0] == "gave no complete page within 0.3 s"


def test_an_address_that_a_redirect_garbles_is_one_line(server: PageServer, said: Say) -> None:
    server.answer = Answer(status="302 Found", headers=(("Location", "http://x/\x1b[31m"),))
    assert failed(said, server.url)[0].isprintable()


def test_tls_where_there_is_none_says_which_scheme_to_use(server: PageServer, said: Say) -> None:
    server.is_hasty = True
    server.answer = Answer(raw=b"HTTP/1.1 400 Bad Request\r\n\r\n")
    message, hint = failed(said, server.url.replace("http:", "https:"))
    assert message.startswith("cannot be reached: ")
    assert "dcgm+http://" in hint


def test_a_certificate_is_checked_against_the_bundle_of_the_environment(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, said: Say
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = PageServer(tls=context)
    url = server.url.replace("http:", "https:")
    try:
        message, hint = failed(said, url)
        assert "CERTIFICATE_VERIFY_FAILED" in message
        assert "SSL_CERT_FILE" in hint
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert fetched(url, 2) == server.answer.body
    finally:
        server.stop()


def test_a_certificate_that_has_expired_is_to_be_renewed(said: Say) -> None:
    words = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired"
    error = failure(httpx.ConnectError(words), 10.0, fetch.PEER)
    said(error.message, error.hint)
    assert "has expired" in error.message
    assert "renew" in error.hint
