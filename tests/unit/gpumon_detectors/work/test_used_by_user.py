"""GPUs without a queue that their users keep busy and hardly use."""

from __future__ import annotations

import pytest

from gpumon.detect.scene import Scene
from gpumon_detectors.work.used_by_user import UsedByUser
from tests.unit.gpumon_detectors.idle_scenes import QUIET_HOST
from tests.unit.gpumon_detectors.work_scenes import FP32, SMALL, TRAINS, wavy

HOUR = 3600.0


def desk(values, hours, *, is_listed=False, name="python", cores=1.3):
    """A machine whose first GPU a process of user 1007 works on for so long."""
    scene = Scene(period_s=30.0, span_s=24 * HOUR)
    first, second = scene.node("desk", 2)
    if not is_listed:
        scene.unlist("desk")
    scene.host("desk", **QUIET_HOST)
    scene.process(311, [first], uid=1007, name=name, process_cpu_cores_used=cores)
    scene._set("desk", "context", f"311/{first}", {"context_mem_used_bytes": 20.0 * 2**30})
    scene.run(hours * HOUR, {first: wavy(values), second: wavy(TRAINS)})
    return list(UsedByUser().evaluate(scene.view())), first


@pytest.mark.parametrize(
    ("values", "finding_class"), [(SMALL, "small_batch"), (FP32, "no_tensor_cores")]
)
@pytest.mark.parametrize(("hours", "confidence"), [(0.9, "hypothesis"), (2.3, "supported")])
def test_the_gpu_and_its_users_are_named(values, finding_class, hours, confidence):
    (finding,), first = desk(values, hours)
    assert (finding.subject, finding.owners) == (f"gpu:{first}", (1007,))
    assert (finding.finding_class, finding.confidence) == (finding_class, confidence)
    assert finding.summary.startswith("desk GPU 0, of uid 1007: ")
    assert finding.gpu_seconds == pytest.approx(
        hours * HOUR * (0.6 if values is SMALL else 0.485), rel=0.1
    )


def test_on_a_node_that_a_queue_lists_nothing_is_claimed():
    assert desk(SMALL, 2.3, is_listed=True)[0] == []


def test_good_work_is_not_claimed():
    assert desk(TRAINS, 2.3)[0] == []


def test_a_server_and_simulators_are_hypotheses():
    for how in ({"name": "tritonserver"}, {"cores": 7.0}):
        (finding,), _ = desk(SMALL, 2.3, **how)
        assert finding.confidence == "hypothesis"
