"""Where a slurmrestd listens, of a target such as `slurm+https://host:6820?token_file=/path`."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address
from typing import Final, NamedTuple

from gpumon.model.hostlist import MAX_PORT, is_host_name

PORT: Final = 6820
"""Where slurmrestd listens unless set otherwise (slurmrestd(8))."""

_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^:/@\[\]]+))(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<prefix>(?:/[A-Za-z0-9._~-]+)*)/?"
)
_SOCKET: Final = re.compile(r"/[^\x00-\x1f\x7f]{1,1023}")
_LOOPBACK_NAMES: Final = frozenset({"localhost", "::1"})


class RestAddress(NamedTuple):
    """One slurmrestd and where its token comes from; holds no secret."""

    base_url: str
    """What comes before `/slurm/v0.0.NN`; of a UNIX socket the host is only a name."""
    socket_path: str = ""
    """The UNIX socket, empty for TCP."""
    token_file: str = ""
    """File with the token; empty: `SLURM_JWT`."""


def parse_address(scheme: str, rest: str, options: dict[str, str]) -> RestAddress:
    """The slurmrestd that the parts of a URL name.

    Takes `token_file` and `insecure` out of the options.

    Args:
        scheme: `slurm+http`, `slurm+https` or `slurm+unix`.
        rest: what is between `://` and `?`.
        options: what comes after `?`.

    Raises:
        ValueError: They name none; the message says what is wrong and the way out.
    """
    token_file = options.pop("token_file", "")
    is_accepted = options.pop("insecure", "0")
    if token_file and not _SOCKET.fullmatch(token_file):
        raise ValueError("?token_file= takes an absolute path")
    if is_accepted not in ("0", "1"):
        raise ValueError("?insecure= takes 1 or 0")
    if scheme == "slurm+unix":
        if not _SOCKET.fullmatch(rest):
            raise ValueError("the socket is written slurm+unix:///path/to/rest.sock")
        return RestAddress("http://slurmrestd", rest, token_file)
    match = _AUTHORITY.fullmatch(rest)
    host = (match["ipv6"] or match["host"]) if match else ""
    port = int(match["port"] or PORT) if match else 0
    if match is None or not is_host_name(host) or not 0 < port <= MAX_PORT:
        raise ValueError(f"slurmrestd is written {scheme}://host[:{PORT}]")
    if scheme == "slurm+http" and not is_loopback(host) and is_accepted == "0":
        raise ValueError(
            "plain HTTP would show the token to everyone on the way: use slurm+https://, "
            "a tunnel to localhost, or add ?insecure=1 where the network is trusted"
        )
    shown = f"[{host}]" if ":" in host else host
    base_url = f"{scheme.removeprefix('slurm+')}://{shown}:{port}{match['prefix']}"
    return RestAddress(base_url, "", token_file)


def is_loopback(host: str) -> bool:
    """Whether the name can mean nothing but this machine, without asking any name server."""
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return IPv4Address(host).is_loopback
    except AddressValueError:
        return False
