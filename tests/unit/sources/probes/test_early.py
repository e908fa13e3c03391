"""This machine's probe, started before anybody asked for it."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from errno import EMFILE
from pathlib import Path
from signal import SIGKILL
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING

import pytest

from gpumon.cli import main
from gpumon.fleet.sampler import sampler
from gpumon.fleet.sampler.sampler import Sampler
from gpumon.sources.probes import early
from gpumon.sources.probes.local import local_endpoint
from gpumon.sources.probes.program import start_options
from gpumon.sources.probes.stream import Stream
from tests.worlds.probe import PATIENCE_S, Probe, children, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gpumon.model.records.tick import Tick
    from tests.lab.standin.driver import Standin

    Start = Callable[..., Standin]

OPTIONS = start_options({"gpm": True, "tiers": []}, 0.1, once=True)


@pytest.fixture(autouse=True)
def _no_child_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(early, "_END_LIMIT_S", PATIENCE_S)
    before = children()
    yield
    early.end()
    eventually(lambda: children() <= before, "no child is left")


def test_the_first_probe_of_this_machine_is_the_child_that_waits(standin: Start) -> None:
    node = standin("h100", gpus=2)
    before = children()
    early.begin()
    (begun,) = children() - before
    with Probe(local_endpoint("gpu03"), once=True) as probe:
        frame = probe.frame()
        assert probe.pid == begun
    assert frame.node == "gpu03"
    assert frame.block("gpu").keys == tuple(node.state.values[f"gpu.{i}.uuid"] for i in range(2))


def test_one_that_was_told_reads_before_anybody_takes_it(standin: Start) -> None:
    node = standin("h100", gpus=1)
    before = children()
    early.begin()
    (begun,) = children() - before
    early.prepare(OPTIONS)
    # A second word would be taken for a wish: only the first counts.
    early.prepare({**OPTIONS, "gpm": False})
    assert early._begun[0].options == OPTIONS
    stream = Stream(local_endpoint(), "local", OPTIONS)
    try:
        assert stream._process.pid == begun
        assert not stream.has_outgoing
        frame = eventually(lambda: stream.read(0.0, 0.0)[0], "it reports")[0]
        assert frame.block("gpu").keys == (node.state.values["gpu.0.uuid"],)
    finally:
        stream.end()
        assert stream.reap(PATIENCE_S)


def test_one_that_was_told_otherwise_is_ended_and_another_started(standin: Start) -> None:
    standin("h100", gpus=1)
    before = children()
    early.begin()
    (begun,) = children() - before
    early.prepare({**OPTIONS, "period_s": 7.0})
    stream = Stream(local_endpoint(), "local", OPTIONS)
    try:
        assert stream._process.pid != begun
        assert begun not in children()
        assert stream.has_outgoing
    finally:
        stream.end()
        assert stream.reap(PATIENCE_S)


def test_a_child_that_is_gone_is_told_nothing_and_whoever_takes_it_learns_why() -> None:
    child = early._start((sys.executable, "-I", "-S", "-c", "raise SystemExit('no driver')"))
    assert child is not None
    assert child.wait(PATIENCE_S) == 1
    child.give_program(OPTIONS)
    assert child.options is None
    assert child.stderr.read() == b"no driver\n"
    child.close()


def test_the_next_one_is_started_as_ever(standin: Start) -> None:
    standin("h100", gpus=1)
    early.begin()
    with Probe(local_endpoint(), once=True) as first, Probe(local_endpoint(), once=True) as second:
        assert first.pid != second.pid
        assert second.frame().block("gpu").keys == first.frame().block("gpu").keys


def test_a_child_that_nobody_takes_is_ended() -> None:
    before = children()
    early.begin()
    assert children() - before
    early.end()
    assert children() <= before
    assert early.take() is None


def test_a_child_that_the_kernel_holds_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    early.begin()
    (held,) = children() - before
    answers = itertools.repeat((0, 0), 10_000)
    with monkeypatch.context() as patch:
        patch.setattr(early, "_END_LIMIT_S", 0.02)
        patch.setattr(os, "kill", lambda *_: None)
        patch.setattr(os, "waitpid", lambda *_: next(answers))
        early.end()
    assert early.take() is None
    os.kill(held, SIGKILL)
    os.waitpid(held, 0)


def test_a_child_that_cannot_be_started_is_left_to_who_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> tuple[str, ...]:
        raise FileNotFoundError

    monkeypatch.setattr(early, "early_start", missing)
    early.begin()
    assert early.take() is None


def test_the_child_has_pipes_and_a_session_of_its_own_and_nothing_else_that_is_open() -> None:
    code = (
        "import os; numbers = sorted(map(int, os.listdir('/proc/self/fd')));"
        "print(os.getsid(0) == os.getpid(), numbers)"
    )
    with Path(os.devnull).open() as left_open:
        os.set_inheritable(left_open.fileno(), True)
        child = early._start((sys.executable, "-I", "-S", "-c", code))
        assert child is not None
        # The last one is the folder's own, while it is read.
        assert child.stdout.read() == b"True [0, 1, 2, 3]\n"
        assert child.stderr.read() == b""
    assert child.wait() == 0
    child.close()


def _of_the_program(code: str) -> list[str]:
    """What a program prints that has a probe started, and its child beside it as `child`."""
    head = (
        "import os, sys, threading\nfrom pathlib import Path\n"
        "from gpumon.sources.probes import early\n"
        # The kernel lets a parent go on a moment before the child's words can be read.
        "def words(pid):\n"
        "    while not (found := Path(f'/proc/{pid}/cmdline').read_bytes()): pass\n"
        "    return found\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_program_makes_the_child_of_itself() -> None:
    code = (
        "left_open = os.open(os.devnull, os.O_RDONLY)\n"
        "early.begin(forks=True)\n"
        "child = early._begun[0]\n"
        "print(child.pid != os.getpid(), words(child.pid) == words('self'))\n"
        "child.stdin.write(b'112\\n' + b\"import os; print(os.getsid(0) == os.getpid(), "
        "sorted(map(int, os.listdir('/proc/self/fd'))), flush=True)\".ljust(112))\n"
        "print(child.stdout.read().decode().strip(), child.wait(9))\n"
    )
    assert _of_the_program(code) == ["True True", "True [0, 1, 2, 3] 1"]


def test_a_program_with_threads_starts_another_python() -> None:
    code = (
        "over = threading.Event(); threading.Thread(target=over.wait).start()\n"
        "early.begin(forks=True)\n"
        "print(b'exec(b.read(' in words(early._begun[0].pid))\n"
        "early.end(); over.set()\n"
    )
    assert _of_the_program(code) == ["True"]


def test_a_child_of_the_program_tells_why_it_ends_and_runs_nothing_of_the_program() -> None:
    code = (
        "try:\n    child = early._fork(\"raise OSError('no driver')\")\n"
        "finally:\n    print('here', flush=True)\n"
        "print(child.stderr.read().decode().splitlines()[-1], child.wait(9), child.stdout.read())\n"
    )
    assert _of_the_program(code) == ["here", "OSError: no driver 1 b''"]


def test_the_end_of_a_child_is_told_as_popen_tells_it() -> None:
    child = early._start((sys.executable, "-I", "-S", "-c", "input(); raise SystemExit(3)"))
    assert child is not None
    assert child.poll() is None
    with pytest.raises(TimeoutExpired):
        child.wait(0)
    child.stdin.write(b"\n")
    assert child.wait(PATIENCE_S) == 3
    assert child.poll() == child.returncode == 3
    child.kill()
    child.close()


def test_a_child_that_somebody_else_collected_has_ended() -> None:
    child = early._start((sys.executable, "-I", "-S", "-c", "pass"))
    assert child is not None
    os.waitpid(child.pid, 0)
    assert child.poll() == 0
    child.close()


def test_with_a_standard_stream_closed_the_child_is_started_by_who_needs_it() -> None:
    code = (
        "import os, sys; os.close(0)\n"
        "from gpumon.sources.probes import early\n"
        "early.begin()\n"
        "print(early.take(), sorted(map(int, os.listdir('/proc/self/fd'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None [0, 1, 2]\n"


def test_where_descriptors_run_out_none_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made, opened = os.pipe, []

    def pipe() -> tuple[int, int]:
        if opened:
            raise OSError(EMFILE, "too many open files")
        opened.extend(made())
        return opened[0], opened[1]

    monkeypatch.setattr(os, "pipe", pipe)
    early.begin()
    assert early.take() is None
    for number in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)


def test_nothing_is_imported_before_the_child_is_started() -> None:
    code = (
        "import sys; before = set(sys.modules); import gpumon.cli;print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"typing", "enum", "re", "json", "subprocess", "argparse"} & set(done.stdout.split())


def test_a_child_that_its_source_has_not_taken_yet_is_left_to_it(
    standin: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    standin("h100", gpus=1)
    take, sample, end = early.take, Sampler.sample_for, early.end
    is_looking, waiting = threading.Event(), []

    def late(options: Mapping[str, object] | None = None) -> early.Child | None:
        assert is_looking.wait(PATIENCE_S)
        return take(options)

    def sampling(sampler: Sampler, seconds: float) -> Tick:
        is_looking.set()
        return sample(sampler, seconds)

    def noted() -> None:
        waiting.extend(early._begun)
        is_looking.set()
        end()

    monkeypatch.setattr(sampler, "GRACE_S", PATIENCE_S)
    monkeypatch.setattr(early, "take", late)
    monkeypatch.setattr(Sampler, "sample_for", sampling)
    monkeypatch.setattr(early, "end", noted)
    assert main(["--json", "--for", "0", "local"]) == 0
    assert capsys.readouterr().err == ""
    assert waiting == []


def test_the_command_line_begins_it_for_this_machine_and_ends_what_was_begun_in_vain(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start, begun = early._start, []

    def noted(argv: tuple[str, ...]) -> early.Child | None:
        begun.append(start(argv))
        return begun[-1]

    monkeypatch.setattr(early, "_start", noted)
    assert main(["--json", "--steps", "local"]) == 2
    assert "--steps shows one job" in capsys.readouterr().err
    assert [child.returncode for child in begun] == [-SIGKILL]
    assert main(["--json", "--steps", "demo"]) == 2
    assert len(begun) == 1
