"""One failure of an exchange has the same words whoever was asked, and that one's own way out."""

from __future__ import annotations

import ssl
import subprocess
import sys

import httpx
import pytest

from gpumon.sources.http.failures import Peer, failure, late, reason_of, redirected, web_page

PEER = Peer(
    name="a clock",
    answer="whole hour",
    unreached="wind it up",
    unheard="knock",
    overloaded="wait",
    speaks_no_tls="no tls",
    speaks_no_http="no http",
    elsewhere="look elsewhere",
    certificate="renew it",
)


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (httpx.ConnectTimeout("x"), "cannot be reached: no answer", "knock"),
        (httpx.ReadTimeout("x"), "gave no whole hour within 2 s", "wait"),
        (httpx.ConnectError("[SSL: WRONG] certificate expired"), "expired", "renew it"),
        (httpx.ConnectError("CERTIFICATE_VERIFY_FAILED"), "CERTIFICATE", "SSL_CERT_FILE"),
        (
            httpx.ConnectError("CERTIFICATE_VERIFY_FAILED: Hostname mismatch, certificate is not"),
            "Hostname mismatch",
            "a name or an address that its certificate has",
        ),
        (
            ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert"),
            "cannot be reached: [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED]",
            "clients with a certificate that it trusts",
        ),
        (httpx.ConnectError("[SSL: WRONG_VERSION]"), "cannot be reached: [SSL", "no tls"),
        (httpx.RemoteProtocolError("x\ny"), "broke off or is not HTTP: x y", "no http"),
        (httpx.ReadError(""), "cannot be reached: ReadError", "wind it up"),
    ],
)
def test_each_failure_has_its_words_and_way_out(
    error: httpx.HTTPError | ssl.SSLError, message: str, hint: str
) -> None:
    trouble = failure(error, 2.0, PEER)
    assert message in trouble.message
    assert hint in trouble.hint
    assert not trouble.is_refused


def test_where_silence_is_not_told_apart_it_is_as_any_other_failure() -> None:
    trouble = failure(httpx.ConnectTimeout("timed out"), 2.0, PEER._replace(unheard=""))
    assert (trouble.message, trouble.hint) == ("cannot be reached: timed out", "wind it up")


def test_what_the_system_said_first_counts() -> None:
    error = httpx.ConnectError("All connection attempts failed")
    error.__cause__ = ExceptionGroup("several", [ConnectionRefusedError(111, "x")])
    assert reason_of(error) == "Connection refused"
    assert failure(error, 2.0, PEER).is_refused


def test_answers_of_somebody_else() -> None:
    assert late(0.5, PEER).message == "gave no whole hour within 0.5 s"
    assert late(1234567.0, PEER).message == "gave no whole hour within 1234567 s"
    assert redirected("http://x/\x1b[31m").message.isprintable()
    assert "redirects to nowhere" in redirected("").message
    assert web_page(PEER).message == "answers with a web page: a proxy or portal, not a clock"
    assert web_page(PEER, 502).message.startswith("answered HTTP 502 with a web page")


def test_words_alone_load_nothing_that_makes_exchanges() -> None:
    code = (
        "import sys\nimport gpumon.sources.http.failures\n"
        "print([m for m in ('httpx', 'ssl', 'socket') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
