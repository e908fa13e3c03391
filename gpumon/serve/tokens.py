"""Who asks, by a token, and whose jobs that shows."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.base.errors import InputError
from gpumon.base.own_file import NotOwnError, read_own
from gpumon.model.text import plain
from gpumon.serve.exchange import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.serve.exchange import Asked

EVERYBODY: Final = "*"

MOST_TOKENS: Final = 1000
"""Tokens of a file: each question is compared with all of them, in a millisecond (arithmetic)."""

_MOST_BYTES: Final = 2**20
_LEAST_CHARACTERS: Final = 16
"""Of a token: 16 letters at random are more than anyone tries."""

_LINE: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_.@-]{1,64})[ \t]+(?P<token>[A-Za-z0-9_.~+/=-]{1,512})"
)
"""What may follow `Bearer` (RFC 6750)."""

_SHOWS: Final = re.compile(r"user:(?P<user>[^\s:]{1,64})")
KEY_BYTES: Final = 32
"""Bytes of the random key that tokens are hashed with. A choice: 256 bits."""


class TokenError(InputError):
    """The tokens cannot be used; the message is one line with the way out."""


class Viewer(NamedTuple):
    """Who asks."""

    name: str
    users: frozenset[str] | None
    """Whose jobs they see; None: everybody's."""


OWNER: Final = Viewer("", None)
"""Who asks where no token is asked for."""


class Tokens:
    """The tokens that are known. They are held as digests, and compared in constant time."""

    def __init__(self, viewers: Mapping[bytes, Viewer], key: bytes) -> None:
        """Viewers by the digest of their token, made with the key."""
        self._viewers = viewers
        self._key = key

    def viewer(self, asked: Asked) -> Viewer:
        """Who asks.

        Raises:
            RefusedError: No one that is known.
        """
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        digest = _digest(token.strip(), self._key) if scheme.lower() == "bearer" else b""
        found = None
        # All are compared, so that how long it takes shows nothing.
        for known, viewer in self._viewers.items():
            if hmac.compare_digest(known, digest):
                found = viewer
        if found is None:
            message = "this server needs a valid token: Authorization: Bearer TOKEN"
            challenge = ("WWW-Authenticate", 'Bearer realm="gpumon"')
            raise RefusedError(HTTPStatus.UNAUTHORIZED, message, challenge)
        return found


def _digest(token: str, key: bytes) -> bytes:
    return hashlib.blake2b(token.encode("utf-8", "replace"), key=key).digest()


def tokens(path: str, shows: Mapping[str, tuple[str, ...]]) -> Tokens:
    """The tokens of a file.

    Args:
        path: The file, with a line `NAME TOKEN` each.
        shows: What each name shows, as `serve.tokens` has it.

    Raises:
        TokenError: It cannot be used, or does not match what they show.
    """
    key = secrets.token_bytes(KEY_BYTES)
    viewers: dict[bytes, Viewer] = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        # The line is not shown: it may hold a token all the same.
        if match is None or len(match["token"]) < _LEAST_CHARACTERS:
            message = f"NAME TOKEN, a token of {_LEAST_CHARACTERS} letters and digits or more"
            raise TokenError(f"{plain(path)}:{number} is not of the form {message}")
        digest = _digest(match["token"], key)
        if digest in viewers:
            raise TokenError(f"{plain(path)}:{number} repeats a token")
        viewers[digest] = _viewer(match["name"], shows)
        if len(viewers) > MOST_TOKENS:
            raise TokenError(f"{plain(path)} holds more than {MOST_TOKENS} tokens")
    unused = shows.keys() - {viewer.name for viewer in viewers.values()}
    if unused:
        name = plain(min(unused))
        raise TokenError(
            f"serve.tokens: {name} has no token in {plain(path)}; add one, or remove it"
        )
    if not viewers:
        raise TokenError(f"{plain(path)} holds no token; a line is NAME TOKEN")
    return Tokens(viewers, key)


def _text(path: str) -> str:
    try:
        raw = read_own(path, _MOST_BYTES)
    except OSError as error:
        raise TokenError(f"serve.token_file: {plain(path)}: {error.strerror}") from None
    except NotOwnError as error:
        raise TokenError(f"serve.token_file: {plain(path)} {error}; chmod 600 closes it") from None
    if len(raw) > _MOST_BYTES:
        raise TokenError(f"serve.token_file: {plain(path)} is larger than {_MOST_BYTES >> 20} MiB")
    return raw.decode("ascii", "replace")


def _viewer(name: str, shows: Mapping[str, tuple[str, ...]]) -> Viewer:
    if name not in shows:
        message = f'serve.tokens: {name} shows no jobs; write {name} = ["user:{name}"] or ["*"]'
        raise TokenError(message)
    if EVERYBODY in shows[name]:
        return Viewer(name, None)
    users = [_SHOWS.fullmatch(one) for one in shows[name]]
    if not users or not all(users):
        raise TokenError(f'serve.tokens: {name} takes "user:NAME" or "*"')
    return Viewer(name, frozenset(match["user"] for match in users if match))
