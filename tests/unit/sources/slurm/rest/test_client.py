"""The client of slurmrestd against a pretended one on real sockets."""

from __future__ import annotations

import gc
import json
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.rest_address import RestAddress
from gpumon.sources.slurm.commands.failures import UNREACHED_ACCOUNTING, CommandFailedError
from gpumon.sources.slurm.rest.client import RestClient
from gpumon.sources.source import SystemClock
from tests.unit.sources.slurm.restd import EXPIRES_AT, Reply, Restd, jwt, reply
from tests.worlds.probe import PATIENCE_S, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpumon.model.fault import SourceError

TOKEN = jwt()
JOB = {"job_id": 7, "job_state": "RUNNING", "user_name": "alice", "nodes": "gpu01"}
UNSPECIFIED = {
    "description": "Failed while looking for jobs",
    "error_number": -1,
    "error": "Unspecified error",
    "source": "slurm_load_jobs",
}


class Now(SystemClock):
    """The machine's clock, but for what time it is."""

    def __init__(self, now: float = EXPIRES_AT - 60.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now


@pytest.fixture
def restd() -> Iterator[Restd]:
    server = Restd()
    yield server
    server.stop()


def client(restd: Restd, token: str = TOKEN, **options: object) -> RestClient:
    environ = {"SLURM_JWT": token} if token else {}
    address = RestAddress(f"http://127.0.0.1:{restd.port}")
    return RestClient(address, **{"environ": environ, "clock": Now(), **options})  # type: ignore[arg-type]


def failure(asked: RestClient, what: str = "jobs") -> SourceError:
    """The one line of a call that brings nothing; it holds no token."""
    with pytest.raises(CommandFailedError) as caught:
        asked.get(what)
    error = caught.value.error
    for text in (error.message, error.hint):
        assert "\n" not in text
        assert TOKEN not in text
        assert len(text) < 400
    assert error.hint
    assert error.where.startswith("slurmrestd ")
    return error


def test_both_headers_of_slurm_come_first(restd: Restd) -> None:
    restd.answers["jobs"] = reply(jobs=[])
    client(restd, jwt("bob")).get("jobs")
    headers = restd.asked[-1].headers
    assert (headers["x-slurm-user-name"], headers["x-slurm-user-token"]) == ("bob", jwt("bob"))
    assert "authorization" not in headers


def test_a_server_that_wants_a_bearer_gets_it_and_is_remembered(restd: Restd) -> None:
    restd.accepts = lambda headers: headers.get("authorization") == f"Bearer {TOKEN}"
    asked = client(restd)
    asked.get("jobs")
    asked.get("nodes")
    assert "x-slurm-user-token" in restd.asked[0].headers
    assert all("authorization" in one.headers for one in restd.asked[1:])


def test_a_refused_token_is_one_line(restd: Restd, said: Callable[..., None]) -> None:
    restd.accepts = lambda _: False
    error = failure(client(restd))
    assert error.message == "does not accept the token of alice"
    said(error.message, error.hint)
    assert "scontrol token" in error.hint
    assert len(restd.asked) == 2


def test_without_a_token_nothing_is_asked(restd: Restd, said: Callable[..., None]) -> None:
    error = failure(client(restd, ""))
    assert error.message == "there is none: SLURM_JWT is not set"
    said(error.message, error.hint)
    assert restd.asked == []


def test_an_expired_token_is_told_from_22_05s_wordless_refusal(
    restd: Restd, said: Callable[..., None]
) -> None:
    restd.answers["jobs"] = reply(500, jobs=[], errors=[UNSPECIFIED])
    late = failure(client(restd, clock=Now(EXPIRES_AT + 300.0)))
    assert late.message == "the token expired 5 min ago"
    said(late.message, late.hint)
    assert "scontrol token" in late.hint
    other = failure(client(restd))
    assert "Failed while looking for jobs: Unspecified error" in other.message
    assert "token" in other.hint


def test_error_1007_is_a_refused_token(restd: Restd) -> None:
    refusal = {"error": "Protocol authentication error", "error_number": 1007}
    restd.answers["jobs"] = reply(401 + 99, jobs=[], errors=[refusal])
    error = failure(client(restd))
    assert error.message == "does not accept the token: Protocol authentication error (1007)"


@pytest.mark.parametrize("status", [200, 500, 502])
def test_errors_without_records_are_an_error_whatever_the_status(restd: Restd, status: int) -> None:
    said = "Unable to contact slurm controller (connect failure)"
    restd.answers["jobs"] = reply(status, jobs=[], errors=[{"error": said, "error_number": 1}])
    error = failure(client(restd))
    assert error.message.startswith("cannot reach Slurm's controller: Unable to contact")
    assert "scontrol ping" in error.hint


def test_records_beside_errors_are_kept(restd: Restd) -> None:
    restd.answers["jobs"] = reply(jobs=[JOB], errors=[UNSPECIFIED], warnings=[])
    answer = client(restd).get("jobs")
    assert answer is not None
    assert answer["jobs"] == [JOB]


def test_records_whose_only_trouble_is_slurmdbd_are_kept(restd: Restd) -> None:
    """As 24.11 answers for partitions while slurmdbd is gone, seen in the lab."""
    said = {"description": "Slurmdb query failed", "error_number": 111, "error": "Refused"}
    restd.answers["partitions"] = reply(500, partitions=[{"name": "gpu"}], errors=[said])
    assert client(restd).get("partitions") is not None
    restd.answers["partitions"] = reply(500, partitions=[], errors=[said])
    assert failure(client(restd), "partitions").message.startswith(UNREACHED_ACCOUNTING)
    both = [said, {"description": "Unable to contact slurm controller"}]
    restd.answers["partitions"] = reply(500, partitions=[{"name": "gpu"}], errors=both)
    assert "controller" in failure(client(restd), "partitions").message


def test_nothing_new_is_no_answer_but_no_error(restd: Restd) -> None:
    asked = client(restd)
    restd.answers["jobs"] = Reply(304, b"", ())
    assert asked.get("jobs", 1795251500) is None
    assert restd.asked[-1].path == "/slurm/v0.0.38/jobs?update_time=1795251500"


@pytest.mark.parametrize("version", ["v0.0.40", "v0.0.42"])
def test_newer_servers_are_asked_in_their_words_and_for_all_nodes(
    restd: Restd, version: str
) -> None:
    restd.versions = (version,)
    restd.answers["jobs"] = restd.answers["nodes"] = Reply(304, b"", ())
    asked = client(restd)
    asked.get("jobs", 1795251500)
    assert restd.asked[-1].path == f"/slurm/{version}/jobs?update_time=uts1795251500"
    asked.get("nodes", 1795251500)
    assert restd.asked[-1].path == f"/slurm/{version}/nodes"


def test_an_answer_without_jobs_and_without_its_time_means_that_nothing_changed(
    restd: Restd,
) -> None:
    restd.versions = ("v0.0.42",)
    never = {"set": True, "infinite": False, "number": 0}
    restd.answers["jobs"] = reply(jobs=[], errors=[], last_update=never)
    assert client(restd).get("jobs", 1795251500) is None
    restd.answers["jobs"] = reply(jobs=[], errors=[], last_update={**never, "number": 1795251600})
    answer = client(restd).get("jobs", 1795251500)
    assert answer is not None
    assert answer["jobs"] == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Reply(200, b"<html><title>Portal</title>"), "a web page: a proxy or portal"),
        (Reply(404, b"  <!DOCTYPE html>"), "HTTP 404 with a web page"),
        (Reply(502, b"Bad Gateway\x1b[31m"), "HTTP 502 with something that is not a list of jobs"),
        (Reply(200, b"[1, 2]"), "not a list of jobs: '[1, 2]'"),
        (Reply(200, b"{}"), "not a list of jobs: '{}'"),
        (reply(jobs={}), "not a list of jobs"),
        (Reply(200, b"[" * 100_000), "not a list of jobs"),
        (Reply(200, b'{"jobs": ' + b"9" * 5000 + b"}"), "not a list of jobs"),
        (Reply(200, b""), "not a list of jobs: ''"),
        (reply(500), "an error: no reason given"),
    ],
)
def test_what_is_no_answer_of_slurmrestd_is_one_line(
    restd: Restd, answer: Reply, words: str, said: Callable[..., None]
) -> None:
    restd.answers["jobs"] = answer
    assert words in failure(client(restd)).message
    error = failure(client(restd))
    said(error.message, error.hint)


