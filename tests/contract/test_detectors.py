"""Every installed detector keeps the contract; the kit itself finds those that don't."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gpumon.detect.checks import check_detector
from gpumon.detect.engine.engine import DetectionEngine
from gpumon.detect.scene import WORKING, Scene
from gpumon.detect.worker.registry import entries, load_class

pytestmark = pytest.mark.slow

INSTALLED = entries()
EXAMPLE = Path(__file__).parents[2] / "plugins" / "gpumon-detector-example"


@pytest.mark.parametrize("entry", INSTALLED, ids=[entry.key for entry in INSTALLED])
def test_an_installed_detector_keeps_the_contract(entry):
    detector_class = load_class(entry.target)
    problems = [check for check in check_detector(detector_class) if check.problem]
    assert problems == []
    assert detector_class.name == entry.key.partition("@")[0]


def test_the_built_in_is_among_them():
    assert "partial_gpus_idle" in {entry.key for entry in INSTALLED}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Installs the example's package, with entry points of our choice, where the worker looks."""
    if not EXAMPLE.is_dir():
        pytest.skip("the example is in the repository, not in the source distribution")

    def install(points):
        info = tmp_path / "gpumon_detector_example-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: gpumon-detector-example\nVersion: 0.1.0\n")
        lines = "".join(f"{name} = {target}\n" for name, target in points.items())
        (info / "entry_points.txt").write_text(f"[gpumon.detectors]\n{lines}")
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{EXAMPLE / 'src'}")

    return install


def looked_at(scene_tick):
    engine = DetectionEngine()
    try:
        assert engine.submit(scene_tick)
        return engine.finish(60.0)
    finally:
        engine.close()


def hot_tick():
    scene = Scene()
    (gpu,) = scene.node("n", 1)
    return scene.run(1000, {gpu: {**WORKING, "temp_c": 90.0}})


def test_a_distribution_of_its_own_is_found_through_its_entry_point(site):
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    site(project["entry-points"]["gpumon.detectors"])
    report = looked_at(hot_tick())
    (finding,) = report.findings
    assert (finding.finding_class, finding.confidence) == ("hot_gpu", "established")
    states = {c.detector: c.state for c in report.coverage}
    assert states["hot_gpu"] == "ok"
    assert "muted" not in states.values()


def test_a_broken_distribution_is_told_and_harms_nobody(site):
    site({"gone": "no_such_module_at_all:Thing"})
    report = looked_at(hot_tick())
    muted = [c.detector for c in report.coverage if c.state == "muted"]
    assert muted == ["gone"]
    (error,) = report.errors
    assert error.where == "detector gone"
    assert "ModuleNotFoundError" in error.message


def test_the_example_passes_its_own_tests():
    if not EXAMPLE.is_dir():
        pytest.skip("the example is in the repository, not in the source distribution")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
