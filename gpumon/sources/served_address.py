"""Where another gpumon serves, of a target such as `gpumon+https://login1:9777?token_file=/path`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gpumon.model.hostlist import MAX_PORT, is_host_name
from gpumon.sources.rest_address import is_loopback

PORT: Final = 9777
"""Where `gpumon serve` listens unless set otherwise."""

NDJSON: Final = "application/x-ndjson"
"""Media type of lines of JSON (ndjson-spec 1.0)."""

_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^:/@\[\]]+))(?::(?P<port>[0-9]{1,5}))?/?"
)
_PATH: Final = re.compile(r"/[^\x00-\x1f\x7f]{1,1023}")


class ServedAddress(NamedTuple):
    """One server and where the token for it comes from; holds no secret."""

    host: str
    port: int = PORT
    is_encrypted: bool = False
    path: str = ""
    """The UNIX socket; empty: TCP."""
    token_file: str = ""


def parse_served(scheme: str, rest: str, options: dict[str, str]) -> ServedAddress:
    """The server that the parts of a URL name.

    Args:
        scheme: `gpumon+http`, `gpumon+https` or `gpumon+unix`.
        rest: What is between `://` and `?`.
        options: What comes after `?`.

    Raises:
        ValueError: They name none; the message says what is wrong and the way out.
    """
    token_file = options.pop("token_file", "")
    if options or (token_file and not _PATH.fullmatch(token_file)):
        raise ValueError("a served gpumon takes ?token_file= with an absolute path, nothing else")
    if scheme == "gpumon+unix":
        if not _PATH.fullmatch(rest):
            raise ValueError("the socket is written gpumon+unix:///path/to/socket")
        return ServedAddress("localhost", path=rest, token_file=token_file)
    match = _AUTHORITY.fullmatch(rest)
    host = (match["ipv6"] or match["host"]) if match else ""
    port = int(match["port"] or PORT) if match else 0
    if not is_host_name(host) or not 0 < port <= MAX_PORT:
        raise ValueError(f"a served gpumon is written {scheme}://host[:{PORT}]")
    is_encrypted = scheme == "gpumon+https"
    if token_file and not is_encrypted and not is_loopback(host):
        raise ValueError(
            "plain HTTP would show the token to everyone on the way: use gpumon+https://, or a "
            "tunnel to localhost"
        )
    return ServedAddress(
        host=host, port=port, is_encrypted=is_encrypted, path="", token_file=token_file
    )
