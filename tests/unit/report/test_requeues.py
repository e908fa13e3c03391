"""How often a job was requeued, and a cause only where somebody tells one."""

from __future__ import annotations

import pytest

from gpumon.report.digest import Digest
from gpumon.report.passages import job_facts
from gpumon.report.requeues import requeue_words
from tests.ticks import job_with_gpus, tick


def said(count, *, state="PENDING", reason="BeginTime", node_state="mixed"):
    view, gpus = job_with_gpus(
        "7", {"n1": 2, "n2": 2}, restart_count=count, state=state, reason=reason
    )
    picture = tick((view,), gpus)
    nodes = {**picture.nodes, "n2": picture.nodes["n2"]._replace(state=node_state)}
    return requeue_words(Digest(picture._replace(nodes=nodes)), view)


@pytest.mark.parametrize(("count", "words"), [(None, ""), (0, ""), (1, "once"), (3, "3 times")])
def test_restarts_are_counted_in_words(count, words):
    assert said(count) == words


def test_a_cause_that_slurm_tells_is_told():
    assert said(2, reason="NodeDown") == "2 times: a node failed"
    assert said(1, reason="JobLaunchFailure") == "once: it could not be launched"


def test_a_node_that_is_down_and_held_its_ranks_is_named():
    assert said(1, node_state="down+not_responding") == "once: n2, where it ran, is down"


def test_a_job_that_runs_again_has_no_cause_any_more():
    assert said(1, state="RUNNING", reason="", node_state="down") == "once"


def test_the_facts_of_a_job_say_it():
    view, gpus = job_with_gpus("7", {"n1": 1}, restart_count=2)
    text = "".join(
        c.text for line in job_facts(Digest(tick((view,), gpus)), view, 120) for c in line
    )
    assert "requeued 2 times" in text
