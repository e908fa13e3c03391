"""Network ports of a node are down, slow or full of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.plugin import Detector, Window
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.port_symptoms import ports_of, symptoms, usual_ports, with_errors
from gpumon_detectors.evidence.symptom import Symptom, is_grave, leading, machine_steps, more_words
from gpumon_detectors.hardware.link_loss import loss_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumon.plugin import Finding, NodeFacts, View

_REASON: Final = "network port degraded, see ibstat and ethtool"


class NetworkDegraded(Detector):
    """Claims that InfiniBand or RoCE ports of a node do not carry what they should.

    A port has no link, though most of at least three nodes with the same ports and GPUs have one
    there, or, where there are fewer such nodes, though its link went down since the driver was
    loaded; or it is slower than 90 % of what most of these have, or of what it had within the last
    hour; or symbol errors, recoveries, broken packets, integrity errors or overruns are counted in
    6 of 10 minutes; or its link went down twice within the last hour.

    *Supported* after 2 minutes, errors after 10; *established* after 10: a switch that restarts is
    back by then.

    What looks alike: ports without a cable, on all nodes alike, or that were never up; ports that
    were disabled on purpose; ports for storage that are slower than those beside them; packets out
    of sequence, timeouts and congestion marks, which a loaded network makes.

    How much time is lost depends on how much is exchanged, which is not known. The job's own work
    is measured instead: where its tensor activity, or without that its SM activity or utilisation,
    fell by a tenth or more when the links did, and stayed below all that it was in the hour before,
    that fall is lost, on each of its GPUs where this holds. Otherwise no loss is given. The GPUs
    named are those behind the same PCIe switch as the port.
    """

    name = "network_degraded"
    version = "1"
    finding_classes = ("fabric_degraded",)
    needs = ("nic_speed_gbps",)
    supported_after_s = 120.0
    established_after_s = 600.0
    subjects = "node"

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per node, which names everything that is wrong with its ports."""
        with_ports = view.nodes_with("nic").values()
        nodes = {n.name: n for n in with_ports if n.has_telemetry and not n.is_stale}
        ports = {name: ports_of(node) for name, node in nodes.items()}
        usual, erring = usual_ports(view, ports), with_errors(view)
        for name, mine in ports.items():
            found: list[Symptom] = []
            near: list[str] = []
            for port in mine:
                often, errs = usual.get((name, port.name)), f"{name}/{port.name}" in erring
                signs = symptoms(view, nodes[name], port, often, has_errors=errs)
                found += signs
                near += [uuid for uuid in port.near if signs and uuid in view.gpus]
            if found:
                yield self._finding(view, nodes[name], found, list(dict.fromkeys(near)))

    def _finding(
        self, view: View, node: NodeFacts, found: Sequence[Symptom], near: Sequence[str]
    ) -> Finding:
        worst = max(found, key=lambda symptom: symptom.severity.rank)
        first = leading(found)
        start = max(first.since, view.observed_since)
        window = Window(start, view.now, first.samples)
        is_sure = is_grave(found) and commands.is_sure_enough(view, self, window, first.at_most)
        more = more_words(found)
        behind = near or [uuid for uuid in node.gpu_uuids if uuid in view.gpus]
        loss = loss_of(view, window, behind)
        jobs = view.jobs_on(node.name)
        under = f" (job {', '.join(job.job.label for job in jobs[:8])})" if jobs else ""
        return view.finding(
            self,
            subject=node.subject,
            severity=worst.severity,
            summary=f"{node.name}{under}: {worst.text}{more}",
            window=window,
            at_most=first.at_most,
            evidence=[
                *(symptom.evidence(node.subject) for symptom in found[:31]),
                *([loss.evidence] if loss else []),
            ],
            advice=(
                *(commands.leave_out(view, node.name) if is_sure else ()),
                *commands.report_to_admins(view, node.name),
            ),
            machine_advice=(
                *machine_steps(found),
                *(commands.drain(view, node.name, _REASON) if is_sure else ()),
            ),
            gpu_seconds=loss.gpu_seconds if loss else None,
            gpus=list(dict.fromkeys((*near, *(loss.uuids if loss else ())))),
        )
