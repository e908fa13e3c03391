"""How many GPUs' time is being lost now, divided among findings as the books divide it."""

from __future__ import annotations

from itertools import chain
from operator import is_
from typing import TYPE_CHECKING

from gpumon.fleet.ledger.claims import Holders, charge_of
from gpumon.fleet.ledger.timeline import taken_in_turn
from gpumon.model.records.ledger import NOT_LOSING, NOTHING_LOSING, Losing, LosingNow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumon.fleet.ledger.holding import Holding
    from gpumon.fleet.ledger.timeline import Charge
    from gpumon.model.finding import Finding
    from gpumon.model.records.tick import Tick

    Holds = Mapping[str, Sequence[Holding]]
    """By UUID who holds or held a GPU."""


class LosingFindings:
    """What the standing findings lose now, found anew only when findings were judged anew."""

    def __init__(self) -> None:
        self.now = NOTHING_LOSING
        self._findings: tuple[tuple[Finding, ...], ...] = ((), ())

    def take(self, tick: Tick, on_gpu: Holds) -> None:
        """Find the rates of a tick.

        Args:
            tick: Its findings; muted ones lose as much.
            on_gpu: Who holds which GPU.
        """
        findings = (tick.findings, tick.muted)
        if not all(map(is_, self._findings, findings)):
            self._findings = findings
            self.now = losing_now(chain.from_iterable(findings), Holders(tick), on_gpu)


def losing_now(findings: Iterable[Finding], holders: Holders, on_gpu: Holds) -> LosingNow:
    """By finding and by job, the GPUs whose time is lost while things go on as they are.

    Only what stands and is in view now loses: what was cleared, or cannot be judged any more, has
    its hours in the books and no rate. A GPU that several jobs hold counts in their parts.
    """
    claims: list[Finding] = []
    charged: dict[int, tuple[Holding, list[Charge]]] = {}
    for finding in findings:
        if not finding.is_open or finding.unknown_since is not None:
            continue
        job_id, uuids = holders.gpus(finding)
        charge = charge_of(finding, len(uuids), len(claims))
        if charge is None:
            continue
        claims.append(finding)
        for holding in _meant(finding, job_id, uuids, on_gpu):
            charged.setdefault(id(holding), (holding, []))[1].append(charge)
    by_finding: dict[tuple[str, str, str], Losing] = {}
    by_job: dict[str, Losing] = {}
    for holding, charges in charged.values():
        left = holding.timeline.weight
        for charge, share in taken_in_turn(sorted(charges, key=lambda one: one.order)):
            lost = Losing(0.0, left * share) if charge.is_suspected else Losing(left * share, 0.0)
            left -= left * share
            identity, job_id = claims[charge.claim].identity, holding.run.job.job_id
            by_finding[identity] = by_finding.get(identity, NOT_LOSING).plus(lost)
            by_job[job_id] = by_job.get(job_id, NOT_LOSING).plus(lost)
    return LosingNow(by_finding, by_job)


def _meant(
    finding: Finding, job_id: str | None, uuids: Iterable[str], on_gpu: Holds
) -> Iterator[Holding]:
    """Who holds the GPUs that a finding speaks of now, as far as it speaks of them."""
    kind, _, name = finding.subject.partition(":")
    source_uuid = name if kind == "gpu" else ""
    of_source = [one for one in on_gpu.get(source_uuid, ()) if one.is_held]
    for uuid in uuids:
        for holding in on_gpu.get(uuid, ()):
            if holding.is_held and holding.is_meant(job_id, source_uuid, of_source):
                yield holding
