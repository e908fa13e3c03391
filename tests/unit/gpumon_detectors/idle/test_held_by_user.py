"""GPUs of a machine without a queue, held by processes of its users."""

from __future__ import annotations

import pytest

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.detect.scene import HELD, UNUSED, WORKING, Scene
from gpumon.fleet.ledger.ledger import Ledger
from gpumon.report.document.document import document
from gpumon.report.facts.tick_index import Digest
from gpumon.report.tables.finding import FINDING_COLUMNS
from gpumon_detectors.idle.held_by_user import HeldByUser
from tests.unit.gpumon_detectors.idle_scenes import QUIET_HOST

GIB = 2.0**30
OLD_ROW_S = 300.0
"""The oldest past has a row for so long, and one in which it began is nobody's."""

QUIET = {
    "process_cpu_cores_used": 0.01,
    "process_io_read_bytes_per_s": 0.0,
    "process_io_write_bytes_per_s": 2e4,
}


def workstation(gpu_count=2, period_s=30.0):
    """A machine that no queue lists, whose CPUs and I/O are quiet."""
    scene = Scene(period_s=period_s, span_s=24 * 3600.0)
    uuids = scene.node("desk", gpu_count)
    scene.unlist("desk")
    scene.host("desk", **QUIET_HOST)
    return scene, uuids


def take(scene, pid, uuid, uid=1007, held_gib=37.0, **values):
    """A user's process takes memory of a GPU."""
    scene.process(pid, [uuid], **{"uid": uid, "name": "python", **QUIET, **values})
    memory = {"context_mem_used_bytes": held_gib * GIB}
    scene._set("desk", "context", f"{pid}/{uuid}", memory)


def found(scene):
    return list(HeldByUser().evaluate(scene.view()))


def rest(scene, hours, *uuids, **other):
    scene.run(hours * 3600, {uuid: {**HELD, **other} for uuid in uuids})


@pytest.mark.parametrize("period_s", [10.0, 60.0])
@pytest.mark.parametrize(
    ("hours", "confidence"),
    [(0.4, None), (0.7, "hypothesis"), (2.2, "supported"), (4.3, "supported")],
)
def test_the_claim_grows_with_the_rest(hours, confidence, period_s):
    scene, (first, _) = workstation(period_s=period_s)
    take(scene, 311, first)
    rest(scene, hours, first)
    told = found(scene)
    assert [finding.confidence for finding in told] == ([confidence] if confidence else [])


def test_the_finding_names_gpu_owner_memory_and_loss():
    scene, (first, second) = workstation()
    scene.run(1800, {second: WORKING})
    take(scene, 311, first)
    rest(scene, 3, first)
    (finding,) = found(scene)
    assert finding.subject == f"gpu:{first}"
    assert finding.finding_class == "idle_held"
    assert finding.owners == (1007,)
    assert "desk GPU 0" in finding.summary
    assert "uid 1007" in finding.summary
    assert finding.gpu_seconds == pytest.approx(3 * 3600, abs=OLD_ROW_S)
    assert finding.began_at == pytest.approx(scene._start_at + 1800, abs=OLD_ROW_S)
    assert any("311 (python)" in evidence.text for evidence in finding.evidence)
    assert any(e.text.startswith("its processes used 0.01 CPUs") for e in finding.evidence)
    assert any("-p 311" in line for line in finding.advice)


def test_who_came_late_is_not_charged_what_others_left_idle():
    """The first one ended after six idle hours; the second has been there for an hour."""
    scene, (first, _) = workstation()
    take(scene, 311, first, uid=1001)
    rest(scene, 6, first)
    scene.no_process(311, "desk")
    take(scene, 402, first, uid=1002)
    rest(scene, 1, first)
    (finding,) = found(scene)
    assert finding.owners == (1002,)
    assert finding.confidence == "hypothesis"
    assert finding.gpu_seconds == pytest.approx(3600, abs=90)


def test_several_users_hold_it_together():
    scene, (first, _) = workstation()
    take(scene, 311, first, uid=1001, held_gib=20.0)
    rest(scene, 1, first)
    take(scene, 402, first, uid=1002, held_gib=20.0)
    rest(scene, 2, first)
    (finding,) = found(scene)
    assert finding.owners == (1001, 1002)
    (column,) = [column for column in FINDING_COLUMNS if column.key == "user"]
    digest = Digest(scene.run(30, {first: HELD}))
    assert column.cell(digest, finding).text == "uid 1001 +1"
    assert finding.gpu_seconds == pytest.approx(3 * 3600, abs=90)


def test_work_ends_the_rest():
    scene, (first, _) = workstation()
    take(scene, 311, first)
    rest(scene, 3, first)
    scene.run(900, {first: WORKING})
    assert found(scene) == []
    rest(scene, 0.8, first)
    (finding,) = found(scene)
    assert finding.gpu_seconds == pytest.approx(0.8 * 3600, abs=60)


def test_a_desktop_holds_too_little_to_be_worth_a_word():
    scene, (first, _) = workstation()
    take(scene, 311, first, uid=0, held_gib=1.5, name="Xorg")
    rest(scene, 5, first, mem_used_bytes=1.5 * GIB)
    assert found(scene) == []


