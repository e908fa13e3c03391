"""Users' processes hold a GPU that no job was given, and let it rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.plugin import Confidence, Detector, Evidence, Severity, holds_of
from gpumon_detectors.evidence.gpu_use import NEEDS, PAST_S, gpu_use, is_still_now
from gpumon_detectors.evidence.host_use import host_use
from gpumon_detectors.evidence.job_context import LONGEST_REST_S, context_of
from gpumon_detectors.evidence.phrases import counted, gib
from gpumon_detectors.evidence.stretch import is_open, since_words
from gpumon_detectors.idle.rest import rest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, UserHold, View
    from gpumon_detectors.evidence.gpu_use import GpuUse
    from gpumon_detectors.evidence.host_use import HostUse
    from gpumon_detectors.idle.rest import Rest

_LEAST_S: Final = 1800.0
"""Before, a person is at work (the taxonomy's window for batch jobs)."""

_LISTED: Final = 8
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""


class HeldByUser(Detector):
    """Claims that users hold memory of a GPU that no job holds, and let it rest.

    Where no queue lists a node, a GPU is held by the users whose processes have memory on it, from
    the first such sample on. Signature: more than `held_mem_ratio` of the memory is in use and the
    GPU rests, as `idle_held` has it of a job's GPUs. CPU time and I/O are those of the processes.

    The GPU's purpose is unknown, so its users are given the time of a session: a *hypothesis* after
    30 minutes, *supported* after two hours (the taxonomy's window for sessions), and no more than
    that, as the past of processes is an hour and a half.

    What looks alike: a desktop, which only draws: its memory is subtracted, and where that is not
    possible it holds less than that ratio; a server between two requests, which is recognised by
    its bursts, and not claimed before 258 minutes, or by its program's name: then it stays a
    *hypothesis*. What its processes do on CPUs or copy meanwhile caps the claim as it caps
    `idle_held`. On a node that a queue lists nothing is claimed: what runs there beside its jobs is
    reported as a stray process.

    The loss is the seconds for which the GPU was seen to rest. They are in no job's ledger.
    """

    name = "held_by_user"
    version = "1"
    finding_classes = ("idle_held",)
    needs = NEEDS
    supported_after_s = 7200.0
    established_after_s = 14400.0
    subjects = "gpu"
    every_s = 10.0

    def __init__(self, held_mem_ratio: float = 0.05) -> None:
        self.held_mem_ratio = held_mem_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per GPU that its users hold and do not use."""
        for hold in holds_of(view):
            if not is_still_now(hold):
                continue
            use = gpu_use(view, hold, PAST_S, self.held_mem_ratio)
            if use is None:
                continue
            first = max(use.rest_row(), use.held_row())
            used = use.newest("mem_used_bytes") - hold.drawn_bytes
            held = used >= self.held_mem_ratio * use.newest("mem_total_bytes")
            if first == len(use.past.times) or not held.all():
                continue
            host = host_use(view, hold, PAST_S)
            rest = rest_of(self, view, hold, use, host, first)
            if rest is not None and rest.known_s >= _LEAST_S:
                yield from self._findings(view, hold, use, host, rest)

    def _findings(
        self, view: View, hold: UserHold, use: GpuUse, host: HostUse, rest: Rest
    ) -> Iterator[Finding]:
        context = context_of(hold)
        if context.is_bursty and rest.known_s < LONGEST_REST_S:
            return
        used = gib(float(use.newest("mem_used_bytes").sum()) - hold.drawn_bytes)
        since = since_words(rest.window, is_open(hold, use, host, rest.first), rest.known_s)
        most = Confidence.HYPOTHESIS if context.is_serving else rest.at_most
        server = [Evidence("process", hold.subject, f"may be a server: {context.why}")]
        yield view.finding(
            self,
            subject=hold.subject,
            severity=Severity.WARNING,
            summary=f"{hold.gpu.place}: idle with {used} of memory held by {_users(hold)} "
            f"{since}{rest.but}",
            window=rest.window,
            evidence=[
                *_evidence(hold, use, host, rest),
                *(server if context.is_serving else ()),
            ],
            advice=tuple(_advice(hold)),
            gpu_seconds=rest.gpu_seconds,
            at_most=most,
            owners=hold.owners,
        )


def _users(hold: UserHold) -> str:
    if not hold.owners:
        return "processes (their user is hidden)"
    return ", ".join(hold.owner_names[:_LISTED])


def _evidence(hold: UserHold, use: GpuUse, host: HostUse, rest: Rest) -> Iterator[Evidence]:
    used, total = (float(use.newest(key).sum()) for key in ("mem_used_bytes", "mem_total_bytes"))
    used -= hold.drawn_bytes
    samples = counted(rest.window.samples, "sample")
    yield Evidence("gpu_util_ratio", hold.subject, f"utilisation 0 %, {samples}", 0.0)
    text = f"{gib(used)} of {gib(total)} of memory held"
    yield Evidence("mem_used_bytes", hold.subject, text, used)
    for process in hold.processes[:_LISTED]:
        user = "user hidden" if process.uid is None else process.user or f"uid {process.uid}"
        text = f"process {process.pid} ({process.name or 'name hidden'}), {user}"
        yield Evidence("process", hold.subject, text)
    yield host.evidence(hold, rest.window.start, "its processes")
    yield from rest.evidence


def _advice(hold: UserHold) -> Iterator[str]:
    """Next steps; the only words from the node in the command are numbers."""
    yield "If the work is done, end the program: its memory is free then. A notebook: its kernel."
    pids = ",".join(str(process.pid) for process in hold.processes[:_LISTED])
    yield f"On its node, whose it is and since when: ps -o pid,user,lstart,cmd -p {pids}"
