"""The page of a job: the keys that it names."""

from __future__ import annotations

from tests.worlds.tick import AT, fleet, job_with_gpus, tick


async def test_of_a_job_that_waits_only_keys_are_named_that_do_something(stage):
    async with stage(fleet(), (200, 24)) as s:
        await s.press("colon", *"job", "space", *"4730", "enter")
        waiting = s.lines[-1]
        assert "x commands" in waiting
        for key in ("Tab ranks", "z zoom", "v curves", "o node", "n problem", "Enter open"):
            assert key not in waiting
        view, gpus = job_with_gpus("4730", {"a": 8})
        await s.give(tick((view,), gpus)._replace(at=AT + 5))
        assert "Tab ranks" in s.lines[-1]
        assert "v curves" in s.lines[-1]
        await s.give(fleet()._replace(at=AT + 9))
        assert s.lines[-1] == waiting
