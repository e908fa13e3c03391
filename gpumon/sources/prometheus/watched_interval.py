"""How often there is a sample, from one poll to the next: for servers that refuse to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.sources.exporters.series_layout import label_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.sources.prometheus.known import Key, Known

MOST_WATCHED: Final = 8
"""GPUs whose samples are watched, each of another node: exporters are mostly read alike."""


class WatchedInterval:
    """The time between two samples of some GPUs."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._sampled_at: dict[Key, float] = {}
        self._gaps_s: dict[Key, float] = {}

    def see(self, known: Mapping[Key, Known]) -> None:
        """Take one poll: every GPU with the time of its newest sample."""
        for key in self._sampled_at.keys() - known.keys():
            del self._sampled_at[key]
            self._gaps_s.pop(key, None)
        if not self._sampled_at:
            of_hosts = {label_of(one.labels, "host"): key for key, one in known.items()}
            self._sampled_at = {
                key: known[key].sampled_at for key in [*of_hosts.values()][:MOST_WATCHED]
            }
        for key, before in self._sampled_at.items():
            now = known[key].sampled_at
            if now > before:
                # A poll may miss samples, and never sees them closer than they are.
                self._gaps_s[key] = min(now - before, self._gaps_s.get(key, now - before))
                self._sampled_at[key] = now

    @property
    def interval_s(self) -> float | None:
        """The longest of them; None: no two samples have been seen."""
        return max(self._gaps_s.values(), default=None)
