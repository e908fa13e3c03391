"""A page looks up what it shows, not the whole fleet: a key waits for it."""

from __future__ import annotations

import pytest

from tests.worlds.tick import AT, fleet

OF_ALL = {"job_by_gpu", "stakes", "stakes_by_node"}


@pytest.mark.parametrize(("way", "view"), [("1", "job"), ("2", "gpu")])
async def test_the_next_tick_of_a_page_looks_up_its_own_gpus_alone(stage, way, view):
    async with stage(fleet()) as s:
        await s.press(way, "enter")
        assert s.app.screen.view == view
        await s.give(fleet()._replace(number=2, at=AT + 1.0))
        assert s.app.digest.tick.number == 2
        assert s.app.screen.digest is s.app.digest
        assert OF_ALL.isdisjoint(vars(s.app.digest))
        await s.press("x")
        assert OF_ALL.isdisjoint(vars(s.app.digest))
