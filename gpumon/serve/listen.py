"""Where the server listens: loopback or a UNIX socket unless another place is named."""

from __future__ import annotations

import os
import re
import socket
import ssl
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from gpumon.base.errors import InputError, UnavailableError
from gpumon.model.hostlist import MAX_PORT
from gpumon.model.text import plain
from gpumon.sources.rest_address import is_loopback

_BACKLOG: Final = 128
"""Connections that wait to be accepted (the kernel's own default of old, SOMAXCONN)."""

_TCP: Final = re.compile(
    r"(?:(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9.-]+)):)?(?P<port>[0-9]{1,5})"
)
_UNIX: Final = re.compile(r"(?:unix:)?(?P<path>/[^\x00-\x1f\x7f]{1,106})")
"""A path; the kernel takes 107 bytes (unix(7))."""


class ListenError(InputError):
    """The address cannot be listened on; the message is one line with the way out."""


class Listen(NamedTuple):
    """One address."""

    text: str
    host: str = ""
    port: int = 0
    path: str = ""
    """Of a UNIX socket; empty: TCP."""

    @property
    def is_own(self) -> bool:
        """Whether only this machine can reach it."""
        return bool(self.path) or is_loopback(self.host)


def parse(text: str) -> Listen:
    """The address that a text names.

    Raises:
        ListenError: It names none.
    """
    unix = _UNIX.fullmatch(text)
    if unix is not None:
        return Listen(text, path=unix["path"])
    match = _TCP.fullmatch(text)
    if match is None or int(match["port"]) > MAX_PORT:
        message = (
            f"{text!r} is not an address to listen on: write HOST:PORT, [IPV6]:PORT, PORT or "
            "unix:/path"
        )
        raise ListenError(message)
    host = match["ipv6"] or match["host"] or "127.0.0.1"
    # The name may mean either loopback; the reader of a page may know only one of them.
    return Listen(text, "127.0.0.1" if host.lower() == "localhost" else host, int(match["port"]))


def bound(where: Listen) -> socket.socket:
    """A socket that listens there; that of a path is its user's alone.

    Raises:
        UnavailableError: It cannot be had.
    """
    try:
        return _unix(where.path) if where.path else _tcp(where)
    except OSError as error:
        is_name = isinstance(error, socket.gaierror) or error.errno is None
        # What the library adds of the address is in the message already.
        reason = (error.strerror or str(error)) if is_name else os.strerror(error.errno or 0)
        message = f"cannot listen on {where.text}: {reason}; --listen names another place"
        raise UnavailableError(message) from None


def _tcp(where: Listen) -> socket.socket:
    found = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)
    family, _, _, _, address = found[0]
    listening = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    listening.setblocking(False)
    return listening


def _unix(path: str) -> socket.socket:
    _remove_dead(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The mode of the descriptor becomes that of the file: at no moment is it open.
        os.fchmod(listening.fileno(), 0o600)
        listening.bind(path)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


def _remove_dead(path: str) -> None:
    """Remove the socket of a server that was killed; anything else is left alone."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
            try:
                tried.connect(path)
            except ConnectionRefusedError:
                Path(path).unlink()


def released(where: Listen, listening: socket.socket) -> None:
    """Listen no more, and remove the socket's file where it still is this one."""
    if where.path:
        with suppress(OSError):
            Path(where.path).unlink()
    listening.close()


def encrypted(certificate: str, key: str) -> ssl.SSLContext:
    """What TLS is served with.

    Raises:
        ListenError: The certificate or its key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A key that wants a password would ask for it on the terminal, where no one may be.
        context.load_cert_chain(certificate, key or None, password="")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = (
            f"serve.tls_certificate and serve.tls_key: {plain(certificate)}, {plain(key)}: "
            f"{plain(reason)}; both are PEM, the key without a password"
        )
        raise ListenError(message) from None
    return context


def shown(where: Listen, listening: socket.socket, *, is_encrypted: bool) -> str:
    """The address as a client writes it."""
    if where.path:
        return f"unix:{where.path}"
    host, port = listening.getsockname()[:2]
    place = f"[{host}]" if ":" in host else host
    return f"{'https' if is_encrypted else 'http'}://{place}:{port}/"
