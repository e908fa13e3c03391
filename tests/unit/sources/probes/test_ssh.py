"""How ssh is called, what it says when it fails, and what gpumon makes of that."""

from __future__ import annotations

import shutil
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.probes.pool import ProbePool
from gpumon.sources.probes.program import START_COMMAND
from gpumon.sources.probes.ssh import OPTIONS, WAYS_OUT, endpoint, explain
from gpumon.sources.source import SystemClock
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Host key for gpu01 has changed and you have requested strict checking.
Host key verification failed.
"""
ADOPT = """\
Access denied by pam_slurm_adopt: you have no active jobs on this node
Connection closed by 10.0.0.3 port 22
"""


def test_the_host_follows_a_double_dash_and_the_command_is_one_operand() -> None:
    argv = endpoint("gpu01").argv
    assert argv[:2] == ("ssh", "-T")
    assert argv[-3:] == ("--", "gpu01", START_COMMAND)
    assert "-l" not in argv
    assert "-p" not in argv


def test_user_and_port_are_operands_of_their_options() -> None:
    argv = endpoint("gpu01", "ada", 2222).argv
    before = argv[: argv.index("--")]
    assert before[before.index("-l") + 1] == "ada"
    assert before[before.index("-p") + 1] == "2222"


def test_the_node_keeps_the_name_that_its_source_gives_it() -> None:
    assert endpoint("10.0.0.1", node="gpu01").node == "gpu01"
    assert endpoint("10.0.0.1").node == "10.0.0.1"


def test_openssh_knows_every_option_and_the_host_is_no_option() -> None:
    if shutil.which("ssh") is None:
        pytest.skip("no ssh client")
    argv = endpoint("gpu01", "ada", 2222).argv
    command = ["ssh", "-G", "-F", "/dev/null", *argv[1:-1]]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stderr == ""
    settings = dict(line.split(" ", 1) for line in said.stdout.splitlines() if " " in line)
    assert settings["hostname"] == "gpu01"
    assert settings["user"] == "ada"
    assert settings["port"] == "2222"
    assert settings["batchmode"] == "yes"
    assert settings["forwardagent"] == "no"
    assert settings["requesttty"] == "false"
    assert int(settings["connecttimeout"]) == 10
    # A cut cable is noticed well before the probe's lease of 30 s.
    alive = int(settings["serveraliveinterval"]) * int(settings["serveralivecountmax"])
    assert 0 < alive < 30
    for option in OPTIONS:
        assert option.partition("=")[0].lower() in settings or "RemoteCommand" in option


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("ada@gpu01: Permission denied (publickey,password).", "the key is refused", "ssh gpu01"),
        ("Host key verification failed.", "its host key is not known here", "by hand"),
        (CHANGED, "its host key has changed", "administrator"),
        (
            "ssh: Could not resolve hostname gpu01: Name or service not known",
            "the name is not known",
            "~/.ssh/config",
        ),
        (
            "ssh: connect to host gpu01 port 22: Connection refused",
            "nothing listens on its ssh port",
            "node up",
        ),
        ("ssh: connect to host gpu01 port 22: Connection timed out", "does not answer", "node up"),
        ("Connection timed out during banner exchange", "does not answer", "node up"),
        ("ssh: connect to host gpu01 port 22: No route to host", "does not answer", "node up"),
        ("Timeout, server gpu01 not responding.", "it stopped answering", "node up"),
        (
            "ssh: connect to host gpu01 port 22: Network is unreachable",
            "does not answer",
            "node up",
        ),
        (ADOPT, "it closed the connection", "a job of yours"),
        (
            "kex_exchange_identification: Connection closed by remote host",
            "it closed the connection",
            "a job of yours",
        ),
        ("gpumon: no python3 on this node", "it has no python3", "install python3"),
        ("mux_client: something new\r\nlast words", "ssh ended (255): last words", "ssh gpu01"),
        ("", "ssh ended (255): no reason given", "ssh gpu01"),
    ],
)
def test_every_failure_has_a_message_and_a_way_out(
    words: str, message: str, hint: str, said: Callable[..., None]
) -> None:
    told, way_out = explain("gpu01")(255, words)
    said(told, way_out)
    assert message in told
    assert hint in way_out
    assert "{" not in way_out


def test_no_sign_hides_behind_an_earlier_one() -> None:
    signs = [sign for sign, _, _ in WAYS_OUT]
    assert len(set(signs)) == len(signs)
    for place, sign in enumerate(signs):
        assert not any(earlier in sign for earlier in signs[:place])


def test_a_refused_connection_is_told_through_the_real_client(said: Callable[..., None]) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("no ssh client")
    # Held, so that nobody else can listen there.
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        where = endpoint("127.0.0.1", port=unused.getsockname()[1], node="gpu01")
        pool = ProbePool("ssh://127.0.0.1", [where], 1.0, SystemClock(), once=True)
        pool.start(lambda: None)
        try:
            eventually(lambda: not pool.pending(), "ssh gives up")
            (frame,) = pool.poll()
        finally:
            pool.close()
    (error,) = frame.errors
    said(error.message, error.hint)
    assert error.where == "gpu01"
    assert error.message == "ssh: nothing listens on its ssh port"
