"""Shared memory of a node, or a disk for temporary files, has no room left."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Detector, Evidence, Severity, Window
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.phrases import clock_time, gib, span
from gpumon_detectors.evidence.symptom import since_when

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumon.plugin import Finding, NodeFacts, View

_BLOCK: Final = "local_filesystem"
_FREE: Final = "free_bytes"
_SIZE: Final = "size_bytes"

_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - nothing is written there
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/")  # noqa: S108 - nothing is written there
"""Where programs write unless told otherwise; `/` holds the others where they are no mounts."""

_LEAST_FREE_BYTES: Final = 64 * 2**20
"""Less than this is no room: it is all that a container has by default, and NCCL of four GPUs does
not fit into it, whose segments take 9.6 MB and more each (NVIDIA/nccl, issues 290 and 525)."""

_LEAST_TAKEN: Final = 0.9
"""And so large a share must be taken: of what is small itself much may be free (our choice)."""

_SPAN_S: Final = 24 * 3600.0
"""Since when it is full is looked for within the last day (our choice)."""

_PASSING_S: Final = 60.0
"""What is through by then passed: six looks, as file systems are asked every 10 s (our choice)."""

_LISTED: Final = 8
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""

_PATH: Final = re.compile(r"/[0-9A-Za-z_./-]{0,80}")


class _Full(NamedTuple):
    """One file system without room."""

    path: str
    free_bytes: float
    size_bytes: float
    since: float
    samples: int
    is_open: bool
    """Whether it may have been full before it was observed."""


class FilesystemFull(Detector):
    """Claims that a file system that programs rely on has no room left on a node.

    `/dev/shm`, through which data loaders and NCCL hand over data, `/tmp`, `/var/tmp`, `/`, and
    what a site names as `scratch`: less than 64 MiB are left to users, and 90 % and more are taken.
    In shared memory a process, such as a loader's worker, is ended by a bus error (SIGBUS, mmap(2))
    when it touches a page that does not fit, and NCCL does not start. Elsewhere writes fail
    (ENOSPC): of a checkpoint, a cache of kernels or a log.

    Nothing is claimed in the first minute. *Supported* after 5 minutes, *established* after 15: a
    peak while something is unpacked or handed over is gone by then.

    What looks alike: one that is small and has room, as of a container; one that is used to a large
    part by design with more than 64 MiB left; an image that is always full, or a read-only file
    system: a probe reports neither; one whose size is not known. Other disks may be full of data to
    which nothing is added, and are not claimed. Whether inodes are used up is not seen, nor is what
    a container has of its own.

    Who holds it is not known: a probe reads sizes, and no names of files.

    It costs no GPU time as such; what waits or ends because of it has a class of its own.
    """

    name = "filesystem_full"
    version = "1"
    finding_classes = ("filesystem_full",)
    needs = (_FREE,)
    supported_after_s = 300.0
    established_after_s = 900.0
    subjects = "node"

    def __init__(self, scratch: str = "/scratch,/local,/nvme") -> None:
        self.scratch = scratch

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per node, which names all its file systems without room."""
        scratch = [path.strip() for path in self.scratch.split(",")]
        order = {path: n for n, path in enumerate((_SHARED_MEMORY, *_TEMPORARY, *scratch))}
        for name, paths in _short(view, order).items():
            node = view.nodes.get(name)
            if node is None or not node.has_telemetry or node.is_stale:
                continue
            sizes = _sizes(node)
            found = [full for path in paths if (full := _full(view, node, path, sizes.get(path)))]
            if found:
                found.sort(key=lambda full: order[full.path])
                yield self._finding(view, node, found)

    def _finding(self, view: View, node: NodeFacts, found: Sequence[_Full]) -> Finding:
        first = found[0]
        jobs = view.jobs_on(node.name)
        under = f" (job {', '.join(job.job.label for job in jobs[:_LISTED])})" if jobs else ""
        others = f"; full too: {', '.join(full.path for full in found[1:])}" if found[1:] else ""
        return view.finding(
            self,
            subject=node.subject,
            severity=Severity.WARNING,
            summary=f"{node.name}{under}: {first.path} is full {_since(view, first)}, "
            f"{_room(first)}{others}",
            window=Window(first.since, view.now, first.samples),
            evidence=[
                *(Evidence(_FREE, node.subject, _effect(full), full.free_bytes) for full in found),
                Evidence(_FREE, node.subject, "not seen: who holds it, as names of files are not"),
            ],
            advice=tuple(_steps(view, node.name, first.path)),
            machine_advice=tuple(
                _machine_steps(first.path, has_jobs=commands.has_slurm(view, node.name))
            ),
        )


