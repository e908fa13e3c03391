"""Where exporters serve their pages, of a target such as `dcgm+http://gpu[001-128]:9400/metrics`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from gpumon.model.hostlist import MAX_PORT, expand, is_host_name

PORT: Final = 9400
"""Where dcgm-exporter listens unless set otherwise (its `--address`)."""

PATH: Final = "/metrics"
"""Where it serves its page."""

_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\]|(?P<hosts>[^:/@]+))"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[A-Za-z0-9._~-]+)*)/?"
)
_NUMBERS: Final = re.compile(r"[0-9.]+")


class PageAddress(NamedTuple):
    """One page; holds no secret."""

    url: str
    node: str
    """What the node is called as long as its page has no better name: the host, with its port
    where the host alone may mean several."""
    has_name: bool
    """Whether the host is a name of its own: no page has a better one."""

    @property
    def where(self) -> str:
        """What an error names: the node, with the path where it is not the usual one."""
        path = urlsplit(self.url).path
        return self.node if path == PATH else self.node + path


def parse_pages(scheme: str, rest: str) -> tuple[PageAddress, ...]:
    """The pages that the parts of a URL name, in their order.

    Args:
        scheme: `dcgm+http` or `dcgm+https`.
        rest: what comes after `://`.

    Raises:
        ValueError: They name none; the message says what is wrong and the way out.
    """
    if "@" in rest:
        raise ValueError("a page takes no name and no password: gpumon sends none to exporters")
    match = _AUTHORITY.fullmatch(rest)
    port = int(match["port"] or PORT) if match else 0
    if match is None or not 0 < port <= MAX_PORT:
        raise ValueError(f"a page is written {scheme}://host[:{PORT}][{PATH}], host[001-128] too")
    hosts = (match["ipv6"],) if match["ipv6"] else expand(match["hosts"])
    wrong = [host for host in hosts if not is_host_name(host)]
    if wrong or not hosts:
        raise ValueError(f"{(wrong or [rest])[0]!r} is not a host name")
    path = match["path"] or PATH
    return tuple(_page(scheme.removeprefix("dcgm+"), host, port, path) for host in hosts)


def _page(scheme: str, host: str, port: int, path: str) -> PageAddress:
    shown = f"[{host}]" if ":" in host else host
    has_name = not (":" in host or _NUMBERS.fullmatch(host) or host.lower() == "localhost")
    node = host if has_name or port == PORT else f"{shown}:{port}"
    return PageAddress(f"{scheme}://{shown}:{port}{path}", node, has_name)
