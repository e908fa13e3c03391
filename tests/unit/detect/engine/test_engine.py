from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpumon.detect.engine.engine import DetectionEngine
from gpumon.detect.scene import WORKING
from gpumon.detect.worker.tuning import Tuning
from tests.worlds.probe import tell

LONG_S = 60.0
"""Far beyond what any of these looks takes; a test that gets near it has failed."""


def test_a_look_gives_findings_coverage_and_no_errors(engine, honest, scene, look, states):
    report = look(engine(honest), scene.run(30, {}))
    (finding,) = report.findings
    assert (finding.detector, finding.subject) == ("honest", "job:7")
    assert finding.confidence == "hypothesis"
    assert finding.window.samples == 3
    assert states(report) == {"honest": "waiting"}
    assert report.errors == ()


def test_the_worker_sees_new_rows_jobs_and_gpus(engine, honest, scene, look):
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


def test_first_seen_is_kept_while_a_finding_stands(engine, honest, scene, look):
    one = engine(honest)
    first = look(one, scene.run(30, {})).findings[0]
    second = look(one, scene.run(30, {})).findings[0]
    assert second.first_seen == first.first_seen == first.last_seen
    assert second.last_seen == first.last_seen + 30


def test_a_finding_that_paused_is_seen_anew(engine, honest, scene, look):
    one = engine(honest)
    look(one, scene.run(30, {}))
    scene.end("7")
    assert look(one, scene.run(10, {})).findings == ()
    scene.job("7", ["GPU-n-0"])
    finding = look(one, scene.run(10, {})).findings[0]
    assert finding.first_seen == finding.last_seen


def test_a_pause_of_the_monitor_makes_a_finding_unknown_and_clears_nothing(
    engine, plugin, scene, look
):
    path = plugin(
        "patient",
        """
        class Patient(Base):
            name = "patient"
            needs = ("power_w",)
            def evaluate(self, view):
                job = view.jobs[0]
                table = job.table(("power_w",), 3600.0)
                return self.claim(view) if table.length_s >= 100.0 else ()
        """,
    )
    one = engine(path)
    (before,) = look(one, scene.run(300, {})).findings
    scene.skip(300)
    for _ in range(9):
        report = look(one, scene.run(10, {}))
        assert [f.unknown_since for f in report.findings] == [before.last_seen]
        assert report.cleared == ()
    (after,) = look(one, scene.run(60, {})).findings
    assert (after.unknown_since, after.first_seen) == (None, before.first_seen)


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
    tell(tmp_path / "go", "go")
    assert one.finish(LONG_S).at == first.at
    assert one.collect() is None


def test_a_detector_that_raises_is_muted_and_shown(
    engine, honest, plugin, scene, look, states, said
):
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
    said(error.message, error.hint)
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
def test_a_detector_that_returns_rubbish_is_muted(engine, plugin, scene, body, look, states, said):
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
    said(report.errors[0].message, report.errors[0].hint)


def test_what_cannot_be_loaded_is_told_and_does_not_stop_the_rest(
    engine, honest, plugin, scene, look, states, said
):
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
    for error in report.errors:
        said(error.message, error.hint)


def test_two_detectors_of_one_name_do_not_mix(engine, honest, plugin, scene, look):
    twin = plugin("twin", "class Twin(Base):\n    name = 'honest'\n    evaluate = Base.claim\n")
    report = look(engine(honest, twin), scene.run(30, {}))
    assert len(report.findings) == 1
    assert "taken by" in report.errors[0].message


def test_the_built_in_is_found_through_its_entry_point(scene, look):
    one = DetectionEngine()
    try:
        report = look(one, scene.run(310, {"GPU-n-0": WORKING}))
    finally:
        one.close()
    assert [f.finding_class for f in report.findings] == ["partial_gpus_idle"]


