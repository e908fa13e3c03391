"""What becomes of the worker process, whatever a plugin does to it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpumon.detect.engine import worker_process
from tests.worlds.probe import bounded, heard, tell

LONG_S = 60.0
"""Far beyond what any of these looks takes; a test that gets near it has failed."""


def ends(descriptor):
    """Whether the process of a pidfd ends."""
    with os.fdopen(descriptor):
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        return bool(ended.poll(1000 * LONG_S))


def test_a_worker_that_rests_is_gone_and_the_next_picture_has_another(engine, honest, scene, look):
    one = engine(honest)
    one.rest()
    first = look(one, scene.run(30, {}))
    process = os.pidfd_open(one._link._process.pid)
    one.rest()
    assert ends(process)
    one.rest()
    second = look(one, scene.run(30, {}))
    assert [f.first_seen for f in second.findings] == [f.first_seen for f in first.findings]
    assert second.errors == ()


def test_a_detector_that_overruns_is_killed_and_the_rest_still_answer(
    engine, honest, plugin, scene, look, states, monkeypatch, said
):
    real = worker_process.WorkerLink._left_s

    def spared(one):
        # On a busy machine the honest one may take longer than a budget that is worth waiting for.
        is_honest = one._culprit is None or "forever" not in one._culprit
        return real(one) + LONG_S * is_honest

    monkeypatch.setattr(worker_process.WorkerLink, "_left_s", spared)
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
    said(report.errors[0].message, report.errors[0].hint)


def test_who_hangs_in_a_rehearsal_is_not_waited_for_in_the_look_that_counts(
    engine, honest, plugin, scene, look, states, tmp_path
):
    path = plugin(
        "once",
        f"""
        class Once(Base):
            name = "once"
            def evaluate(self, view):
                with open({str(tmp_path / "asked")!r}, "a") as asked:
                    asked.write("x")
                while True:
                    pass
        """,
    )
    one = engine(path, honest, budget_s=1.0)
    tick = scene.run(30, {})
    one.rehearse(tick)
    assert not one.submit(tick)
    assert one.finish(LONG_S) is None
    report = look(one, scene.run(10, {}))
    assert (tmp_path / "asked").read_text() == "x"
    assert states(report) == {"honest": "waiting", "once": "muted"}
    # Nothing of the rehearsal is remembered: this is the first look.
    (found,) = report.findings
    assert found.first_seen == report.at


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("os._exit(7)", "exit status 7"),
        ("os.kill(os.getpid(), 11)", "signal 11"),
        ("sys.exit(3)", "exit status 3"),
        ("os.write(int(sys.argv[1]), b'\\xff' * 64)", "broke the protocol"),
    ],
)
def test_a_detector_that_takes_the_worker_down_is_muted(
    engine, honest, plugin, scene, body, words, look, states, said
):
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
    said(report.errors[0].message, report.errors[0].hint)


@pytest.mark.parametrize("count", [3, 64, 100_000])
def test_who_writes_into_the_stream_is_muted_and_not_who_comes_next(
    engine, honest, plugin, scene, look, states, count
):
    # The first bytes alone look like no mistake: the next message is read as their end.
    path = plugin(
        "scribbler",
        f"""
        class Scribbler(Base):
            name = "scribbler"
            def evaluate(self, view):
                os.write(int(sys.argv[1]), bytes([255]) * {count})
                return ()
        """,
    )
    report = look(engine(path, honest), scene.run(30, {}))
    assert states(report) == {"honest": "waiting", "scribbler": "muted"}


def test_an_idle_worker_that_dies_is_replaced(engine, plugin, scene, tmp_path, look):
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
    descriptor = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert ends(descriptor)
    report = look(one, scene.run(10, {}))
    assert [f.window.samples for f in report.findings] == [4]
    assert report.errors == ()
    assert int((tmp_path / "pid").read_text()) != pid


def test_a_worker_that_never_starts_is_told(engine, honest, scene, monkeypatch, look, said):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    one = engine(honest)
    report = look(one, scene.run(30, {}))
    assert report.findings == ()
    assert report.errors[0].where == "detection"
    assert "exit status 1" in report.errors[0].message
    said(report.errors[0].message, report.errors[0].hint)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            "RuntimeError('no' + chr(27) + '[31m' + chr(10) + 'room')",
            "RuntimeError: no\ufffd[31m room",
        ),
        ("RuntimeError('x' * 9999)", "RuntimeError: xxx"),
    ],
)
def test_why_a_worker_ended_is_told_on_one_line(engine, plugin, scene, look, error, words):
    path = plugin(
        "saboteur",
        f"""
        from gpumon.detect.worker.tick_copy import Replica
        def fail(*_given):
            raise {error}
        Replica.take = fail
        class Saboteur(Base):
            name = "saboteur"
            def evaluate(self, view):
                return ()
        """,
    )
    message = look(engine(path), scene.run(30, {})).errors[0].message
    assert message.startswith(f"the worker ended: exit status 1: {words}")
    assert message.endswith(")")
    assert "(saboteur.py:" in message
    assert len(message) < 256


def test_a_detector_without_memory_left_is_told_as_that(engine, plugin, scene, look, said):
    path = plugin(
        "greedy",
        """
        class Greedy(Base):
            name = "greedy"
            def evaluate(self, view):
                raise MemoryError
        """,
    )
    report = look(engine(path), scene.run(30, {}))
    assert report.errors[0].message.endswith("ended: exit status 1: MemoryError")
    said(report.errors[0].message, report.errors[0].hint)


def test_what_plugins_print_goes_nowhere(engine, plugin, scene, capfd, look):
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
    worker, child = (int(pid) for pid in heard(tmp_path / "pids").split())
    descriptor = os.pidfd_open(child)
    one.close()
    assert not Path(f"/proc/{worker}").exists()
    assert ends(descriptor)
    assert not one.submit(scene.run(10, {}))
    assert one.finish(LONG_S) is None


def test_what_a_crashed_detector_started_is_ended_too(engine, plugin, scene, tmp_path, states):
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
    descriptor = os.pidfd_open(int(heard(tmp_path / "child")))
    tell(tmp_path / "go", "go")
    assert states(one.finish(LONG_S)) == {"leaver": "muted"}
    assert ends(descriptor)


DAEMONS = {
    "a session of its own": "os.fork() == 0 and (os.setsid(), be('one'))",
    "forked twice": "os.fork() == 0 and (os.setsid(), os.fork() and os._exit(0), be('one'))",
    "a chain": "os.fork() == 0 and (os.setsid(), os.fork() and os._exit(0), os.setsid(),"
    " os.fork() and be('one'), os.fork() and os._exit(0), be('two'))",
}
"""What a plugin starts that leaves the worker's group, session and children, as a daemon does."""


