"""From when to when a job's GPUs rest, and what speaks against calling that waste.

Work off the GPUs takes nothing away from the fact that they rest. It caps how sure the claim may
be, and is named in it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import LEAST_EVIDENCE_S, Confidence, Evidence, Window
from gpumon_detectors.evidence.gpu_use import COPY_KEYS, PAST_S
from gpumon_detectors.evidence.host_use import SLICE_S, Flow, background, flow_of, is_spinning
from gpumon_detectors.evidence.others_io import explained_since
from gpumon_detectors.evidence.phrases import listed
from gpumon_detectors.evidence.stretch import began_with_job
from gpumon_detectors.evidence.watched import surest
from gpumon_detectors.idle.unwatched import unwatched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumon.plugin import JobLook, View, Windows
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse
    from gpumon_detectors.idle.unwatched import Unwatched

SERIAL_CORES: Final = 0.8
"""What a serial program keeps busy of one core, at least."""

CONTEXT_BYTES: Final = 2.0**30
"""A program that merely opens a GPU holds half a GiB; with more, something was loaded into it."""

_CLEAR_S: Final = 7200.0
"""GPUs that rest for so long are waste also where a program polls or spins beside them: then
Princeton's Job Defense Shield cancels, whatever CPUs do."""

_LONG_CLEAR_S: Final = 14400.0
"""Whatever the job itself does on CPUs and with data meanwhile, or where its CPUs cannot be seen:
the sliding window after which Princeton's Job Defense Shield warns of GPUs at 0 %."""

_IDLE_COPIES_BYTES_PER_S: Final = 10e6
"""What an idle GPU's PCIe counters show at most above their own background: NVML's own reading
moves a few MB/s."""

_MOST_COPIES_BACKGROUND: Final = 50e6
"""PCIe traffic that is taken for a GPU's background. Our choice: it fills 80 GB in half an hour."""

_UNFOLLOWED: Final = "its own CPUs do not follow it"
_COUNTED: Final = "processes of other jobs are counted to read and write as much"


class Rest(NamedTuple):
    """One stretch of rest of all GPUs of a job, until now."""

    first: int
    """Its first row."""
    window: Window
    known_s: float
    """Seconds for which it is known that the GPUs rested, of one GPU on average."""
    gpu_seconds: float
    """The same of all GPUs."""
    at_most: Confidence
    """The surest claim that what goes on beside allows, and what is known."""
    stirs: tuple[str, ...]
    """What goes on beside the resting GPUs, in words: its own, and what may be others'."""
    evidence: tuple[Evidence, ...]
    is_quiet: bool = True
    """Whether the job itself was seen to do nothing, whatever went on beside it."""
    before: Unwatched | None = None
    """What the job did before it was watched, where that tells that the rest was on since it began;
    None: nothing tells of it."""

    @property
    def before_s(self) -> float:
        """So much longer it lasts than was seen of it."""
        return self.before.seconds if self.before is not None else 0.0

    @property
    def began_at(self) -> float:
        """Unix time since when it lasts as far as anything tells."""
        return self.window.start - self.before_s

    @property
    def but(self) -> str:
        """The same as a part of a sentence: `, but 1.0 of 16 CPUs busy`; empty without any."""
        return f", but {', and '.join(self.stirs)}" if self.stirs else ""


