"""A fault of a node is seen where its jobs and its GPUs are."""

from __future__ import annotations

from tests.worlds.tick import finding, job_with_gpus, tick


def broken_port():
    view, gpus = job_with_gpus("5150", {"n3": 4})
    port = finding(
        "node:n3",
        finding_class="fabric_degraded",
        detector="network_degraded",
        summary="n3 (job 5150): port mlx5_1/1 is DOWN",
        gpus=(view.gpu_uuids[2],),
    )
    return tick((view,), gpus, findings=(port,)), view


async def test_the_page_of_a_job_tells_the_fault_of_its_node_as_the_nodes(stage):
    made, _ = broken_port()
    async with stage(made, (80, 24)) as s:
        assert "!◐ n3: port mlx5_1/1 is DOWN" in s.text
        await s.press("enter")
        assert "fabric degraded: node n3, supported" in s.text
        assert "port mlx5_1/1 is DOWN" in s.text
        await s.press("f")
        assert "1 warning" in s.text
        assert "fabric degraded" in s.text
        # It is the node's, which lost it; the job is not charged with it again.
        assert "GPU-h" not in s.lines[1]
        assert "lost" not in s.lines[1]


async def test_the_page_of_the_gpu_that_it_names_tells_it_too(stage):
    made, _ = broken_port()
    async with stage(made, (120, 40)) as s:
        # What the fault is charged with is on top.
        await s.press("enter", "enter")
        page = s.text
        await s.press("escape", "down", "enter")
        assert "port mlx5_1/1 is DOWN" in page
        assert "port mlx5_1/1 is DOWN" not in s.text
