"""What sources report, as lines of a recording, for terminals that attach: from now on, or before.

Nothing is encoded until a client asks. The first one gets everything that holds now; from then on
each tick's frames are encoded once for all who follow, and stored for a while for who comes back.
"""

from __future__ import annotations

import re
import secrets
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.records.frame import Frame
from gpumon.model.staleness import stale_after_s
from gpumon.sources.recording.encode import Encoder, line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from gpumon.model.records.tick import Tick


MOST_TICKS: Final = 120
"""Ticks that are stored for who comes back: two minutes with a period of one second."""

LARGEST_STORED_BYTES: Final = 64 * 2**20
"""Of these as lines: of 1,000 nodes some ten ticks, of 50 all."""

UNASKED_TICKS: Final = 60
"""So many ticks that no client asks for end the encoding."""

_RUN_BYTES: Final = 8
"""Random bytes that distinguish one run of a server from the next: 2^64 do not repeat by chance."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class _TickFrames(NamedTuple):
    frames: list[Frame]
    at: float
    period_s: float


class _Heard:
    """What was reported last by one origin of one node, which may be in three frames."""

    def __init__(self) -> None:
        self.valued: Frame | None = None
        self.queue: Frame | None = None
        self.last: Frame | None = None

    def take(self, frame: Frame) -> None:
        self.last = frame
        if frame.blocks:
            self.valued = frame
        if frame.queue is not None:
            self.queue = frame

    def frames(self) -> list[Frame]:
        """Each once, the last one last."""
        given = [one for one in (self.queue, self.valued) if one is not None]
        earlier = [one for one in given if one is not self.last]
        if len(earlier) == 2 and earlier[0] is earlier[1]:
            earlier.pop()
        return earlier if self.last is None else [*earlier, self.last]


def whole(tick: Tick) -> bytes:
    """A tick for a reader who knows nothing yet.

    What may be seen of a tick is decided where all of it is known. Who may not see all of it gets
    what was joined and not what sources reported: of values that several have the best.
    """
    encoder = Encoder()
    made = [
        encoder.header(tick.at, tick.period_s, [target.url for target in tick.targets]),
        encoder.sync(tick.at),
        *map(encoder.frame, _frames_of(tick)),
        encoder.end_tick(tick.at, tick.period_s),
    ]
    return b"".join(made)


def _frames_of(tick: Tick) -> Iterator[Frame]:
    origin = next((target.url for target in tick.targets), "")
    of_nodes = {error for node in tick.nodes.values() for error in node.errors}
    errors = tuple(error for error in tick.errors if error not in of_nodes)
    if tick.queue is not None or errors:
        yield Frame(origin=origin, node="", taken_at=tick.at, errors=errors, queue=tick.queue)
    for node in tick.nodes.values():
        if node.taken_at is None:
            if node.errors:
                yield Frame(origin=origin, node=node.name, taken_at=tick.at, errors=node.errors)
            continue
        gpus = [tick.gpus[uuid] for uuid in node.gpu_uuids]
        # What others add to a probe's values is in the GPUs' own block, which they share.
        blocks = dict(node.blocks)
        if gpus and all(gpu.block is gpus[0].block for gpu in gpus):
            blocks["gpu"] = gpus[0].block
        usual_s = stale_after_s(tick.period_s)
        yield Frame(
            origin=gpus[0].origin if gpus else origin,
            node=node.name,
            taken_at=node.taken_at,
            lateness_s=node.lateness_s or 0.0,
            blocks=blocks,
            errors=node.errors,
            is_left=node.left_at is not None,
            stale_after_s=0.0 if node.is_stale else tick.at - node.taken_at + usual_s,
        )
        if node.is_stale and tick.at - node.taken_at <= usual_s:
            # Its source has failed, so that its age alone does not show it.
            yield Frame(
                origin=gpus[0].origin if gpus else origin,
                node=node.name,
                taken_at=tick.at,
                errors=node.errors,
                over_at=tick.at,
            )


class FrameFeed:
    """Notes frames down on the sampler's thread, and encodes them on one of its own."""

    def __init__(self, targets: Sequence[str], period_s: float, now: Callable[[], float]) -> None:
        """Nothing was reported.

        Args:
            targets: URLs of what is watched, without secrets.
            period_s: Between two ticks.
            now: This machine's clock, which followers compare with theirs.
        """
        self.run = secrets.token_hex(_RUN_BYTES)
        """Names this server until its end: positions of another one mean nothing here."""
        self.sequence = 0
        """Number of the newest tick."""
        self._targets = list(targets)
        self._period_s = period_s
        self._now = now
        self._noted: list[Frame] = []
        self._heard: dict[tuple[str, str], _Heard] = {}
        self._newest: _TickFrames | None = None
        self._encoder: Encoder | None = None
        self._lines: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._unasked = 0
        self._whole: tuple[int, bytes] = (-1, b"")
        self._worker = ThreadPoolExecutor(1, "serve frames")

    def frames(self, frames: Iterable[Frame]) -> None:
        """Take frames of the next tick, without what accounting was asked."""
        self._noted.extend(frame for frame in frames if frame.ended is None)

    def end_tick(self, at: float, period_s: float) -> None:
        """Close a tick."""
        noted = _TickFrames(self._noted, at, period_s)
        self._noted = []
        # At the end a tick may still come.
        with suppress(RuntimeError):
            self._worker.submit(self._take, noted)

    def position(self, text: str) -> int | None:
        """The tick after which a client goes on; None: all that holds now is wanted."""
        run, _, number = text.rpartition("-")
        return int(number) if run == self.run and _NUMBER.fullmatch(number) else None

    def since(self, position: int | None) -> Future[tuple[bytes, ...]]:
        """The lines after a tick, or all that holds now, and a mark of where they end.

        In pieces, which all who get the same share.
        """
        return self._worker.submit(self._lines_since, position)

    def settled(self, then: Callable[[], None]) -> None:
        """Have something done once all that was closed is taken."""
        with suppress(RuntimeError):
            self._worker.submit(then)

    def close(self) -> None:
        """Encode no more."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _take(self, noted: _TickFrames) -> None:
        for frame in noted.frames:
            # In the order of the last words: what failed before it spoke again is over.
            key = frame.origin, frame.node
            heard = self._heard.pop(key, None) or _Heard()
            heard.take(frame)
            self._heard[key] = heard
        self._newest = noted._replace(frames=[])
        self.sequence += 1
        self._unasked += 1
        if self._unasked > UNASKED_TICKS:
            self._encoder = None
            self._lines.clear()
            self._size = 0
        if self._encoder is not None:
            made = b"".join(map(self._encoder.frame, noted.frames))
            self._store(made + self._encoder.end_tick(noted.at, noted.period_s))

    def _store(self, lines: bytes) -> None:
        self._lines.append((self.sequence, lines))
        self._size += len(lines)
        while self._lines and (len(self._lines) > MOST_TICKS or self._size > LARGEST_STORED_BYTES):
            self._size -= len(self._lines.popleft()[1])

    def mark(self, sequence: int) -> bytes:
        """The last line of an answer, which ends at a tick."""
        return line(kind="mark", run=self.run, sequence=sequence, at=self._now())

    def _lines_since(self, position: int | None) -> tuple[bytes, ...]:
        self._unasked = 0
        mark = self.mark(self.sequence)
        if position is None or not self._is_stored(position):
            return self._everything(), mark
        return *(lines for number, lines in self._lines if number > position), mark

    def _is_stored(self, position: int) -> bool:
        """Whether every tick after one is there."""
        if self._encoder is None or position > self.sequence:
            return False
        missing = self.sequence - position
        return missing <= len(self._lines)

    def _everything(self) -> bytes:
        """Header and frames from which a reader knows what one knows who has followed."""
        number, lines = self._whole
        if number == self.sequence and self._encoder is not None:
            return lines
        encoder = Encoder()
        at = self._now() if self._newest is None else self._newest.at
        made = [encoder.header(at, self._period_s, self._targets), encoder.sync(at)]
        made += [encoder.frame(one) for heard in self._heard.values() for one in heard.frames()]
        if self._newest is not None:
            made.append(encoder.end_tick(self._newest.at, self._newest.period_s))
        # Who followed so far goes on with what the older one has encoded, which is the same.
        self._encoder = self._encoder or encoder
        self._whole = (self.sequence, b"".join(made))
        return self._whole[1]
