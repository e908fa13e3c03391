"""Who keeps the ranks of a job waiting, as far as counters tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Evidence, Severity
from gpumon_detectors.evidence.gpu_symptoms import suspects, symptoms
from gpumon_detectors.evidence.gpu_use import no_process
from gpumon_detectors.evidence.phrases import counted, listed, span
from gpumon_detectors.ranks.standstill import PAST_S, State

if TYPE_CHECKING:
    from gpumon.plugin import JobLook, ProcessFacts, View
    from gpumon_detectors.evidence.symptom import Symptom
    from gpumon_detectors.ranks.standstill import Standstill

_LISTED: Final = 8
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""

_JUST_BEFORE_S: Final = 600.0
"""A fault is taken for the cause of what stops so long after it: as Meta's clusters attribute
failures to checks (RSC: ten minutes before)."""

_STUCK_SHARE: Final = 0.8
"""Share of the samples since then with a process in uninterruptible sleep (our choice): one that
reads a file shows in few."""


_HALTED_SHARE: Final = 0.5
"""A process that has been stopped, or in uninterruptible sleep at every reading, for so much of the
time since then keeps the others waiting (our choice: gpumon may have come later than it stopped).
One that reads files now and then is found at work in between."""

_HALTED_S: Final = 60.0
"""And for at least so long (our choice)."""

_HALTS: Final = {
    "process_stopped_s": "stopped by a signal or a debugger",
    "process_stuck_s": "in uninterruptible sleep: it waits for a file system, a driver or a device",
}
"""What the kernel says of a process that does not go on, by the fields that tell for how long."""


class Suspects(NamedTuple):
    """Who differs from those that wait."""

    who: str
    """In words for a summary; empty where nobody can be told."""
    nodes: tuple[str, ...]
    """Where to look first."""
    stuck_nodes: tuple[str, ...]
    """Nodes on which processes wait in the kernel since then."""
    evidence: tuple[Evidence, ...]
    pid: int | None = None
    """The one process that was named, on the first of `nodes`."""
    is_broken: bool = False
    """Whether the driver told of a fault of who was named."""
    halted_count: int = 0
    """Processes that do not go on: stopped, gone, or waiting in the kernel since then."""
    is_explained: bool = False
    """Whether no pause of the job's own can be why the others wait for who was named: it is broken,
    stopped, or gone."""


class _Halted(NamedTuple):
    """A rank whose process does not go on."""

    place: int
    process: ProcessFacts
    key: str
    """Which of `_HALTS` it is."""
    for_s: float


class _Stuck(NamedTuple):
    """A node on which processes wait in the kernel."""

    node: str
    evidence: Evidence


def suspects_of(view: View, job: JobLook, still: Standstill) -> Suspects:
    """Who does not wait, the surest sign first, and how many do not go on."""
    halted, stuck = _halted(view, job, still), _stuck(job, still)
    stopped = len(halted) + len(_bare(job, still))
    count = max(stopped, round(sum(one.evidence.value or 0.0 for one in stuck)))
    return _named(view, job, still, halted, stuck)._replace(halted_count=count)


def _named(
    view: View, job: JobLook, still: Standstill, halted: list[_Halted], stuck: list[_Stuck]
) -> Suspects:
    """Who does not wait, the surest sign first.

    A GPU that the driver calls broken; else ranks whose processes are stopped, or wait in the
    kernel; else GPUs that do not spin beside others that do; else the one node with stuck
    processes. Where more GPUs differ than wait, or none, nobody is named.
    """
    broken = _broken(view, job, still)
    odd = _odd(job, still)
    evidence = [*broken.values(), *(_apart(job, place, still) for place in odd[:_LISTED])]
    evidence += [one.evidence for one in stuck[:_LISTED]]
    evidence += [_halt_line(job, one) for one in halted[:_LISTED]]
    stuck_first = [one.process.node for one in halted if one.key == "process_stuck_s"]
    stuck_nodes = tuple(dict.fromkeys([*stuck_first, *(one.node for one in stuck)]))
    if broken:
        nodes = tuple(dict.fromkeys(job.gpus[place].node for place in broken))
        named = listed([f"{_who(job, place)}, which is broken" for place in broken][:_LISTED])
        pid = _pid(job, list(broken))
        return Suspects(
            who=named,
            nodes=nodes,
            stuck_nodes=stuck_nodes,
            evidence=tuple(evidence),
            pid=pid,
            is_broken=True,
            is_explained=True,
        )
    if halted and 2 * len(halted) <= len(still.members):
        nodes = tuple(dict.fromkeys(one.process.node for one in halted))
        named = listed([_halted_words(job, one) for one in halted][:_LISTED])
        pid = halted[0].process.pid if len(halted) == 1 else None
        is_stopped = any(one.key == "process_stopped_s" for one in halted)
        found = Suspects(
            who=named, nodes=nodes, stuck_nodes=stuck_nodes, evidence=tuple(evidence), pid=pid
        )
        return found._replace(is_explained=is_stopped)
    if odd:
        nodes = tuple(dict.fromkeys(job.gpus[place].node for place in odd))
        found = Suspects(
            who=_names(job, odd, still),
            nodes=nodes,
            stuck_nodes=stuck_nodes,
            evidence=tuple(evidence),
            pid=_pid(job, odd),
        )
        return found._replace(is_explained=bool(_bare(job, still)))
    if len(stuck) == 1 and len(job.job.nodes) > 1:
        return Suspects(f"a process on {stuck_nodes[0]}", stuck_nodes, stuck_nodes, tuple(evidence))
    if len(still.members) > 1:
        text = "which rank keeps the others waiting: counters do not show it"
        evidence.append(Evidence("gpu_util_ratio", job.subject, text))
    return Suspects("", stuck_nodes, stuck_nodes, tuple(evidence))


def _broken(view: View, job: JobLook, still: Standstill) -> dict[int, Evidence]:
    """Positions of the GPUs of which the driver tells a fault since then, and what it tells."""
    mine = {gpu.uuid: place for place, gpu in enumerate(job.gpus)}
    found = {}
    for gpu in suspects(view):
        signs = symptoms(view, gpu) if gpu.uuid in mine else []
        faults = [one for one in signs if one.severity is not Severity.INFO and _is_new(one, still)]
        if faults:
            found[mine[gpu.uuid]] = faults[0].evidence(gpu.subject)
    return found


def _is_new(symptom: Symptom, still: Standstill) -> bool:
    """Whether it came with the standstill, not long before."""
    is_sure = symptom.at_most is not Confidence.HYPOTHESIS
    return is_sure and symptom.since >= still.window_start - _JUST_BEFORE_S


def _halted(view: View, job: JobLook, still: Standstill) -> list[_Halted]:
    """Processes that have not gone on for most of the time since then, by their GPUs' positions."""
    places = {gpu.uuid: place for place, gpu in enumerate(job.gpus)}
    members = set(still.members)
    mine = [
        (min(on), process)
        for process in job.processes
        if (on := members & {places[uuid] for uuid in process.gpu_uuids if uuid in places})
    ]
    keys = [process.key for _, process in mine]
    newest = view.history.newest(keys, tuple(_HALTS), "process")
    least_s = max(_HALTED_S, _HALTED_SHARE * (view.now - still.window_start))
    found = [
        _Halted(place, process, key, float(for_s))
        for key, column in zip(_HALTS, newest, strict=True)
        for (place, process), for_s in zip(mine, column, strict=True)
        if for_s >= least_s
    ]
    return sorted(found, key=lambda one: one.place)


