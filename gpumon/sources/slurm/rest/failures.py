"""What went wrong with slurmrestd, and the way out, one line each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gpumon.model.fault import SourceError
from gpumon.model.text import plain
from gpumon.sources.http import failures as http_failures
from gpumon.sources.http.failures import Peer
from gpumon.sources.slurm.commands import failures
from gpumon.sources.slurm.commands.token import RENEW
from gpumon.sources.slurm.json.values import records, text, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from gpumon.sources.slurm.commands.token import Token

AUTHENTICATION: Final = 1007
"""ESLURM_PROTOCOL_AUTHENTICATION_ERROR (slurm_errno.h): also what an expired token brings."""

MAX_REMARKS: Final = 3
"""Most errors or warnings of one answer that are passed on; of more the number."""

_NOTHING_THERE: Final = re.compile(
    r"zero [a-z]+ to dump|slurmdb_\w+\([^()]*\) found nothing", re.IGNORECASE
)
"""What 24.11 warns of beside an empty list, which says so itself."""

_SHOWN: Final = 200
"""Characters of slurmrestd's message that an error shows (our choice)."""

_VERSIONS_HINT: Final = "check the address, the port, and any path in front of /slurm/"

_PEER: Final = Peer(
    name="slurmrestd",
    answer="complete answer",
    unreached="check that slurmrestd runs there; gpumon asks again by itself, less and less often",
    unheard="",
    overloaded="`scontrol ping` and `sdiag` say whether the controller is overloaded",
    speaks_no_tls=(
        "it does not speak TLS there: check the port, or reach it through a tunnel to localhost"
    ),
    speaks_no_http="check that the port is slurmrestd's, and whether it wants slurm+https://",
    elsewhere=_VERSIONS_HINT,
    certificate="slurmrestd's certificate has to be renewed",
)


def where(what: str) -> str:
    """What an error is about: `slurmrestd jobs`."""
    return f"slurmrestd {what}"


def failed(
    what: str, place: str, error: httpx.HTTPError | httpx.StreamError, timeout_s: float
) -> SourceError:
    """Why an exchange brought no answer."""
    trouble = http_failures.failure(error, timeout_s, _PEER)
    if not trouble.message.startswith("cannot be reached"):
        return SourceError(where(what), trouble.message, trouble.hint)
    hint = trouble.hint
    if "ermission denied" in trouble.message:
        hint = "this user may not open the socket: ask your Slurm administrators"
    return SourceError(where(what), f"{place} {trouble.message}", hint)


def timed_out(what: str, timeout_s: float) -> SourceError:
    """No whole answer within the deadline."""
    return SourceError(where(what), *http_failures.late(timeout_s, _PEER)[:2])


def too_long(what: str, max_bytes: int) -> SourceError:
    """More than any cluster can mean."""
    return SourceError(
        where(what),
        f"answered more than {max_bytes // 2**20} MiB and was cut off",
        "check what listens there",
    )


def not_accepted(
    what: str, token: Token | None, now: float, *, is_socket: bool = False
) -> SourceError:
    """HTTP 401 or 403, whatever header the token came in."""
    if is_socket:
        return SourceError(
            where(what),
            "the socket does not answer this user" + (", nor the token" if token else ""),
            "with rest_auth/local it answers only root and its own user: use a target over TCP",
        )
    if token is None:
        return SourceError(
            where(what),
            "wants a token, and there is none",
            "`export $(scontrol token lifespan=86400)`, or name a file with ?token_file=/path",
        )
    return _expired(what, token, now) or SourceError(
        where(what), f"does not accept the token of {plain(token.user)}", RENEW
    )


def redirected(what: str, location: str) -> SourceError:
    """The server sends us elsewhere, where the token must not follow."""
    return SourceError(where(what), *http_failures.redirected(location)[:2])


def no_version(what: str, newest: str, oldest: str) -> SourceError:
    """Nothing under any path that is known."""
    return SourceError(
        where(what), f"serves none of the versions {newest} to {oldest}", _VERSIONS_HINT
    )


