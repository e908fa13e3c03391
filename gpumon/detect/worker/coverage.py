"""What a detector could and could not see on one look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.detect.facts.entity_facts import FACT_KEYS
from gpumon.detect.facts.positions import Groups
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.finding import Coverage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from gpumon.detect.contract import Declaration
    from gpumon.detect.view import View

_OF_GPU: Final = ("gpu", "link")
"""Blocks whose values belong to a GPU; those of others belong to a node, or to a job on one."""

_TOLD: Final = ("event", "process", "context")
"""Blocks that every report holds, and that are empty where there is nothing to tell."""


def coverage_of(view: View, declared: Declaration) -> tuple[Coverage, tuple[str, ...]]:
    """Counts subjects with and without a value now for each field, and names the blind ones.

    A job of which some GPUs are unnamed or silent counts as blind: part of it was not judged.
    """
    kind = declared.subjects
    numbers = np.array(view.numbers, np.intp) if kind == "job" else slice(None)
    blind = {key: _blind(view, kind, key)[numbers] for key in declared.needs}
    is_dark = ~_whole(view, kind)[numbers]
    for flags in blind.values():
        is_dark = is_dark | flags
    dark = _names(view, kind, np.flatnonzero(is_dark))
    seen = len(is_dark) - len(dark)
    missing = tuple(key for key in declared.needs if blind[key].any())
    observed_s = view.now - view.observed_since
    if observed_s >= declared.supported_after_s:
        return Coverage(declared.name, seen, len(dark), missing, "ok"), dark
    note = f"observed for {observed_s:.0f} s of {declared.supported_after_s:.0f} s"
    return Coverage(declared.name, seen, len(dark), missing, "waiting", note), dark


def _names(view: View, kind: str, places: NDArray[np.intp]) -> tuple[str, ...]:
    """How findings name the subjects at these positions among those that are judged."""
    if not len(places):
        return ()
    if kind == "job":
        return tuple(view.jobs[place].subject for place in places)
    if kind == "gpu":
        return tuple(f"gpu:{view.uuids[place]}" for place in places)
    names = tuple(view.nodes)
    return tuple(f"node:{names[place]}" for place in places)


def _whole(view: View, kind: str) -> NDArray[np.bool_]:
    """Whether all of each subject has a name; of jobs, of those that run."""
    if kind == "job":
        return view.job_layout.is_whole
    return np.ones(len(view.uuids) if kind == "gpu" else len(view.nodes), np.bool_)


def _blind(view: View, kind: str, key: str) -> NDArray[np.bool_]:
    """Subjects of which a part has no value of a field; many detectors need the same ones."""
    known = view.blindness.get((kind, key))
    if known is None:
        block = CATALOGUE[key].block
        owner = "gpu" if block in _OF_GPU else "cgroup" if block == "cgroup" else "node"
        lacking = _lacking(view, key, block)
        known = view.blindness[kind, key] = _PARTS[kind](view, owner, lacking)
    return known


def _jobs_blind(view: View, owner: str, lacking: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if owner == "cgroup":
        return lacking
    if owner == "gpu":
        groups = view.job_layout.groups
        return groups.some(lacking) | _is_empty(groups)
    return _grouped(view, _nodes_of_jobs).some(lacking) | ~_has_nodes(view)


def _gpus_blind(view: View, owner: str, lacking: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if owner == "gpu":
        return lacking
    if owner == "node":
        names, groups = view.layout.nodes
        places = {name: place for place, name in enumerate(view.nodes)}
        on_node = np.array([name in places and lacking[places[name]] for name in names], np.bool_)
        return groups.spread(on_node, len(view.uuids))
    groups, has_nodes = view.job_layout.groups, _has_nodes(view)
    is_seen = groups.spread(has_nodes, len(view.uuids))
    return ~is_seen | groups.spread(lacking & has_nodes, len(view.uuids))


def _nodes_blind(view: View, owner: str, lacking: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if owner == "node":
        return lacking
    groups = _grouped(view, _gpus_of_nodes if owner == "gpu" else _jobs_of_nodes)
    return groups.some(lacking) | _is_empty(groups)


_PARTS: Final = {"job": _jobs_blind, "gpu": _gpus_blind, "node": _nodes_blind}


def _is_empty(groups: Groups) -> NDArray[np.bool_]:
    """Groups without a member: of nothing nothing is known."""
    is_empty = np.ones(groups.size, np.bool_)
    is_empty[groups.numbers] = False
    return is_empty


def _has_nodes(view: View) -> NDArray[np.bool_]:
    """Running jobs of which Slurm says where they run."""
    return np.fromiter((bool(job.job.nodes) for job in view.running), np.bool_, len(view.running))


def _grouped(view: View, made: Callable[[View], Groups]) -> Groups:
    """Groups as one of the functions below makes them, once a look: every field asks for some."""
    known = view.groupings.get(made.__name__)
    if known is None:
        known = view.groupings[made.__name__] = made(view)
    return known


def _gpus_of_nodes(view: View) -> Groups:
    """Positions of every node's GPUs, as far as anything is known of them."""
    return Groups.of(view.layout.places(node.gpu_uuids) for node in view.nodes.values())


def _jobs_of_nodes(view: View) -> Groups:
    """Positions of the running jobs on every node."""
    jobs = view.job_layout.on_node
    return Groups.of(jobs.get(name, ()) for name in view.nodes)


def _nodes_of_jobs(view: View) -> Groups:
    """Positions of every running job's nodes, as far as anything is known of them."""
    places = {name: place for place, name in enumerate(view.nodes)}
    return Groups.of(
        [places[name] for name in job.job.nodes if name in places] for job in view.running
    )


def _lacking(view: View, key: str, block: str) -> NDArray[np.bool_]:
    """Owners without a value of a field now: GPUs, nodes, or running jobs for cgroups."""
    if block == "gpu":
        return ~np.isfinite(view.fleet(key)[:-1])
    if block == "link":
        has_links = _present(view, key, block)
        return _flags(uuid not in has_links for uuid in view.uuids)
    if block == "cgroup":
        told = _present(view, key, block)
        return _flags(
            not told.issuperset(f"{name}/{job.job.job_id}" for name in job.job.nodes)
            or not job.job.nodes
            for job in view.running
        )
    is_silent = _flags(node.is_stale or not node.has_telemetry for node in view.nodes.values())
    if block in _TOLD:
        return is_silent
    told = _present(view, key, block)
    return is_silent | _flags(name not in told for name in view.nodes)


def _flags(told: Iterable[bool]) -> NDArray[np.bool_]:
    return np.fromiter(told, np.bool_)


def _present(view: View, key: str, block: str) -> frozenset[str]:
    """Owners with a value of a field of another block than `gpu`."""
    entities = view.history.entities(block)
    values = view.history.newest(entities, (key,), block)[0] if entities else np.empty(0)
    found = {entities[place] for place in np.flatnonzero(~np.isnan(values))}
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
