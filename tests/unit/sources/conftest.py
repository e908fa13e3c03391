"""Pools that leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.sources.probes import clients
from gpumon.sources.probes.clients import Clients
from tests.unit.sources.pools import Run
from tests.worlds.probe import children, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumon.sources.probes.stream import Endpoint

    Open = Callable[..., Run]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Makes pools on a large idle machine; closed they leave no child and no descriptor."""
    idle = Clients(cpus=64, ticks=lambda: None)
    monkeypatch.setattr(clients, "of_this_machine", lambda: idle)
    before = children()
    made: list[Run] = []

    def start(*endpoints: Endpoint, once: bool = False) -> Run:
        one = Run(endpoints, once)
        made.append(one)
        one.start()
        return one

    yield start
    for one in made:
        one.close()
    eventually(lambda: children() <= before, "no child is left")
