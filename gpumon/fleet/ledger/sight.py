"""Which state each GPU of the fleet is in, held by a job or not, and since when."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.ledger import UNEXPLAINED, UNOBSERVED
from gpumon.model.staleness import stale_after_s
from gpumon.model.work_floor import states_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.model.records.block import Block
    from gpumon.model.records.cluster import Gpu
    from gpumon.model.records.tick import Tick

REMEMBERED_CHANGES: Final = 16
"""Changes of a GPU that are kept for a job that is told of after it began: the queue is asked
every 30 s. What was before them is observed and unexplained."""


class Change(NamedTuple):
    """A GPU is in another state since a Unix time."""

    uuid: str
    when: float
    state: str


class Sight:
    """Follows the state of every GPU."""

    def __init__(self) -> None:
        self._state: dict[str, str] = {}
        """Of those in sight only."""
        self._past: dict[str, deque[tuple[float, str]]] = {}
        """Since they came into sight, the newest last."""
        self._blocks: dict[int, tuple[Block, tuple[str, ...]]] = {}
        """States by the identity of a block, of the tick before: a picture repeats what is old."""

    def since(self, uuid: str, start: float) -> tuple[tuple[float, str], ...]:
        """In which states a GPU was since when, from a Unix time on; empty: it is out of sight."""
        past = self._past.get(uuid)
        if not past:
            return ()
        later = [(when, state) for when, state in past if when > start]
        if len(later) < len(past):
            return ((start, past[len(past) - len(later) - 1][1]), *later)
        if len(past) == REMEMBERED_CHANGES:
            return ((start, UNEXPLAINED), *later)
        return tuple(later)

    def restart(self, at: float) -> None:
        """The clock was set: what is in sight is so from now on."""
        for uuid, state in self._state.items():
            self._past[uuid] = deque([(at, state)], REMEMBERED_CHANGES)

    def changes(self, tick: Tick, last_at: float) -> Iterator[Change]:
        """What changed since the tick of Unix time `last_at`.

        A pause between two pictures so long that their values would be stale was not observed.

        A GPU is out of sight since its values were taken, or since the last tick where it is in
        none now or its activity cannot be read any more.
        """
        gpus = tick.gpus
        if tick.at - last_at > stale_after_s(tick.period_s):
            yield from self._lost(tuple(self._state), last_at)
        yield from self._lost(tuple(self._state.keys() - gpus.keys()), last_at)
        blocks: dict[int, tuple[Block, tuple[str, ...]]] = {}
        for uuid, gpu in gpus.items():
            state = UNOBSERVED if gpu.is_stale else self._state_of(gpu, blocks)
            if state == self._state.get(uuid, UNOBSERVED):
                continue
            if state == UNOBSERVED:
                when = min(gpu.taken_at, tick.at) if gpu.is_stale else last_at
                yield from self._lost((uuid,), when)
            else:
                when = min(gpu.taken_at, tick.at)
                self._state[uuid] = state
                self._past.setdefault(uuid, deque(maxlen=REMEMBERED_CHANGES)).append((when, state))
                yield Change(uuid, when, state)
        self._blocks = blocks

    def _state_of(self, gpu: Gpu, blocks: dict[int, tuple[Block, tuple[str, ...]]]) -> str:
        key = id(gpu.block)
        known = blocks.get(key)
        if known is None:
            before = self._blocks.get(key)
            is_same = before is not None and before[0] is gpu.block
            known = before if before and is_same else (gpu.block, states_of(gpu.block))
            blocks[key] = known
        return known[1][gpu.row]

    def _lost(self, uuids: tuple[str, ...], when: float) -> Iterator[Change]:
        for uuid in uuids:
            del self._state[uuid]
            del self._past[uuid]
            yield Change(uuid, when, UNOBSERVED)
