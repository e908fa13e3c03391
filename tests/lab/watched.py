"""A gpumon that is watched at work, and the probes that it leaves or does not leave behind."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

    from tests.lab.cluster import Cluster

LEASE_S = 30
"""Without a word from the monitor a probe ends itself after this long."""

PROBE = "b=sys.stdin.buffer"
"""Part of the fixed command line that every probe is started with."""


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
    try:
        yield process
    finally:
        cluster.signal(process)
        process.kill()
        process.communicate()


def next_document(
    process: subprocess.Popen[str], holds: Callable[[Any], bool], seconds: float = 60
) -> Any:
    """The first document of a stream for which something holds."""
    deadline = time.monotonic() + seconds
    document = None
    assert process.stdout is not None
    while time.monotonic() < deadline:
        document = json.loads(process.stdout.readline())
        if holds(document):
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
