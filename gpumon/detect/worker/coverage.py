"""What a detector could and could not see on one evaluation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.detect.facts.entity_facts import FACT_KEYS
from gpumon.detect.series import ANY_KEY
from gpumon.model.catalogue.fields import CATALOGUE
from gpumon.model.finding import Coverage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpumon.detect.contract import Declaration
    from gpumon.detect.facts.facts import NodeFacts
    from gpumon.detect.facts.positions import Owners
    from gpumon.detect.view import View

_OF_GPU: Final = ("gpu", "link")
"""Blocks whose values belong to a GPU; those of others belong to a node, or to a job on one."""


_ALWAYS_REPORTED: Final = ("event", "process", "context")
"""Blocks that a probe's report always holds, and that are empty where there is nothing to tell."""

_THIN: Final = 2.0
"""Values that come so many times more rarely than now are called few (our choice)."""

_HEARD: Final = "event_age_s"
"""By this field a detector asks whether a node is heard of at all."""


class SentBlind:
    """What the monitor was told last that each detector is blind for.

    Where a whole fleet lacks a field, 80,000 names would be most of what a look tells: they are
    told again where they changed.
    """

    def __init__(self) -> None:
        self._sent: dict[str, dict[str, tuple[Owners, NDArray[np.intp]]]] = {}

    def forget(self, detector: str) -> None:
        """Have all be told again."""
        self._sent.pop(detector, None)

    def knows(
        self, view: View, declared: Declaration, places: NDArray[np.intp], unseen: str = ""
    ) -> bool:
        """Whether exactly these were told last; they are from now on.

        Args:
            view: Where they are.
            declared: Of the detector.
            places: Positions among the subjects that it judges.
            unseen: What it cannot see of these; empty: anything.
        """
        of_detector = self._sent.setdefault(declared.name, {})
        sent = of_detector.pop(unseen, None)
        if declared.subjects == "job" or not len(places):
            # Each look has other jobs before it.
            return False
        of_detector[unseen] = view.owners, places
        # Positions mean the same while nobody comes or goes.
        return sent is not None and sent[0] is view.owners and np.array_equal(sent[1], places)


def places_of(view: View, declared: Declaration) -> tuple[Coverage, NDArray[np.intp]]:
    """Subjects with and without a value now for each field, counted, and where the blind ones are.

    A job of which some GPUs are unnamed or silent counts as blind: part of it was not judged. The
    positions are those among the subjects that are judged; `names_of` names them.
    """
    kind = declared.subjects
    numbers = _judged(view, kind)
    blind = {key: _blind(view, kind, key)[numbers] for key in declared.needs}
    is_dark = ~_whole(view, kind)[numbers]
    for flags in blind.values():
        is_dark |= flags
    coarse = _coarse_words(view, declared)
    if coarse:
        is_dark = np.ones_like(is_dark)
    dark = np.flatnonzero(is_dark)
    seen = len(is_dark) - len(dark)
    missing = tuple(key for key in declared.needs if blind[key].any())
    observed_s = view.now - view.observed_since
    if observed_s >= declared.supported_after_s:
        return Coverage(
            detector=declared.name,
            subjects_seen=seen,
            subjects_blind=len(dark),
            missing_fields=missing,
            state="ok",
            note=coarse or _thin_words(view, declared),
        ), dark
    note = f"observed for {observed_s:.0f} s of {declared.supported_after_s:.0f} s"
    return Coverage(
        detector=declared.name,
        subjects_seen=seen,
        subjects_blind=len(dark),
        missing_fields=missing,
        state="waiting",
        note=note,
    ), dark


def unseen_of(
    view: View, declared: Declaration, dark: NDArray[np.intp]
) -> dict[str, NDArray[np.intp]]:
    """Positions of the subjects that are judged in part only, by what is not seen of them.

    Args:
        view: The look.
        declared: Of the detector.
        dark: Positions of those that it cannot judge at all.
    """
    kind, numbers = declared.subjects, _judged(view, declared.subjects)
    found: dict[str, NDArray[np.bool_]] = {}
    for key, what in declared.wants:
        flags = _untold(view, kind, key)[numbers]
        flags[dark] = False
        found[what] = found.get(what, False) | flags
    return {what: np.flatnonzero(flags) for what, flags in found.items()}


def _judged(view: View, kind: str) -> NDArray[np.intp] | slice:
    """Positions of the subjects that are judged, among all of their kind."""
    is_all = kind != "job" or len(view.numbers) == len(view.running)
    return slice(None) if is_all else np.array(view.numbers, np.intp)


def _coarse_words(view: View, declared: Declaration) -> str:
    """That samples come too rarely for it to judge; empty where they do not."""
    longest_s = declared.longest_period_s
    if not longest_s:
        return ""
    newest = view.history.slab((), (ANY_KEY,), view.now - longest_s, view.now).periods
    period_s = float(newest[-1]) if len(newest) else 0.0
    if period_s <= longest_s:
        return ""
    return f"values come every {period_s:.0f} s, and it needs one every {longest_s:.0f} s"


