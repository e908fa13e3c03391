"""A tick for a reader who may see some users' jobs only: without names of the rest.

What Slurm's PrivateData hides of others is replaced, not dropped: a GPU that another user holds is
held, a job that waits in front waits in front. Of others only what is listed here is left. What
is added to a record later is hidden until it is listed.
"""

from __future__ import annotations

import re
from array import array
from hashlib import blake2s
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from gpumon.model.records.block import Block
from gpumon.model.records.cluster import Allocation, Job, JobView
from gpumon.model.records.ledger import LosingNow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gpumon.model.fault import SourceError
    from gpumon.model.finding import Coverage, Finding
    from gpumon.model.records.cluster import Gpu, Node, Process, SlurmNode
    from gpumon.model.records.frame import QueueRecords
    from gpumon.model.records.ledger import Account, LedgerTotals
    from gpumon.model.records.queue import Partition, Reservation
    from gpumon.model.records.tick import TargetState, Tick

HIDDEN: Final = "hidden"
"""In the place of a name."""

_SYSTEM: Final = frozenset({"", "root", "slurm"})
"""Who takes nodes out for the machine's sake."""

_OF_MACHINES: Final = frozenset(
    {"gpu", "link", "mig", "node", "nic", "filesystem", "local_filesystem", "event"}
)
"""Blocks of hardware and the system; of the others only own rows are left."""

_JOB_LABELS: Final = frozenset({"label_jobs", "label_pods"})
"""Labels of GPUs that name whose work is on them."""

_WORD: Final = re.compile(r"[A-Za-z0-9_@+-]+(?:\.[A-Za-z0-9_@+-]+)*")
"""What a name can be; the full stop of a sentence is none of it."""

_LOGIN: Final = re.compile(r"//[^/@]*@")

_Record = TypeVar("_Record")


def withheld(tick: Tick, users: frozenset[str], key: bytes) -> Tick:
    """The tick for a reader who may see these users' jobs.

    Args:
        tick: The whole tick.
        users: Login names, or numbers of users where a node knows no name.
        key: Makes the aliases of others' jobs: the same in every tick, and without it no one can
            find out which job one is of.
    """
    return _Veil(tick, users, key).withheld_tick()


class _Own(NamedTuple):
    """What may be named."""

    jobs: frozenset[str]
    accounts: frozenset[str]
    uids: frozenset[int]


