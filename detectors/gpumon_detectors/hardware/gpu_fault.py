"""The driver tells of an error of a GPU, its memory or its link, or of a program's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from gpumon.detect.contract import Detector
from gpumon.model.finding import Severity, Window
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.gpu_symptoms import program_errors, suspects, symptoms
from gpumon_detectors.evidence.symptom import more_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumon.detect.facts.facts import GpuFacts
    from gpumon.detect.view import View
    from gpumon.model.finding import Finding
    from gpumon_detectors.evidence.symptom import Symptom


class GpuFault(Detector):
    """Claims that a GPU is broken, from what its driver tells, and says what to do.

    `gpu_fault`: the GPU fell off the bus; a broken memory row could not be replaced, or waits for
    a reset to be; the driver asks for a recovery action; uncorrected memory errors were counted
    while gpumon watched, within the last hour; or the driver told of an Xid of the machine within
    the last half minute. `program_error`: it told of an Xid that programs cause (13, 31, 43, 45,
    68, 109): a hint for the job's owner, and no ground to drain a node.

    One sample proves what an event or a counter of errors tells, so there is no window to wait
    for. The finding lasts as long as what it rests on: an Xid that leaves neither a code nor an
    error counted is cleared when the driver tells of it no more.

    What looks alike: errors that programs cause have a class of their own; errors counted before
    gpumon came, and rows that were replaced, are history; a silent GPU or node is
    `telemetry_lost`. An Xid that no catalogue lists is *supported* at most.

    The loss is the time since a GPU fell off the bus while a job holds it; of the other faults
    nobody knows whether work goes on.

    Numbers, meanings and actions follow NVIDIA's Xid catalogue; which of them programs cause
    follows NVIDIA's own health checks.
    """

    name = "gpu_fault"
    version = "1"
    finding_classes = ("gpu_fault", "program_error")
    needs = ("temp_c",)
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
        more = more_words(found)
        jobs = view.jobs_of(gpu.uuid)
        whose = f" (job {', '.join(job.job.label for job in jobs)})" if jobs else ""
        advice = list(dict.fromkeys(symptom.advice for symptom in found))
        if is_fault:
            advice += commands.ask_gpu(view, gpu, "-q -d ECC,ROW_REMAPPER")
            if found[0].severity is Severity.CRITICAL:
                advice += commands.leave_out(gpu.node)
                advice += commands.drain(
                    gpu.node, "GPU fault, see nvidia-smi -q and the kernel log"
                )
        else:
            advice.append("Look for the first error in the job's output; the GPU itself is sound.")
        return view.finding(
            self,
            finding_class=finding_class,
            subject=gpu.subject,
            severity=found[0].severity,
            summary=f"{gpu.place}{whose}: {found[0].text}{more}",
            window=Window(start, view.now, max(symptom.samples for symptom in found)),
            evidence=[symptom.evidence(gpu.subject) for symptom in found],
            advice=advice[:8],
            gpu_seconds=_lost_seconds(view, gpu, start) if is_fault else None,
            at_most=max((s.at_most for s in found), key=lambda step: step.rank),
            onset=first.since,
            gpus=[gpu.uuid],
        )


def _lost_seconds(view: View, gpu: GpuFacts, start: float) -> float | None:
    """Seconds for which a job has held a GPU that is lost; None where that cannot be said."""
    if not gpu.is_lost:
        return None
    since = min((job.held_since(gpu.uuid) for job in view.jobs_of(gpu.uuid)), default=view.now)
    return max(0.0, view.now - max(start, since))
