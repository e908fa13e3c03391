"""Which entities of history show a piece of evidence: GPUs, links, ports, jobs' cgroups, nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.report.facts.rows import BlockRow, block_rows, host_row, rows_by_gpu
from gpumon.report.text.units import index_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumon.model.finding import Evidence, Finding
    from gpumon.model.records.cluster import Node
    from gpumon.report.facts.rows import Readable
    from gpumon.report.facts.tick_index import Digest

_LINKS: Final = re.compile(r"\blinks? (\d{1,3}(?:, \d{1,3})*)")
"""How evidence names NVLinks: `link 4`, `link 4, 7, 9`."""


class Place(NamedTuple):
    """One entity whose past shows a field."""

    entity: Readable
    """As it is now."""
    name: str
    """Its name in history."""
    title: str
    """As people call it."""


def places(digest: Digest, finding: Finding, evidence: Evidence) -> tuple[Place, ...]:
    """The entities that evidence is about, the first named first; none: no curve shows it.

    Evidence names a GPU, a node or a job, and its words name the link or the port. If they name
    none, it is the one that is least like the others.
    """
    field = CATALOGUE.get(evidence.field)
    if field is None:
        return ()
    if field.block in ("gpu", "link"):
        uuid = gpu_of(digest, finding, evidence)
        if field.block == "gpu":
            return _gpu(digest, uuid)
        return _links(digest, uuid, evidence)
    nodes = tuple(_nodes(digest, finding, evidence))
    if field.block == "node":
        return tuple(Place(host_row(node), node.name, node.name) for node in nodes)
    if field.block == "cgroup":
        job_id = _job_of(finding, evidence)
        return tuple(
            Place(row, f"{node.name}/{row.key}", f"job {row.key} on {node.name}")
            for node in nodes
            for row in block_rows(node, "cgroup")
            if row.key == job_id
        )
    if field.block in ("nic", "filesystem", "local_filesystem"):
        return tuple(
            Place(row, f"{node.name}/{row.key}", f"{node.name} {row.key}")
            for node in nodes
            for row in _meant(block_rows(node, field.block), evidence)
        )
    return ()


def gpu_of(digest: Digest, finding: Finding, evidence: Evidence) -> str:
    """UUID of the GPU that a piece of evidence is about; empty: it is about none."""
    found = (gpu_of_subject(digest, finding, s) for s in (evidence.subject, finding.subject))
    return next((uuid for uuid in found if uuid), "")


def gpu_of_subject(digest: Digest, finding: Finding, subject: str) -> str:
    """The GPU that a subject is, or one of its job; empty: none."""
    kind, _, name = subject.partition(":")
    if kind == "gpu":
        return name
    if kind != "job":
        return ""
    job_id, _, rank = name.partition("/rank:")
    return next(iter(finding.gpus), "") or _gpu_of_job(digest, job_id, rank)


def _gpu_of_job(digest: Digest, job_id: str, number: str) -> str:
    view = digest.tick.job(job_id)
    if view is None:
        return ""
    for rank in view.ranks:
        if number and str(rank.rank) == number and rank.gpu_uuids:
            return rank.gpu_uuids[0]
    return view.gpu_uuids[0] if view.gpu_uuids else ""


def gpu_title(digest: Digest, uuid: str) -> str:
    """`gpu03:4`; empty where the GPU is not listed."""
    gpu = digest.tick.gpus.get(uuid)
    return "" if gpu is None else f"{gpu.node}:{index_text(gpu)}"


def _gpu(digest: Digest, uuid: str) -> tuple[Place, ...]:
    gpu = digest.tick.gpus.get(uuid)
    return () if gpu is None else (Place(gpu, uuid, gpu_title(digest, uuid)),)


def _links(digest: Digest, uuid: str, evidence: Evidence) -> tuple[Place, ...]:
    gpu = digest.tick.gpus.get(uuid)
    if gpu is None:
        return ()
    rows = rows_by_gpu(digest.tick.nodes.get(gpu.node), "link").get(uuid, ())
    numbers = [n for found in _LINKS.findall(evidence.text) for n in found.split(", ")]
    named = [row for number in numbers for row in rows if row.key == number]
    title = gpu_title(digest, uuid)
    return tuple(
        Place(row, f"{uuid}/{row.key}", f"{title} NVLink {row.key}")
        for row in named or _oddest(rows, evidence.field)
    )


def _meant(rows: Sequence[BlockRow], evidence: Evidence) -> Sequence[BlockRow]:
    """Rows that the words name, as `mlx5_0/1` or `/scratch`; else the oddest one."""
    words = {word.rstrip(".,:;)").lstrip("(") for word in evidence.text.split()}
    named = [row for row in rows if row.key in words]
    return named or _oddest(rows, evidence.field)


def _oddest(rows: Sequence[BlockRow], key: str) -> Sequence[BlockRow]:
    """The row whose value is furthest from the median; none where all are alike."""
    known = sorted(
        ((value, row) for row in rows if (value := row.value(key)) is not None),
        key=lambda pair: pair[0],
    )
    if not known:
        return ()
    median = known[len(known) // 2][0]
    value, row = max(known, key=lambda pair: abs(pair[0] - median))
    return (row,) if value != median or len(known) == 1 else ()


def _nodes(digest: Digest, finding: Finding, evidence: Evidence) -> Iterable[Node]:
    """Nodes of the subject; of a job's those that the words name first."""
    nodes = digest.tick.nodes
    for subject in (evidence.subject, finding.subject):
        kind, _, name = subject.partition(":")
        if kind == "node" and name in nodes:
            return (nodes[name],)
        if kind == "gpu" and name in digest.tick.gpus:
            return (nodes[digest.tick.gpus[name].node],)
        view = digest.tick.job(name.partition("/")[0]) if kind == "job" else None
        if view is not None:
            words = set(re.split(r"[\s,:;()]+", evidence.text))
            held = [nodes[node] for node in view.job.nodes if node in nodes]
            return sorted(held, key=lambda node: node.name not in words)
    return ()


def _job_of(finding: Finding, evidence: Evidence) -> str:
    for subject in (evidence.subject, finding.subject):
        kind, _, name = subject.partition(":")
        if kind == "job":
            return name.partition("/")[0]
    return ""
