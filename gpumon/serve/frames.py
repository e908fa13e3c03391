"""What sources say, as lines of a recording, for terminals that attach: from now on, or since then.

Nothing is encoded while nobody asks. Who asks first is told everything that holds now; from then on
each picture's frames are encoded once for all who follow, and kept for a while for who comes back.
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


MOST_PICTURES: Final = 120
"""Pictures that are kept for who comes back: two minutes at a beat of one second."""

LARGEST_KEPT_BYTES: Final = 64 * 2**20
"""Of these as lines: of 1,000 nodes some ten pictures, of 50 all."""

UNASKED_PICTURES: Final = 60
"""So many pictures that nobody asks for end the encoding."""

_RUN_BYTES: Final = 8
"""Random bytes that tell one run of a server from the next: 2^64 do not repeat by chance."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class _Picture(NamedTuple):
    frames: list[Frame]
    at: float
    period_s: float


class _Heard:
    """What was said last by one origin of one node, which may be in three frames."""

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
        told = [one for one in (self.queue, self.valued) if one is not None]
        kept = [one for one in told if one is not self.last]
        if len(kept) == 2 and kept[0] is kept[1]:
            kept.pop()
        return kept if self.last is None else [*kept, self.last]


def whole(tick: Tick) -> bytes:
    """A picture as a reader needs it who knows nothing yet.

    What may be seen of a picture is decided where all of it is known, so whoever may not see all of
    it is told what was joined and not what sources said: of values that several told the best.
    """
    encoder = Encoder()
    made = [
        encoder.header(tick.at, tick.period_s, [target.url for target in tick.targets]),
        encoder.sync(tick.at),
        *map(encoder.frame, _frames_of(tick)),
        encoder.beat(tick.at, tick.period_s),
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
        # What others add to a probe's values stands in the GPUs' own block, which they share.
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
            # Its source has failed, so that its age alone does not tell.
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
        """Nothing was said.

        Args:
            targets: URLs of what is told of, without secrets.
            period_s: Beat.
            now: This machine's clock, which followers compare with theirs.
        """
        self.run = secrets.token_hex(_RUN_BYTES)
        """Names this server until its end: positions of another one say nothing here."""
        self.sequence = 0
        """Number of the newest picture."""
        self._targets = list(targets)
        self._period_s = period_s
        self._now = now
        self._noted: list[Frame] = []
        self._heard: dict[tuple[str, str], _Heard] = {}
        self._beat: _Picture | None = None
        self._encoder: Encoder | None = None
        self._lines: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._unasked = 0
        self._whole: tuple[int, bytes] = (-1, b"")
        self._worker = ThreadPoolExecutor(1, "serve frames")

    def frames(self, frames: Iterable[Frame]) -> None:
        """Take frames of the next picture; what accounting was asked is nobody else's."""
        self._noted.extend(frame for frame in frames if frame.ended is None)

    def beat(self, at: float, period_s: float) -> None:
        """Close a picture."""
        picture = _Picture(self._noted, at, period_s)
        self._noted = []
        # At the end a picture may still come.
        with suppress(RuntimeError):
            self._worker.submit(self._take, picture)

    def position(self, text: str) -> int | None:
        """The picture behind which somebody goes on; None: all that holds now is wanted."""
        run, _, number = text.rpartition("-")
        return int(number) if run == self.run and _NUMBER.fullmatch(number) else None

    def since(self, position: int | None) -> Future[tuple[bytes, ...]]:
        """The lines behind a picture, or all that holds now, and a mark of where they end.

        In pieces, which all who are told the same share.
        """
        return self._worker.submit(self._told, position)

    def settled(self, then: Callable[[], None]) -> None:
        """Have something done once all that was closed is taken."""
        with suppress(RuntimeError):
            self._worker.submit(then)

    def close(self) -> None:
        """Encode no more."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _take(self, picture: _Picture) -> None:
        for frame in picture.frames:
            # In the order of the last words: what failed before it spoke again is over.
            key = frame.origin, frame.node
            heard = self._heard.pop(key, None) or _Heard()
            heard.take(frame)
            self._heard[key] = heard
        self._beat = picture._replace(frames=[])
        self.sequence += 1
        self._unasked += 1
        if self._unasked > UNASKED_PICTURES:
            self._encoder = None
            self._lines.clear()
            self._size = 0
        if self._encoder is not None:
            made = b"".join(map(self._encoder.frame, picture.frames))
            self._keep(made + self._encoder.beat(picture.at, picture.period_s))

    def _keep(self, lines: bytes) -> None:
        self._lines.append((self.sequence, lines))
        self._size += len(lines)
        while self._lines and (len(self._lines) > MOST_PICTURES or self._size > LARGEST_KEPT_BYTES):
            self._size -= len(self._lines.popleft()[1])

    def mark(self, sequence: int) -> bytes:
        """The last line of an answer, which ends at a picture."""
        return line(kind="mark", run=self.run, sequence=sequence, at=self._now())

    def _told(self, position: int | None) -> tuple[bytes, ...]:
        self._unasked = 0
        mark = self.mark(self.sequence)
        if position is None or not self._is_kept(position):
            return self._everything(), mark
        return *(lines for number, lines in self._lines if number > position), mark

    def _is_kept(self, position: int) -> bool:
        """Whether every picture behind one is there."""
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
        at = self._now() if self._beat is None else self._beat.at
        made = [encoder.header(at, self._period_s, self._targets), encoder.sync(at)]
        made += [encoder.frame(one) for heard in self._heard.values() for one in heard.frames()]
        if self._beat is not None:
            made.append(encoder.beat(self._beat.at, self._beat.period_s))
        # Whoever followed so far goes on with what the older one has told, which is the same.
        self._encoder = self._encoder or encoder
        self._whole = (self.sequence, b"".join(made))
        return self._whole[1]
