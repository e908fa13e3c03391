"""Where a server listens, and the message where it cannot."""

from __future__ import annotations

import socket
import stat
from typing import TYPE_CHECKING

import pytest

from gpumon.base.errors import UnavailableError
from gpumon.serve import listen
from gpumon.serve.listen import Listen, ListenError, parse

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "host", "port", "is_own"),
    [
        ("127.0.0.1:9777", "127.0.0.1", 9777, True),
        ("9777", "127.0.0.1", 9777, True),
        ("localhost:80", "127.0.0.1", 80, True),
        ("127.8.0.1:0", "127.8.0.1", 0, True),
        ("[::1]:9777", "::1", 9777, True),
        ("0.0.0.0:9777", "0.0.0.0", 9777, False),
        ("[::]:9777", "::", 9777, False),
        ("login1:9777", "login1", 9777, False),
        ("localhost.evil.example:1", "localhost.evil.example", 1, False),
    ],
)
def test_an_address_says_whether_others_reach_it(
    text: str, host: str, port: int, is_own: bool
) -> None:
    where = parse(text)
    assert (where.host, where.port, where.is_own) == (host, port, is_own)


@pytest.mark.parametrize("text", ["unix:/run/x.sock", "/run/x.sock"])
def test_a_path_is_a_socket_of_this_machine(text: str) -> None:
    assert (parse(text).path, parse(text).is_own) == ("/run/x.sock", True)


@pytest.mark.parametrize(
    "text", ["", "x", "1.2.3.4", "host:99999", "a b:1", "unix:run", "unix:/" + "x" * 200, "/a\nb"]
)
def test_what_is_no_address_is_said_in_one_line(text: str) -> None:
    with pytest.raises(
        ListenError, match="is not an address to listen on: write HOST:PORT"
    ) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_a_port_that_is_taken_is_said_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            UnavailableError, match=f"cannot listen on {port}: Address already in use; --listen"
        ):
            listen.bound(parse(str(port)))


def test_a_socket_is_its_user_s_alone_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "s"
    where = Listen("s", path=str(path))
    listening = listen.bound(where)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert listen.shown(where, listening, is_encrypted=False) == f"unix:{path}"
    listen.released(where, listening)
    assert not path.exists()


def test_the_socket_of_a_killed_server_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    where = Listen("s", path=str(path))
    listen.released(where, listen.bound(where))


def test_the_socket_of_a_server_that_runs_is_left_alone(tmp_path: Path) -> None:
    where = Listen("s", path=str(tmp_path / "s"))
    first = listen.bound(where)
    with pytest.raises(UnavailableError, match="in use"):
        listen.bound(where)
    assert (tmp_path / "s").exists()
    listen.released(where, first)


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("mine")
    with pytest.raises(UnavailableError, match="in use"):
        listen.bound(Listen("s", path=str(path)))
    assert path.read_text() == "mine"
