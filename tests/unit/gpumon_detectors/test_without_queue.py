"""What is advised on a machine that no queue lists: nothing that only a queue's users can do.

The scenes of every detector that judges machines, GPUs or their users are played, and told at the
end as those of a person with one machine: no job holds a GPU, and no queue lists a node.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gpumon.detect.contract import declaration_of
from gpumon.model.gpu.conditions import CONDITIONS
from gpumon.model.gpu.xid import XIDS, Action, Later
from gpumon.probe.driver.troubles import GONE
from tests.worlds.roads import SCENES, detector_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpumon.detect.scene import Scene

OF_A_QUEUE = re.compile(
    r"\bdrain|slurm|scontrol|requeue|sbatch|squeue|sinfo|\bsrun|salloc|--gres|--exclude|job_container"
    r"|\bepilog|\badministrators?\b|\bjobs?\b",
    re.IGNORECASE,
)


def of_machines() -> list[tuple[str, Callable[[], Scene]]]:
    return [
        (name, scene)
        for name, scene in SCENES
        if declaration_of(detector_of(name, scene)).subjects != "job"
    ]


@pytest.mark.parametrize(
    ("name", "scene"), of_machines(), ids=lambda part: getattr(part, "__name__", part)
)
def test_a_person_with_one_machine_is_advised_what_they_can_do(
    name: str, scene: Callable[[], Scene]
) -> None:
    played = scene()
    played._jobs.clear()
    for node in played._nodes:
        played.unlist(node)
    assert played._tick is not None
    played._tick = played._sampled(frozenset())._replace(history=played._tick.history)
    steps = [
        step
        for found in detector_of(name, scene).evaluate(played.view())
        for step in (*found.advice, *found.machine_advice)
    ]
    assert [step for step in steps if OF_A_QUEUE.search(step)] == []


def test_tables_of_what_is_wrong_with_a_gpu_advise_what_anybody_can_do() -> None:
    texts = [
        *(condition.advice for condition in CONDITIONS),
        *(action.value for action in Action),
        *(later.value for later in Later),
        *(xid.advice for xid in XIDS.values()),
        GONE,
    ]
    assert [text for text in texts if OF_A_QUEUE.search(text)] == []
