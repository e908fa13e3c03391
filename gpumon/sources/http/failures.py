"""Why an exchange over HTTP brought no answer, and the way out, in the same words for every source.

Who is asked differs, and with it the way out: a `Peer` holds the words that are its own. What makes
exchanges is imported only where one has failed: the words alone are wanted where none is made.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.text import plain
from gpumon.model.units import period

if TYPE_CHECKING:
    import ssl

    import httpx

RETRIED: Final = "gpumon asks again by itself"
"""End of an advice where nothing more has to be done."""

REFUSED: Final = (401, 403)
"""Status codes of who may not read this."""

SHOWN: Final = 120
"""Characters of a text of a system, a server or a header that are shown."""

AWAY: Final = (502, 503)
"""Statuses by which a server that begins, or a proxy whose server is away, refuses at once."""

_WANTS_OURS: Final = ("ALERT_CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE", "ALERT_UNKNOWN_CA")
"""What a server answers to our certificate; it comes with its first answer, as TLS 1.3 has it."""


class Trouble(NamedTuple):
    """One failure: one line, and the way out."""

    message: str
    hint: str
    is_refused: bool = False
    """Whether the port takes no connection, so that asking again is cheap."""


class Peer(NamedTuple):
    """What is asked, in the words of its failures."""

    name: str
    """What does not answer where a proxy does: `an exporter`."""
    answer: str
    """What it should have given: `whole page`."""
    unreached: str
    """The way out where it cannot be reached."""
    unheard: str
    """The same where the connection is neither taken nor refused; empty: as any other failure."""
    overloaded: str
    """The way out where it is too slow."""
    speaks_no_tls: str
    """The way out where it speaks no TLS."""
    speaks_no_http: str
    """The way out where it may speak something else."""
    elsewhere: str
    """The way out where a proxy answers in its place."""
    certificate: str
    """The way out where its certificate has expired."""


def failure(
    error: httpx.HTTPError | httpx.StreamError | ssl.SSLError, timeout_s: float, peer: Peer
) -> Trouble:
    """Why an exchange within a time brought no answer."""
    import httpx

    reason = reason_of(error)
    hint = peer.unreached
    if isinstance(error, httpx.ConnectTimeout):
        if peer.unheard:
            reason, hint = "no answer", peer.unheard
    elif isinstance(error, httpx.TimeoutException):
        return late(timeout_s, peer)
    elif "expired" in reason:
        hint = peer.certificate
    elif any(alert in reason for alert in _WANTS_OURS):
        hint = "it only accepts clients with a certificate that it trusts"
    elif "mismatch" in reason:
        # So OpenSSL says of names and of addresses.
        hint = "name it by a name or an address that its certificate has"
    elif "CERTIFICATE" in reason:
        hint = "point SSL_CERT_FILE to the bundle of the authority that signed its certificate"
    elif "SSL" in reason:
        hint = peer.speaks_no_tls
    elif not isinstance(error, httpx.NetworkError):
        return Trouble(f"the answer broke off or is not HTTP: {reason}", peer.speaks_no_http)
    is_refused = reason == os.strerror(errno.ECONNREFUSED)
    return Trouble(f"cannot be reached: {reason}", hint, is_refused)


def late(timeout_s: float, peer: Peer) -> Trouble:
    """No whole answer within its time."""
    return Trouble(f"gave no {peer.answer} within {period(timeout_s)}", peer.overloaded)


def redirected(location: str) -> Trouble:
    """It sends us elsewhere, where no secret must follow."""
    to = plain(location, SHOWN) or "nowhere"
    return Trouble(f"redirects to {to}, which is not followed", "use that address as the target")


def web_page(peer: Peer, status: int | None = None) -> Trouble:
    """HTML: a proxy, a portal, a log-in page."""
    begin = "answers with" if status is None else f"answered HTTP {status} with"
    text = f"{begin} a web page: a proxy or portal, not {peer.name}"
    return Trouble(text, peer.elsewhere, is_refused=status in AWAY)


def reason_of(error: BaseException) -> str:
    """What the system reported first: the errors above it only repeat that something failed."""
    import socket
    import ssl

    reason = str(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if isinstance(cause, socket.gaierror | ssl.SSLError):
            reason = str(cause.strerror or cause)
        elif isinstance(cause, OSError) and cause.errno:
            # What asyncio has in its place holds no reason.
            reason = os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return plain(" ".join(reason.split()), SHOWN) or type(error).__name__
