"""Every installed detector keeps the contract; the kit itself finds those that don't."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from gpumon.cli.configuration import PATH_VARIABLE, load
from gpumon.detect.checks import check_detector
from gpumon.detect.engine.engine import DetectionEngine
from gpumon.detect.scene import WORKING, Scene
from gpumon.detect.worker.registry import entries, load_class
from gpumon.detect.worker.tuning import Tuning

pytestmark = pytest.mark.slow

INSTALLED = entries()
ROOT = Path(__file__).parents[2]
UV = ROOT / ".uv" / "bin" / "uv"
GPUMON = Path(sys.executable).with_name("gpumon")
EXAMPLES = sorted((ROOT / "plugins").glob("*/pyproject.toml"))
"""None in the source distribution, which leaves them out."""


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
    """A folder in which the worker, and every other process of this test, finds distributions."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def project_of(pyproject):
    return tomllib.loads(pyproject.read_text())["project"]


def installed(pyproject, site, wheels):
    """Builds the wheel of an example and unpacks it where installers do; its entry points."""
    build = ["build", "--quiet", "--offline", "--wheel", "--no-build-isolation"]
    run(UV, *build, "--python", sys.executable, "--out-dir", wheels, pyproject.parent)
    (wheel,) = wheels.glob("*.whl")
    install = ["pip", "install", "--quiet", "--offline", "--no-deps", "--target", site]
    run(UV, *install, "--python", sys.executable, wheel)
    return project_of(pyproject)["entry-points"]["gpumon.detectors"]


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def looked_at(scene_tick, tuning=None):
    engine = DetectionEngine(tuning=tuning) if tuning else DetectionEngine()
    try:
        assert engine.submit(scene_tick)
        return engine.finish(60.0)
    finally:
        engine.close()


def fleet_tick():
    """A GPU that is hot and draws half of what others with its load do."""
    scene = Scene()
    odd, *others = scene.node("n", 24)
    loads = {
        uuid: {
            **WORKING,
            "sm_active_ratio": sm,
            "dram_active_ratio": 0.3,
            "power_w": 150 + 500 * sm,
        }
        for uuid, sm in zip([odd, *others], np.linspace(0.3, 0.9, 24), strict=True)
    }
    loads[odd] = {**loads[odd], "temp_c": 90.0, "power_w": 150.0}
    return scene.run(1000, loads)


@pytest.mark.parametrize("pyproject", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_wheel_of_an_example_is_found_and_judges(pyproject, site, tmp_path_factory):
    if not UV.exists():
        pytest.skip("uv is there once `make .venv/.ready` has run")
    ((name, target),) = installed(pyproject, site, tmp_path_factory.mktemp("wheels")).items()
    assert name in run(GPUMON, "detectors", "list")
    run(GPUMON, "detectors", "check", target)
    report = looked_at(fleet_tick())
    assert [(f.finding_class, f.confidence) for f in report.findings] == [
        (name, "established" if name == "hot_gpu" else "supported")
    ]
    states = {c.detector: c.state for c in report.coverage}
    assert states[name] == "ok"
    assert "muted" not in states.values()


def test_a_broken_distribution_is_told_and_harms_nobody(site):
    info = site / "gone-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: gone\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[gpumon.detectors]\ngone = no_such_module:Thing\n")
    report = looked_at(fleet_tick())
    muted = [c.detector for c in report.coverage if c.state == "muted"]
    assert muted == ["gone"]
    (error,) = report.errors
    assert error.where == "detector gone"
    assert "ModuleNotFoundError" in error.message


def test_the_page_for_authors_leads_from_nothing_to_an_installed_detector(
    site, tmp_path, tmp_path_factory
):
    if not UV.exists():
        pytest.skip("uv is there once `make .venv/.ready` has run")
    folder = tmp_path_factory.mktemp("nothing")
    pyproject, detector, test, configuration = blocks_of("In ten minutes", "toml", "python")
    (folder / "pyproject.toml").write_text(pyproject)
    (folder / "low_clock.py").write_text(detector)
    (folder / "test_low_clock.py").write_text(test)
    installed(folder / "pyproject.toml", site, tmp_path_factory.mktemp("wheels"))
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder)
    checked = run(GPUMON, "detectors", "check", "low_clock:LowClock")
    assert len(checked.splitlines()) > 10
    assert "low_clock" in run(GPUMON, "detectors", "list")
    scene = Scene()
    (uuid,) = scene.node("n1", 1)
    scene.job("42", (uuid,))
    tick = scene.run(700, {uuid: {**WORKING, "sm_clock_mhz": 1400.0}})
    assert "low_clock" not in {f.finding_class for f in looked_at(tick).findings}
    (tmp_path / "config.toml").write_text(configuration)
    tuning = Tuning.of(load({PATH_VARIABLE: str(tmp_path / "config.toml")}))
    assert "low_clock" in {f.finding_class for f in looked_at(tick, tuning).findings}


def blocks_of(title, *languages):
    """Code blocks of one section of the page for authors, in their order."""
    page = (ROOT / "docs" / "plugins.md").read_text()
    section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```(?:{'|'.join(languages)})\n(.*?)```", section, flags=re.DOTALL)


@pytest.mark.parametrize("pyproject", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_passes_its_own_tests(pyproject):
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", pyproject.parent)