def test_a_redirect_is_not_followed(restd: Restd, said: Callable[..., None]) -> None:
    elsewhere = Restd()
    try:
        location = f"http://127.0.0.1:{elsewhere.port}/slurm/v0.0.38/jobs"
        restd.answers["jobs"] = Reply(302, b"", (("Location", location),))
        assert "redirects to http://127.0.0.1" in failure(client(restd)).message
        error = failure(client(restd))
        said(error.message, error.hint)
        assert elsewhere.asked == []
    finally:
        elsewhere.stop()


def test_a_token_that_the_server_repeats_is_struck_out(
    restd: Restd, said: Callable[..., None]
) -> None:
    restd.answers["jobs"] = reply(500, errors=[{"description": f"bad {TOKEN}"}])
    assert "bad (the token)" in failure(client(restd)).message
    said(failure(client(restd)).message)


def test_an_answer_beyond_all_measure_is_cut_off(restd: Restd, said: Callable[..., None]) -> None:
    restd.answers["jobs"] = reply(jobs=["x" * 3_000_000])
    assert "answered more than 1 MiB" in failure(client(restd, max_bytes=2**20)).message
    error = failure(client(restd, max_bytes=2**20))
    said(error.message, error.hint)


@pytest.mark.parametrize("raw", [b"SSH-2.0-OpenSSH_9.2p1\r\n", b"", b"HTTP/1.1 200 OK\r\nContent"])
def test_a_port_that_speaks_something_else_is_one_line(
    restd: Restd, raw: bytes, said: Callable[..., None]
) -> None:
    restd.raw = raw
    assert "broke off or is not HTTP" in failure(client(restd)).message
    error = failure(client(restd))
    said(error.message, error.hint)


