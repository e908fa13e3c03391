from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gpumon.detect.engine import DetectionEngine
from gpumon.detect.scene import WORKING, Scene

LONG_S = 60.0
"""Far beyond what any of these looks takes; a test that gets near it has failed."""

HEAD = """
import os, sys, time
from gpumon.detect.contract import Detector
from gpumon.model.finding import Evidence, Severity, Window

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
            )
            yield view.finding(self, **{**given, **change})
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Writes a module that the worker, not this process, can import."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(name, body):
        (tmp_path / f"{name}.py").write_text(HEAD + textwrap.dedent(body))
        return f"{name}:{name.title()}"

    return write


@pytest.fixture
def engine():
    made = []

    def make(*paths, **given):
        made.append(DetectionEngine(paths, installed=False, **given))
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


def look(engine, tick):
    assert engine.submit(tick)
    report = engine.finish(LONG_S)
    assert report is not None
    return report


def ends(descriptor):
    """Whether the process of a pidfd ends."""
    with os.fdopen(descriptor):
        return bool(select.select([descriptor], [], [], LONG_S)[0])


def states(report):
    return {c.detector: c.state for c in report.coverage}


def test_a_look_gives_findings_coverage_and_no_errors(engine, honest, scene):
    report = look(engine(honest), scene.run(30, {}))
    (finding,) = report.findings
    assert (finding.detector, finding.subject) == ("honest", "job:7")
    assert finding.confidence == "hypothesis"
    assert finding.window.samples == 3
    assert states(report) == {"honest": "waiting"}
    assert report.errors == ()


def test_the_worker_sees_new_rows_jobs_and_gpus(engine, honest, scene):
    one = engine(honest)
    look(one, scene.run(30, {}))
    scene.job("8", scene.node("m", 4))
    report = look(one, scene.run(70, {}))
    assert {f.subject: f.window.samples for f in report.findings} == {"job:7": 10, "job:8": 7}
    assert {f.subject: f.confidence for f in report.findings} == {
        "job:7": "supported",
        "job:8": "supported",
    }
    scene.end("7")
    report = look(one, scene.run(10, {}))
    assert [f.subject for f in report.findings] == ["job:8"]


def test_first_seen_is_kept_while_a_finding_stands(engine, honest, scene):
    one = engine(honest)
    first = look(one, scene.run(30, {})).findings[0]
    second = look(one, scene.run(30, {})).findings[0]
    assert second.first_seen == first.first_seen == first.last_seen
    assert second.last_seen == first.last_seen + 30


def test_a_finding_that_paused_is_seen_anew(engine, honest, scene):
    one = engine(honest)
    look(one, scene.run(30, {}))
    scene.end("7")
    assert look(one, scene.run(10, {})).findings == ()
    scene.job("7", ["GPU-n-0"])
    finding = look(one, scene.run(10, {})).findings[0]
    assert finding.first_seen == finding.last_seen


def test_a_second_tick_is_dropped_while_one_is_judged(engine, plugin, scene, tmp_path):
    os.mkfifo(tmp_path / "go")
    path = plugin(
        "patient",
        f"""
        class Patient(Base):
            name = "patient"
            def evaluate(self, view):
                open({str(tmp_path / "go")!r}).read()
                return self.claim(view)
        """,
    )
    one = engine(path)
    first = scene.run(30, {})
    assert one.submit(first)
    assert not one.submit(scene.run(10, {}))
    assert one.collect() is None
    (tmp_path / "go").write_text("go")
    assert one.finish(LONG_S).at == first.at
    assert one.collect() is None


def test_a_detector_that_raises_is_muted_and_shown(engine, honest, plugin, scene):
    path = plugin(
        "thrower",
        """
        class Thrower(Base):
            name = "thrower"
            def evaluate(self, view):
                raise ValueError("no \\x1b[31m luck")
        """,
    )
    one = engine(path, honest)
    report = look(one, scene.run(30, {}))
    assert states(report) == {"honest": "waiting", "thrower": "muted"}
    assert [f.detector for f in report.findings] == ["honest"]
    (error,) = report.errors
    assert error.where == "detector thrower"
    assert "ValueError" in error.message
    assert "\x1b" not in error.message
    assert states(look(one, scene.run(10, {})))["thrower"] == "muted"


@pytest.mark.parametrize(
    "body",
    [
        "return [42]",
        "return None",
        "return self.claim(view, subject='job:999')",
        "return self.claim(view, summary='')",
        "return self.claim(view, gpu_seconds=float('nan'))",
        "return self.claim(view, gpu_seconds=1e12)",
        "return self.claim(view, finding_class='undeclared')",
        "return [*self.claim(view), *self.claim(view)]",
        "return self.claim(view, evidence=(Evidence('power_w', 'job:7', 'x', object()),))",
    ],
)
def test_a_detector_that_returns_rubbish_is_muted(engine, plugin, scene, body):
    path = plugin(
        "rubbish",
        f"""
        class Rubbish(Base):
            name = "rubbish"
            def evaluate(self, view):
                {body}
        """,
    )
    report = look(engine(path), scene.run(30, {}))
    assert report.findings == ()
    assert states(report) == {"rubbish": "muted"}
    assert len(report.errors) == 1


def test_a_detector_that_overruns_is_killed_and_the_rest_still_answer(
    engine, honest, plugin, scene
):
    path = plugin(
        "forever",
        """
        class Forever(Base):
            name = "forever"
            def evaluate(self, view):
                while True:
                    pass
        """,
    )
    one = engine(path, honest, budget_s=0.5)
    report = look(one, scene.run(30, {}))
    assert states(report) == {"honest": "waiting", "forever": "muted"}
    assert [f.detector for f in report.findings] == ["honest"]
    assert "longer than 0.5 s" in report.errors[0].message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("os._exit(7)", "exit status 7"),
        ("os.kill(os.getpid(), 11)", "signal 11"),
        ("sys.exit(3)", "exit status 3"),
        ("os.write(int(sys.argv[1]), b'\\xff' * 64)", "broke the protocol"),
    ],
)
def test_a_detector_that_takes_the_worker_down_is_muted(engine, honest, plugin, scene, body, words):
    path = plugin(
        "fatal",
        f"""
        class Fatal(Base):
            name = "fatal"
            def evaluate(self, view):
                {body}
                return ()
        """,
    )
    report = look(engine(path, honest), scene.run(30, {}))
    assert states(report) == {"honest": "waiting", "fatal": "muted"}
    assert words in report.errors[0].message


def test_an_idle_worker_that_dies_is_replaced(engine, plugin, scene, tmp_path):
    path = plugin(
        "teller",
        f"""
        class Teller(Base):
            name = "teller"
            def evaluate(self, view):
                open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
                return self.claim(view)
        """,
    )
    one = engine(path)
    look(one, scene.run(30, {}))
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    report = look(one, scene.run(10, {}))
    assert [f.window.samples for f in report.findings] == [4]
    assert report.errors == ()
    assert int((tmp_path / "pid").read_text()) != pid


def test_what_cannot_be_loaded_is_told_and_does_not_stop_the_rest(engine, honest, plugin, scene):
    broken = plugin("broken", "import no_such_module_at_all\n")
    hanging = plugin("hanging", "while True: pass\n")
    report = look(engine(broken, hanging, "nonsense", honest, budget_s=1.0), scene.run(30, {}))
    assert states(report) == {
        "honest": "waiting",
        broken: "muted",
        hanging: "muted",
        "nonsense": "muted",
    }
    assert [f.detector for f in report.findings] == ["honest"]


def test_two_detectors_of_one_name_do_not_mix(engine, honest, plugin, scene):
    twin = plugin("twin", "class Twin(Base):\n    name = 'honest'\n    evaluate = Base.claim\n")
    report = look(engine(honest, twin), scene.run(30, {}))
    assert len(report.findings) == 1
    assert "taken by" in report.errors[0].message


def test_a_worker_that_never_starts_is_told(engine, honest, scene, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    one = engine(honest)
    report = look(one, scene.run(30, {}))
    assert report.findings == ()
    assert report.errors[0].where == "detection"
    assert "exit status 1" in report.errors[0].message


def test_what_plugins_print_goes_nowhere(engine, plugin, scene, capfd):
    path = plugin(
        "chatty",
        """
        print("at import")
        class Chatty(Base):
            name = "chatty"
            def evaluate(self, view):
                print("out"); print("err", file=sys.stderr); os.write(1, b"raw")
                return self.claim(view)
        """,
    )
    assert len(look(engine(path), scene.run(30, {})).findings) == 1
    assert capfd.readouterr() == ("", "")


def test_close_ends_a_busy_worker_and_its_children(engine, plugin, scene, tmp_path):
    os.mkfifo(tmp_path / "pids")
    path = plugin(
        "parent",
        f"""
        class Parent(Base):
            name = "parent"
            def evaluate(self, view):
                child = os.fork()
                if child == 0:
                    time.sleep(1000)
                open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{child}}")
                time.sleep(1000)
        """,
    )
    one = engine(path)
    one.submit(scene.run(30, {}))
    worker, child = (int(pid) for pid in (tmp_path / "pids").read_text().split())
    descriptor = os.pidfd_open(child)
    one.close()
    assert not Path(f"/proc/{worker}").exists()
    assert ends(descriptor)
    assert not one.submit(scene.run(10, {}))
    assert one.finish(LONG_S) is None


def test_what_a_crashed_detector_started_is_ended_too(engine, plugin, scene, tmp_path):
    path = plugin(
        "leaver",
        f"""
        class Leaver(Base):
            name = "leaver"
            def evaluate(self, view):
                child = os.fork()
                if child == 0:
                    time.sleep(1000)
                open({str(tmp_path / "child")!r}, "w").write(str(child))
                open({str(tmp_path / "go")!r}).read()
                os._exit(1)
        """,
    )
    os.mkfifo(tmp_path / "child")
    os.mkfifo(tmp_path / "go")
    one = engine(path)
    one.submit(scene.run(30, {}))
    descriptor = os.pidfd_open(int((tmp_path / "child").read_text()))
    (tmp_path / "go").write_text("go")
    assert states(one.finish(LONG_S)) == {"leaver": "muted"}
    assert ends(descriptor)


def test_close_before_anything_was_submitted(engine):
    one = engine()
    one.close()
    one.close()
    assert one.collect() is None


def test_the_worker_dies_with_a_killed_monitor(honest, plugin, tmp_path):
    os.mkfifo(tmp_path / "pid")
    path = plugin(
        "busy",
        f"""
        class Busy(Base):
            name = "busy"
            def evaluate(self, view):
                open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
                while True:
                    pass
        """,
    )
    code = f"""
from gpumon.detect.engine import DetectionEngine
from gpumon.detect.scene import Scene
scene = Scene()
scene.job("7", scene.node("n", 2))
engine = DetectionEngine(({path!r},), installed=False)
engine.submit(scene.run(30, {{}}))
engine.finish({LONG_S})
"""
    monitor = subprocess.Popen([sys.executable, "-c", code])
    worker = int((tmp_path / "pid").read_text())
    descriptor = os.pidfd_open(worker)
    monitor.kill()
    monitor.wait()
    assert ends(descriptor)


def test_the_built_in_is_found_through_its_entry_point(scene):
    one = DetectionEngine()
    try:
        report = look(one, scene.run(30, {"GPU-n-0": WORKING}))
    finally:
        one.close()
    assert [f.finding_class for f in report.findings] == ["partial_gpus_idle"]


def test_the_monitor_loads_neither_numpy_nor_plugins():
    code = (
        "import sys; from gpumon.detect.engine import DetectionEngine; e = DetectionEngine(); "
        "e.close(); assert not {'numpy', 'gpumon_detectors', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_tick_without_history_is_not_judged(engine, honest, scene):
    assert not engine(honest).submit(scene.run(30, {})._replace(history=None))
