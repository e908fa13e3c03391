"""Why there is no command for what the cursor is on."""

from __future__ import annotations

from gpumon.model.records.tick import TargetState
from tests.worlds.queue import cluster
from tests.worlds.tick import finding, fleet


async def test_beside_another_cluster_the_page_of_commands_says_why_it_is_empty(stage):
    """A number or a name may be of either."""
    whole = cluster()
    jobs = tuple(
        view._replace(job=view.job._replace(job_id=f"{n}@north", label=f"{n}@north"))
        for n, view in enumerate(whole.jobs)
    )
    targets = tuple(TargetState(url, True, None, 0.1) for url in ("slurm", "slurm?cluster=north"))
    async with stage(whole._replace(jobs=jobs, targets=targets)) as s:
        await s.press("x")
        assert "commands" in s.lines[0]
        assert "several clusters are in view" in s.text


async def test_x_begins_with_what_the_finding_advises(stage):
    found = finding(
        "job:4711",
        advice=("What holds it: scontrol show job 4711 -d", "Tell somebody."),
        machine_advice=('To mend it: scontrol update NodeName=gpu01 State=DRAIN Reason="hot"',),
    )
    async with stage(fleet(findings=(found,)), size=(140, 30)) as s:
        await s.press("x")
        rows = [line for line in s.lines if "scontrol" in line and "→" not in line]
        assert rows[0].split()[:3] == ["owner", "scontrol", "show"]
        assert rows[1].split()[:3] == ["admin", "scontrol", "update"]
        assert rows[2].split()[0] == "job"
