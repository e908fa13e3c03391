"""The page of one GPU."""

from __future__ import annotations

from gpumon.model.finding import Evidence
from tests.worlds.tick import finding, job_with_gpus, tick


async def test_a_finding_of_its_rank_is_named_as_people_call_it(stage):
    view, gpus = job_with_gpus("31", {"n7": 2})
    named = view.gpu_uuids[1]
    evidence = (Evidence("sm_active_ratio", f"gpu:{named}", "SMs 80 % (the others 60)", 0.8),)
    slow = finding(
        "job:31/rank:1", finding_class="straggler", evidence=evidence, gpus=view.gpu_uuids
    )
    async with stage(tick((view,), gpus, findings=(slow,))) as s:
        await s.press("colon", *"gpu", "space", *"n7:1", "enter")
        assert "! straggler: job 31 rank 1, supported" in s.text
        assert "/rank:" not in s.text
