"""A server that holds three GPUs of two nodes, and gpumon's source of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from gpumon.sources.address import parse
from gpumon.sources.prometheus.server import PrometheusServer
from gpumon.sources.source import SystemClock
from tests.unit.sources.prometheus.engine import Engine, labels
from tests.unit.sources.running import running
from tests.worlds.probe import eventually

if TYPE_CHECKING:
    from gpumon.model.records.frame import Frame

Arrived = Callable[[], list["Frame"]]
Open = Callable[..., tuple[PrometheusServer, Arrived]]
GPUS = [labels("GPU-0"), labels("GPU-1"), labels("GPU-2", "gpu02")]


@pytest.fixture
def engine() -> Iterator[Engine]:
    found = Engine()
    found.hold("DEV_GPU_UTIL", *((one, 97.0) for one in GPUS))
    found.hold("DEV_FB_USED", *((one, 1000.0) for one in GPUS))
    found.hold("DEV_FB_FREE", *((one, 79000.0) for one in GPUS))
    found.hold("DEV_POWER_USAGE", (GPUS[0], 300.5), (GPUS[1], 9223372036854775794.0))
    found.hold("DEV_TOTAL_ENERGY_CONSUMPTION", (GPUS[0], 5_000_000.0))
    yield found
    found.stop()


@pytest.fixture
def opened() -> Iterator[Open]:
    with running() as start:

        def open_(
            url: str, once: bool = False, period_s: float = 0.1
        ) -> tuple[PrometheusServer, Arrived]:
            address = parse(url).engine
            assert address is not None
            source = PrometheusServer(url, address, period_s, SystemClock(), once)
            return source, start(source)

        yield open_


def once(opened: Open, engine: Engine) -> list[Frame]:
    source, arrived = opened(engine.target, once=True)
    eventually(lambda: not source.pending(), "it has answered")
    return arrived()