class _Veil:
    """One tick, as one reader sees it."""

    def __init__(self, tick: Tick, users: frozenset[str], key: bytes) -> None:
        self._tick = tick
        self._users = users
        self._key = key
        listed = {view.job.job_id: view.job for view in tick.jobs}
        if tick.queue is not None:
            listed |= {job.job_id: job for job in tick.queue.jobs}
        mine = [job for job in listed.values() if job.user in users]
        processes = [*tick.strays, *(one for gpu in tick.gpus.values() for one in gpu.processes)]
        self._own = _Own(
            frozenset(job.job_id for job in mine),
            frozenset(job.account for job in mine),
            frozenset(
                one.uid for one in processes if one.uid is not None and any(map(one.is_of, users))
            ),
        )
        self._pids = {(one.node, str(one.pid)) for one in processes if self._is_own(one)}
        self._hidden = self._names(listed.values())
        self._reservations: dict[str, str] = {}
        self._blocks: dict[int, Block] = {}
        """Blocks of GPUs without others' labels, by what they are made of: GPUs share theirs."""

    def _names(self, jobs: Iterable[Job]) -> frozenset[str]:
        """Words that no sentence may hold: users, accounts and numbers of jobs."""
        others = [job for job in jobs if job.job_id not in self._own.jobs]
        accounts = self._tick.ledger.accounts if self._tick.ledger is not None else ()
        found = {word for job in others for word in (job.user, job.account, job.job_id, job.label)}
        found |= {word for one in accounts for word in (one.user, one.account, one.job_id)}
        mine = self._own.jobs | self._own.accounts | self._users
        labels = {view.job.label for view in self._tick.jobs if view.job.job_id in self._own.jobs}
        return frozenset(found - mine - labels - {""})

    def withheld_tick(self) -> Tick:
        tick = self._tick
        queue = None if tick.queue is None else self._queue(tick.queue)
        findings = self._findings(tick.findings)
        cleared = self._findings(tick.cleared)
        shown = {one.identity for one in (*findings, *cleared)}
        return tick._replace(
            targets=tuple(map(self._target, tick.targets)),
            nodes={name: self._node(node) for name, node in tick.nodes.items()},
            gpus={uuid: self._gpu(gpu) for uuid, gpu in tick.gpus.items()},
            jobs=tuple(map(self._view, tick.jobs)),
            findings=findings,
            cleared=cleared,
            muted=self._findings(tick.muted),
            coverage=tuple(map(self._coverage, tick.coverage)),
            errors=tuple(map(self._error, tick.errors)),
            queue=queue,
            strays=tuple(one for one in tick.strays if self._is_own(one)),
            ledger=None if tick.ledger is None else self._ledger(tick.ledger, shown),
            # Whose they are is unknown without reading all of it.
            history=None,
            ended=None,
            running_use=None,
        )

    def _is_own(self, process: Process) -> bool:
        return process.job_id in self._own.jobs or any(map(process.is_of, self._users))

    def _alias(self, name: str) -> str:
        made = blake2s(name.encode("utf-8", "replace"), key=self._key, digest_size=6)
        return f"{HIDDEN}-{made.hexdigest()}"

    def _without_others(self, text: str) -> str:
        """A sentence without names of others."""
        hidden = self._hidden
        return _WORD.sub(lambda word: HIDDEN if word[0] in hidden else word[0], text)

    def _error(self, error: SourceError) -> SourceError:
        where, message, hint = (_without_login(self._without_others(text)) for text in error)
        return error._replace(where=where, message=message, hint=hint)

    def _target(self, target: TargetState) -> TargetState:
        error = None if target.error is None else self._error(target.error)
        return target._replace(url=_without_login(target.url), error=error)

    def _view(self, view: JobView) -> JobView:
        if view.job.job_id in self._own.jobs:
            contradictions = tuple(map(self._without_others, view.contradictions))
            return view._replace(contradictions=contradictions)
        return JobView(
            job=self._job(view.job),
            gpu_uuids=view.gpu_uuids,
            gpus_unknown=view.gpus_unknown,
            ranks=(),
            contradictions=(),
        )

    def _job(self, job: Job) -> Job:
        """A job; another user's without anything that shows who it is or what it does."""
        if job.job_id in self._own.jobs:
            return job
        alias = self._alias(job.job_id)
        return Job(
            job_id=alias,
            label=alias,
            name=HIDDEN,
            user=HIDDEN,
            account=HIDDEN,
            partition=job.partition,
            state=job.state,
            reason="",
            nodes=job.nodes,
            allocations=tuple(map(_held, job.allocations)),
            gpu_count=job.gpu_count,
            submit_at=job.submit_at,
            start_at=job.start_at,
            end_at=job.end_at,
            time_limit_s=job.time_limit_s,
            priority=job.priority,
            eligible_at=job.eligible_at,
            node_count=job.node_count,
            cpu_count=job.cpu_count,
            mem_bytes=job.mem_bytes,
            is_exclusive=job.is_exclusive,
        )

    def _queue(self, queue: QueueRecords) -> QueueRecords:
        reservations = tuple(map(self._reservation, queue.reservations))
        return queue._replace(
            jobs=tuple(map(self._job, queue.jobs)),
            reservations=reservations,
            nodes=tuple(map(self._slurm_node, queue.nodes)),
            partitions=tuple(map(self._partition, queue.partitions)),
        )

    def _slurm_node(self, node: SlurmNode) -> SlurmNode:
        is_named = node.reason_user in self._users or node.reason_user in _SYSTEM
        return node._replace(
            reason=self._without_others(node.reason),
            reason_user=node.reason_user if is_named else HIDDEN,
            reservation=self._reservations.get(node.reservation, node.reservation),
        )

    def _partition(self, part: Partition) -> Partition:
        return part._replace(accounts=_named(part.accounts, self._own.accounts))

    def _reservation(self, what: Reservation) -> Reservation:
        mine = not self._users.isdisjoint(what.users)
        mine = mine or not self._own.accounts.isdisjoint(what.accounts)
        if not mine and (what.users or what.accounts):
            self._reservations[what.name] = self._alias(what.name)
        return what._replace(
            name=self._reservations.get(what.name, what.name),
            users=_named(what.users, self._users),
            accounts=_named(what.accounts, self._own.accounts),
        )

    def _gpu(self, gpu: Gpu) -> Gpu:
        seen = tuple(one for one in gpu.processes if self._is_own(one))
        borrowed = {key: _without_login(origin) for key, origin in gpu.borrowed.items()}
        return gpu._replace(
            processes=seen,
            origin=_without_login(gpu.origin),
            borrowed=borrowed,
            block=self._unlabelled(gpu.block),
        )

    def _unlabelled(self, block: Block) -> Block:
        """GPUs without exporters' labels of others' jobs; the owner of a pod is unknown."""
        if not _JOB_LABELS & block.labels.keys():
            return block
        if id(block) not in self._blocks:
            own = {
                "label_jobs": tuple(
                    " ".join(job for job in (text or "").split() if job in self._own.jobs) or None
                    for text in block.labels.get("label_jobs", ())
                ),
                "label_pods": (None,) * len(block.keys),
            }
            labels = {key: own.get(key, texts) for key, texts in block.labels.items()}
            self._blocks[id(block)] = block._replace(labels=labels)
        return self._blocks[id(block)]

    def _node(self, node: Node) -> Node:
        blocks = {}
        for name, block in node.blocks.items():
            if name in _OF_MACHINES:
                blocks[name] = self._machine(self._unlabelled(block))
            elif name == "cgroup":
                blocks[name] = _rows(block, lambda key: key in self._own.jobs)
            elif name in ("process", "context"):
                blocks[name] = _rows(
                    block, lambda key: (node.name, key.partition("/")[0]) in self._pids
                )
        return node._replace(
            blocks=blocks,
            block=None if node.block is None else self._machine(node.block),
            errors=tuple(map(self._error, node.errors)),
        )

    def _machine(self, block: Block) -> Block:
        """Paths of mounts may name who they are of."""
        labels = {
            label: tuple(None if text is None else self._without_others(text) for text in texts)
            for label, texts in block.labels.items()
        }
        return block._replace(keys=tuple(map(self._without_others, block.keys)), labels=labels)

    def _findings(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        return tuple(self._finding(one) for one in findings if self._is_about_own(one))

    def _is_about_own(self, finding: Finding) -> bool:
        kind, _, name = finding.subject.partition(":")
        if kind == "job":
            return name.partition("/")[0] in self._own.jobs
        is_own = not finding.owners or not self._own.uids.isdisjoint(finding.owners)
        return kind in ("gpu", "node", "domain") and is_own

    def _finding(self, finding: Finding) -> Finding:
        return finding._replace(
            summary=self._without_others(finding.summary),
            evidence=tuple(
                one._replace(text=self._without_others(one.text))
                for one in finding.evidence
                if not one.subject.startswith("job:")
                or one.subject[4:].partition("/")[0] in self._own.jobs
            ),
            advice=self._unchanged(finding.advice),
            machine_advice=self._unchanged(finding.machine_advice),
            owners=tuple(uid for uid in finding.owners if uid in self._own.uids),
        )

    def _unchanged(self, lines: tuple[str, ...]) -> tuple[str, ...]:
        """Commands about own jobs: one with a hidden name would do something else."""
        return tuple(line for line in lines if self._without_others(line) == line)

    def _coverage(self, coverage: Coverage) -> Coverage:
        def is_shown(subject: str) -> bool:
            kind, _, name = subject.partition(":")
            return kind in ("gpu", "node") or name.partition("/")[0] in self._own.jobs

        reasons = {
            subject: self._without_others(why)
            for subject, why in coverage.blind_reasons.items()
            if is_shown(subject)
        }
        return coverage._replace(
            note=self._without_others(coverage.note),
            blind_subjects=tuple(filter(is_shown, coverage.blind_subjects)),
            blind_reasons=reasons,
            unseen={
                what: tuple(filter(is_shown, names)) for what, names in coverage.unseen.items()
            },
        )

    def _ledger(self, ledger: LedgerTotals, shown: set[tuple[str, str, str]]) -> LedgerTotals:
        def mine(accounts: tuple[Account, ...]) -> tuple[Account, ...]:
            return tuple(one for one in accounts if one.user in self._users)

        losing = ledger.losing
        return ledger._replace(
            accounts=mine(ledger.accounts),
            sums=mine(ledger.sums),
            closed=mine(ledger.closed),
            earlier=mine(ledger.earlier),
            kept_in=None,
            note="",
            charged=_picked(ledger.charged, shown.__contains__),
            losing=LosingNow(
                _picked(losing.by_finding, shown.__contains__),
                _picked(losing.by_job, self._own.jobs.__contains__),
            ),
        )


_Key = TypeVar("_Key")


def _picked(found: Mapping[_Key, _Record], passes: Callable[[_Key], bool]) -> dict[_Key, _Record]:
    return {key: value for key, value in found.items() if passes(key)}


def _without_login(text: str) -> str:
    """A target's URL without the login that it is read by."""
    return _LOGIN.sub("//", text)


def _named(names: tuple[str, ...], own: frozenset[str]) -> tuple[str, ...]:
    """Names of others as one; none stays none, which means all."""
    return tuple(dict.fromkeys(name if name in own else HIDDEN for name in names))


def _held(part: Allocation) -> Allocation:
    return Allocation(
        part.node,
        part.gpu_count,
        part.gpu_indices,
        part.cpu_count,
        has_shares=part.has_shares,
        gpu_types=part.gpu_types,
    )


def _rows(block: Block, passes: Callable[[str], bool]) -> Block:
    """A block with some of its rows."""
    rows = [row for row, key in enumerate(block.keys) if passes(key)]
    place = {row: now for now, row in enumerate(rows)}
    columns = {
        key: array(column.typecode, [column[row] for row in rows])
        for key, column in block.columns.items()
    }
    return Block(
        tuple(block.keys[row] for row in rows),
        columns,
        {label: tuple(texts[row] for row in rows) for label, texts in block.labels.items()},
        {(key, place[row]): why for (key, row), why in block.missing.items() if row in place},
    )
