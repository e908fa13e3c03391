"""Users' programs on GPUs that no job was given, which wait for their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.plugin import Confidence, Detector, Evidence, Severity, Window, holds_of
from gpumon_detectors.evidence.stretch import since_words
from gpumon_detectors.waits.causes import Cause, waits_of_hold
from gpumon_detectors.waits.claim import busy_evidence, cpu_evidence, io_evidence
from gpumon_detectors.waits.gpu_rows import mean
from gpumon_detectors.waits.host_rows import busiest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, UserHold, View
    from gpumon_detectors.waits.causes import Waits

_CLASSES: Final = {
    Cause.DATA: "input_bound",
    Cause.STORAGE: "storage_bound",
    Cause.CROWD: "cpu_oversubscribed",
    Cause.PROGRAM: "input_bound",
}

_WHAT: Final = {
    Cause.DATA: ("waits for data", ", the CPUs of its node are full,"),
    Cause.STORAGE: ("waits for the file system", ""),
    Cause.CROWD: ("waits for CPUs", ", too many tasks want those of its node,"),
    Cause.PROGRAM: ("waits", " for its program, which keeps one CPU full meanwhile,"),
}
"""What is said before the share of the time, and behind it."""

_ADVICE: Final = {
    Cause.DATA: "Prepare less for each sample, decode on the GPU (DALI), or use more CPUs.",
    Cause.STORAGE: "Copy the data to local disk first, or pack small files into large ones.",
    Cause.CROWD: "Start no more loaders than CPUs, and keep each to one thread: OMP_NUM_THREADS=1.",
    Cause.PROGRAM: "Let other processes prepare the data, and ahead of time (num_workers=…).",
}


class UserWaits(Detector):
    """Claims that a GPU that users hold without a job waits for its node.

    Where no queue lists a node, a GPU is held by the users whose processes have memory on it, as
    `held_by_user` has it; the finding names them. Signatures are those of `input_bound`,
    `storage_bound` and `cpu_oversubscribed`, with all CPUs of the node and its pressure in place of
    a job's: it is unknown whose they are, so it is a *hypothesis*, and claimed only where no one
    else holds a GPU of the node. Or one process on the GPU never sleeps, the others there and what
    they started hardly work, and kernels run for half of the time at most and fill half of the SMs
    then, as `input_bound` has it of one GPU: whose that is, is known.

    What looks alike is what looks like these classes. The loss is the share of the time in which no
    kernel runs, over 97 %. It is in no job's ledger.
    """

    name = "user_waits"
    version = "1"
    finding_classes = ("input_bound", "storage_bound", "cpu_oversubscribed")
    needs = ("gpu_util_ratio", "cpu_busy_ratio", "io_pressure_some_ratio")
    supported_after_s = 600.0
    established_after_s = 1800.0
    subjects = "gpu"
    every_s = 60.0

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per GPU whose users' programs wait."""
        for hold in holds_of(view):
            waits = waits_of_hold(view, hold)
            if waits is not None and waits.rows.seen_s(waits.first) >= self.supported_after_s:
                yield self._finding(view, hold, waits)

    def _finding(self, view: View, hold: UserHold, waits: Waits) -> Finding:
        rows = waits.rows
        start, end = float(rows.begins[waits.first]), float(rows.times[-1])
        window = Window(start, end, len(rows.times) - waits.first)
        share = f"{100 * waits.lost_share:.0f} % of the time"
        since = since_words(window, is_open=True, known_s=rows.seen_s(waits.first))
        what, why = _WHAT[waits.cause]
        users = ", ".join(hold.owner_names) or "a user who is hidden"
        unseen = "not seen: whose CPU time and I/O it is, as no queue lists the node"
        cpus = [cpu_evidence(hold, waits)]
        if waits.host.is_own:
            unseen = "not seen: what the program does on its CPU, as only a profile shows"
            cpus = list(_of_program(view, hold, waits))
        return view.finding(
            self,
            subject=hold.subject,
            severity=Severity.WARNING,
            summary=f"{hold.gpu.place}, held by {users}: {what} {share}{why} {since}",
            window=window,
            evidence=(
                busy_evidence(hold, waits),
                *cpus,
                *io_evidence(hold, waits),
                Evidence("cpu_busy_ratio", hold.subject, unseen),
            ),
            advice=tuple(_advice(view, hold, waits)),
            gpu_seconds=waits.lost_share * (end - start),
            finding_class=_CLASSES[waits.cause],
            at_most=Confidence.HYPOTHESIS,
            owners=hold.owners,
        )


def _of_program(view: View, hold: UserHold, waits: Waits) -> Iterator[Evidence]:
    """Which process keeps a CPU full, of how many, and what all on the GPU do together."""
    found, rows = busiest(view, hold), waits.rows
    if found is not None:
        process, busy = found
        together = mean(waits.host.cores[waits.first :], rows.seconds[waits.first :])
        name = f" ({process.name})" if process.name else ""
        text = (
            f"process {process.pid}{name} keeps {busy:.1f} of {waits.host.allowed:.0f} CPUs busy, "
            f"all on the GPU with what they started {together:.1f}"
        )
        yield Evidence("process_cpu_cores_used", hold.subject, text, busy)


def _advice(view: View, hold: UserHold, waits: Waits) -> Iterator[str]:
    yield _ADVICE[waits.cause]
    found = busiest(view, hold) if waits.cause is Cause.PROGRAM else None
    if found is not None:
        yield f"Where its code is now: py-spy dump --pid {found[0].pid}"
