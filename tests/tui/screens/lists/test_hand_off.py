"""Why there is no command for what the cursor is on."""

from __future__ import annotations

from gpumon.model.records.tick import TargetState
from tests.worlds.queue import cluster


async def test_beside_another_cluster_the_page_of_commands_says_why_it_is_empty(stage):
    """A number or a name may be of either."""
    picture = cluster()
    jobs = tuple(
        view._replace(job=view.job._replace(job_id=f"{n}@north", label=f"{n}@north"))
        for n, view in enumerate(picture.jobs)
    )
    targets = tuple(TargetState(url, True, None, 0.1) for url in ("slurm", "slurm?cluster=north"))
    async with stage(picture._replace(jobs=jobs, targets=targets)) as s:
        await s.press("x")
        assert "commands" in s.lines[0]
        assert "several clusters are in view" in s.text
