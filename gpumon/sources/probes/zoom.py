"""Zoom: the nodes of the job on screen are read more often and more closely."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

OFF: Final = "zoom off"
SEEN: Final = "processes seen"
UNSEEN: Final = "processes unseen"
"""Whether processes are on screen; a probe without a wish takes them to be."""

SLOWEST_S: Final = 1.0
"""A node on screen is read at least this often, however long the period of the rest."""
FASTEST_S: Final = 0.25
"""And no faster: one reading of the driver's utilisation covers a sixth of a second or more."""
MAX_WORDS: Final = 4000
"""A probe reads lines of at most 4096 bytes."""

_UUID: Final = r"[A-Za-z0-9-]{1,64}"


class Zoom(NamedTuple):
    """What is on screen."""

    nodes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    """UUIDs; empty: every GPU of these nodes."""

    def period_s(self, names: Set[str], period_s: float) -> float:
        """Period of a node that goes by these names: half the others', where it is on screen."""
        if names.isdisjoint(self.nodes):
            return period_s
        return min(period_s, max(FASTEST_S, min(SLOWEST_S, period_s / 2)))

    def words(self, names: Set[str], uuids: Sequence[str]) -> str:
        """What is sent to the probe of a node with these GPUs."""
        if names.isdisjoint(self.nodes):
            return OFF
        # A UUID comes from the node itself: one that is none could break the line.
        mine = [uuid for uuid in uuids if re.fullmatch(_UUID, uuid)]
        wanted = ",".join(uuid for uuid in mine if not self.gpus or uuid in self.gpus)
        if not wanted:
            return OFF
        words = f"zoom {wanted}"
        return words if len(words) <= MAX_WORDS else words[: words.rindex(",", 0, MAX_WORDS)]
