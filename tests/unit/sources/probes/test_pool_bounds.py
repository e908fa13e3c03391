"""However many nodes hang as they are reached, only so many children wait for them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumon.sources.probes import start_order
from tests.worlds.probe import eventually, talker

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.unit.sources.pools import Run

    Open = Callable[..., Run]

HANGS = "sleep 600"


def test_children_that_have_not_come_up_are_bounded(
    run: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_order, "MAX_WAITING", 5)
    starts: list[str] = []
    nodes = [f"n{number:02}" for number in range(12)]
    one = run(*(talker(HANGS, node, lambda node=node: starts.append(node)) for node in nodes))
    one.turn()
    assert starts == nodes[:5]
    one.clock.time += start_order.YIELD_S + 0.1
    one.turn()
    assert len(starts) == 5
    one.clock.time += start_order.UNTRIED_S + 1.0
    one.turn()
    eventually(lambda: one.errors(""), "it is told")
    assert "waits to be tried, as do 6 more nodes" in one.errors("")[-1]
