"""A gpumon that is watched at work, and the probes that it leaves or does not leave behind."""

from __future__ import annotations

import json
import queue
import threading
import time
import weakref
from contextlib import contextmanager
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from tests.lab.cluster import Cluster

PATIENCE_S = 240.0
"""Longest wait for what is sure to come. It is long because Slurm may rest for 20 times as long as
a call took, and on a machine at its limit a call of slurmrestd takes seconds; where all is well
nobody waits for it."""

LEASE_S = 30
"""Without a word from the monitor a probe ends itself after this long."""

PROBE = "b=sys.stdin.buffer"
"""Part of the fixed command line that every probe is started with."""

_LINES: weakref.WeakKeyDictionary[Any, queue.SimpleQueue[str]] = weakref.WeakKeyDictionary()
"""What was read of the output of each process."""


def job_of(document: dict[str, Any], job_id: int) -> Any:
    """The one job with this number."""
    (job,) = [job for job in document["jobs"] if job["job_id"] == str(job_id)]
    return job


def probes(cluster: Cluster, node: str) -> set[str]:
    """PIDs of the Python processes on a node that run a probe."""
    found = cluster.run_on(node, ["pgrep", "-f", f"^[^ ]*python.*{PROBE}"], check=False)
    return set(found.stdout.split())


@contextmanager
def watching(cluster: Cluster, gpumon: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A gpumon that streams documents."""
    process = cluster.popen_as("alice", [gpumon, "--watch", "1", *words])
    _lines_of(process)
    try:
        yield process
    finally:
        end(cluster, process)


def end(cluster: Cluster, process: subprocess.Popen[str]) -> None:
    """Kills a gpumon that is watched, and gives its pipes back."""
    lines = _lines_of(process)
    cluster.signal(process)
    process.kill()
    process.wait()
    while lines.get(timeout=60):
        pass
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def _lines_of(process: subprocess.Popen[str]) -> queue.SimpleQueue[str]:
    """What a gpumon prints, read at once: a full pipe would stop it while the test waits."""
    found = _LINES.get(process)
    if found is None:
        found = _LINES[process] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(process.stdout, found), daemon=True).start()
    return found


def _read(stream: IO[str], lines: queue.SimpleQueue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def next_document(
    process: subprocess.Popen[str],
    holds: Callable[[Any], bool],
    seconds: float = PATIENCE_S,
    *,
    after: float = 0.0,
) -> Any:
    """The first document of a stream for which something holds.

    Args:
        process: of a gpumon, some of whose documents may have been waiting here for long.
        holds: what is asked of a document.
        seconds: until it is given up.
        after: Unix time; documents that were made before are passed over.
    """
    deadline = time.monotonic() + seconds
    document = None
    lines = _lines_of(process)
    while time.monotonic() < deadline:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if not line:
            lines.put("")
            break
        document = json.loads(line)
        made_at = datetime.fromisoformat(document["generated_at"]).timestamp()
        if made_at >= after and holds(document):
            return document
    raise AssertionError(f"no such document; the last errors: {document and document['errors']}")


def live(document: dict[str, Any], *names: str) -> bool:
    """Whether every named node has fresh telemetry."""
    ages = {node["name"]: node["age_s"] for node in document["nodes"] if not node["stale"]}
    return all(ages.get(name) is not None for name in names)


def gone(cluster: Cluster, node: str, old: set[str], seconds: float) -> None:
    """Wait until none of the old probes of a node is left."""
    cluster.wait_until(
        lambda: not (probes(cluster, node) & old), f"probes {old} of {node} gone", seconds
    )