@pytest.mark.parametrize("end", ["close", "crash", "overrun", "kill"])
@pytest.mark.parametrize("kind", DAEMONS)
def test_a_daemon_that_a_plugin_leaves_behind_ends_with_the_worker(
    engine, plugin, scene, tmp_path, kind, end
):
    names = ("one", "two") if kind == "a chain" else ("one",)
    for name in (*names, "go"):
        os.mkfifo(tmp_path / name)
    last = {"crash": "os._exit(1)", "kill": "os.kill(os.getpid(), 9)"}.get(end, "time.sleep(1000)")
    path = plugin(
        "daemon",
        f"""
        import signal
        def be(name):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open({str(tmp_path)!r} + "/" + name, "w").write(str(os.getpid()))
            time.sleep(1000)
        class Daemon(Base):
            name = "daemon"
            def evaluate(self, view):
                {DAEMONS[kind]}
                open({str(tmp_path / "go")!r}).read()
                {last}
        """,
    )
    one = engine(path, budget_s=5.0 if end == "overrun" else LONG_S)
    one.submit(scene.run(30, {}))
    left = [os.pidfd_open(int(heard(tmp_path / name))) for name in names]
    if end != "overrun":
        tell(tmp_path / "go", "go")
    if end == "close":
        one.close()
    else:
        one.finish(LONG_S)
    assert all(map(ends, left))


def test_the_supervisor_outlives_a_plugin_that_ends_its_own_group(engine, plugin, scene, look):
    path = plugin(
        "grouped",
        """
        class Grouped(Base):
            name = "grouped"
            def evaluate(self, view):
                os.killpg(0, 15)
                time.sleep(1000)
        """,
    )
    assert "signal 15" in look(engine(path), scene.run(30, {})).errors[0].message


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
from gpumon.detect.engine.engine import DetectionEngine
from gpumon.detect.scene import Scene
scene = Scene()
scene.job("7", scene.node("n", 2))
engine = DetectionEngine(({path!r},), installed=False)
engine.submit(scene.run(30, {{}}))
engine.finish({LONG_S})
"""
    with subprocess.Popen([sys.executable, "-c", code]) as monitor, bounded(monitor):
        worker = int(heard(tmp_path / "pid"))
        descriptor = os.pidfd_open(worker)
    assert ends(descriptor)
