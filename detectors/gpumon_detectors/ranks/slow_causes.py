"""Why a rank is slow, as far as its GPU, its links and its host tell: evidence, looked up last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Evidence, Severity
from gpumon_detectors.evidence import link_symptoms, port_symptoms
from gpumon_detectors.evidence.clock_rows import HELD_BITS, POWER_CAP_BIT, SET_BITS, SET_SHARE
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.evidence.watched import mean_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.plugin import JobLook, NodeFacts, Past, View
    from gpumon_detectors.ranks.work_windows import Floats

_BEFORE_S: Final = 1800.0
"""So far back before the onset a host is looked at, to tell what is new (our choice)."""

_LATELY_S: Final = 600.0
"""So long a link is looked at to tell what it carries now (our choice)."""

_LOW_CLOCK: Final = 0.93
"""Share of the clock of others of its product below which it is a reason: boards of one product
differ by a few per cent (our choice; `throttled` claims below .9)."""

_THROTTLED_CLOCK: Final = 0.9
"""Share of the others' clock below which `throttled` claims it."""

_HELD_SHARE: Final = 0.5
"""Share of the samples in which the driver holds a clock down, from which `throttled` claims it."""

_LOW_LIMIT: Final = 0.95
"""Share of the others' power limit below which a limit is a lower one: limits that were set alike
differ by a few watts (our choice)."""

_MORE_PRESSURE: Final = 0.1
"""Share of the time by which more tasks than before wait for CPUs, disks or memory (our choice: the
kernel's own averages swing by some per cent)."""

_STUCK_SHARE: Final = 0.6
"""Share of the samples with more processes in uninterruptible sleep than before (our choice)."""

_MOST_INSPECTED: Final = 4
"""GPUs whose links and ports are asked one by one."""

_LINK_KEYS: Final = ("pcie_gen", "pcie_width")
_A_STEP: Final = 0.5
"""Generations and lanes are whole numbers; what differs by more is another one."""

_GPU_KEYS: Final = ("sm_clock_mhz", "clock_event_reasons", "power_limit_w", *_LINK_KEYS)
_PRESSURES: Final = {
    "cpu_pressure_some_ratio": "for CPUs",
    "io_pressure_some_ratio": "for disks and file systems",
    "mem_pressure_some_ratio": "for memory",
}
_OWN_PRESSURES: Final = {key: f"job_{key}" for key in _PRESSURES}
"""The same of the job's own tasks, where its control group tells."""

_STUCK: Final = "d_state_process_count"
_OWN_CPUS: Final = "job_cpu_count"


class Causes(NamedTuple):
    """What explains that some ranks are slow."""

    evidence: tuple[Evidence, ...]
    because: str
    """The first reason in a few words; empty where none is told."""
    is_of_gpu: bool
    """Whether the GPU or its link itself is slower than its like: nobody designs a job so."""
    is_throttled: bool
    """Whether its clock is held down so that `throttled` charges what it costs."""


class _Reason(NamedTuple):
    because: str
    evidence: Evidence
    is_of_gpu: bool = False
    is_throttled: bool = False


def causes_of(
    view: View, job: JobLook, late: Sequence[int], waiting: Sequence[int], since: float
) -> Causes:
    """What differs on the slow ranks' GPUs and nodes, the surest first.

    Args:
        view: What is known now.
        job: The job.
        late: Positions of the GPUs of the slow ranks.
        waiting: Those of the others.
        since: Unix time since when they are slow.
    """
    found = [
        *_by_gpu(view, job, late, waiting, since),
        *_by_fabric(view, job, late),
        *_by_host(view, job, late, since),
    ]
    return Causes(
        tuple(reason.evidence for reason in found),
        found[0].because if found else "",
        any(reason.is_of_gpu for reason in found),
        any(reason.is_throttled for reason in found),
    )


def has_slow_link(view: View, job: JobLook, since: float) -> bool:
    """Whether a link of a job's GPUs errs, or carries less than before some time.

    For whoever has found that a job got slower: then the link is why, and its own rule says so.

    Args:
        view: What is known now.
        job: The job.
        since: Unix time since when it is slower.
    """
    past = job.past(_LINK_KEYS, view.now - since + _BEFORE_S)
    # Of a while each: in pauses a link rests, which looks like fewer lanes.
    spans = past.times < since, past.times > view.now - _LATELY_S
    for key in _LINK_KEYS:
        was, now = (past.columns[key][rows] for rows in spans)
        if len(was) and len(now):
            with np.errstate(invalid="ignore"):
                fell = np.fmax.reduce(was) - np.fmax.reduce(now) > _A_STEP
            if bool(fell.any()):
                return True
    return any(_by_fabric(view, job, range(len(job.gpus))))


def waits_for_host(view: View, job: JobLook, since: float) -> bool:
    """Whether tasks of its nodes wait since a Unix time, and did not before."""
    return next(_by_host(view, job, range(len(job.gpus)), since), None) is not None