def _short(view: View, order: Mapping[str, int]) -> dict[str, list[str]]:
    """By node the file systems that matter and have no room now."""
    found: dict[str, list[str]] = {}
    entities, free = view.history.newest_of_all(_FREE, _BLOCK)
    for place in np.flatnonzero(free < _LEAST_FREE_BYTES).tolist():
        name, _, path = entities[place].partition("/")
        if path in order:
            found.setdefault(name, []).append(path)
    return found


def _sizes(node: NodeFacts) -> dict[str, float]:
    """Bytes of each of a node's file systems, as far as they are told."""
    rows = node.block(_BLOCK)
    sizes = ((path, rows.value(_SIZE, row)) for row, path in enumerate(rows.keys))
    return {path: float(size) for path, size in sizes if size}


def _full(view: View, node: NodeFacts, path: str, size_bytes: float | None) -> _Full | None:
    """How a file system is full; None where it is not, or where it may just pass."""
    if not size_bytes:
        return None
    table = view.table((f"{node.name}/{path}",), (_FREE,), _SPAN_S)
    free = table.columns[_FREE][:, 0]
    least = min(_LEAST_FREE_BYTES, (1.0 - _LEAST_TAKEN) * size_bytes)
    is_known = np.isfinite(free)
    if not is_known.any() or not free[is_known][-1] < least:
        return None
    since, samples = since_when(view, table.times, free < least, is_known)
    if view.now - since < _PASSING_S:
        return None
    is_open = since <= float(table.times[is_known][0])
    return _Full(
        path=path,
        free_bytes=float(free[is_known][-1]),
        size_bytes=size_bytes,
        since=since,
        samples=samples,
        is_open=is_open,
    )


def _since(view: View, full: _Full) -> str:
    length = span(view.now - full.since)
    if full.is_open:
        return f"for at least {length} (observed since {clock_time(full.since)})"
    return f"since {clock_time(full.since)} ({length})"


def _room(full: _Full) -> str:
    size = full.size_bytes
    whole = gib(size) if size >= 2**30 else f"{size / 2**20:.0f} MiB"
    return f"{full.free_bytes / 2**20:.0f} MiB of {whole} left"


def _effect(full: _Full) -> str:
    effect = (
        "a process that touches more ends with a bus error"
        if full.path == _SHARED_MEMORY
        else "what is written there fails"
    )
    return f"{full.path} has {_room(full)}: {effect}"


def _steps(view: View, node: str, path: str) -> Iterator[str]:
    """What who works on the node can do."""
    shown = _PATH.fullmatch(path) is not None
    if shown:
        look = "ls -lS" if path == _SHARED_MEMORY else "du -xh --max-depth=1"
        yield f"See what lies there and whose it is: df -h {path}; {look} {path}"
    if path == _SHARED_MEMORY:
        yield "Remove what your ended runs left there, then hand over less at once: fewer workers."
        yield "A container has its own, 64 MiB by default: docker run --shm-size=16g …"
    else:
        yield "Remove what you no longer need; point TMPDIR and caches of kernels elsewhere."
    yield from commands.report_to_admins(view, node)


def _machine_steps(path: str, *, has_jobs: bool) -> Iterator[str]:
    """What who runs the node can do, beside its jobs where it has any."""
    if path == _SHARED_MEMORY:
        yield "Remove what no process holds: fuser -v /dev/shm/* names the holders of each file."
        if has_jobs:
            yield (
                "Where jobs leave it behind: job_container/tmpfs gives each its own, or an epilog."
            )
        yield "To make it larger: mount -o remount,size=… /dev/shm, at the cost of memory."
    else:
        if not has_jobs:
            yield "Remove what ended programs left, for instance by systemd-tmpfiles --clean."
            return
        yield "Remove what ended jobs left, in an epilog or by systemd-tmpfiles --clean."
        yield "job_container/tmpfs gives each job its own /tmp, which is removed with it."