def _thin_words(view: View, declared: Declaration) -> str:
    """That older samples come more rarely, where that makes its claims less sure; else empty.

    A server tells of what is older than an hour a value every five minutes.
    """
    begin = max(view.observed_since, view.now - declared.established_after_s)
    known = view.shared.setdefault(_ThinWords, _ThinWords())
    assert isinstance(known, _ThinWords)
    found = known.get(begin)
    if found is None:
        found = known[begin] = _thin_words_since(view, begin)
    return found


class _ThinWords(dict[float, str]):
    """What is said by the begin of the time that matters: the same few for all detectors."""


def _thin_words_since(view: View, begin: float) -> str:
    times, periods, _, _ = view.history.slab((), (ANY_KEY,), begin, view.now)
    thin = np.flatnonzero(periods > _THIN * periods[-1]) if len(times) else times
    if not len(thin):
        return ""
    dense_s, period_s = view.now - times[thin[-1]], periods[thin[-1]]
    return f"before the last {dense_s / 60.0:.0f} min values come only every {period_s:.0f} s"


def names_of(view: View, declared: Declaration, places: NDArray[np.intp]) -> tuple[str, ...]:
    """How findings name the subjects at these positions among those that are judged."""
    if declared.subjects == "job":
        return tuple(view.jobs[place].subject for place in places)
    all_names = view.uuids if declared.subjects == "gpu" else view.node_layout.names
    return tuple(f"{declared.subjects}:{all_names[place]}" for place in places)


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


def _untold(view: View, kind: str, key: str) -> NDArray[np.bool_]:
    """Subjects of which nobody knows a field.

    What a probe does not tell of a board, the board has not; what a page leaves out may be so.
    """
    block = CATALOGUE[key].block
    if block != "gpu":
        return np.array(_blind(view, kind, key))
    by_page = np.append(view.per_node(_NO_BLOCK["process"]) > 0, False)[view.node_layout.of_gpus]
    return np.array(_PARTS[kind](view, "gpu", _lacking(view, key, block) & by_page))


def _jobs_blind(view: View, owner: str, lacking: NDArray[np.bool_]) -> NDArray[np.bool_]:
    layout = view.job_layout
    if owner == "cgroup":
        return lacking
    if owner == "gpu":
        return layout.groups.some(lacking) | layout.groups.is_empty()
    return layout.on_nodes.some(lacking) | ~layout.has_nodes


def _gpus_blind(view: View, owner: str, lacking: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if owner == "gpu":
        return lacking
    if owner == "node":
        # The last place is that of GPUs whose node is not in view.
        flags: NDArray[np.bool_] = np.append(lacking, False)[view.node_layout.of_gpus]
        return flags
    groups, has_nodes = view.job_layout.groups, view.job_layout.has_nodes
    is_seen = groups.spread(has_nodes, len(view.uuids))
    return ~is_seen | groups.spread(lacking & has_nodes, len(view.uuids))


def _nodes_blind(view: View, owner: str, lacking: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if owner == "node":
        return lacking
    groups = view.node_layout.gpus if owner == "gpu" else view.job_layout.of_nodes
    return groups.some(lacking) | groups.is_empty()


_PARTS: Final = {"job": _jobs_blind, "gpu": _gpus_blind, "node": _nodes_blind}


def _lacking(view: View, key: str, block: str) -> NDArray[np.bool_]:
    """Owners without a value of a field now: GPUs, nodes, or running jobs for cgroups."""
    if block == "gpu":
        return ~np.isfinite(view.fleet(key)[:-1])
    if block == "cgroup":
        return _cgroups_lacking(view, key)
    if block == "link":
        return ~view.owners.reporting(key, block, view.history, view.nodes_with(block))
    is_silent: NDArray[np.bool_] = view.per_node(_silence) > 0
    if block in _ALWAYS_REPORTED:
        is_read = key == _HEARD
        return is_silent if is_read else is_silent | (view.per_node(_NO_BLOCK[block]) > 0)
    return is_silent | ~view.owners.reporting(key, block, view.history, view.nodes_with(block))


def _silence(node: NodeFacts) -> float:
    """Whether nothing is heard of a node, now or ever."""
    return node.is_stale or not node.has_telemetry


def _has_no(block: str, node: NodeFacts) -> float:
    """Whether the reports of a node hold no such block, be it an empty one: a page's do not."""
    return block not in node.blocks


_NO_BLOCK: Final = {block: partial(_has_no, block) for block in _ALWAYS_REPORTED}
"""By block; one function each, as the view remembers what each of them told."""


def _cgroups_lacking(view: View, key: str) -> NDArray[np.bool_]:
    """Running jobs without a value of their cgroup on one of their nodes."""
    names, groups = view.job_layout.cgroups
    is_missing = np.isnan(view.history.newest(names, (key,), "cgroup")[0])
    reporting: set[str] = set()
    for node in view.nodes_with("cgroup").values() if key in FACT_KEYS["cgroup"] else ():
        rows = node.block("cgroup")
        values = zip(rows.keys, rows.values.get(key, ()), strict=False)
        reporting.update(f"{node.name}/{job_id}" for job_id, value in values if value is not None)
    if reporting:
        is_missing &= np.fromiter((name not in reporting for name in names), np.bool_, len(names))
    return groups.some(is_missing) | ~view.job_layout.has_nodes