def test_a_server_that_never_answers_is_given_up(restd: Restd, said: Callable[..., None]) -> None:
    restd.is_mute = True
    assert "gave no complete answer" in failure(client(restd, timeout_s=0.1)).message
    error = failure(client(restd, timeout_s=0.1))
    said(error.message, error.hint)


BODY = json.dumps({"jobs": []}).encode()
DRIPPED = {
    "header": b"HTTP/1.1 200 OK\r\nX-Slow: " + b"z" * 60 + b"\r\n\r\n" + BODY,
    "status line": b"HTTP/1.1 200 " + b"O" * 60 + b"\r\n\r\n" + BODY,
    "body": b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 60 + BODY,
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"1\r\n \r\n" * 20
    + b"c\r\n"
    + BODY
    + b"\r\n0\r\n\r\n",
}


def _is_answered(asked: RestClient) -> bool:
    """Whether it has the answer in its own time, which a busy machine may not give it at once."""
    try:
        return asked.get("jobs") == {"jobs": []}
    except CommandFailedError:
        return False


@pytest.mark.parametrize("is_socket", [False, True], ids=["tcp", "unix"])
@pytest.mark.parametrize("part", DRIPPED)
def test_an_answer_that_drips_is_given_up_whichever_part_does(
    tmp_path: Path, part: str, is_socket: bool, said: Callable[..., None]
) -> None:
    """Every byte comes in time, the whole does not: 60 and more at 10 ms, with 0.2 s for all."""
    path = tmp_path / "rest.sock" if is_socket else None
    server = Restd(path=path)
    server.drips = DRIPPED[part]
    address = RestAddress(
        "http://slurmrestd" if is_socket else f"http://127.0.0.1:{server.port}", str(path or "")
    )
    try:
        asked = RestClient(address, environ={"SLURM_JWT": TOKEN}, clock=Now(), timeout_s=0.2)
        error = failure(asked)
        assert "gave no complete answer within" in error.message
        assert "sdiag" in error.hint
        said(error.message, error.hint)
        server.drips = None
        eventually(lambda: _is_answered(asked), "the next question has its own time")
    finally:
        server.stop()


