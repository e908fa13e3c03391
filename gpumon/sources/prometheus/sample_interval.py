"""How often a server has a sample of each GPU: it is asked, else seen from one poll to the next."""

from __future__ import annotations

import re
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.sources.exporters.gpu_labels import LABELS, label_of
from gpumon.sources.http.exchange import FetchError
from gpumon.sources.prometheus import response
from gpumon.sources.prometheus.unanswered import RAISE, of_question

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpumon.sources.prometheus.client import Client
    from gpumon.sources.prometheus.known import Key, Known
    from gpumon.sources.prometheus.response import Answer

BACK_S: Final = 300.0
"""From samples of this time follows how often there is one: what is older is not reported any
more (Prometheus' lookback)."""

MOST_LONG: Final = 8
"""GPUs of which samples over time are asked for, each of another node; so many are watched, too."""

LEAST_GAPS: Final = 2
"""So many must have been seen: one may be of a time in which nobody gathered (our choice)."""

_UUIDS: Final = LABELS["uuid"]
_SAFE: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
"""UUIDs that a pattern may hold as they are."""


class SampleInterval:
    """The time between two samples, of the slowest of some nodes."""

    def __init__(self, client: Client, noted: Callable[[Answer], Answer]) -> None:
        """Ask through a client; every answer is noted."""
        self._client = client
        self._noted = noted
        self._refused: FetchError | None = None
        self._watched = WatchedInterval()
        self.s: float | None = None
        """In seconds; None: not known."""

    def forget(self) -> None:
        """It may have been changed."""
        self.s, self._refused = None, None

    async def learn(
        self, metric: str, known: Mapping[Key, Known], at: float, has_times: bool
    ) -> None:
        """Take one poll, and ask where it is not known.

        Args:
            metric: Whose samples count.
            known: Every GPU with the time of its newest sample.
            at: The instant of the poll, Unix time.
            has_times: Whether these times are those of samples.
        """
        if self.s is None and known:
            self.s = await self._asked(metric, known, at)
        if self._refused:
            if has_times:
                self._watched.see(known)
            self.s = self._watched.interval_s

    @property
    def remark(self) -> tuple[str, str] | None:
        """Why it is not known, with a way out; None: it is, or will be soon."""
        if self._refused is None or self.s is not None:
            return None
        text = "does not say how often it reads GPUs, so that no past is asked for"
        return f"{text}: {self._refused.message}", RAISE

    async def _asked(self, metric: str, known: Mapping[Key, Known], at: float) -> float | None:
        refused: FetchError | None = None
        found: float | None = None
        for most in (MOST_LONG, 1):
            try:
                found, refused = await self._longest_gap(metric, known, at, most), None
                break
            except FetchError as error:
                refused = of_question(error)
        self._refused = refused
        return found

    async def _longest_gap(
        self, metric: str, known: Mapping[Key, Known], at: float, most: int
    ) -> float | None:
        """The same of so many nodes at most; None: no two samples are there."""
        chosen: dict[str | None, str] = {}
        for one in known.values():
            uuid = label_of(one.labels, "uuid") or ""
            if _SAFE.fullmatch(uuid):
                chosen.setdefault(label_of(one.labels, "host"), uuid)
            if len(chosen) >= most:
                break
        found = []
        for label in _UUIDS if chosen else ():
            some = "|".join(chosen.values())
            question = f'{metric}{{{label}=~"{some}"}}[{BACK_S:.0f}s]'
            answer = await self._client.ask("query", response.at_instant(question, at))
            for times in response.times(self._noted(answer)):
                gaps = [after - before for before, after in pairwise(times)]
                found += [median(gaps)] if gaps else []
            if found:
                break
        return max(found, default=None)


class WatchedInterval:
    """The same from one poll to the next."""

    def __init__(self) -> None:
        """Nothing has been seen."""
        self._sampled_at: dict[Key, float] = {}
        self._gaps: dict[Key, _Gaps] = {}

    def see(self, known: Mapping[Key, Known]) -> None:
        """Take one poll: every GPU with the time of its newest sample."""
        for key in self._sampled_at.keys() - known.keys():
            del self._sampled_at[key]
            self._gaps.pop(key, None)
        if not self._sampled_at:
            of_hosts = {label_of(one.labels, "host"): key for key, one in known.items()}
            some = [*of_hosts.values()][:MOST_LONG]
            self._sampled_at = {key: known[key].sampled_at for key in some}
        for key, before in self._sampled_at.items():
            now = known[key].sampled_at
            if now > before:
                gaps = self._gaps.get(key, _Gaps(now - before, 0))
                # A poll may miss samples, and never sees them closer than they are.
                self._gaps[key] = _Gaps(min(now - before, gaps.least_s), gaps.seen + 1)
                self._sampled_at[key] = now

    @property
    def interval_s(self) -> float | None:
        """The longest of them; None: of none is it known yet."""
        known = (one.least_s for one in self._gaps.values() if one.seen >= LEAST_GAPS)
        return max(known, default=None)


class _Gaps(NamedTuple):
    """What was seen between samples of one GPU."""

    least_s: float
    seen: int
    """How many."""
