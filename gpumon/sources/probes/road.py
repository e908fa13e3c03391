"""How a node is reached: one answer for its probe, for a shell on it, and for commands to copy."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, NamedTuple

from gpumon.model.hostlist import is_host_name

if TYPE_CHECKING:
    from gpumon.model.records.cluster import SlurmNode
    from gpumon.sources.address import Hop
    from gpumon.sources.probes.stream import Endpoint


class Road(NamedTuple):
    """The way to one machine; all names in it are validated."""

    host: str
    """Name under which ssh finds it."""
    user: str = ""
    """Login name; empty: ssh's own choice."""
    port: int | None = None
    """None: ssh's own choice."""
    hop: Hop | None = None
    """Login node in front of it; None: none."""
    is_here: bool = False
    """Whether it is this machine, to which nothing has to lead."""

    def endpoint(self, node: str) -> Endpoint:
        """How the probe is started there; `node` is the name by which its source knows it."""
        if self.is_here:
            from gpumon.sources.probes.local import local_endpoint

            return local_endpoint(node)
        from gpumon.sources.probes.ssh import endpoint

        return endpoint(self.host, self.user, self.port, node=node, hop=self.hop)

    @property
    def shell_words(self) -> tuple[str, ...]:
        """What opens a shell there, over the very way of the probe."""
        if self.is_here:
            return (os.environ.get("SHELL") or "/bin/sh",)
        words = ["ssh"]
        if self.user:
            words += ["-l", self.user]
        if self.port is not None:
            words += ["-p", str(self.port)]
        if self.hop is not None:
            from gpumon.sources.probes.ssh import proxy_command

            words += ["-o", f"ProxyCommand={proxy_command(*self.hop)}"]
        return (*words, "--", self.host)

    def typed(self, *words: str, has_terminal: bool = False) -> tuple[str, ...]:
        """A command there, or without words a shell, as people type it here."""
        if self.is_here:
            return words or self.shell_words
        found = ["ssh"]
        if has_terminal:
            found.append("-t")
        if self.port is not None:
            found += ["-p", str(self.port)]
        if self.hop is not None:
            found += ["-J", _jump(self.hop)]
        found.append(f"{self.user}@{self.host}" if self.user else self.host)
        # A shell there reads the words once more.
        return (*found, *map(shlex.quote, words))


def in_slurm(node: SlurmNode, hop: Hop | None, here: str) -> Road | None:
    """The way to a node that Slurm lists; None: its names are none that ssh may be given.

    Args:
        node: The node; its NodeHostName is what it is called outside of Slurm.
        hop: Login node in front of the cluster.
        here: This machine's name.
    """
    host = node.host_name or node.name
    if not (is_host_name(host) and is_host_name(node.name)):
        return None
    # Behind a hop lies another network, where this machine's name may be another's.
    is_here = hop is None and host in (here, here.partition(".")[0])
    return Road(host, hop=hop, is_here=is_here)


def _jump(hop: Hop) -> str:
    host = f"[{hop.host}]" if ":" in hop.host else hop.host
    user = f"{hop.user}@" if hop.user else ""
    return user + (host if hop.port is None else f"{host}:{hop.port}")