def _by_gpu(
    view: View, job: JobLook, late: Sequence[int], waiting: Sequence[int], since: float
) -> Iterator[_Reason]:
    """Clock, power limit and PCIe link, beside those of the others of the same product."""
    past = job.past(_GPU_KEYS, view.now - since + 1.0)
    if not len(past.times):
        return
    means = {key: mean_of(past, key) for key in _GPU_KEYS}
    for place in late[:_MOST_INSPECTED]:
        gpu = job.gpus[place]
        like = [other for other in waiting if job.gpus[other].name == gpu.name]
        if not like:
            continue
        usual = {key: _median(mean[like]) for key, mean in means.items()}
        mine = {key: float(mean[place]) for key, mean in means.items()}
        is_limited = mine["power_limit_w"] < _LOW_LIMIT * usual["power_limit_w"]
        if is_limited:
            text = f"{gpu.place}: its power limit is {mine['power_limit_w']:.0f} W, "
            text += f"the others' is {usual['power_limit_w']:.0f} W"
            limited = Evidence("power_limit_w", gpu.subject, text, mine["power_limit_w"])
            yield _Reason("its power limit", limited, is_of_gpu=True)
        bits = np.nan_to_num(past.columns["clock_event_reasons"][:, place]).astype(np.int64)
        is_held = float(((bits & HELD_BITS) != 0).mean()) >= _HELD_SHARE
        clock, theirs = mine["sm_clock_mhz"], usual["sm_clock_mhz"]
        if is_held or clock < _LOW_CLOCK * theirs:
            is_set = bool((bits & SET_BITS).any()) and not is_held
            is_claimed = is_held or (clock < _THROTTLED_CLOCK * theirs and not is_set)
            text = f"{gpu.place}: its SM clock is {clock:.0f} MHz, that of the others "
            text += f"{theirs:.0f} MHz"
            text += "; what that costs is reported as throttled" if is_claimed else ""
            # Under the limit of its like the GPU that has more to do gets the lower clock.
            is_capped = float(((bits & POWER_CAP_BIT) != 0).mean()) >= SET_SHARE
            is_of_gpu = is_limited or not (is_set and is_capped)
            text += "" if is_of_gpu else ", at the power limit that they have too"
            low = Evidence("sm_clock_mhz", gpu.subject, text, clock)
            yield _Reason("its clock", low, is_of_gpu=is_of_gpu, is_throttled=is_claimed)
        if any(mine[key] < usual[key] - _A_STEP for key in _LINK_KEYS):
            own, others = (f"gen {m['pcie_gen']:.0f} x{m['pcie_width']:.0f}" for m in (mine, usual))
            text = f"{gpu.place}: its PCIe link runs at {own}, those of the others at {others}"
            narrow = Evidence("pcie_width", gpu.subject, text, mine["pcie_width"])
            yield _Reason("its PCIe link", narrow, is_of_gpu=True)


def _by_fabric(view: View, job: JobLook, late: Sequence[int]) -> Iterator[_Reason]:
    """NVLinks of the slow GPUs, and network ports near to them or to nobody."""
    for place in late[:_MOST_INSPECTED]:
        gpu = job.gpus[place]
        node = view.nodes.get(gpu.node)
        if node is None or node.is_stale:
            continue
        for sign in link_symptoms.symptoms(view, node, gpu):
            if sign.severity is not Severity.INFO:
                yield _Reason("its NVLinks", sign.evidence(gpu.subject))
        yield from _by_ports(view, node, gpu.uuid)


def _by_ports(view: View, node: NodeFacts, uuid: str) -> Iterator[_Reason]:
    erring = port_symptoms.with_errors(view)
    for port in port_symptoms.ports_of(node):
        if port.near and uuid not in port.near:
            continue
        has_errors = f"{node.name}/{port.name}" in erring
        for sign in port_symptoms.symptoms(view, node, port, None, has_errors=has_errors):
            if sign.severity is not Severity.INFO:
                yield _Reason("its network port", sign.evidence(node.subject))


def _by_host(view: View, job: JobLook, late: Sequence[int], since: float) -> Iterator[_Reason]:
    """What waits on the slow ranks' nodes since then, and did not before."""
    span_s = view.now - since + _BEFORE_S
    hosts = job.hosts_past((*_PRESSURES, _STUCK), span_s)
    groups = job.cgroup_past((_OWN_CPUS, *_OWN_PRESSURES.values()), span_s)
    for name in dict.fromkeys(job.gpus[place].node for place in late):
        if name not in job.job.nodes:
            continue
        column, subject = job.job.nodes.index(name), f"node:{name}"
        for key, what in _PRESSURES.items():
            before, now = _around(groups, _OWN_PRESSURES[key], column, since)
            if now != now:
                # A neighbour's tasks may have waited before, or wait now: the second best.
                before, now = _around(hosts, key, column, since)
            if now - (before if before == before else 0.0) >= _MORE_PRESSURE:
                was = f", before {100 * before:.0f} %" if before == before else ""
                text = f"{name}: tasks wait {what} {100 * now:.0f} % of the time{was}"
                yield _Reason(
                    f"tasks that wait {what} on {name}", Evidence(key, subject, text, now)
                )
        values = hosts.columns[_STUCK][:, column]
        before, _ = _around(hosts, _STUCK, column, since)
        lately = values[(hosts.times >= since) & np.isfinite(values)]
        most = before if before == before else 0.0
        if len(lately) and (lately > most + 0.5).mean() >= _STUCK_SHARE:
            processes = counted(round(float(np.median(lately))), "process")
            text = f"{name}: {processes} in uninterruptible sleep"
            stuck = Evidence(_STUCK, subject, text, float(np.median(lately)))
            yield _Reason(f"processes that wait in the kernel of {name}", stuck)
        before, now = _around(groups, _OWN_CPUS, column, since)
        if now <= before - 0.5:
            cpus = counted(round(now), "CPU")
            text = f"{name}: the job may use {cpus} there, before {before:.0f}"
            yield _Reason(f"CPUs taken away on {name}", Evidence(_OWN_CPUS, subject, text, now))


def _around(past: Past, key: str, column: int, since: float) -> tuple[float, float]:
    """Mean of a field before a Unix time and since then, NaN where nothing is known."""
    values = past.columns[key][:, column].astype(np.float64)
    is_since = past.times >= since
    parts = (values[rows & np.isfinite(values)] for rows in (~is_since, is_since))
    before, now = (float(part.mean()) if len(part) else float("nan") for part in parts)
    return before, now


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")