def draw(scene, pid, uuid, held_gib, uid=0, kind="G", name="Xorg"):
    """A process draws on a GPU, or does both."""
    take(scene, pid, uuid, uid, held_gib, name=name)
    scene._set("desk", "context", f"{pid}/{uuid}", {"type": kind})


def test_who_only_draws_is_never_accused_however_much_memory_that_takes():
    scene, (first, _) = workstation()
    draw(scene, 911, first, 9.0)
    draw(scene, 955, first, 21.0, uid=1009, name="gnome-shell")
    rest(scene, 5, first, process_count=2.0, compute_process_count=0.0)
    assert found(scene) == []


def test_beside_a_desktop_only_what_the_users_hold_is_told():
    scene, (first, second) = workstation()
    drawn = {"process_count": 2.0, "compute_process_count": 1.0}
    for uuid, own_gib in ((first, 33.0), (second, 0.4)):
        draw(scene, 911, uuid, 12.0)
        take(scene, 400 + int(own_gib), uuid, uid=1011, held_gib=own_gib, user="ines")
    told = {uuid: {**HELD, **drawn} for uuid in (first, second)}
    told[first]["mem_used_bytes"], told[second]["mem_used_bytes"] = 45.0 * GIB, 12.4 * GIB
    scene.run(2.5 * 3600, told)
    (finding,) = found(scene)
    assert (finding.subject, finding.owners) == (f"gpu:{first}", (1011,))
    assert "idle with 33.0 GiB of memory held by ines " in finding.summary
    assert not any("Xorg" in one.text for one in finding.evidence)


def test_who_draws_and_computes_holds_what_it_holds():
    scene, (first, _) = workstation()
    draw(scene, 77, first, 30.0, uid=1012, kind="C+G", name="blender")
    rest(scene, 2.5, first, process_count=1.0, compute_process_count=1.0)
    (finding,) = found(scene)
    assert finding.owners == (1012,)


def test_a_gpu_that_nobody_holds_is_no_ones_waste():
    scene, _ = workstation()
    scene.run(5 * 3600, {})
    assert found(scene) == []


def test_a_node_of_a_queue_is_another_matter():
    scene, (first, _) = workstation()
    scene._nodes["desk"].is_listed = True
    take(scene, 311, first)
    rest(scene, 5, first)
    assert found(scene) == []


def test_servers_may_rest():
    scene, (first, second) = workstation()
    take(scene, 311, first, name="vllm")
    take(scene, 402, second)
    for _ in range(20):
        scene.run(120, {first: HELD, second: WORKING})
        scene.run(1080, {first: HELD, second: HELD})
    scene.run(2 * 3600, {first: HELD, second: HELD})
    (finding,) = found(scene)
    assert finding.subject == f"gpu:{first}"
    assert finding.confidence == "hypothesis"
    assert any("may be a server" in evidence.text for evidence in finding.evidence)


def test_work_of_its_processes_on_cpus_is_named_and_makes_it_a_guess():
    scene, (first, _) = workstation()
    take(scene, 311, first, process_cpu_cores_used=9.0)
    rest(scene, 2.5, first)
    (finding,) = found(scene)
    assert finding.confidence == "hypothesis"
    assert "9.0 CPUs busy" in finding.summary


def test_what_may_be_another_users_is_not_said_to_be_a_jobs():
    scene, (first, second) = workstation(period_s=60.0)
    take(scene, 311, first, process_cpu_cores_used=None)
    take(scene, 402, second, uid=1008)
    scene.host("desk", cpu_busy_ratio=0.4)
    scene.run(2.3 * 3600, {first: HELD, second: WORKING})
    (finding,) = found(scene)
    assert finding.summary.endswith(" CPUs busy, perhaps another user's")
    assert not any("job" in evidence.text for evidence in finding.evidence)


def test_without_the_drivers_word_on_memory_the_presence_counts():
    scene, (first, _) = workstation()
    scene.run(1200, {first: UNUSED})
    scene.process(311, [first], uid=1007, name="python", **QUIET)
    rest(scene, 3, first)
    (finding,) = found(scene)
    assert finding.gpu_seconds == pytest.approx(3 * 3600, abs=OLD_ROW_S)


def test_a_user_who_is_hidden_is_said_to_be():
    scene, (first, _) = workstation()
    take(scene, 311, first, uid=None)
    rest(scene, 3, first)
    (finding,) = found(scene)
    assert finding.owners == ()
    assert "user is hidden" in finding.summary


def test_owner_and_loss_reach_the_document():
    scene, (first, _) = workstation(period_s=60.0)
    take(scene, 311, first)
    take(scene, 402, first, uid=4_000_000_000)
    rest(scene, 3, first)
    picture = scene.run(60, {first: HELD})
    engine = DetectionEngine(
        ("gpumon_detectors.idle.held_by_user:HeldByUser",), installed=False, start_s=600.0
    )
    try:
        assert engine.submit(picture)
        report = engine.finish(600.0)
    finally:
        engine.close()
    ledger = Ledger()
    ledger.take(picture)
    told = picture._replace(findings=report.findings, coverage=report.coverage)
    ledger.take(told)
    (found,) = document(told._replace(ledger=ledger.summary(), history=None))["findings"]
    assert report.errors == ()
    assert found["owner"] == [1007, 4_000_000_000]
    assert found["wasted_gpu_seconds"] == pytest.approx(3 * 3600, abs=OLD_ROW_S)
