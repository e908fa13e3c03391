"""A tick with the look-ups that tables need, each made once and only when asked for."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from gpumon.fleet.join.ranks import ranks_of
from gpumon.model.job_states import HOLDING_STATES
from gpumon.model.records.block import MISSING_INTEGER
from gpumon.report.facts.rows import GpuRow, link_states, rows_by_gpu, with_instances

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator

    from gpumon.model.finding import Coverage, Finding
    from gpumon.model.records.cluster import Gpu, JobView, Process, Rank
    from gpumon.model.records.tick import Tick
    from gpumon.report.facts.losses import Stake
    from gpumon.report.facts.rows import BlockRow

T = TypeVar("T")

MOST_LASTING: Final = 4_096
"""Things remembered over several ticks: some screens full of rows. Then all are made again."""

_STEP: Final = 250
"""Nodes whose GPUs are put into rows in one step."""

_STEP_CUT: Final = 1_000
"""Rows of nodes with MIG instances that are made in one step: these take a search for each."""


class RankRow(NamedTuple):
    """One line of a job: a rank on one of its GPUs, a rank without GPU, or a GPU without rank."""

    job: JobView
    rank: Rank | None
    gpu: Gpu | None
    uuid: str | None
    folded: tuple[RankRow, ...] = ()
    """Peers like it that share its row; none: the row is its own."""

    @property
    def key(self) -> str:
        """What names the line over time."""
        if self.folded and self.rank is not None:
            return f"peers/{self.rank.world_id}/{self.rank.program or ''}"
        if self.rank is None:
            return self.uuid or ""
        return f"{self.rank.node}/{self.rank.pid}/{self.uuid or ''}"

    @property
    def instance(self) -> None:
        """No MIG instance: a rank is shown by its GPU."""
        return


class Digest:
    """Look-ups over one tick. It lives as long as its tick is on screen."""

    def __init__(
        self,
        tick: Tick,
        lasting: dict[Hashable, object] | None = None,
        news_since: float | None = None,
    ) -> None:
        """Nothing is looked up yet.

        Args:
            tick: The tick.
            lasting: What `lasting` remembers, shared with the ticks before and after.
            news_since: Unix time after which what is found counts as new; None: nothing does.
        """
        self.tick = tick
        self.news_since = news_since
        self._lasting = {} if lasting is None else lasting
        self._remembered: dict[tuple[str, str], object] = {}
        self._means: dict[tuple[str, str], float | None] = {}
        self.rows_by_node: list[list[GpuRow]] = []  # As far as they are made.
        self._near: dict[str, Stake] = {}
        self.has_instances = False
        """Whether a node of which the rows of GPUs are made reports MIG instances."""

    @cached_property
    def job_by_gpu(self) -> dict[str, JobView]:
        """The job that holds a GPU, by UUID."""
        return {uuid: view for view in self.tick.jobs for uuid in view.gpu_uuids}

    @cached_property
    def findings_by_job(self) -> dict[str, tuple[Finding, ...]]:
        """Findings about a job, its ranks and its GPUs, by job id, the gravest and surest first."""
        found: dict[str, list[Finding]] = {}
        for finding in self.tick.findings:
            kind, _, name = finding.subject.partition(":")
            if kind == "job":
                found.setdefault(name.partition("/")[0], []).append(finding)
            elif kind == "gpu" and (view := self.job_by_gpu.get(name)):
                found.setdefault(view.job.job_id, []).append(finding)
        return {job_id: _gravest_first(findings) for job_id, findings in found.items()}

    @cached_property
    def findings_by_gpu(self) -> dict[str, tuple[Finding, ...]]:
        """Findings about a GPU itself, by UUID."""
        found: dict[str, list[Finding]] = {}
        for finding in self.tick.findings:
            kind, _, name = finding.subject.partition(":")
            if kind == "gpu":
                found.setdefault(name, []).append(finding)
        return {uuid: _gravest_first(findings) for uuid, findings in found.items()}

    @cached_property
    def _findings_by_rank(self) -> dict[str, tuple[Finding, ...]]:
        found: dict[str, list[Finding]] = {}
        for finding in self.tick.findings:
            if "/rank:" in finding.subject:
                found.setdefault(finding.subject, []).append(finding)
        return {subject: _gravest_first(findings) for subject, findings in found.items()}

    @cached_property
    def _findings_by_node(self) -> dict[str, tuple[Finding, ...]]:
        """Findings about a node itself, by name."""
        found: dict[str, list[Finding]] = {}
        for finding in self.tick.findings:
            kind, _, name = finding.subject.partition(":")
            if kind == "node":
                found.setdefault(name, []).append(finding)
        return {name: _gravest_first(findings) for name, findings in found.items()}

    def findings_of_nodes(self, view: JobView) -> tuple[Finding, ...]:
        """Findings about the nodes that a job holds: theirs, which may explain its own."""
        by_node = self._findings_by_node
        if not by_node or view.job.state not in HOLDING_STATES:
            return ()
        found = [finding for name in view.job.nodes for finding in by_node.get(name, ())]
        return _gravest_first(found)

    def findings_naming_gpu(self, uuid: str) -> tuple[Finding, ...]:
        """Findings about a GPU's node, or about its job or a rank of that, that name this GPU.

        A finding about a job that charges all its GPUs names those that its evidence is about.
        """
        gpu, view = self.tick.gpus.get(uuid), self.holder(uuid)
        subject = f"gpu:{uuid}"
        of_node = self._findings_by_node.get(gpu.node, ()) if gpu else ()
        of_job = self.findings_by_job.get(view.job.job_id, ()) if view else ()
        in_evidence = [
            finding
            for finding in (*of_node, *of_job)
            if not finding.subject.startswith("gpu:")
            and any(one.subject == subject for one in finding.evidence)
        ]
        charged = [f for f in of_node if uuid in f.gpus and f not in in_evidence]
        return (*in_evidence, *charged)

    def findings_of_node(self, name: str) -> tuple[Finding, ...]:
        """Findings about a node itself and about its GPUs."""
        node = self.tick.nodes.get(name)
        subjects = {f"node:{name}", *(f"gpu:{uuid}" for uuid in (node.gpu_uuids if node else ()))}
        return _gravest_first([f for f in self.tick.findings if f.subject in subjects])

    @cached_property
    def news(self) -> frozenset[tuple[str, str, str]]:
        """Identities of the findings that are new since the user looked."""
        return frozenset(finding.identity for finding in new_findings(self.tick, self.news_since))

    @cached_property
    def all_findings(self) -> tuple[Finding, ...]:
        """Every finding, the gravest and surest first."""
        return _gravest_first(list(self.tick.findings))

    def by_loss(self, findings: Collection[Finding]) -> tuple[Finding, ...]:
        """What loses most on top, as every list has it."""
        from gpumon.report.facts.losses import stake_of

        stakes = {finding.identity: stake_of(self.tick, finding) for finding in findings}
        return tuple(sorted(findings, key=lambda f: (*stakes[f.identity].first, *f.identity)))

    def verdict(self, view: JobView) -> Finding | None:
        """The finding of a job that accounts for the others, None where there is none."""
        findings = self.findings_by_job.get(view.job.job_id)
        if not findings:
            return None
        from gpumon.model.finding_classes import precedence

        return min(findings, key=precedence)

    def shown_finding(self, view: JobView) -> Finding | None:
        """What a job's row shows: its verdict, else the gravest finding about one of its nodes."""
        return self.verdict(view) or next(iter(self.findings_of_nodes(view)), None)

    def stake(self, view: JobView) -> Stake:
        """What is lost with a job, by the ledger where there is one."""
        from gpumon.model.records.ledger import NOT_LOSING
        from gpumon.report.facts.losses import stake_of, stake_together

        found = self.findings_by_job.get(view.job.job_id, ())
        stake = stake_together(stake_of(self.tick, finding) for finding in found)
        ledger = self.tick.ledger
        if ledger is None:
            return stake
        return stake._replace(
            losing=ledger.losing.by_job.get(view.job.job_id, NOT_LOSING),
            lost_s=sum(ledger.lost_by_job.get(view.job.job_id, ())),
        )

    def known_stake(self, stake: Stake) -> Stake | None:
        """A stake; None: nothing is found because no detector could judge."""
        has_any = stake.severity_rank >= 0 or any(stake.losing)
        return stake if has_any or not self.is_blind else None

    @cached_property
    def stakes(self) -> dict[str, Stake]:
        """What is lost with each GPU, by UUID; GPUs about which nothing is found are absent.

        A finding about a GPU counts there as a whole, also where others wait for it; any other in
        equal parts at the GPUs that it is about. So any sum of GPUs adds up to the fleet's.
        """
        from gpumon.report.facts.charges import charges

        return charges(self)

    def find_stakes(self, uuids: Collection[str]) -> None:
        """Find what is lost with these GPUs alone, once: a page asks for no others, but often."""
        from gpumon.report.facts.charges import charges_at

        if "stakes" not in vars(self) and not self._near.keys() >= set(uuids):
            self._near |= charges_at(self, uuids)

    def stake_at(self, uuid: str) -> Stake:
        """What is lost with a GPU."""
        from gpumon.report.facts.losses import NO_STAKE

        return self._near.get(uuid) or self.stakes.get(uuid, NO_STAKE)

    def holder(self, uuid: str) -> JobView | None:
        """The job that holds a GPU, for a few GPUs: `job_by_gpu` is made for many."""
        from gpumon.report.facts.charges import holder_among

        if "job_by_gpu" in vars(self):
            return self.job_by_gpu.get(uuid)
        return self.remembered(("holder", uuid), lambda: holder_among(self.tick, uuid))

    @cached_property
    def stakes_by_node(self) -> dict[str, Stake]:
        """The same by name of the node; those where nothing is found of a GPU are absent."""
        from gpumon.report.facts.charges import charges_by_node

        return charges_by_node(self)

    @cached_property
    def leading(self) -> dict[str, Finding]:
        """Of each GPU the finding that loses most of its time, by UUID; it may wait for another."""
        found: dict[str, Finding] = {}
        for finding in reversed(self.by_loss(self.tick.findings)):
            found |= dict.fromkeys(finding.gpus or self.gpus_of_subject(finding.subject), finding)
        return found

    def charged_gpus(self, finding: Finding) -> tuple[str, ...]:
        """The GPU that it is about, else those whose time it claims, else all of its subject."""
        claimed = () if finding.subject.startswith("gpu:") else finding.gpus
        return claimed or self.gpus_of_subject(finding.subject)

    @cached_property
    def _jobs_by_id(self) -> dict[str, JobView]:
        return dict(zip(map(attrgetter("job.job_id"), self.tick.jobs), self.tick.jobs, strict=True))

    def job(self, job_id: str) -> JobView | None:
        """A job by its id; unlike `tick.job` without a walk through all, for what rows ask."""
        return self._jobs_by_id.get(job_id)

    def gpus_of_subject(self, subject: str) -> tuple[str, ...]:
        """UUIDs of a finding's subject: a job's, a rank's, a node's, or the GPU itself."""
        kind, _, name = subject.partition(":")
        if kind == "gpu":
            return (name,)
        if kind == "node":
            node = self.tick.nodes.get(name)
            return node.gpu_uuids if node else ()
        job_id, _, rank = name.partition("/rank:")
        view = self.job(job_id)
        if view is None:
            return ()
        if not rank:
            return view.gpu_uuids
        return tuple(chain(*(r.gpu_uuids for r in view.ranks if str(r.rank) == rank)))

    def row_finding(self, row: RankRow) -> Finding | None:
        """The finding about one rank of a job, or about its GPU, that is marked graver.

        Else that of the job which names the rank's GPU in its evidence: what keeps others waiting.
        """
        from gpumon.report.facts.losses import mark_of

        subject = f"job:{row.job.job.job_id}/rank:{row.rank.rank}" if row.rank else ""
        found = self._findings_by_rank.get(subject, ())[:1]
        if row.uuid:
            found += self.findings_by_gpu.get(row.uuid, ())[:1]
            if not found and row.rank is not None:
                found = self._naming.get(f"gpu:{row.uuid}", ())[:1]
        return max(found, key=lambda f: mark_of(self.tick, f).rank, default=None)

    @cached_property
    def _naming(self) -> dict[str, tuple[Finding, ...]]:
        """Findings about whole jobs by the GPUs that their evidence is about."""
        found: dict[str, list[Finding]] = {}
        for finding in self.tick.findings:
            kind, _, name = finding.subject.partition(":")
            if kind == "job" and "/" not in name:
                for subject in {one.subject for one in finding.evidence}:
                    if subject.startswith("gpu:"):
                        found.setdefault(subject, []).append(finding)
        return {subject: _gravest_first(findings) for subject, findings in found.items()}

    def gpus(self, view: JobView) -> tuple[Gpu, ...]:
        """The job's GPUs that telemetry names."""
        # Without a step of a generator for each: tables ask for eighty thousand of them.
        return tuple([gpu for gpu in map(self.tick.gpus.get, view.gpu_uuids) if gpu is not None])

    def mean(self, view: JobView, key: str) -> float | None:
        """Mean of a field over the job's GPUs whose value is known, None where none is."""
        memo = (view.job.job_id, key)
        if memo not in self._means:
            values = self._values(view, key)
            self._means[memo] = sum(values) / len(values) if values else None
        return self._means[memo]

    def _values(self, view: JobView, key: str) -> list[float | int]:
        """The known values of a field of a job's GPUs."""
        # Without a call for each GPU: sorting ten thousand jobs asks for eighty thousand values.
        values = [
            column[gpu.row]
            for gpu in map(self.tick.gpus.get, view.gpu_uuids)
            if gpu is not None
            and not gpu.is_stale
            and (column := gpu.block.columns.get(key)) is not None
        ]
        return [value for value in values if value == value and value != MISSING_INTEGER]

    def remembered(self, what: tuple[str, str], make: Callable[[], T]) -> T:
        """What was made once for this tick, under a name that is its kind and its subject."""
        if what not in self._remembered:
            self._remembered[what] = make()
        return cast("T", self._remembered[what])

    def lasting(self, what: Hashable, make: Callable[[], T]) -> T:
        """What was made once for several ticks, under a name that holds all it depends on."""
        if what not in self._lasting:
            if len(self._lasting) >= MOST_LASTING:
                self._lasting.clear()
            self._lasting[what] = make()
        return cast("T", self._lasting[what])

    def entities(self, gpu: Gpu, name: str) -> tuple[BlockRow, ...]:
        """A GPU's links, MIG instances or events: the rows of a block of its node that are its."""
        node = self.tick.nodes.get(gpu.node)
        found = self.remembered((name, gpu.node), lambda: rows_by_gpu(node, name))
        return found.get(gpu.uuid, ())

    def link_states(self, gpu: Gpu) -> tuple[int, int]:
        """How many of a GPU's NVLinks are inactive, and of how many the state is known."""
        node = self.tick.nodes.get(gpu.node)
        found = self.remembered(("link states", gpu.node), lambda: link_states(node))
        return found.get(gpu.uuid, (0, 0))

    def stale_age_s(self, view: JobView) -> float | None:
        """Age of the freshest telemetry of a job all of whose GPUs are stale, else None."""
        gpus = self.gpus(view)
        if not gpus or not all(gpu.is_stale for gpu in gpus):
            return None
        return self.tick.at - max(gpu.taken_at for gpu in gpus)

    @cached_property
    def _rank_by_process(self) -> dict[tuple[str, int], Rank]:
        ranks = [rank for view in self.tick.jobs for rank in view.ranks]
        if self.tick.queue is None:
            ranks += self._ranks_without_queue()
        return {(rank.node, rank.pid): rank for rank in ranks}

    def _ranks_without_queue(self) -> list[Rank]:
        """Ranks by the processes' own environments, job by job, where no queue lists them."""
        by_job: dict[str | None, dict[tuple[str, int], Process]] = {}
        for gpu in self.tick.gpus.values():
            for process in () if gpu.is_stale else gpu.compute_processes:
                mine = process._replace(gpu_uuids=process.compute_uuids)
                by_job.setdefault(process.job_id, {})[process.node, process.pid] = mine
        found = chain.from_iterable(ranks_of(one.values()) for one in by_job.values())
        return [rank for rank in found if rank.rank is not None]

    def rank_of(self, process: Process) -> Rank | None:
        """The rank that a process is, None where it is none or not known as one."""
        return self._rank_by_process.get((process.node, process.pid))

    def watched_s(self, view: JobView) -> float:
        """For how long a job has been observed: since gpumon began to, or since it started."""
        return max(0.0, self.tick.at - max(self.tick.observed_since, view.job.start_at or 0.0))

    def unjudged(self, view: JobView) -> tuple[Coverage, ...]:
        """The detectors that have not watched a job for long enough to judge it."""
        watched_s = self.watched_s(view)
        return tuple(
            one
            for one in self.tick.coverage
            if one.state == "waiting" or (one.state == "ok" and one.needs_s > watched_s)
        )

    def blind(self, view: JobView) -> tuple[Coverage, ...]:
        """The detectors that lack what they need of a job, of a GPU of it or of a node of it."""
        subjects, judging = {*view.subjects}, (c for c in self.tick.coverage if c.state != "muted")
        return tuple(one for one in judging if not subjects.isdisjoint(one.blind_subjects))

    def unseen(self, view: JobView) -> tuple[tuple[Coverage, str], ...]:
        """What detectors do not see of a job that they judge otherwise."""
        subjects = view.subjects
        return tuple(
            (one, what)
            for one in self.tick.coverage
            for what, names in one.unseen.items()
            if one.state != "muted" and any(name in names for name in subjects)
        )

    @cached_property
    def coverage_at_work(self) -> tuple[Coverage, ...]:
        """What the detectors see that are not off by default; muted ones are among these."""
        return tuple(one for one in self.tick.coverage if one.state != "off")

    @cached_property
    def is_waiting(self) -> bool:
        """Whether every detector still waits for its window to fill."""
        return {one.state for one in self.coverage_at_work} == {"waiting"}

    @property
    def is_unjudged(self) -> bool:
        """Whether no detector has answered yet: that nothing is found proves nothing then."""
        return not self.tick.coverage

    @cached_property
    def is_blind(self) -> bool:
        """Whether no detector could judge anything."""
        return not any(c.state == "ok" and c.subjects_seen for c in self.tick.coverage)

    def rank_rows(self, view: JobView) -> tuple[RankRow, ...]:
        """A job's ranks on their GPUs, then the GPUs that it holds without a process."""
        return self.remembered(("rank rows", view.job.job_id), lambda: self._rank_rows(view))

    def _rank_rows(self, view: JobView) -> tuple[RankRow, ...]:
        known = self.tick.gpus
        rows: list[RankRow] = []
        served: set[str] = set()
        for rank in view.ranks:
            rows.extend(RankRow(view, rank, known.get(uuid), uuid) for uuid in rank.gpu_uuids)
            served.update(rank.gpu_uuids)
            if not rank.gpu_uuids:
                rows.append(RankRow(view, rank, None, None))
        rows.extend(
            RankRow(view, None, known.get(uuid), uuid)
            for uuid in view.gpu_uuids
            if uuid not in served
        )
        return tuple(rows)

    @cached_property
    def gpu_rows(self) -> tuple[GpuRow, ...]:
        """Every GPU by node, its MIG instances below it, and the nodes whose GPUs are unknown."""
        for _ in self.gpu_row_steps():
            pass
        return tuple(chain.from_iterable(self.rows_by_node))

    def gpu_row_steps(self) -> Iterator[None]:
        """Make the rows, those of some hundred nodes in a step; `gpu_rows` then only joins them."""
        known, made = self.tick.gpus, self.rows_by_node
        nodes = tuple(self.tick.nodes.values())
        while len(made) < len(nodes):
            left = _STEP_CUT
            for node in nodes[len(made) : len(made) + _STEP]:
                gpus = map(known.get, node.gpu_uuids)
                rows = [GpuRow(node, gpu) for gpu in gpus if gpu is not None]
                mig = node.blocks.get("mig")
                if mig is not None and mig.keys:
                    rows = with_instances(node, rows)
                    self.has_instances = True
                    left -= len(rows)
                made.append(rows or [GpuRow(node, None)])
                if left <= 0:
                    break
            yield


def new_findings(tick: Tick, since: float | None) -> tuple[Finding, ...]:
    """Unacknowledged findings first seen after a Unix time; None: none is new."""
    if since is None:
        return ()
    found = [one for one in tick.findings if one.first_seen > since and not one.is_acknowledged]
    return _gravest_first(found)


def _gravest_first(findings: list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda f: (f.severity.rank, f.confidence.rank), reverse=True))