def _halted_words(job: JobLook, one: _Halted) -> str:
    how = "is stopped" if one.key == "process_stopped_s" else "waits in the kernel"
    return f"{_who(job, one.place)}, whose process {how}"


def _halt_line(job: JobLook, one: _Halted) -> Evidence:
    text = (
        f"{_who(job, one.place)}: process {one.process.pid} has been {_HALTS[one.key]}, for "
        f"{span(one.for_s)} at every reading"
    )
    return Evidence(one.key, job.gpus[one.place].subject, text, one.for_s)


def _odd(job: JobLook, still: Standstill) -> list[int]:
    """Positions of the GPUs that do not wait as most of the others do.

    One kernel runs on without an end, or no process is left; beside others that spin they rest, or
    are silent.
    """
    odd = {*still.places(State.ENDLESS), *_bare(job, still)}
    spinning, resting = still.places(State.SPINS), still.places(State.RESTS)
    if spinning:
        few = spinning if len(spinning) < len(resting) else resting
        odd.update(few, still.places(State.SILENT))
    return sorted(odd) if 2 * len(odd) <= len(still.members) else []


def _bare(job: JobLook, still: Standstill) -> list[int]:
    """Positions of the GPUs that no process is left on."""
    count = job.latest("compute_process_count")
    return [place for place in still.members if count[place] == 0]


