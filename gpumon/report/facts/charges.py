"""What is lost with each GPU and who holds it: of all in steps, or of the few that a page shows.

A key that opens a page waits for what is looked up for it: of eighty thousand GPUs that takes as
long as a key may take as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from gpumon.report.facts.losses import NO_STAKE, muted_stake, stake_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Sequence

    from gpumon.model.finding import Finding
    from gpumon.model.records.cluster import JobView
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.losses import Stake

_FINDINGS: Final = 50
"""Findings that are charged to their GPUs in one step."""

_GPUS: Final = 500
"""GPUs whose charges are added up by node in one step."""

_JOBS: Final = 1_000
"""Jobs whose GPUs are written down in one step."""


class Stakes(Protocol):
    """A tick with its look-ups, as `Digest` has them."""

    tick: Tick

    @property
    def stakes(self) -> dict[str, Stake]:
        """What is lost with each GPU."""
        ...

    def charged_gpus(self, finding: Finding) -> tuple[str, ...]:
        """The GPUs that a finding is charged to."""
        ...


def charge_steps(digest: Stakes) -> Generator[None, None, dict[str, Stake]]:
    """What is lost with each GPU, by UUID, as `Digest.stakes` has it."""
    found: dict[str, Stake] = {}
    for number, (finding, stake_in) in enumerate(_counted(digest), 1):
        uuids = digest.charged_gpus(finding)
        part = _part(stake_in(digest.tick, finding), len(uuids))
        for uuid in uuids:
            before = found.get(uuid)
            found[uuid] = part if before is None else before.plus(part)
        if number % _FINDINGS == 0:
            yield
    return found


def charges(digest: Stakes) -> dict[str, Stake]:
    """The same at once."""
    return _at_once(charge_steps(digest))


def _node_steps(digest: Stakes) -> Generator[None, None, dict[str, Stake]]:
    """The same by name of the node, as `Digest.stakes_by_node` has it."""
    found: dict[str, Stake] = {}
    for number, (uuid, stake) in enumerate(digest.stakes.items(), 1):
        gpu = digest.tick.gpus.get(uuid)
        if gpu is not None:
            before = found.get(gpu.node)
            found[gpu.node] = stake if before is None else before.plus(stake)
        if number % _GPUS == 0:
            yield
    return found


def charges_by_node(digest: Stakes) -> dict[str, Stake]:
    """The same at once."""
    return _at_once(_node_steps(digest))


def _at_once(steps: Generator[None, None, dict[str, Stake]]) -> dict[str, Stake]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: dict[str, Stake] = end.value
            return found


def charges_at(digest: Stakes, uuids: Collection[str]) -> dict[str, Stake]:
    """The same of these GPUs alone, each of which is named."""
    found = dict.fromkeys(uuids, NO_STAKE)
    wanted = found.keys()
    for finding, stake_in in _counted(digest):
        charged = digest.charged_gpus(finding)
        if wanted.isdisjoint(charged):
            continue
        part = _part(stake_in(digest.tick, finding), len(charged))
        for uuid in charged:
            if uuid in found:
                found[uuid] = found[uuid].plus(part)
    return found


def _counted(digest: Stakes) -> Iterator[tuple[Finding, Callable[[Tick, Finding], Stake]]]:
    """What counts: the findings, and the muted ones that are open."""
    yield from ((finding, stake_of) for finding in digest.tick.findings)
    yield from ((finding, muted_stake) for finding in digest.tick.muted if finding.is_open)


def _part(stake: Stake, among: int) -> Stake:
    """The part of each of so many GPUs."""
    return stake.part(1 / among) if among else NO_STAKE


def lookup_steps(digest: Stakes) -> Iterator[None]:
    """Steps after which it is quick to ask who holds a GPU, and what is lost with it."""
    known = vars(digest)
    if "job_by_gpu" not in known:
        found: dict[str, JobView] = {}
        jobs = digest.tick.jobs
        for start in range(0, len(jobs), _JOBS):
            for view in jobs[start : start + _JOBS]:
                for uuid in view.gpu_uuids:
                    found[uuid] = view
            yield
        known["job_by_gpu"] = found
    yield from stake_steps(digest)


def stake_steps(digest: Stakes) -> Iterator[None]:
    """Steps after which it is quick to ask what is lost with a GPU, or with a node."""
    known = vars(digest)
    if "stakes" not in known:
        known["stakes"] = yield from charge_steps(digest)
    if "stakes_by_node" not in known:
        yield
        known["stakes_by_node"] = yield from _node_steps(digest)


def holder_among(tick: Tick, uuid: str) -> JobView | None:
    """The job that holds a GPU, the last where several claim it; None: none does.

    Those on its node are asked first: to compare it with every GPU of the others takes longer.
    """
    gpu = tick.gpus.get(uuid)
    near = [view for view in tick.jobs if gpu.node in view.job.nodes] if gpu is not None else []
    return _last_with(near, uuid) or _last_with(tick.jobs, uuid)


def _last_with(jobs: Sequence[JobView], uuid: str) -> JobView | None:
    return next((view for view in reversed(jobs) if uuid in view.gpu_uuids), None)