def web_page(what: str, status: int) -> SourceError:
    """HTML: a proxy, a portal, a log-in page."""
    return SourceError(where(what), *http_failures.web_page(_PEER, status)[:2])


def garbage(what: str, status: int, body: bytes) -> SourceError:
    """Neither a list nor an error that can be read."""
    start = plain(" ".join(body[:400].decode("utf-8", "replace").split()), 80)
    return SourceError(
        where(what),
        f"answered HTTP {status} with something that is not a list of {what}: {start!r}",
        "check that slurmrestd listens there, and its log",
    )


def reported_errors(
    what: str, status: int, answer: Mapping[str, Any], token: Token | None, now: float
) -> SourceError:
    """An answer without records whose `errors` say why."""
    errors = [one for one in records(answer, "errors") or [] if isinstance(one, dict)]
    description = described(errors)
    expired = _expired(what, token, now)
    if expired is not None:
        return expired
    if AUTHENTICATION in (whole(one.get("error_number")) for one in errors):
        return SourceError(where(what), f"does not accept the token: {description}", RENEW)
    known = failures.recognised(where(what), description)
    if known is not None:
        return known
    return SourceError(
        where(what),
        f"answered HTTP {status} with an error: {description}",
        "22.05 does not say whether its controller is down or a token refused: try `scontrol ping`",
    )


def described(errors: list[dict[str, Any]]) -> str:
    """The first entries of `errors` in one line."""
    lines = [_described(one) for one in errors[:MAX_REMARKS]]
    if len(errors) > MAX_REMARKS:
        lines.append(f"and {len(errors) - MAX_REMARKS} more")
    return "; ".join(lines) or "no reason given"


def remarks(what: str, answer: Mapping[str, Any]) -> tuple[SourceError, ...]:
    """Errors and warnings that come beside good records."""
    found: list[SourceError] = []
    for key in ("errors", "warnings"):
        listed = [one for one in records(answer, key) or [] if isinstance(one, dict)]
        lines = [line for line in map(_described, listed) if not _NOTHING_THERE.match(line)]
        if len(lines) > MAX_REMARKS:
            lines[MAX_REMARKS:] = [f"and {len(lines) - MAX_REMARKS} more"]
        found += [_beside(what, key[:-1], line) for line in lines]
    accounting = [one for one in found if failures.is_about_accounting(one)]
    # Its errors and its warnings report the same twice.
    return (*accounting[:1], *(one for one in found if one not in accounting))


def is_of_accounting_only(answer: Mapping[str, Any]) -> bool:
    """Whether an answer complains of slurmdbd and of nothing else.

    24.11 asks slurmdbd for the names of resources before it lists partitions; where that is gone,
    it answers with HTTP 500, that error, and all its records.
    """
    listed = [one for one in records(answer, "errors") or [] if isinstance(one, dict)]
    errors = [_beside("", "error", _described(one)) for one in listed]
    return bool(errors) and all(map(failures.is_about_accounting, errors))


def _expired(what: str, token: Token | None, now: float) -> SourceError | None:
    """The error where the token itself says that its time is over."""
    if token is None or token.expires_at is None or token.expires_at > now:
        return None
    minutes = (now - token.expires_at) / 60.0
    return SourceError(where(what), f"the token expired {minutes:.0f} min ago", RENEW)


def _beside(what: str, kind: str, description: str) -> SourceError:
    """An error or warning that comes beside good records."""
    known = failures.recognised(where(what), description)
    if known is not None and failures.is_about_accounting(known):
        return known
    return SourceError(where(what), f"{kind} with the records: {description}")


def _described(error: Mapping[str, Any]) -> str:
    """One entry of `errors` or `warnings` in one line."""
    parts = [re.sub(r"\s+", " ", text(error.get(key))).strip() for key in ("description", "error")]
    description = plain(": ".join(dict.fromkeys(part for part in parts if part)), _SHOWN)
    code = whole(error.get("error_number"))
    return f"{description or 'an error without a message'}" + (f" ({code})" if code else "")
