"""Since when each GPU is observed: its values are fresh and say whether it works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.model.cluster import Gpu
    from gpumon.model.tick import Tick

ACTIVITY_KEYS: Final = ("sm_active_ratio", "gpu_util_ratio", "graphics_active_ratio")
"""Without one of these it is not known whether a GPU worked, however fresh its other values."""

STALE_PERIODS: Final = 3.0
STALE_FLOOR_S: Final = 5.0
"""A pause between two pictures that is longer than this and so many periods was not observed: the
limits beyond which the pictures themselves call a value stale."""


class Change(NamedTuple):
    """A GPU came into sight or was lost out of it."""

    uuid: str
    when: float
    is_observed: bool


class Sight:
    """Follows every GPU of the fleet, held by a job or not."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def since(self, uuid: str) -> float | None:
        """Unix time since when a GPU is observed without a gap; None: it is not."""
        return self._since.get(uuid)

    def restart(self, at: float) -> None:
        """The clock was set back: what is in sight is so from now on."""
        self._since = dict.fromkeys(self._since, at)

    def changes(self, tick: Tick, last_at: float) -> Iterator[Change]:
        """What changed since the tick of Unix time `last_at`.

        A GPU is lost since its values were taken, or since the last tick where it is in none now or
        its activity cannot be read any more.
        """
        seen, gpus = self._since, tick.gpus
        if tick.at - last_at > max(STALE_FLOOR_S, STALE_PERIODS * tick.period_s):
            yield from self._lost(tuple(seen), last_at)
        yield from self._lost(tuple(seen.keys() - gpus.keys()), last_at)
        for uuid, gpu in gpus.items():
            is_observed = _is_observed(gpu)
            if is_observed == (uuid in seen):
                continue
            if is_observed:
                seen[uuid] = min(gpu.taken_at, tick.at)
                yield Change(uuid, seen[uuid], True)
            else:
                when = min(gpu.taken_at, tick.at) if gpu.is_stale else last_at
                yield from self._lost((uuid,), when)

    def _lost(self, uuids: tuple[str, ...], when: float) -> Iterator[Change]:
        for uuid in uuids:
            del self._since[uuid]
            yield Change(uuid, when, False)


def _is_observed(gpu: Gpu) -> bool:
    if gpu.is_stale:
        return False
    block, row = gpu.block, gpu.row
    return any(block.value(key, row) is not None for key in ACTIVITY_KEYS)