def rest_of(
    detector: Windows, view: View, job: JobLook, use: GpuUse, host: HostUse, first: int
) -> Rest | None:
    """The rest from a row on about which the surest claim can be made.

    The GPUs rest from the row on. Either the claim begins when everything else was quiet too, or
    it counts all of the rest and is capped by what went on meanwhile. That is said only when the
    rest alone would be *supported*: before, what goes on explains it. None where the evidence is
    shorter than five minutes; what tells of the time before it was watched counts with its span.

    Traffic that the job's own CPUs do not follow, or that processes of other jobs account for, is
    another's, and leaves the claim *supported* at most: a daemon may move data for it.
    """
    begun = float(use.past.begins[first])
    is_others = [host.is_others(flow, begun) for flow in host.flows]
    others = [flow for flow, is_one in zip(host.flows, is_others, strict=True) if is_one]
    mine = [flow for flow, is_one in zip(host.flows, is_others, strict=True) if not is_one]
    explained_at = _explained_since(view, job, host, mine, begun)
    flows = (*(_less_others(flow, explained_at) for flow in mine), *_copies(use, first))
    quiet_since = max(
        host.observed_since, max((f.quiet_since for f in flows), default=float("-inf"))
    )
    quiet_first = max(first, use.row_at(quiet_since))
    explained = [
        flow
        for flow in mine
        if _less_others(flow, explained_at) is not flow and flow.quiet_since > quiet_since
    ]
    found: list[Rest] = []
    if quiet_first < len(use.past.times):
        most = _quiet_cap(use, host, first)
        if explained or any(flow.quiet_since > begun for flow in others):
            most = min(most, Confidence.SUPPORTED, key=lambda step: step.rank)
        found.append(_rest(detector, use, quiet_first, quiet_since, most))
    if quiet_first > first:
        begin = float(use.past.begins[first])
        stirring = [flow for flow in flows if flow.quiet_since > begin]
        whole = _rest(detector, use, first, float("-inf"), Confidence.HYPOTHESIS)
        if whole.known_s >= detector.supported_after_s:
            found.append(_capped(detector, job, host, whole, stirring))
    beside = (
        *(_others_evidence(job, f, begun, _UNFOLLOWED) for f in others if f.quiet_since > begun),
        *(_others_evidence(job, flow, max(begun, quiet_since), _COUNTED) for flow in explained),
    )
    found = [
        rest._replace(before=_before(job, use, host, rest), evidence=(*rest.evidence, *beside))
        for rest in found
    ]
    found = [rest for rest in found if rest.known_s + rest.before_s >= LEAST_EVIDENCE_S]
    if not found:
        return None
    best = max(found, key=lambda rest: rest.at_most.rank)
    # Else each burst of a neighbour would begin it anew: beside one the rest is one, and as sure as
    # its surest part.
    return next((r._replace(at_most=best.at_most) for r in found[1:] if r.is_quiet), best)


def _before(job: JobLook, use: GpuUse, host: HostUse, rest: Rest) -> Unwatched | None:
    """What tells of the rest before it was watched, None where nothing does."""
    if rest.stirs or rest.first > max(0, use.row_at(host.observed_since)):
        return None
    before = unwatched(job, use.past, host, rest.window.start)
    return before if before is not None and before.slept(max(1, len(job.job.nodes))) else None


def cpu_evidence(job: JobLook, host: HostUse, rest: Rest) -> tuple[Evidence, ...]:
    """What its CPUs did meanwhile; nothing where that is not seen, but what they did before."""
    is_covered_before = rest.before is not None and not host.is_seen
    return () if is_covered_before else (host.evidence(job, rest.window.start),)


def was_used_before(job: JobLook, use: GpuUse) -> bool:
    """Whether a GPU was loaded before anybody watched the job: then it was used, and by work."""
    used = use.past.columns["mem_used_bytes"]
    first = np.where(np.isfinite(used).any(axis=0), np.isfinite(used).argmax(axis=0), 0)
    held = used[first, np.arange(used.shape[1])]
    is_loaded = bool((np.nan_to_num(held) > CONTEXT_BYTES).any())
    return is_loaded and not began_with_job(job, use.past, float(use.past.begins[0]))


def computes_on_cpus(host: HostUse, use: GpuUse) -> bool:
    """Whether the job's own CPUs compute, which is a class of its own where no GPU ever worked."""
    begin, end = float(use.past.begins[0]), float(use.past.times[-1])
    late = max(begin, end - SLICE_S)
    return host.is_own and min(host.mean_cores(begin), host.mean_cores(late)) >= SERIAL_CORES


def _quiet_cap(use: GpuUse, host: HostUse, first: int) -> Confidence:
    """Where CPUs cannot be seen, work on them can be ruled out by time alone."""
    if host.is_seen:
        return Confidence.ESTABLISHED
    is_clear = _known_s(use, first) >= _LONG_CLEAR_S
    return Confidence.SUPPORTED if is_clear else Confidence.HYPOTHESIS


def _known_s(use: GpuUse, first: int) -> float:
    return float(use.idle_seconds(first).mean())


def _rest(
    detector: Windows, use: GpuUse, first: int, quiet_since: float, at_most: Confidence
) -> Rest:
    times = use.past.times
    begin = max(float(use.past.begins[first]), min(quiet_since, float(times[first])))
    window = Window(begin, float(times[-1]), len(times) - first)
    idle_s = use.idle_seconds(first)
    # Of the first row only what lies behind its beginning, as the window does.
    idle_s = idle_s - (begin - float(use.past.begins[first])) * (1.0 - use.busy[first])
    known_s = float(idle_s.mean())
    most = surest(detector, known_s, window.samples, at_most)
    return Rest(
        first=first,
        window=window,
        known_s=known_s,
        gpu_seconds=float(idle_s.sum()),
        at_most=most,
        stirs=(),
        evidence=(),
    )