def _apart(job: JobLook, place: int, still: Standstill) -> Evidence:
    key, how = "gpu_util_ratio", "utilisation 0 %"
    if place in still.places(State.SILENT):
        how = "reports nothing"
    elif place in still.places(State.ENDLESS):
        key = "sm_active_ratio"
        share = 100 * still.mean(key, (place,))
        how = f"one kernel runs on, the same at each reading (SMs {share:.0f} %, no tensor cores)"
    elif place in still.places(State.SPINS):
        how = "a kernel runs on it, utilisation 100 %"
    elif job.latest("compute_process_count")[place] == 0:
        key, how = "compute_process_count", f"{no_process(job, place)} is left on it"
    text = f"{_who(job, place)} does not wait with the others: {how}"
    return Evidence(key, job.gpus[place].subject, text)


def _names(job: JobLook, odd: list[int], still: Standstill) -> str:
    """Ranks one by one, whole nodes by name, or else how many."""
    nodes = list(dict.fromkeys(job.gpus[place].node for place in odd))
    on_them = [place for place in still.members if job.gpus[place].node in nodes]
    if len(odd) > 2 and len(odd) == len(on_them) and len(nodes) <= _LISTED:
        return f"those on {listed(nodes)}"
    if len(odd) > _LISTED:
        return counted(len(odd), "GPU")
    return listed([_who(job, place) for place in odd])


def _pid(job: JobLook, places: list[int]) -> int | None:
    """The process of one GPU, None of several, or where it has not one."""
    uuids = {job.gpus[place].uuid for place in places}
    pids = {rank.pid for rank in job.ranks if uuids & set(rank.gpu_uuids)}
    return pids.pop() if len(places) == len(pids) == 1 else None


def _who(job: JobLook, place: int) -> str:
    """A GPU by its rank, where one is known, and its place."""
    gpu = job.gpus[place]
    ranks = sorted({r.rank for r in job.ranks if gpu.uuid in r.gpu_uuids and r.rank is not None})
    return f"rank {ranks[0]} ({gpu.place})" if len(ranks) == 1 else gpu.place


def _stuck(job: JobLook, still: Standstill) -> list[_Stuck]:
    """Nodes on which more processes wait in the kernel since then than before."""
    key = "d_state_process_count"
    past = job.hosts_past((key,), PAST_S)
    is_since = past.times > still.window_start
    found = []
    for column, node in enumerate(job.job.nodes):
        values = past.columns[key][:, column].astype(np.float64)
        since = values[is_since & np.isfinite(values)]
        before = values[~is_since & np.isfinite(values)]
        if not len(since) or (since >= 1).mean() < _STUCK_SHARE:
            continue
        count = float(np.median(since))
        if count <= (float(np.median(before)) if len(before) else 0.0):
            continue
        whose = "" if job.is_alone else ", perhaps another job's"
        how_many = counted(round(count), "process")
        text = f"{node}: {how_many} in uninterruptible sleep{whose}"
        found.append(_Stuck(node, Evidence(key, f"node:{node}", text, count)))
    return found
