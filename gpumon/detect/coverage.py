"""What a detector could and could not see on one look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.detect.rows import FACT_KEYS
from gpumon.model.fields import CATALOGUE
from gpumon.model.finding import Coverage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from gpumon.detect.contract import Declaration
    from gpumon.detect.job_look import JobLook
    from gpumon.detect.view import View

_OF_GPU: Final = ("gpu", "link")
"""Blocks whose values belong to a GPU; those of others belong to a node, or to a job on one."""

_TOLD: Final = ("event", "process", "context")
"""Blocks that every report holds, and that are empty where there is nothing to tell."""


def coverage_of(view: View, declared: Declaration) -> tuple[Coverage, tuple[str, ...]]:
    """Counts subjects with and without a value now for each field, and names the blind ones.

    A job of which some GPUs are unnamed or silent counts as blind: part of it was not judged.
    """
    lacking = {key: view.lacking(key) for key in declared.needs}
    gone: set[str] = set()
    dark: list[str] = []
    total = 0
    for subject, owners, is_whole in _subjects(view, declared.subjects):
        total += 1
        blind = [key for key in declared.needs if _is_blind(owners, key, lacking[key])]
        gone.update(blind)
        if blind or not is_whole:
            dark.append(subject)
    seen = total - len(dark)
    missing = tuple(key for key in declared.needs if key in gone)
    observed_s = view.now - view.observed_since
    if observed_s >= declared.supported_after_s:
        return Coverage(declared.name, seen, len(dark), missing, "ok"), tuple(dark)
    note = f"observed for {observed_s:.0f} s of {declared.supported_after_s:.0f} s"
    return Coverage(declared.name, seen, len(dark), missing, "waiting", note), tuple(dark)


def lacking_of(view: View, key: str) -> frozenset[str]:
    """Owners without a value of a field now: GPUs by UUID, nodes by name, jobs as `NODE/ID`."""
    block = CATALOGUE[key].block
    if block == "gpu":
        values = view.newest(key, view.places(tuple(view.gpus)))
        return frozenset(np.array(tuple(view.gpus), object)[~np.isfinite(values)])
    if block == "link":
        return frozenset(view.gpus) - _present(view, key, block)
    if block == "cgroup":
        owners = (f"{name}/{job.job.job_id}" for job in view.running for name in job.job.nodes)
        return frozenset(owners) - _present(view, key, block)
    silent = (name for name, node in view.nodes.items() if node.is_stale or not node.has_telemetry)
    if block in _TOLD:
        return frozenset(silent)
    return frozenset(view.nodes) - _present(view, key, block) | frozenset(silent)


def _present(view: View, key: str, block: str) -> frozenset[str]:
    """Owners with a value of a field of another block than `gpu`."""
    entities = view.history.entities(block)
    values = view.history.newest(entities, (key,), block)[0] if entities else np.empty(0)
    found = {entity for entity, value in zip(entities, values, strict=True) if value == value}
    if key in FACT_KEYS[block]:
        for node in view.nodes.values():
            rows = node.block(block)
            told = rows.values.get(key, ())
            names = (row for row, value in zip(rows.keys, told, strict=False) if value is not None)
            found.update(_entity(node.name, name, block) for name in names)
    return frozenset(_owner(entity, block) for entity in found)


def _entity(node: str, key: str, block: str) -> str:
    """How history names an entity that its node names by `key`."""
    if block == "node":
        return node
    return key if block in ("link", "mig") else f"{node}/{key}"


def _owner(entity: str, block: str) -> str:
    if block == "link":
        return entity.rpartition("/")[0]
    return entity if block == "cgroup" else entity.partition("/")[0]


def _subjects(view: View, kind: str) -> Iterator[tuple[str, Mapping[str, Collection[str]], bool]]:
    """For every subject its name, its GPUs, nodes and cgroups, and whether all of it has a name."""
    if kind == "job":
        for job in view.jobs:
            yield job.subject, _of_job(job), bool(job.uuids) and not job.gpus_unknown
    elif kind == "gpu":
        for uuid, gpu in view.gpus.items():
            owners = {"gpu": (uuid,), "node": (gpu.node,), "cgroup": _cgroups(view.jobs_of(uuid))}
            yield gpu.subject, owners, True
    else:
        for name, node in view.nodes.items():
            cgroups = _cgroups(view.jobs_on(name))
            yield node.subject, {"gpu": node.gpu_uuids, "node": (name,), "cgroup": cgroups}, True


def _of_job(job: JobLook) -> dict[str, Collection[str]]:
    return {"gpu": job.uuids, "node": job.job.nodes, "cgroup": _cgroups((job,))}


def _cgroups(jobs: Collection[JobLook]) -> tuple[str, ...]:
    return tuple(f"{name}/{job.job.job_id}" for job in jobs for name in job.job.nodes)


def _is_blind(owners: Mapping[str, Collection[str]], key: str, lacking: frozenset[str]) -> bool:
    """Whether a needed field has no value on a part of the subject."""
    block = CATALOGUE[key].block
    kind = "gpu" if block in _OF_GPU else "cgroup" if block == "cgroup" else "node"
    mine = owners[kind]
    return not mine or (bool(lacking) and not lacking.isdisjoint(mine))