def test_one_limit_holds_for_a_question_however_often_it_is_put(restd: Restd) -> None:
    """Each refusal drips for less than the limit; all eleven versions together for more."""
    restd.drips = b"HTTP/1.1 404 Not Found\r\n\r\n"
    assert "gave no complete answer within 1 s" in failure(client(restd, timeout_s=1.0)).message
    assert 1 < len(restd.asked) < 11


def test_a_closed_port_is_one_line(restd: Restd, said: Callable[..., None]) -> None:
    # Held, so that nobody else can listen there.
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        address = RestAddress(f"http://127.0.0.1:{port}")
        error = failure(RestClient(address, environ={"SLURM_JWT": TOKEN}))
    assert f"http://127.0.0.1:{port} cannot be reached" in error.message
    assert "check that slurmrestd runs there" in error.hint
    said(error.message, error.hint)


def test_closing_breaks_off_a_running_call(restd: Restd) -> None:
    restd.is_mute = True
    asked = client(restd, timeout_s=60.0)
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(_message(asked)))
    thread.start()
    eventually(lambda: restd.asked, "the question arrives")
    asked.close()
    thread.join(PATIENCE_S)
    assert said == ["was stopped because gpumon ends"]
    assert _message(asked) == "was stopped because gpumon ends"


def _message(asked: RestClient) -> str:
    try:
        asked.get("jobs")
    except CommandFailedError as failed:
        return failed.error.message
    return "answered"


def test_neither_proxies_nor_netrc_of_the_environment_see_the_token(
    restd: Restd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login mallory password x\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    client(restd).get("jobs")
    assert all("authorization" not in one.headers for one in restd.asked)


def test_a_socket_that_goes_by_who_connects_is_shown_no_token(tmp_path: Path) -> None:
    path = tmp_path / "rest.sock"
    server = Restd(path=path)
    address = RestAddress("http://slurmrestd", str(path))
    try:
        RestClient(address, environ={"SLURM_JWT": TOKEN}).get("jobs")
        assert {"x-slurm-user-token", "authorization"}.isdisjoint(
            {name for one in server.asked for name in one.headers}
        )
        server.accepts = lambda headers: headers.get("x-slurm-user-token") == TOKEN
        RestClient(address, environ={"SLURM_JWT": TOKEN}).get("jobs")
        error = failure(RestClient(address, environ={}))
        assert error.message == "the socket does not answer this user"
        assert "over TCP" in error.hint
    finally:
        server.stop()


# httpcore leaves the socket of a failed connection to the garbage collector, which says so.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_socket_that_nobody_listens_on_is_one_line(tmp_path: Path) -> None:
    address = RestAddress("http://slurmrestd", str(tmp_path / "rest.sock"))
    for _ in range(2):
        assert "check that slurmrestd runs there" in failure(RestClient(address, environ={})).hint
        with socket.socket(socket.AF_UNIX) as left_behind:
            if not (tmp_path / "rest.sock").exists():
                left_behind.bind(str(tmp_path / "rest.sock"))
    gc.collect()


def test_tls_to_a_port_that_speaks_plain_http_is_told_from_a_bad_certificate(
    restd: Restd, said: Callable[..., None]
) -> None:
    address = RestAddress(f"https://127.0.0.1:{restd.port}")
    error = failure(RestClient(address, environ={"SLURM_JWT": TOKEN}))
    assert error.hint.startswith("it does not speak TLS there")
    said(error.message, error.hint)
    assert restd.asked == []


def test_a_certificate_is_checked_against_the_bundle_of_the_environment(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = Restd(tls=context)
    address = RestAddress(f"https://127.0.0.1:{server.port}")
    try:
        error = failure(RestClient(address, environ={"SLURM_JWT": TOKEN}))
        assert "CERTIFICATE_VERIFY_FAILED" in error.message
        assert "SSL_CERT_FILE" in error.hint
        assert server.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        RestClient(address, environ={"SLURM_JWT": TOKEN}).get("jobs")
        assert server.asked[-1].path == "/slurm/v0.0.38/jobs"
    finally:
        server.stop()
