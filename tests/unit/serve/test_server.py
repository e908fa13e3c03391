"""The server itself, over real sockets: bounds of time, size and number, and its end."""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Any

from gpumon.serve import server as module
from gpumon.serve.exchange import Answer
from gpumon.serve.server import HttpServer
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from gpumon.model.fault import SourceError
    from gpumon.serve.exchange import Asked

PATIENCE_S = 30.0
BIG = b"x" * (32 * 2**20)
"""More than sockets hold, so that a client must read for it to be sent."""
OTHER = b"y" * len(BIG)


async def echo(asked: Asked) -> Answer:
    if asked.path == "/fail":
        raise KeyError(asked.path)
    if asked.path == "/pieces":
        return Answer(200, b"one ", more=(b"two ", b"three"))
    return Answer(200, {"/big": BIG, "/other": OTHER}.get(asked.path, asked.path.encode()))


@contextmanager
def serving(**options: Any) -> Iterator[tuple[HttpServer, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        server = HttpServer(listening, echo, **options)
        server.start()
        try:
            yield server, listening.getsockname()[1]
        finally:
            server.close()


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        yield client


def ask(client: HTTPConnection, path: str, method: str = "GET") -> tuple[HTTPResponse, bytes]:
    client.request(method, path)
    response = client.getresponse()
    return response, response.read()


def rest(client: socket.socket) -> bytes:
    """Everything until the server ends the connection."""
    found = bytearray()
    try:
        while piece := client.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return bytes(found)


def test_many_questions_are_answered_on_one_connection() -> None:
    with serving() as (_, port):
        client = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        for path in ("/a", "/b", "/big", "/c"):
            response, body = ask(client, path)
            assert response.status == 200
            assert body == (BIG if path == "/big" else path.encode())
        client.close()


def test_pieces_are_one_answer() -> None:
    with serving() as (_, port):
        client = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        assert ask(client, "/pieces")[1] == b"one two three"
        assert ask(client, "/pieces", "HEAD")[0].headers["Content-Length"] == "13"
        client.close()


def test_head_has_the_length_and_no_body() -> None:
    with serving() as (_, port):
        client = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        response, body = ask(client, "/abc", "HEAD")
        assert (response.headers["Content-Length"], body) == ("4", b"")
        assert ask(client, "/next")[1] == b"/next"
        client.close()


def test_what_is_no_http_is_refused_and_the_connection_ended() -> None:
    with serving() as (_, port), connected(port) as client:
        client.sendall(b"\x16\x03\x01\x00\r\n\r\n")
        assert rest(client).startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_a_header_that_is_too_long_is_refused(said: Callable[..., None]) -> None:
    with serving() as (_, port), connected(port) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n")
        head, _, line = rest(client).rpartition(b"\r\n")
        assert head.startswith(b"HTTP/1.1 431 ")
        said(line.decode())


def test_a_client_that_says_nothing_is_let_go() -> None:
    with serving(head_timeout_s=0.01) as (_, port), connected(port) as client:
        assert rest(client) == b""


def test_a_connection_that_asks_no_more_is_ended() -> None:
    with serving(idle_timeout_s=0.01) as (_, port), connected(port) as client:
        client.sendall(b"GET /a HTTP/1.1\r\n\r\n")
        assert rest(client).endswith(b"/a")


def test_a_client_that_drips_its_header_is_let_go() -> None:
    with serving(head_timeout_s=0.05) as (_, port), connected(port) as client, suppress(OSError):
        while True:
            # The time of the whole question is over while it drips.
            client.sendall(b"A")


def test_half_a_question_is_answered_with_what_is_missing(said: Callable[..., None]) -> None:
    with serving(head_timeout_s=0.05) as (_, port), connected(port) as client:
        client.sendall(b"GET /a HTTP/1.1\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 OK")
        client.sendall(b"GET /a HTTP/1.1\r\nHost")
        head, _, line = rest(client).rpartition(b"\r\n")
        assert b"HTTP/1.1 408 Request Timeout" in head
        said(line.decode())


def test_a_client_that_does_not_read_is_let_go_and_holds_up_nobody() -> None:
    with serving(body_timeout_s=0.05) as (_, port), connected(port) as slow:
        slow.sendall(b"GET /big HTTP/1.1\r\n\r\n")
        client = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        assert ask(client, "/a")[1] == b"/a"
        client.close()


def test_slow_clients_hold_no_more_memory_than_there_is_for_them(
    monkeypatch: pytest.MonkeyPatch, said: Callable[..., None]
) -> None:
    monkeypatch.setattr(module, "LARGEST_UNDERWAY_BYTES", len(BIG) + 2**20)
    with serving(body_timeout_s=PATIENCE_S) as (_, port), connected(port) as slow:
        slow.sendall(b"GET /big HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert slow.recv(1) == b"H"
        client = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        # What is there already costs nothing more.
        assert ask(client, "/big")[1] == BIG
        assert ask(client, "/a")[1] == b"/a"
        response, body = ask(client, "/other")
        assert (response.status, response.headers["Retry-After"]) == (503, "1")
        assert body == b"clients that read slowly hold too many answers; ask again in a second\n"
        said(body.decode())
        assert rest(slow).endswith(b"xxx")
        eventually(lambda: ask(client, "/other")[1] == OTHER, "there is room again")
        client.close()


def test_beyond_the_most_connections_new_ones_are_ended_at_once(
    monkeypatch: pytest.MonkeyPatch, said: Callable[..., None]
) -> None:
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 1)
    reported: list[SourceError] = []
    with serving(report=reported.append) as (_, port):
        first = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        assert ask(first, "/a")[1] == b"/a"
        with connected(port) as second:
            line = rest(second).rpartition(b"\r\n")[2]
        assert line == b"1 clients are connected, and further ones are turned away\n"
        with connected(port) as third:
            assert rest(third).startswith(b"HTTP/1.1 503 ")
        assert ask(first, "/b")[1] == b"/b"
        first.close()
    # Who runs it gets one error, not one for each client.
    (line,) = reported
    said(line.message, line.hint)


def test_an_answer_that_fails_is_told_and_costs_itself_alone() -> None:
    reported: list[SourceError] = []
    with serving(report=reported.append) as (_, port):
        client = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        response, body = ask(client, "/fail")
        assert (response.status, body) == (500, b"gpumon failed\n")
        assert ask(client, "/a")[1] == b"/a"
        client.close()
    assert "/fail" in reported[0].where or "/fail" in reported[0].message


def test_its_end_ends_connections() -> None:
    with serving() as (server, port), connected(port) as client:
        client.sendall(b"GET /a HTTP/1.1\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 OK")
        server.close()
        # It ends, which is what this reads until.
        assert rest(client) in (b"", b"/a")


def test_a_server_that_never_began_can_be_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        HttpServer(listening, echo).close()
