"""The token (JWT) that slurmrestd wants: read again for each call, shown nowhere."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpumon.model.fault import SourceError
from gpumon.model.text import plain
from gpumon.sources.http.secret_file import SecretError, read_secret
from gpumon.sources.own_login import own_login
from gpumon.sources.slurm.commands.failures import CommandFailedError
from gpumon.sources.slurm.json.values import number, parse_object

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE: Final = "SLURM_JWT"

MAX_BYTES: Final = 16 * 1024
"""Longest token file that is read; Slurm's own tokens have about 150 characters."""

RENEW: Final = "get a new one: `export $(scontrol token lifespan=86400)`, or renew the token file"

_WHERE: Final = "slurmrestd token"
_FORM: Final = re.compile(r"[A-Za-z0-9_.~+/=-]{1,8192}")
"""What may follow `Bearer` in a header (RFC 6750), so that no token can add a header of its own."""

_LOGIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


class Token(NamedTuple):
    """One token and its own claims, unverified."""

    secret: str
    user: str
    """Whom it speaks for: its `sun` claim, else the user of this process."""
    expires_at: float | None
    """Unix time; None where it does not say."""
    names_user: bool
    """Whether it says itself whom it speaks for."""

    def __repr__(self) -> str:
        """Without the secret, for whatever prints it."""
        return f"Token(user={self.user!r}, expires_at={self.expires_at!r})"


def read_token(token_file: str, environ: Mapping[str, str]) -> Token | None:
    """The token of the file, or of the environment where none is named; None: there is none.

    Raises:
        CommandFailedError: there is one that cannot or must not be used.
    """
    if token_file:
        return _token(_read(token_file), f"the token file {plain(token_file)}")
    found = environ.get(VARIABLE, "")
    return _token(found, VARIABLE) if found.strip() else None


def asker(environ: Mapping[str, str]) -> str:
    """Whom the token of the environment speaks for, the same for one that is renewed.

    The token itself where it does not say; empty without one.
    """
    found = environ.get(VARIABLE, "").strip()
    user = _claims(found).get("sun") if found else None
    return user if isinstance(user, str) and _LOGIN.fullmatch(user) else found


def missing() -> SourceError:
    """No token is there where one is needed."""
    return SourceError(
        _WHERE,
        f"there is none: {VARIABLE} is not set",
        "`export $(scontrol token lifespan=86400)`, or name a file with ?token_file=/path",
    )


def _read(path: str) -> str:
    """Text of a file that no other user may read."""
    try:
        return read_secret(path, "token file", MAX_BYTES)
    except SecretError as error:
        raise _unusable(error.message, error.hint) from None


def _token(text: str, source: str) -> Token:
    """The token in a text, also as `scontrol token` prints it."""
    secret = text.strip().removeprefix(f"{VARIABLE}=").strip()
    if not _FORM.fullmatch(secret):
        raise _unusable(f"{source} holds no token", "it must hold what `scontrol token` prints")
    claims = _claims(secret)
    user = claims.get("sun")
    names_user = isinstance(user, str) and _LOGIN.fullmatch(user) is not None
    user = str(user) if names_user else own_login()
    expires_at = number(claims.get("exp"))
    ends_at = None if expires_at is None else float(expires_at)
    return Token(secret, user, ends_at, names_user)


def _claims(secret: str) -> dict[str, Any]:
    """What the token says of itself; nothing where it is no JWT."""
    parts = secret.split(".")
    if len(parts) != 3:
        return {}
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        return parse_object(base64.b64decode(padded, altchars=b"-_"))
    except ValueError:
        # Letters of no alphabet of base64, broken base64, or something that is not JSON object:
        # An opaque token is as good as any: only the server has to understand it.
        return {}


def _unusable(message: str, hint: str) -> CommandFailedError:
    return CommandFailedError(SourceError(_WHERE, message, hint))
