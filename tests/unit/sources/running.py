"""Sources that run until a test is over, and what they have reported by then."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.model.records.frame import Frame
    from gpumon.sources.exporters.pages import ExporterPages
    from gpumon.sources.prometheus.server import PrometheusServer

    Looped = ExporterPages | PrometheusServer
    Look = Callable[[], list[Frame]]


@contextmanager
def running() -> Iterator[Callable[[Looped], Look]]:
    """Starts sources; afterwards each is closed twice and has left no thread."""
    made: list[Looped] = []

    def start(source: Looped) -> Look:
        made.append(source)
        seen: list[Frame] = []

        def look() -> list[Frame]:
            seen.extend(source.poll())
            return seen

        source.start(lambda: None)
        return look

    yield start
    for source in made:
        source.close()
        source.close()
        assert not source._thread._thread.is_alive()