def _capped(
    detector: Windows, job: JobLook, host: HostUse, rest: Rest, flows: Iterable[Flow]
) -> Rest:
    """A rest beside which something went on: named, and no surer than that allows.

    Whose a shared node's traffic is, nobody can say; but a job whose own CPUs were seen to do next
    to nothing did not move data for hours.
    """
    begin = rest.window.start
    stirring = [flow for flow in flows if flow.quiet_since > begin]
    own = [flow for flow in stirring if flow.is_own]
    is_all_own = host.is_own or len(own) == len(stirring)
    is_faint = is_all_own and all(_is_faint(job, flow, begin) for flow in own)
    least_s = _CLEAR_S if is_faint else _LONG_CLEAR_S
    is_clear = is_all_own and rest.known_s >= least_s
    most = Confidence.SUPPORTED if is_clear else Confidence.HYPOTHESIS
    return rest._replace(
        at_most=surest(detector, rest.known_s, rest.window.samples, most),
        stirs=tuple(_stirs(job, stirring, begin)),
        evidence=tuple(_evidence(job, flow, begin) for flow in stirring),
        is_quiet=is_all_own and all(flow.mean(begin) <= flow.limit for flow in own),
    )


def _is_faint(job: JobLook, flow: Flow, since: float) -> bool:
    """Whether something of the job's own is what idle programs do: a core or two, a logger."""
    mean = flow.mean(since)
    return is_spinning(job, mean) if flow.is_cpu else mean <= flow.limit


def _stirs(job: JobLook, flows: Sequence[Flow], since: float) -> Iterator[str]:
    """What goes on in words, its own first, then what may be others'."""
    own = [_words(job, flow, since) for flow in flows if flow.is_own]
    others = [_words(job, flow, since) for flow in flows if not flow.is_own]
    if own:
        yield listed(own)
    if others:
        # Where no queue gives GPUs out, users hold them.
        whose = "another job's" if job.job.job_id else "another user's"
        yield f"{listed(others)}, perhaps {whose}"


def _words(job: JobLook, flow: Flow, since: float) -> str:
    mean = flow.mean(since)
    if flow.is_cpu:
        of = f" of {job.cores}" if job.cores and flow.is_own else ""
        return f"{mean:.1f}{of} CPUs busy"
    return f"{mean / 1e6:.1f} MB/s {flow.what}"


def _evidence(job: JobLook, flow: Flow, since: float) -> Evidence:
    place = "meanwhile: " if flow.is_own else "cannot be separated from its own work: "
    mean = flow.mean(since)
    return Evidence(
        flow.key, job.subject, f"{place}{_words(job, flow, since)}", mean if mean == mean else None
    )


def _explained_since(
    view: View, job: JobLook, host: HostUse, flows: Sequence[Flow], begun: float
) -> float:
    """Unix time since when other jobs' processes account for what may be theirs; infinity: not."""
    doubtful = [flow for flow in flows if flow.is_of_storage and flow.quiet_since > begun]
    return explained_since(view, job, PAST_S) if doubtful and host.is_seen else inf


def _less_others(flow: Flow, explained_at: float) -> Flow:
    """A flow that is quiet as well where others account for it; else the same."""
    is_explained = flow.is_of_storage and explained_at < flow.quiet_since
    return flow._replace(quiet_since=explained_at) if is_explained else flow


def _others_evidence(job: JobLook, flow: Flow, since: float, why: str) -> Evidence:
    mean = flow.mean(since)
    text = f"{_words(job, flow, since)} is another job's: {why}"
    return Evidence(flow.key, job.subject, text, mean if mean == mean else None)


def _copies(use: GpuUse, first: int) -> list[Flow]:
    """PCIe traffic of the GPU that moves most, over the rest."""
    past = use.past
    part = past._replace(times=past.times[first:], begins=past.begins[first:])
    moved = np.zeros((len(part.times), use.busy.shape[1]))
    for key in COPY_KEYS:
        moved += np.nan_to_num(past.columns[key][first:])
    found = []
    for values in moved.T:
        if not (values > _IDLE_COPIES_BYTES_PER_S).any():
            continue
        floor = background(values, _MOST_COPIES_BACKGROUND)
        limit = max(2 * floor, floor + _IDLE_COPIES_BYTES_PER_S)
        found.append(flow_of(COPY_KEYS[0], "copied over PCIe", part, values, limit, is_own=True))
    stirring = [flow for flow in found if flow.quiet_since > float("-inf")]
    return sorted(stirring, key=lambda flow: flow.quiet_since)[-1:]
