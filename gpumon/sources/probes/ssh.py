"""Nodes over the user's own OpenSSH, with nothing installed on them, or through a login node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.sources.probes.program import START_COMMAND, remote_program
from gpumon.sources.probes.stream import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.sources.address import Hop


OPTIONS: Final = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RequestTTY=no",
    "RemoteCommand=none",
    "ControlMaster=no",
)
"""Added to the user's own configuration: never ask, never hang for ever, forward nothing.

Nor carry the user's other sessions, which would end with gpumon. A connection that the user
shares already is used all the same.
"""

WAYS_OUT: Final = (
    ("Permission denied", "the key is refused", "check that `ssh {host} true` works by itself"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key has changed",
     "ask the administrator before you accept the new key"),
    ("Host key verification failed", "its host key is not known here",
     "log in once by hand and compare the key"),
    ("Could not resolve hostname", "the name is not known", "check the name, or ~/.ssh/config"),
    ("Connection refused", "nothing listens on its ssh port", "is the node up?"),
    ("Connection timed out", "it does not answer", "is the node up, and reachable from here?"),
    ("No route to host", "it does not answer", "is the node up, and reachable from here?"),
    ("Network is unreachable", "it does not answer", "is the node up, and reachable from here?"),
    # After a while without a word (ServerAliveInterval): a cable, a switch, or the node is gone.
    ("not responding", "it stopped answering", "is the node up, and reachable from here?"),
    ("Connection closed by", "it closed the connection",
     "some sites let you in only while a job of yours runs there"),
    ("no python3 on this node", "it has no python3", "install python3 on the node"),
)  # fmt: skip
"""Words of ssh on standard error, what they mean, and what to do; the first that fits counts."""


HOP_FAILED: Final = "UNKNOWN port 65535"
"""What ssh says of a connection that its proxy command, the login node, did not bring about."""

FORWARDING_FAILED: Final = "stdio forwarding failed"
"""What ssh on the hop says when the login node is there but the node behind it is not."""

NO_WAY_THROUGH: Final = "the login node does not forward connections to it"

REFUSALS: Final = frozenset(
    {"the key is refused", "it closed the connection", "nothing listens on its ssh port",
     NO_WAY_THROUGH}
)  # fmt: skip
"""What means that this user may not use ssh here, so that another way is worth a try."""


def is_refusal(message: str) -> bool:
    """Whether a failure's message says that the node lets this user in by no ssh."""
    return message.removeprefix("ssh: ") in REFUSALS


def explain(host: str, hop: str = "") -> Callable[[int | None, str], tuple[str, str]]:
    """Translator of ssh's last words into a message and a way out.

    Args:
        host: The node.
        hop: The login node in front of it; empty: none.
    """

    def translate(code: int | None, words: str) -> tuple[str, str]:
        if hop and FORWARDING_FAILED in words:
            if "administratively prohibited" in words:
                return f"ssh: {NO_WAY_THROUGH}", "ask its administrator, or use ?nodes=srun"
            return f"ssh: {hop} cannot reach it", "is the node up?"
        fails, prefix = host, "ssh: "
        if hop and HOP_FAILED in words:
            fails, prefix = hop, f"ssh: the login node {hop}: "
        for sign, message, hint in WAYS_OUT:
            if sign in words:
                return prefix + message, hint.format(host=fails)
        last = words.splitlines()[-1] if words else "no reason given"
        return f"ssh ended ({code}): {last}", f"check that `ssh {fails} true` works by itself"

    return translate


def login(host: str, user: str = "", port: int | None = None) -> tuple[str, ...]:
    """Words in front of a command that is to run on a host.

    Args:
        host: A validated host name or address.
        user: A validated login name; empty: ssh's own choice.
        port: Port; None: ssh's own choice.
    """
    return (*_options(user, port), "--", host)


def proxy_command(host: str, user: str = "", port: int | None = None) -> str:
    """Command for ssh's ProxyCommand that leads through a host; otherwise as `login`.

    ProxyJump would do the same without our options, so that a hop could ask for a password.
    A host with a `%`, an address with its zone, cannot be written in it.
    """
    words = " ".join(_options(user, port))
    return f"{words} -W '[%h]:%p' -- {host}"


def _options(user: str, port: int | None) -> list[str]:
    words = ["ssh", "-T"]
    for option in OPTIONS:
        words += ["-o", option]
    if user:
        words += ["-l", user]
    if port is not None:
        words += ["-p", str(port)]
    return words


def endpoint(
    host: str,
    user: str = "",
    port: int | None = None,
    node: str = "",
    hop: Hop | None = None,
) -> Endpoint:
    """How the probe on one host is started.

    Args:
        host: A validated host name or address.
        user: A validated login name; empty: ssh's own choice.
        port: Port; None: ssh's own choice.
        node: Name under which the source knows the node; empty: the host.
        hop: Login node in front of the host; None: none.
    """
    words = _options(user, port)
    if hop is not None:
        words += ["-o", f"ProxyCommand={proxy_command(*hop)}"]
    argv = (*words, "--", host, START_COMMAND)
    explained = explain(host, hop.host if hop else "")
    # The way through a login node is a client of its own, that of the proxy command.
    return Endpoint(node or host, argv, remote_program, explained, clients=2 if hop else 1)
