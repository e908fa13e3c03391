"""Where a server with Prometheus' interface listens: `prometheus+https://host:9090/prefix`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gpumon.model.hostlist import MAX_PORT, is_host_name
from gpumon.model.text import plain
from gpumon.sources.rest_address import is_loopback

PORT: Final = 9090
"""Where Prometheus listens unless set otherwise (its `--web.listen-address`)."""

_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\]|(?P<host>[^:/@\[\]]+))"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<prefix>(?:/[A-Za-z0-9:._~-]+)*)/?"
)
"""A prefix may hold the tenants of VictoriaMetrics' cluster: `/select/0:1/prometheus`."""

_LONGEST_PATH: Final = 1024
"""Characters of a secret file's path: a quarter of Linux' PATH_MAX (our choice)."""

_TENANT: Final = re.compile(r"[A-Za-z0-9!_.*'()|-]{1,150}")
"""Names of tenants (Mimir's documentation: 150 characters of these); `|` joins several."""

_HISTORY: Final = re.compile(r"0|(?P<count>[0-9]{1,4})(?P<unit>[hm])")
_UNITS_S: Final = {"h": 3600.0, "m": 60.0}
_LONGEST_S: Final = 24 * 3600.0
"""Longest look back of history (its own bound)."""

_FILES: Final = ("token_file", "login_file", "client_cert")
_FORM: Final = f"host[:{PORT}][/prefix]"


class EngineAddress(NamedTuple):
    """One server and what lets us in; holds no secret."""

    base_url: str
    """What comes before `/api/v1/`."""
    token_file: str = ""
    """File with a token that is sent as a bearer; empty: none."""
    login_file: str = ""
    """File with `user:password`; empty: none."""
    client_cert: str = ""
    """File with our own certificate and its key; empty: none."""
    tenant: str = ""
    """Whose data, where one server holds those of several: its header `X-Scope-OrgID`."""
    history_s: float = 24 * 3600.0
    """How far back it is asked at the start, where the fleet is small enough; history keeps no
    more."""


def parse_engine(scheme: str, rest: str, options: dict[str, str]) -> EngineAddress:
    """The server that the parts of a URL name.

    Args:
        scheme: `prometheus+http` or `prometheus+https`.
        rest: What is between `://` and `?`.
        options: What comes after `?`.

    Raises:
        ValueError: They name none; the message says what is wrong and the way out.
    """
    if "@" in rest:
        raise ValueError(
            "a target must not hold a name and a password, as others can see it: write "
            "user:password into a file of your own and add ?login_file=/path"
        )
    match = _AUTHORITY.fullmatch(rest)
    host = (match["ipv6"] or match["host"]) if match else ""
    port = int(match["port"] or PORT) if match else 0
    if match is None or not is_host_name(host) or not 0 < port <= MAX_PORT:
        raise ValueError(f"a server is written {scheme}://{_FORM}")
    files = {name: options.pop(name, "") for name in _FILES}
    for name, path in files.items():
        if path and (path[0] != "/" or plain(path, _LONGEST_PATH) != path):
            raise ValueError(f"?{name}= takes an absolute path")
    tenant, is_accepted = options.pop("tenant", ""), options.pop("insecure", "0")
    if tenant and not _TENANT.fullmatch(tenant):
        raise ValueError("?tenant= takes the name of a tenant; join several with |")
    history = _HISTORY.fullmatch(options.pop("history", "24h"))
    if history is None:
        raise ValueError("?history= takes hours or minutes, as 6h or 90m, or 0 for none")
    if options:
        known = ", ".join((*_FILES, "tenant", "history", "insecure"))
        raise ValueError(f"{next(iter(options))[:32]!r} is not one of the options {known}")
    if is_accepted not in ("0", "1"):
        raise ValueError("?insecure= takes 1 or 0")
    if files["token_file"] and files["login_file"]:
        raise ValueError("?token_file= and ?login_file= are two ways in: name one")
    is_plain = scheme == "prometheus+http"
    if is_plain and files["client_cert"]:
        raise ValueError("?client_cert= needs TLS: use prometheus+https://")
    has_secret = bool(files["token_file"] or files["login_file"])
    if is_plain and has_secret and not is_loopback(host) and is_accepted == "0":
        raise ValueError(
            "plain HTTP would show the secret to everyone on the way: use prometheus+https://, "
            "a tunnel to localhost, or add ?insecure=1 where the network is trusted"
        )
    shown = f"[{host}]" if ":" in host else host
    base_url = f"{scheme.removeprefix('prometheus+')}://{shown}:{port}{match['prefix']}"
    history_s = int(history["count"] or 0) * _UNITS_S[history["unit"] or "m"]
    return EngineAddress(base_url, **files, tenant=tenant, history_s=min(history_s, _LONGEST_S))
