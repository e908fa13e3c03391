"""The driver tells of an error of a GPU, its memory or its link, or of a program's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from gpumon.plugin import Confidence, Detector, Severity, Window
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.gpu_symptoms import lost_since, program_errors, suspects, symptoms
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.evidence.symptom import machine_steps, more_words, owner_steps
from gpumon_detectors.hardware.waiting_peers import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumon.plugin import Finding, GpuFacts, JobLook, View
    from gpumon_detectors.evidence.symptom import Symptom

_FIRST_ERROR: Final = "Look for the first error in the program's output."
_REASON: Final = "GPU fault, see nvidia-smi -q and the kernel log"


class GpuFault(Detector):
    """Claims that a GPU is broken, from what its driver reports, and says what to do.

    `gpu_fault`: the GPU fell off the bus; a broken memory row could not be replaced, or waits for a
    reset; the driver asks for a recovery action; uncorrected memory errors were counted since the
    driver was loaded; or the driver reported an Xid of the machine within the last half minute.
    Where NVIDIA's catalogue has people ignore an Xid now and look into it if it repeats (92, 121,
    157), it is a remark (*info*). Where there is nothing to look into either (63), nothing is
    claimed. `program_error`: it reported an Xid that programs cause (11, 13, 25, 31, 32, 37, 43,
    45, 60, 68, 69, 80, 109): a hint for the job's owner, and not a reason to drain a node.

    One sample of an event or of a counter of errors is proof, so there is no window to wait for.
    The finding lasts as long as what it rests on: an Xid that leaves neither a code nor an error
    counted clears when the driver no longer reports it.

    What looks alike: errors that programs cause have a class of their own; rows that were
    replaced, and errors before the driver was loaded, are history; a silent GPU or node is
    `telemetry_lost`. An Xid of an engine that stopped a program (39 to 41, 96 to 105, …), where
    either may be at fault, stays a *hypothesis*, and so does one that the catalogue does not list,
    calls unused or leaves empty.

    The loss is the time since a GPU fell off the bus while a job holds it, and of the job's other
    GPUs that worked before and have done nothing since: unused, or with tensor cores at rest, or
    with little left of their SM activity or power while they spin. The same holds for another fault
    that is sure, where the broken GPU worked before and has done nothing itself since. Otherwise it
    is unknown what it cost.

    Numbers, meanings and actions follow both columns of NVIDIA's Xid catalogue of 2025-10-29; a
    program's are those that NVIDIA's own health checks pass over, and those for which the catalogue
    has people restart the program and look into it, or into other software.
    """

    name = "gpu_fault"
    version = "1"
    finding_classes = ("gpu_fault", "program_error")
    needs = ("temp_c",)
    wants: ClassVar[Mapping[str, str]] = {
        "xid": "Xids",
        "ecc_uncorrected_volatile_count": "uncorrectable ECC errors",
        "remap_failure": "failed row remaps",
    }
    supported_after_s = 0.0
    established_after_s = 0.0
    subjects = "gpu"
    categories: ClassVar[Mapping[str, str]] = {"program_error": "request"}
    is_instant = True

    def evaluate(self, view: View) -> Iterator[Finding]:
        """At most one finding per GPU and class, which names all of its symptoms."""
        for gpu in suspects(view):
            found = symptoms(view, gpu)
            if found:
                yield self._finding(view, gpu, found, "gpu_fault")
            errors = program_errors(view, gpu)
            if errors:
                yield self._finding(view, gpu, errors, "program_error")

    def _finding(
        self, view: View, gpu: GpuFacts, found: Sequence[Symptom], finding_class: str
    ) -> Finding:
        first = min(found, key=lambda symptom: symptom.since)
        start = max(first.since, view.observed_since)
        is_fault = finding_class == "gpu_fault"
        gpu_seconds, still = _lost(view, gpu, found, start) if is_fault else (None, ())
        more = more_words(found)
        if still:
            more += f"; {counted(len(still), 'GPU')} of the job are stalled without it"
        jobs = view.jobs_of(gpu.uuid)
        whose = f" (job {', '.join(job.job.label for job in jobs)})" if jobs else ""
        forbids_use = is_fault and _forbids_use(found)
        leave = commands.leave_out(view, gpu.node) if forbids_use else ()
        drain = commands.drain(view, gpu.node, _REASON) if forbids_use else ()
        return view.finding(
            self,
            finding_class=finding_class,
            subject=gpu.subject,
            severity=found[0].severity,
            summary=f"{gpu.place}{whose}: {found[0].text}{more}",
            window=Window(start, view.now, max(symptom.samples for symptom in found)),
            evidence=[symptom.evidence(gpu.subject) for symptom in found],
            advice=[*leave, *_steps(view, gpu, found, is_fault=is_fault)],
            machine_advice=[*machine_steps(found), *drain],
            gpu_seconds=gpu_seconds,
            at_most=_surest(found),
            onset=first.since,
            gpus=[gpu.uuid, *still],
        )


def _steps(view: View, gpu: GpuFacts, found: Sequence[Symptom], *, is_fault: bool) -> Iterator[str]:
    """What a user can do about errors of a GPU, beside leaving it."""
    yield from owner_steps(found)
    if not is_fault or _surest(found) is Confidence.HYPOTHESIS:
        yield _FIRST_ERROR
    if is_fault:
        yield from commands.ask_gpu(view, gpu, "-q -d ECC,ROW_REMAPPER")
        yield from commands.report_to_admins(view, gpu.node)


def _forbids_use(found: Sequence[Symptom]) -> bool:
    """Whether the driver told of a fault that nobody should compute on."""
    is_sure = _surest(found) is not Confidence.HYPOTHESIS
    return is_sure and found[0].severity is Severity.CRITICAL


def _surest(found: Sequence[Symptom]) -> Confidence:
    """How sure the gravest of the symptoms may be: a milder one proves nothing about it."""
    gravest = [symptom.at_most for symptom in found if symptom.severity is found[0].severity]
    return max(gravest, key=lambda step: step.rank)


def _lost(
    view: View, gpu: GpuFacts, found: Sequence[Symptom], start: float
) -> tuple[float | None, tuple[str, ...]]:
    """GPU-seconds that a fault cost the GPU's jobs, and which other GPUs stand still since.

    None where the GPU is neither lost nor known to stand still: work may go on. Of several lost
    GPUs of one job the first one stopped it.
    """
    if not gpu.is_lost and _surest(found) is Confidence.HYPOTHESIS:
        return None, ()
    seconds = None
    still: list[str] = []
    for job in view.jobs_of(gpu.uuid):
        since = max(start, job.held_since(gpu.uuid))
        work = Work(job, since)
        if not gpu.is_lost and not work.is_still(gpu.uuid):
            continue
        seconds = max(seconds or 0.0, view.now - since)
        if not gpu.is_lost or _is_first_lost(view, job, gpu):
            still += work.still_without(gpu.uuid)
    others = tuple(uuid for uuid in dict.fromkeys(still) if uuid != gpu.uuid)
    if seconds is None:
        return (0.0 if gpu.is_lost else None), ()
    return seconds * (1 + len(others)), others


def _is_first_lost(view: View, job: JobLook, gpu: GpuFacts) -> bool:
    """Whether no other GPU of the job was lost before this one."""
    lost = {other.uuid: lost_since(view, other) for other in job.gpus if other.is_lost}
    return min(lost, key=lambda uuid: (lost[uuid], uuid)) == gpu.uuid
