"""Nodes over the user's own OpenSSH, with nothing installed on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.sources.program import START_COMMAND, remote_program
from gpumon.sources.stream import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

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
)
"""Added to the user's own configuration: never ask, never hang for ever, forward nothing."""

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
    ("Connection closed by", "it closed the connection",
     "some sites let you in only while a job of yours runs there"),
    ("no python3 on this node", "it has no python3", "install python3 on the node"),
)  # fmt: skip
"""Words of ssh on standard error, what they mean, and what to do; the first that fits counts."""


def explain(host: str) -> Callable[[int | None, str], tuple[str, str]]:
    """Translator of ssh's last words into a message and a way out."""

    def translate(code: int | None, words: str) -> tuple[str, str]:
        for sign, message, hint in WAYS_OUT:
            if sign in words:
                return f"ssh: {message}", hint.format(host=host)
        last = words.splitlines()[-1] if words else "no word of why"
        return f"ssh ended ({code}): {last}", f"check that `ssh {host} true` works by itself"

    return translate


def endpoint(host: str, user: str = "", port: int | None = None, node: str = "") -> Endpoint:
    """How the probe on one host is started.

    Args:
        host: A validated host name or address.
        user: A validated login name; empty: ssh's own choice.
        port: Port; None: ssh's own choice.
        node: Name under which the source knows the node; empty: the host.
    """
    argv = ["ssh", "-T"]
    for option in OPTIONS:
        argv += ["-o", option]
    if user:
        argv += ["-l", user]
    if port is not None:
        argv += ["-p", str(port)]
    argv += ["--", host, START_COMMAND]
    return Endpoint(node or host, tuple(argv), remote_program, explain(host))
