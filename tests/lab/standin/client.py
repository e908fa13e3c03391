"""Child processes for tests: a reader with the official binding, a program that uses GPUs."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.lab.standin import workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.lab.standin.driver import Standin

PATIENCE_S = 60
# Evaluates one expression a line with the real binding; errors come back as their code.
CHILD = """
import ctypes, json, os, re, sys, threading
import pynvml as n
lib = lambda: ctypes.CDLL("libnvidia-ml.so.1")
def gpu(index):
    return n.nvmlDeviceGetHandleByIndex(index)
def uuids():
    return [n.nvmlDeviceGetUUID(gpu(i)) for i in range(n.nvmlDeviceGetCount())]
def fields(index, *ids):
    got = n.nvmlDeviceGetFieldValues(gpu(index), list(ids))
    return [f.value.ullVal if f.nvmlReturn == 0 else {"error": f.nvmlReturn} for f in got]
def processes(index):
    found = n.nvmlDeviceGetComputeRunningProcesses(gpu(index))
    return [[p.pid, p.usedGpuMemory] for p in found]
def gpm(index, *ids, version=1, samples=2):
    pair = [n.nvmlGpmSampleAlloc() for _ in range(2)]
    for sample in pair[:samples]:
        n.nvmlGpmSampleGet(gpu(index), sample)
    get = n.c_nvmlGpmMetricsGet_t(version=version, numMetrics=len(ids))
    get.sample1, get.sample2 = pair
    for i, metric in enumerate(ids):
        get.metrics[i].metricId = metric
    n.nvmlGpmMetricsGet(get)
    got = get.metrics[:len(ids)]
    return [m.value if m.nvmlReturn == 0 else {"error": m.nvmlReturn} for m in got]
def register(index):
    global events
    events = n.nvmlEventSetCreate()
    n.nvmlDeviceRegisterEvents(gpu(index), n.nvmlEventTypeXidCriticalError, events)
def next_event(timeout_ms):
    event = n.nvmlEventSetWait_v2(events, timeout_ms)
    return [n.nvmlDeviceGetUUID(event.device), event.eventType, event.eventData]
def hangs(call):
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(0.2)
    return thread.is_alive()
for line in sys.stdin:
    try:
        answer = eval(line)
    except n.NVMLError as error:
        answer = {"error": error.value}
    except n.NVMLLibraryMismatchError:
        answer = "mismatch"
    print(json.dumps(answer), flush=True)
os._exit(0)
"""


@contextmanager
def client(standin: Standin, dev_dir: Path | None = None) -> Iterator[Callable[[str], Any]]:
    """A process with the official binding; what the library grumbles about fails the test."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        env=standin.env(dev_dir),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdin
    assert child.stdout
    assert child.stderr

    questions, answers, complaints = child.stdin, child.stdout, child.stderr

    def ask(expression: str) -> Any:
        questions.write(expression + "\n")
        questions.flush()
        ready, _, _ = select.select([answers], [], [], PATIENCE_S)
        line = answers.readline() if ready else ""
        assert line, f"no answer to {expression}: {child.poll()}"
        return json.loads(line)

    try:
        ask("n.nvmlInit()")
        yield ask
        questions.close()
        assert complaints.read() == ""
    finally:
        child.kill()
        child.wait()
        for pipe in (questions, answers, complaints):
            pipe.close()


@contextmanager
def running(
    standin: Standin, *options: str, **environ: str
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The pretend GPU program, past the line that says its contexts exist."""
    program = subprocess.Popen(
        [sys.executable, workload.__file__, *options],
        env={**standin.env(), **environ},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout
    try:
        yield program, json.loads(program.stdout.readline())
    finally:
        program.kill()
        program.communicate()
