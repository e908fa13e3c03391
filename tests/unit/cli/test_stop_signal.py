"""The end of a command, told by signals that may come at any instant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from gpumon.cli.stop_signal import Ending
from tests.worlds.probe import PATIENCE_S

STORM = """
import signal
from gpumon.cli.stop_signal import Ending

for attempt in range(5_000):
    with Ending(signal.SIGALRM) as ending:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + attempt % 100))
        ending.wait()
print("ended")
"""


INTERRUPTED = """
import os, runpy, signal, sys

at, sys.argv = sys.argv[1], ["gpumon", *sys.argv[2:]]

class Interrupting:
    def find_spec(name, *_):
        if name == at:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting)
runpy.run_module("gpumon", run_name="__main__", alter_sys=True)
"""
"""gpumon that is interrupted as it begins to import something."""


SWALLOWING = """
import runpy, signal, sys, weakref

at, sys.argv = sys.argv[1], ["gpumon", *sys.argv[2:]]

class Thing:
    pass

class Interrupting:
    def find_spec(name, *_):
        if name == at:
            thing = Thing()
            held = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
            del thing

sys.meta_path.insert(0, Interrupting)
runpy.run_module("gpumon", run_name="__main__", alter_sys=True)
"""
"""The same where no exception comes through: imports themselves end with such a call."""


@pytest.mark.parametrize(
    "module", ["gpumon.cli", "gpumon.cli.commands.watch", "gpumon.sources.open"]
)
def test_an_interrupt_is_not_swallowed_by_an_import(module):
    command = [sys.executable, "-c", SWALLOWING, module, "--json", "--for", "0", "demo:1x1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    "module",
    ["gpumon.cli", "gpumon.sources.probes.early", "gpumon.cli.exits", "gpumon.cli.commands.watch"],
)
@pytest.mark.parametrize("is_ignored", [False, True], ids=["heard", "ignored, as by nohup"])
def test_an_interrupt_while_gpumon_starts_leaves_no_traceback(module, is_ignored):
    command = [sys.executable, "-c", INTERRUPTED, module, "--json", "--for", "0", "demo:1x1"]
    if is_ignored:
        command = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr == ""
    assert done.returncode in ([0] if is_ignored else [130, -signal.SIGINT])
    assert bool(done.stdout) == is_ignored


def test_it_waits_no_longer_than_it_may_and_once_told_not_at_all():
    with Ending() as ending:
        assert not ending.wait(0.0)
        ending.end_wait()
        ending.end_wait()
        assert ending.wait()
        assert ending.wait(0.0)


def test_another_thread_ends_the_wait():
    with Ending() as ending:
        teller = threading.Thread(target=ending.end_wait)
        teller.start()
        assert ending.wait(PATIENCE_S)
        teller.join()


def test_its_signals_end_the_wait_and_others_do_not():
    before = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGUSR2)
    heard = []
    try:
        signal.signal(signal.SIGUSR2, lambda *_: heard.append(True))
        with Ending(signal.SIGUSR1) as ending:
            os.kill(os.getpid(), signal.SIGUSR2)
            assert not ending.wait(0.0)
            assert heard == [True]
            os.kill(os.getpid(), signal.SIGUSR1)
            assert ending.wait(PATIENCE_S)
    finally:
        signal.signal(signal.SIGUSR2, before[1])
    assert signal.getsignal(signal.SIGUSR1) == before[0]


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        with Ending(signal.SIGUSR1) as ending:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert not ending.wait(0.0)
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_told_by_a_thread_that_outlives_it_writes_nowhere():
    with Ending() as ending:
        pass
    ending.end_wait()
    assert signal.set_wakeup_fd(-1) == -1


def test_a_signal_at_any_instant_before_or_in_the_wait_ends_it():
    words = [sys.executable, "-c", STORM]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.stdout, done.stderr) == ("ended\n", "")
