"""GPUs that two nodes of one target claim: one of them is wrong, or lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.model.fault import SourceError

if TYPE_CHECKING:
    from gpumon.model.records.frame import Frame


class Disputes:
    """Who had which GPU first. Its claim stands as long as that node is known and claims it."""

    def __init__(self) -> None:
        """Nothing is claimed yet."""
        self._reported: dict[tuple[str, str], tuple[str, ...]] = {}
        """UUIDs by origin and node."""
        self._claimants: dict[str, dict[str, tuple[str, ...]]] = {}
        """Nodes by origin and UUID, in the order in which they came: the same GPU by two targets is
        no dispute. Nearly all have one claimant, and those of a node the same object."""
        self._disputed: dict[tuple[str, str], None] = {}

    def __bool__(self) -> bool:
        """Whether any GPU is claimed twice."""
        return bool(self._disputed)

    def take(self, frame: Frame) -> None:
        """Take in which GPUs a node claims now.

        One that names none has lost no right: its probe or its driver may be starting, and whoever
        lies in wait for that must not become the first.
        """
        uuids = frame.block("gpu").keys
        if uuids:
            self._claim(frame.origin, frame.node, uuids)

    def forget(self, origin: str, node: str) -> None:
        """A node is known no more, and claims nothing."""
        self._claim(origin, node, ())
        self._reported.pop((origin, node), None)

    def is_refused(self, frame: Frame, uuid: str) -> bool:
        """Whether another node of the same target had a GPU before this one."""
        claimants = self._claimants.get(frame.origin, {}).get(uuid)
        return claimants is not None and claimants[0] != frame.node

    def others(self) -> dict[str, tuple[str, ...]]:
        """By UUID the nodes whose claim is refused."""
        return {uuid: self._claimants[origin][uuid][1:] for origin, uuid in self._disputed}

    def errors(self) -> dict[tuple[str, str], SourceError]:
        """One line by origin and node about all that it claims and is refused."""
        refused: dict[tuple[str, str], list[str]] = {}
        for origin, uuid in self._disputed:
            for node in self._claimants[origin][uuid][1:]:
                refused.setdefault((origin, node), []).append(uuid)
        return {key: self._error(*key, uuids) for key, uuids in refused.items()}

    def _error(self, origin: str, node: str, uuids: list[str]) -> SourceError:
        owner = self._claimants[origin][uuids[0]][0]
        more = f" and {len(uuids) - 1} more" if len(uuids) > 1 else ""
        return SourceError(
            node,
            f"claims {uuids[0]}{more}, which {owner} had first: that claim is refused",
            f"compare nvidia-smi -L on {node} and {owner}: no two GPUs have one UUID",
        )

    def _claim(self, origin: str, node: str, uuids: tuple[str, ...]) -> None:
        before = self._reported.get((origin, node), ())
        # Most frames name the same GPUs by the very same tuple.
        if before is uuids or before == uuids:
            return
        self._reported[origin, node] = uuids
        claimants, only = self._claimants.setdefault(origin, {}), (node,)
        for uuid in set(before).difference(uuids):
            rest = tuple([one for one in claimants[uuid] if one != node])
            self._set(origin, uuid, rest)
        for uuid in uuids:
            known = claimants.setdefault(uuid, only)
            if node not in known:
                self._set(origin, uuid, (*known, node))

    def _set(self, origin: str, uuid: str, nodes: tuple[str, ...]) -> None:
        """Note which nodes claim a GPU."""
        if nodes:
            self._claimants[origin][uuid] = nodes
        else:
            del self._claimants[origin][uuid]
        if len(nodes) > 1:
            self._disputed[origin, uuid] = None
        else:
            self._disputed.pop((origin, uuid), None)
