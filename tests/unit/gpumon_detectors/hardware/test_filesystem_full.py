from __future__ import annotations

import random

import pytest

from gpumon.detect.scene import Scene, working
from gpumon_detectors.hardware.filesystem_full import FilesystemFull
from tests.unit.gpumon_detectors.noise import TROUBLES, thinned

GIB = 2.0**30
MIB = 2.0**20
SHM = "/dev/shm"


def room(size, free):
    return {"size_bytes": size, "used_bytes": size - free, "free_bytes": free}


def full(
    seconds, path=SHM, *, size=64 * GIB, free=3 * MIB, before_s=120.0, job="42", period_s=10.0
):
    """A node whose file system had half of its room for a while, and has none since."""
    scene = Scene(period_s)
    uuids = scene.node("n1", 2)
    if job:
        scene.job(job, uuids)
    if before_s:
        scene.space("n1", path, **room(size, size / 2))
        scene.run(before_s, working(uuids))
    scene.space("n1", path, **room(size, free))
    scene.run(seconds, working(uuids))
    return scene


def findings(scene, **parameters):
    return list(FilesystemFull(**parameters).evaluate(scene.view()))


@pytest.mark.parametrize(
    ("seconds", "confidence"),
    [(80, "hypothesis"), (290, "hypothesis"), (320, "supported"), (920, "established")],
)
def test_shared_memory_without_room_is_claimed(seconds, confidence):
    (finding,) = findings(full(seconds))
    assert (finding.subject, finding.finding_class) == ("node:n1", "filesystem_full")
    assert (finding.severity, finding.confidence) == ("warning", confidence)
    assert finding.gpu_seconds is None
    assert finding.summary.startswith("n1 (job 42): /dev/shm is full since ")
    assert finding.summary.endswith("3 MiB of 64.0 GiB left")
    assert finding.evidence[0].value == 3 * MIB
    assert "bus error" in finding.evidence[0].text


def test_it_tells_since_when_and_does_not_promise_more_than_was_seen():
    (finding,) = findings(full(600))
    assert finding.window.end - finding.window.start == pytest.approx(590.0, abs=10.0)
    (finding,) = findings(full(600, before_s=0.0))
    assert "for at least 10 min (observed since " in finding.summary


def test_what_it_advises_fits_to_what_is_full():
    (finding,) = findings(full(600))
    assert finding.advice[0].endswith("df -h /dev/shm; ls -lS /dev/shm")
    assert any("--shm-size" in step for step in finding.advice)
    assert any("fuser -v /dev/shm/*" in step for step in finding.machine_advice)
    (finding,) = findings(full(600, "/tmp"))
    assert finding.advice[0].endswith("du -xh --max-depth=1 /tmp")
    assert not any("shm" in step for step in (*finding.advice, *finding.machine_advice))


def test_a_workstation_without_a_queue_is_told_too():
    scene = full(600, job="")
    scene.unlist("n1")
    scene.run(10, {})
    (finding,) = findings(scene)
    assert finding.summary.startswith("n1: /dev/shm is full")


def test_several_are_one_finding_shared_memory_first():
    scene = full(60, "/tmp")
    scene.space("n1", SHM, **room(64 * GIB, 0.0))
    scene.space("n1", "/", **room(64 * GIB, MIB))
    scene.run(400, {})
    (finding,) = findings(scene)
    assert "/dev/shm is full" in finding.summary
    assert finding.summary.endswith("; full too: /tmp, /")
    assert [one.value for one in finding.evidence[:3]] == [0.0, 3 * MIB, MIB]


def test_a_site_names_its_own_scratch():
    assert [f.subject for f in findings(full(600, "/scratch"))] == ["node:n1"]
    assert findings(full(600, "/mnt/nvme0")) == []
    assert findings(full(600, "/mnt/nvme0"), scratch="/fast, /mnt/nvme0")
    (finding,) = findings(full(600, "/mnt/a b;c"), scratch="/mnt/a b;c")
    assert not any("df -h" in step for step in finding.advice)


def test_a_job_that_leaves_does_not_end_it():
    scene = full(300)
    scene.end("42")
    scene.run(300, {})
    (finding,) = findings(scene)
    assert finding.confidence == "supported"
    assert finding.summary.startswith("n1: ")


# Look-alikes


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"size": 64 * MIB, "free": 63 * MIB}, id="small-and-empty"),
        pytest.param({"size": 64 * MIB, "free": 24 * MIB}, id="small-with-room"),
        pytest.param({"size": 500 * GIB, "free": 200 * MIB}, id="large-used-by-design"),
        pytest.param({"size": 2.0 * GIB, "free": 65 * MIB}, id="just-enough"),
        pytest.param({"size": 0.0, "free": 0.0}, id="no-size"),
    ],
)
def test_what_has_room_or_no_size_is_not_full(values):
    assert findings(full(2000, **values)) == []


def test_small_and_full_is_full():
    (finding,) = findings(full(600, size=64 * MIB, free=2 * MIB))
    assert finding.summary.endswith("2 MiB of 64 MiB left")


@pytest.mark.parametrize("path", ["/boot", "/data", "/snap/core/1", "/home"])
def test_what_programs_do_not_write_to_unasked_may_be_full(path):
    assert findings(full(2000, path, free=0.0)) == []


def test_a_peak_of_a_minute_passes():
    assert findings(full(50)) == []


def test_what_has_room_again_is_over():
    scene = full(900)
    scene.space("n1", SHM, **room(64 * GIB, 32 * GIB))
    scene.run(20, {})
    assert findings(scene) == []


@pytest.mark.parametrize("lacking", ["size_bytes", "free_bytes"])
def test_a_missing_value_is_no_claim(lacking):
    scene = full(10)
    scene.space("n1", SHM, **{lacking: None})
    scene.run(900, {})
    assert findings(scene) == []


def test_a_silent_node_is_not_judged():
    scene = full(900)
    scene.silence("n1")
    scene.run(120, {})
    assert findings(scene) == []


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("period_s", [1.0, 10.0, 30.0, 60.0])
def test_it_is_told_whatever_telemetry_suffers(period_s, trouble):
    before_s = 0.0 if trouble == "restart" else 300.0
    scene = full(period_s, before_s=before_s, period_s=period_s)
    dice = random.Random(f"{period_s}{trouble}")
    if trouble == "shared":
        scene.job("43", ("GPU-n1-0",))
    if trouble == "missing":
        values = room(64 * GIB, 3 * MIB)
        values = {key: (lambda _, one=one: one) for key, one in values.items()}
        scene.space("n1", SHM, **{**thinned(values, dice), "size_bytes": 64 * GIB})
    scene.run(480.0, {})
    if trouble == "holes":
        scene.skip(60.0)
    scene.run(480.0, {})
    (finding,) = findings(scene)
    assert (finding.subject, finding.finding_class) == ("node:n1", "filesystem_full")
    assert finding.confidence in ("supported", "established")
