"""One probe's place in a pool: whether it runs, when it is due, when its nodes were heard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.sources.delay import JITTER_S
from gpumon.sources.zoom import OFF

if TYPE_CHECKING:
    from gpumon.sources.stream import Endpoint, Stream

RETRY_S: Final = (1.0, 60.0)
"""First and longest pause before a failed probe is started again; it doubles in between."""
STEP_RETRY_S: Final = (30.0, 960.0)
"""Likewise for a step of a job, of which every start stays in the accounting. Only one that lived
for the longest pause makes the next one short again."""


class Slot:
    """One node's place in the pool."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Due to be started at once."""
        self.endpoint = endpoint
        self.stream: Stream | None = None
        self.started_at = 0.0
        self.due_at = 0.0
        self.pauses_s = STEP_RETRY_S if endpoint.is_step else RETRY_S
        """First and longest pause before it is started again."""
        self.pause_s = self.pauses_s[0]
        self.is_settled = False
        """Whether it has reported with its GPUs, or failed, at least once."""
        self.names: frozenset[str] = frozenset({endpoint.node})
        """What the node is called, once it has reported."""
        self.gpus: dict[str, tuple[str, ...]] = {}
        """GPUs of the newest report, by node."""
        self.heard_at: dict[str, float] = {}
        """When each node of a step was last heard, infinite once its silence is known."""
        self.zoom_told = OFF
        """What its running probe was told last about zoom."""

    @property
    def uuids(self) -> tuple[str, ...]:
        """GPUs that its probe or probes see."""
        return tuple(uuid for uuids in self.gpus.values() for uuid in uuids)

    def hear(self, node: str, now: float, age_s: float) -> None:
        """Take note of a report; what a healed cable had held back says nothing of today."""
        if node in self.heard_at:
            is_fresh = age_s < JITTER_S
            self.heard_at[node] = now if is_fresh else max(self.heard_at[node], now - age_s)
