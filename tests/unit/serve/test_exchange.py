"""What is understood of a question, and what a client likes best."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from gpumon.serve.exchange import RefusedError, preferred, understood

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;"
    "version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
OFFERED = ("text/plain", "application/openmetrics-text")


def test_a_question_is_understood() -> None:
    asked = understood(
        b"GET /v1/frames?since=a-1&wait=2 HTTP/1.1\r\nHost: x\r\nA: 1\r\na: 2\r\n\r\n"
    )
    assert (asked.method, asked.path) == ("GET", "/v1/frames")
    assert asked.query == {"since": "a-1", "wait": "2"}
    assert asked.headers == {"host": "x", "a": "1, 2"}
    assert asked.is_persistent


@pytest.mark.parametrize(
    ("version", "connection", "is_persistent"),
    [("1.1", "close", False), ("1.0", "", False), ("1.0", "keep-alive", True), ("1.1", "x", True)],
)
def test_a_connection_is_kept_as_the_client_wishes(
    version: str, connection: str, is_persistent: bool
) -> None:
    raw = f"GET / HTTP/{version}\r\nConnection: {connection}\r\n\r\n".encode()
    assert understood(raw).is_persistent is is_persistent


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"\x16\x03\x01\x02 \x00 \x01\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nName : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nAuthorization: a\r\nauthorization: b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET http://[x/ HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_what_is_no_question_is_refused_in_one_line(raw: bytes, status: int) -> None:
    with pytest.raises(RefusedError) as refused:
        understood(raw)
    answer = refused.value.answer
    assert answer.status == status
    assert HTTPStatus(status).phrase
    assert answer.body.count(b"\n") == 1


@pytest.mark.parametrize(
    ("accept", "found"),
    [
        ("", "text/plain"),
        ("*/*", "text/plain"),
        (PROMETHEUS, "application/openmetrics-text"),
        ("text/*", "text/plain"),
        ("application/openmetrics-text", "application/openmetrics-text"),
        ("text/plain;q=0, */*", "application/openmetrics-text"),
        ("text/plain;q=0.2, application/openmetrics-text;q=rubbish", "text/plain"),
        ("image/png", None),
    ],
)
def test_the_kind_that_the_client_likes_best_is_chosen(accept: str, found: str | None) -> None:
    assert preferred(accept, OFFERED) == found


@pytest.mark.parametrize(
    ("codings", "is_packed"),
    [("gzip", True), ("deflate, gzip;q=0.5", True), ("identity", False), ("gzip;q=0", False)],
)
def test_gzip_is_taken_where_it_is_asked_for(codings: str, is_packed: bool) -> None:
    assert (preferred(codings, ("gzip", "identity")) == "gzip") is is_packed
