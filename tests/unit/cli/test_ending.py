"""The end of a command, told by signals that may come at any instant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

from gpumon.cli.ending import Ending
from tests.probing import PATIENCE_S

STORM = """
import signal
from gpumon.cli.ending import Ending

for attempt in range(5_000):
    with Ending(signal.SIGALRM) as ending:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + attempt % 100))
        ending.wait()
print("ended")
"""


def test_it_waits_no_longer_than_it_may_and_once_told_not_at_all():
    with Ending() as ending:
        assert not ending.wait(0.0)
        ending.tell()
        ending.tell()
        assert ending.wait()
        assert ending.wait(0.0)


def test_another_thread_ends_the_wait():
    with Ending() as ending:
        teller = threading.Thread(target=ending.tell)
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
    ending.tell()
    assert signal.set_wakeup_fd(-1) == -1


def test_a_signal_at_any_instant_before_or_in_the_wait_ends_it():
    words = [sys.executable, "-c", STORM]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.stdout, done.stderr) == ("ended\n", "")
