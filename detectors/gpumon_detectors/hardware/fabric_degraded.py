"""NVLinks of a GPU are down, slow or full of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.plugin import Detector, Window
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.link_symptoms import suspects, symptoms
from gpumon_detectors.evidence.symptom import Symptom, is_grave, leading, machine_steps, more_words
from gpumon_detectors.hardware.link_loss import loss_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.plugin import Finding, GpuFacts, View

_REASON: Final = "NVLinks degraded, see nvidia-smi nvlink -s and -e"


class FabricDegraded(Detector):
    """Claims that a GPU's NVLinks do not carry what they should.

    An NVLink is inactive although it leads to a switch, was active within the last hour, or is
    active on most GPUs of the same product on the node; or it runs below 90 % of the speed of most
    links of these; or the fabric itself calls the GPU unhealthy. Errors are judged by their kind. A
    sound link has no replays or recoveries: they count from the first on. In fewer than three
    samples of an hour they stay a *hypothesis*. Checksum errors count from 100 a second on; below
    that, while they grow in 6 of 10 minutes and ten times as fast as on the neighbours, they are a
    remark (*info*) and not a reason to drain a node. Both limits are DCGM's
    (dcgm_gpu_hardware_limits.h, DcgmHealthWatch.cpp). ECC errors of data, errors received and
    errors that correction left count while they grow in 6 of 10 minutes, the first as compared with
    the neighbours.

    *Supported* after 2 minutes, errors after 10; *established* after 10: links that are trained
    again after a reset are active by then.

    What looks alike: boards without NVLink, and PCIe boards without a bridge, whose links are all
    inactive; nodes where some links lead nowhere, on all GPUs alike; GPUs cut into slices (MIG),
    which do not use NVLink; links asleep; symbol errors of NVLink 5, which are corrected.

    How much time is lost depends on how much is exchanged, which is not known. The job's own work
    is measured instead: where its tensor activity, or without that its SM activity or utilisation,
    fell by a tenth or more when the links did, and stayed below all that it was in the hour before,
    that fall is lost, on each of its GPUs where this holds. Otherwise no loss is given.

    Any inactive link being critical, and the links and rates of a product, follow public health
    checks of cloud providers.
    """

    name = "fabric_degraded"
    version = "1"
    finding_classes = ("fabric_degraded",)
    needs = ("link_state",)
    supported_after_s = 120.0
    established_after_s = 600.0
    subjects = "gpu"

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per GPU, which names everything that is wrong with its links."""
        for node, gpu in suspects(view):
            found = symptoms(view, node, gpu)
            if found:
                yield self._finding(view, gpu, found)

    def _finding(self, view: View, gpu: GpuFacts, found: Sequence[Symptom]) -> Finding:
        first = leading(found)
        start = max(first.since, view.observed_since)
        window = Window(start, view.now, first.samples)
        is_sure = is_grave(found) and commands.is_sure_enough(view, self, window, first.at_most)
        more = more_words(found)
        loss = loss_of(view, window, [gpu.uuid])
        jobs = view.jobs_of(gpu.uuid)
        whose = f" (job {', '.join(job.job.label for job in jobs)})" if jobs else ""
        return view.finding(
            self,
            subject=gpu.subject,
            severity=found[0].severity,
            summary=f"{gpu.place}{whose}: {found[0].text}{more}",
            window=window,
            at_most=first.at_most,
            evidence=[
                *(symptom.evidence(gpu.subject) for symptom in found[:31]),
                *([loss.evidence] if loss else []),
            ],
            advice=(
                *(commands.leave_out(view, gpu.node) if is_sure else ()),
                *commands.ask_gpu(view, gpu, "nvlink -s"),
                *commands.report_to_admins(view, gpu.node),
            ),
            machine_advice=(
                *machine_steps(found),
                *(commands.drain(view, gpu.node, _REASON) if is_sure else ()),
            ),
            gpu_seconds=loss.gpu_seconds if loss else None,
            gpus=list(dict.fromkeys((*(gpu.uuid,), *(loss.uuids if loss else ())))),
        )
