"""Plugins written by a test, an engine that runs them, and a scene to judge."""

from __future__ import annotations

import os
import textwrap

import pytest

from gpumon.detect.engine import worker_process
from gpumon.detect.engine.engine import DetectionEngine
from gpumon.detect.scene import Scene

HEAD = """
import os, sys, time
from gpumon.detect.contract import Detector
from gpumon.model.finding import Evidence, Severity, Window

LONG_ENOUGH_S = 600.0

class Base(Detector):
    version = "1"
    finding_classes = ("seen",)
    needs = ("power_w",)
    supported_after_s = 60.0
    established_after_s = 600.0

    def claim(self, view, **change):
        for job in view.jobs:
            times = job.window(job.uuids[0], "power_w", 3600.0).times
            given = dict(
                subject=job.subject, severity=Severity.WARNING, summary="seen",
                window=Window(times[0], times[-1], len(times)), evidence=(),
                onset=times[-1] - LONG_ENOUGH_S,
            )
            yield view.finding(self, **{**given, **change})
"""


LONG_S = 600.0
"""What a busy machine takes is no detector's fault."""


@pytest.fixture(autouse=True)
def ends_take_time(monkeypatch):
    """Gives workers as long for their end as a busy machine takes."""
    monkeypatch.setattr(
        worker_process,
        "_END_POLLS",
        int(LONG_S / worker_process._END_S * worker_process._END_POLLS),
    )
    monkeypatch.setattr(worker_process, "_END_S", LONG_S)


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Writes a module that the worker, not this process, can import."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    def write(name, body):
        (tmp_path / f"{name}.py").write_text(HEAD + textwrap.dedent(body))
        return f"{name}:{name.title()}"

    return write


@pytest.fixture
def engine():
    made = []

    def make(*paths, **given):
        patient = {"budget_s": LONG_S, "start_s": LONG_S}
        made.append(DetectionEngine(paths, installed=False, **{**patient, **given}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def scene():
    scene = Scene()
    scene.job("7", scene.node("n", 2))
    return scene


@pytest.fixture
def honest(plugin):
    return plugin(
        "honest",
        """
        class Honest(Base):
            name = "honest"
            def evaluate(self, view):
                return self.claim(view)
        """,
    )


@pytest.fixture
def look():
    """Has an engine judge a tick and gives its report."""

    def judge(engine, tick):
        assert engine.submit(tick)
        report = engine.finish(LONG_S)
        assert report is not None
        return report

    return judge


@pytest.fixture
def states():
    """States by detector of a report."""
    return lambda report: {c.detector: c.state for c in report.coverage}
