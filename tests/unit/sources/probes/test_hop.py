"""Nodes behind a login node: how ssh is called, and whose fault a failure is."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from gpumon.sources.address import Hop
from gpumon.sources.probes.ssh import OPTIONS, endpoint, explain, is_refusal, login, proxy_command

HOP = Hop("login", "ada", 2200)
CLOSED = "Connection closed by UNKNOWN port 65535\n"
UNREACHED = (
    "channel 0: open failed: connect failed: No route to host\nstdio forwarding failed\n" + CLOSED
)
FORBIDDEN = (
    "channel 0: open failed: administratively prohibited: open failed\n"
    "stdio forwarding failed\n" + CLOSED
)


def test_a_command_on_the_login_node_follows_the_validated_host() -> None:
    words = login(*HOP)
    assert words[0] == "ssh"
    assert words[-2:] == ("--", "login")
    assert words[words.index("-l") + 1] == "ada"
    assert words[words.index("-p") + 1] == "2200"
    assert set(OPTIONS) <= set(words)


def test_the_way_through_asks_for_nothing_either() -> None:
    argv = endpoint("gpu01", hop=HOP).argv
    (option,) = [word for word in argv if word.startswith("ProxyCommand=")]
    assert argv[argv.index(option) - 1] == "-o"
    assert argv.index(option) < argv.index("--")
    words = shlex.split(option.removeprefix("ProxyCommand="))
    assert set(OPTIONS) <= set(words)
    assert words[words.index("-W") + 1] == "[%h]:%p"
    assert words[-2:] == ["--", "login"]


def test_openssh_takes_the_way_through_before_one_of_the_users_own(tmp_path) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("no ssh client")
    config = tmp_path / "config"
    config.write_text("Host gpu*\n ProxyJump elsewhere\n")
    argv = endpoint("gpu01", hop=HOP).argv
    command = ["ssh", "-G", "-F", str(config), *argv[1:-1]]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    settings = dict(line.split(" ", 1) for line in shown.stdout.splitlines() if " " in line)
    assert settings["proxycommand"] == proxy_command(*HOP)
    assert "proxyjump" not in settings


@pytest.mark.parametrize(
    ("words", "message", "is_refused"),
    [
        ("ada@login: Permission denied (publickey).\n" + CLOSED,
         "ssh: the login node login: the key is refused", False),
        ("Host key verification failed.\n" + CLOSED,
         "ssh: the login node login: its host key is not known here", False),
        ("ssh: connect to host login port 22: Connection timed out\n" + CLOSED,
         "ssh: the login node login: it does not answer", False),
        ("ssh: connect to host login port 22: Connection refused\n" + CLOSED,
         "ssh: the login node login: nothing listens on its ssh port", False),
        (UNREACHED, "ssh: login cannot reach it", False),
        (FORBIDDEN, "ssh: the login node does not forward connections to it", True),
        ("ada@gpu01: Permission denied (publickey).", "ssh: the key is refused", True),
        ("Host key verification failed.", "ssh: its host key is not known here", False),
    ],
)  # fmt: skip
def test_the_hop_and_the_node_are_told_apart(words: str, message: str, is_refused: bool) -> None:
    shown, hint = explain("gpu01", "login")(255, words)
    assert shown == message
    assert hint
    assert "{" not in hint
    assert is_refusal(shown) is is_refused


@pytest.mark.parametrize(
    ("words", "is_refused"),
    [
        ("ada@gpu01: Permission denied (publickey).", True),
        ("Connection closed by 10.0.0.3 port 22", True),
        ("ssh: connect to host gpu01 port 22: Connection refused", True),
        ("ssh: connect to host gpu01 port 22: Connection timed out", False),
        ("Host key verification failed.", False),
        ("gpumon: no python3 on this node", False),
        ("something new", False),
    ],
)
def test_only_a_refusal_opens_another_way(words: str, is_refused: bool) -> None:
    assert is_refusal(explain("gpu01")(255, words)[0]) is is_refused
