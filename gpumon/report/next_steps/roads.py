"""Which way leads to a node and to Slurm's commands, by the targets of a tick."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.hostlist import is_host_name
from gpumon.sources.address import Target, TargetError, parse, target_of
from gpumon.sources.probes.road import Road, in_slurm

if TYPE_CHECKING:
    from gpumon.model.records.tick import Tick


class Ways(NamedTuple):
    """The ways that the commands about one subject need."""

    node: Road | None = None
    """To its node; None: there is none, or it is unknown."""
    slurm: Road | None = None
    """To where Slurm's commands are; None: they are here."""
    cluster: str = ""
    """The cluster that they have to ask; empty: it is their own."""


NO_WAYS: Final = Ways()


def ways_for(tick: Tick, node: str | None) -> Ways:
    """The ways to a node, and to Slurm's commands where one cluster alone is in view."""
    slurm = _slurm_targets(tick)
    hop, cluster = (slurm[0].hop, slurm[0].cluster) if len(slurm) == 1 else (None, "")
    return Ways(road_to(tick, node) if node else None, Road(*hop) if hop else None, cluster)


def road_to(tick: Tick, node: str) -> Road | None:
    """The way by which a node is read; None: it is unknown."""
    target = _target_of(tick, node)
    if target is None or not is_host_name(node):
        return None
    if target.scheme == "local":
        return Road(node, is_here=True)
    if target.scheme == "slurm":
        hop = target.hop
        for listed in tick.queue.nodes if tick.queue else ():
            if listed.name == node:
                return in_slurm(listed, hop, socket.gethostname())
        return Road(node, hop=hop)
    if target.scheme == "ssh":
        host = _host_of(target, node) or (target.hosts[0] if len(target.hosts) == 1 else "")
        return Road(host, target.user, target.port) if host else None
    return Road(node)


def has_this_machine(tick: Tick) -> bool:
    """Whether the target `local` is among those in view."""
    return any(target.scheme == "local" for target in _targets(tick))


def is_this_machine(tick: Tick, node: str) -> bool:
    """Whether a node is read as this machine itself, by the target `local`."""
    target = _target_of(tick, node)
    return target is not None and target.scheme == "local"


def slurm_here(tick: Tick | None) -> tuple[Target | None, str]:
    """The Slurm whose queue is in view, where commands can speak to it.

    Returns:
        The target, or None and why there is none.
    """
    found = _slurm_targets(tick) if tick else []
    if not found:
        return None, "no Slurm queue is in view"
    if len(found) > 1:
        # A job's number may be that of another user's job on another cluster.
        return None, "several clusters are in view: copy the command with y"
    if found[0].rest is not None:
        return None, "gpumon changes nothing by slurmrestd: copy the command with y"
    return found[0], ""


def has_several_clusters(tick: Tick) -> bool:
    """Whether more than one Slurm is in view, so that a number or a name may be of any."""
    return len(_slurm_targets(tick)) > 1


def _slurm_targets(tick: Tick) -> list[Target]:
    return [target for target in _targets(tick) if target.scheme == "slurm"]


def _targets(tick: Tick) -> list[Target]:
    found = []
    for state in tick.targets:
        try:
            found.append(parse(state.url))
        except TargetError:
            continue
    return found


def _target_of(tick: Tick, node: str) -> Target | None:
    """The target that a node belongs to; None: it may be of several."""
    targets = _targets(tick)
    known = tick.nodes.get(node)
    gpus = [tick.gpus[uuid] for uuid in known.gpu_uuids if uuid in tick.gpus] if known else []
    origins = {target_of(gpu.origin) for gpu in gpus}
    is_listed = tick.queue is None or any(one.name == node for one in tick.queue.nodes)
    for found in (
        [target for target in targets if target.url in origins],
        [target for target in targets if target.scheme == "ssh" and _host_of(target, node)],
        [target for target in targets if target.scheme == "slurm" and is_listed],
        targets,
    ):
        if len(found) == 1:
            return found[0]
    return None


def _host_of(target: Target, node: str) -> str:
    """The host of an ssh target that has a node's name; empty: none has."""
    if node in target.hosts:
        return node
    short = [host for host in target.hosts if host.partition(".")[0] == node.partition(".")[0]]
    return short[0] if len(short) == 1 else ""