def test_the_monitor_loads_neither_numpy_nor_plugins():
    code = (
        "import sys; from gpumon.detect.engine.engine import DetectionEngine; "
        "e = DetectionEngine(); "
        "e.close(); assert not {'numpy', 'gpumon_detectors', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_tick_without_history_is_not_judged(engine, honest, scene):
    assert not engine(honest).submit(scene.run(30, {})._replace(history=None))


def test_a_muted_detector_is_tried_again_later_and_then_ever_later(engine, plugin, scene, look):
    path = plugin(
        "moody",
        """
        class Moody(Base):
            name = "moody"
            def evaluate(self, view):
                if view.now < 1_700_001_000:
                    raise ValueError("not in the mood")
                return self.claim(view)
        """,
    )
    one = engine(path)
    assert look(one, scene.run(100, {})).errors
    assert look(one, scene.run(500, {})).errors
    assert look(one, scene.run(100, {})).errors
    assert look(one, scene.run(1000, {})).errors
    report = look(one, scene.run(300, {}))
    assert report.errors == ()
    assert [finding.detector for finding in report.findings] == ["moody"]


@pytest.mark.slow
def test_who_allocates_without_end_is_named_and_the_others_go_on(
    engine, plugin, honest, scene, look, states
):
    greedy = plugin(
        "greedy",
        """
        kept = []
        class Greedy(Base):
            name = "greedy"
            def evaluate(self, view):
                while True:
                    kept.append(bytearray(64 * 2**20))
        """,
    )
    report = look(engine(greedy, honest), scene.run(100, {}))
    assert states(report) == {"honest": "ok", "greedy": "muted"}
    assert len(report.findings) == 1


@pytest.mark.slow
def test_who_keeps_memory_from_look_to_look_is_named(engine, plugin, honest, scene, look, states):
    leaky = plugin(
        "leaky",
        """
        kept = []
        class Leaky(Base):
            name = "leaky"
            def evaluate(self, view):
                kept.append(b"x" * (300 * 2**20))
                return ()
        """,
    )
    one = engine(honest, leaky)
    assert states(look(one, scene.run(100, {}))) == {"honest": "ok", "leaky": "ok"}
    look(one, scene.run(10, {}))
    report = look(one, scene.run(10, {}))
    assert states(report) == {"honest": "ok", "leaky": "muted"}
    assert "MiB of memory" in report.errors[0].message


@pytest.mark.parametrize("subject", ["gpu:GPU-elsewhere", "node:elsewhere", "job:9"])
def test_a_claim_about_what_is_not_in_view_is_rubbish(engine, plugin, scene, look, states, subject):
    path = plugin(
        "liar",
        f"""
        class Liar(Base):
            name = "liar"
            def evaluate(self, view):
                return self.claim(view, subject="{subject}")
        """,
    )
    report = look(engine(path), scene.run(100, {}))
    assert states(report) == {"liar": "muted"}
    assert report.findings == ()


def test_a_finding_is_acknowledged_muted_and_cleared_through_the_engine(
    engine, honest, scene, look
):
    one = engine(honest)
    (finding,) = look(one, scene.run(100, {})).findings
    assert one.acknowledge(finding.identity)
    assert look(one, scene.run(10, {})).findings[0].is_acknowledged
    notes = one.notes()
    one.mute(scene.next_at + 100, subject="job:7")
    assert look(one, scene.run(10, {})).findings == ()
    scene.end("7")
    report = look(one, scene.run(200, {}))
    assert report.findings == ()
    assert [f.cleared_at for f in report.cleared] == [scene.next_at - 210]
    other = engine(honest)
    other.restore(notes)
    scene.job("7", ("GPU-n-0", "GPU-n-1"))
    assert look(other, scene.run(100, {})).findings[0].is_acknowledged


def tuned(plugin):
    return plugin(
        "tuned",
        """
        class Tuned(Base):
            name = "tuned"
            def __init__(self, limit=1.0):
                self.limit = limit
            def evaluate(self, view):
                return self.claim(view, summary=f"limit {self.limit:g}")
        """,
    )


def test_a_detector_gets_the_parameters_of_the_configuration(engine, plugin, scene, look):
    path = tuned(plugin)
    report = look(engine(path, tuning=Tuning(parameters={path: {"limit": 3}})), scene.run(30, {}))
    assert [finding.summary for finding in report.findings] == ["limit 3"]


def test_a_parameter_that_it_does_not_take_mutes_it_and_names_the_place(
    engine, plugin, scene, look, states
):
    path = tuned(plugin)
    tuning = Tuning(parameters={path: {"limits": 3}}, parameters_origin="/c.toml:4")
    report = look(engine(path, tuning=tuning), scene.run(30, {}))
    assert report.findings == ()
    assert [error.message for error in report.errors] == [
        "/c.toml:4: Tuned has no parameter limits; it has limit"
    ]


def test_a_disabled_detector_is_not_loaded_and_an_unknown_name_is_told(
    engine, honest, plugin, scene, look, states
):
    path = tuned(plugin)
    tuning = Tuning(disabled=(path, "nobody"), disabled_origin="/c.toml:2")
    report = look(engine(path, honest, tuning=tuning), scene.run(30, {}))
    assert {finding.detector for finding in report.findings} == {"honest"}
    assert states(report) == {"honest": "waiting"}
    assert [e.message for e in report.errors] == ["/c.toml:2: no detector is called nobody"]


@pytest.fixture
def shy(plugin):
    """A detector that runs only where it is named."""
    return plugin(
        "shy",
        """
        class Shy(Base):
            name = "shy"
            finding_classes = ("seen_shyly",)
            is_off_by_default = True
            def evaluate(self, view):
                return self.claim(view)
        """,
    )


def test_what_another_one_looks_for_is_not_said_to_be_off(
    engine, honest, plugin, scene, look, states
):
    """Whichever of them is loaded first."""
    bodies = (
        f"""
        class {name.title()}(Base):
            name = "{name}"
            is_off_by_default = True
            def evaluate(self, view):
                return self.claim(view)
        """
        for name in ("aaa", "zzz")
    )
    off = [plugin(name, body) for name, body in zip(("aaa", "zzz"), bodies, strict=True)]
    report = look(engine(off[0], honest, off[1]), scene.run(30, {}))
    assert states(report) == {"honest": "waiting"}
    assert states(look(engine(off[0]), scene.run(10, {}))) == {"aaa": "off"}


def test_what_another_one_only_guesses_is_said_to_be_off_and_stays_a_hypothesis(
    engine, plugin, shy, scene, look, states
):
    guessing = plugin(
        "guessing",
        """
        class Guessing(Base):
            name = "guessing"
            finding_classes = ("seen_shyly", "seen_well")
            guesses = ("seen_shyly",)
            def evaluate(self, view):
                for one in self.finding_classes:
                    yield from self.claim(view, finding_class=one)
        """,
    )
    one = engine(guessing, shy)
    report = look(one, scene.run(30, {}))
    for _ in range(40):
        report = look(one, scene.run(60, {}))
    assert states(report)["shy"] == "off"
    sure = {finding.finding_class: finding.confidence.value for finding in report.findings}
    assert sure["seen_shyly"] == "hypothesis"
    assert sure["seen_well"] != "hypothesis"


def test_a_detector_that_is_off_by_default_says_so_and_nothing_else(
    engine, honest, shy, scene, look, states
):
    one = engine(honest, shy)
    report = look(one, scene.run(30, {}))
    assert {finding.detector for finding in report.findings} == {"honest"}
    assert states(report) == {"honest": "waiting", "shy": "off"}
    assert report.errors == ()
    assert states(look(one, scene.run(10, {})))["shy"] == "off"


def test_who_enables_a_detector_has_it_run(engine, shy, scene, look, states):
    report = look(engine(shy, tuning=Tuning(enabled=(shy,))), scene.run(30, {}))
    assert {finding.detector for finding in report.findings} == {"shy"}
    assert states(report) == {"shy": "waiting"}


def test_who_disables_a_detector_need_not_know_whether_it_was_on(engine, shy, scene, look, states):
    tuning = Tuning(disabled=(shy,), enabled=(shy, "nobody"), enabled_origin="/c.toml:7")
    report = look(engine(shy, tuning=tuning), scene.run(30, {}))
    assert (report.findings, states(report)) == ((), {})
    assert [e.message for e in report.errors] == ["/c.toml:7: no detector is called nobody"]


def test_detectors_are_loaded_anew_when_what_they_read_has_changed(
    engine, plugin, scene, look, tmp_path
):
    """As named patterns are: their names are classes, which are declared when they are loaded."""
    names = tmp_path / "names"
    names.write_text("first_kind")
    path = plugin(
        "reader",
        f"""
        from pathlib import Path

        class Reader(Base):
            name = "reader"
            finding_classes = (Path({str(names)!r}).read_text(),)
            categories = {{finding_classes[0]: "compute"}}
            def evaluate(self, view):
                return self.claim(view)
        """,
    )
    one = engine(path)
    found_classes = []
    for said in ("first_kind", "second_kind"):
        names.write_text(said)
        found_classes.append(
            {found.finding_class for found in look(one, scene.run(30, {})).findings}
        )
    one.renew()
    found_classes.append({found.finding_class for found in look(one, scene.run(30, {})).findings})
    assert found_classes[:2] == [{"first_kind"}, {"first_kind"}]
    assert "second_kind" in found_classes[2]
