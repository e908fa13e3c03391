"""A node, or some of its GPUs, fell silent while a job runs there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity, Window, rows_since
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.gpu_symptoms import VITAL
from gpumon_detectors.evidence.phrases import clock_time, counted, span
from gpumon_detectors.evidence.symptom import observed_since

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, GpuFacts, NodeFacts, View

_SPAN_S: Final = 3600.0
"""A GPU is silent if it had values within the last hour (our choice)."""

_AWAKE: Final = (
    "Check whether the node answers at all: console, ping, ssh; a hung one needs a reset."
)
_STILL_THERE: Final = (
    "Check whether the job's output still grows; if not, cancel it and resume elsewhere."
)
_DRIVER: Final = "Look in the node's kernel log for the driver: dmesg, journalctl -k."
_PLANNED: Final = ("down", "drain", "maint", "reboot", "power", "future", "fail")
"""Words in Slurm's states of nodes of which somebody knows already that they do not work."""

_GIVEN_UP: Final = frozenset({"down", "not_responding"})
"""Slurm's state of a node that it called down because it did not answer (SlurmdTimeout)."""

HEARD: Final = ("event_age_s",)
"""Every report holds the driver's events, be it none, so that nodes without them are silent. What
was claimed of one that is forgotten after an hour is then unknown, not cleared."""

_LEAST_MISSED: Final = 5
"""So many reports of a node must be missing before its silence is sure. Where one report of twenty
is lost, four in a row are lost once in 160,000: on a fleet of 50 nodes that is read once a minute
every other day (our choice)."""

_LISTED: Final = 8
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""


class _Silence(NamedTuple):
    """What is silent on one node, and since when."""

    node: NodeFacts
    gpus: tuple[GpuFacts, ...]
    window: Window
    """Since the onset, or since the last gap in the sampling."""
    onset: float
    is_whole: bool


class TelemetryLost(Detector):
    """Claims that a node, or some of its GPUs, no longer report while a job runs there.

    A GPU that falls off the bus, a driver that hangs and a node that dies give no warning in
    numbers: the signal is that their metrics vanish. A node is silent after three periods without a
    word; a GPU where temperature, power and memory, which were reported before, are all missing
    while another GPU of the node reports them.

    *Supported* after 2 minutes and five reports that did not come, *established* after 10: a hiccup
    of the network is over by then, and a node that merely reboots has lost its job.

    What looks alike: more than half of the watched nodes falling silent at once is the monitor's
    own network, or an exporter that was restarted. Where only one node is watched the two look the
    same, and the claim stays a *hypothesis*. Slurm's own word settles it: a node that it gave up
    because it did not answer is silent for sure, also after its job has left. A node that Slurm
    calls down for another reason, drained, in maintenance or rebooting says so itself. A node
    without a job costs no GPU time. A GPU that the driver reports as fallen off the bus is a
    `gpu_fault`.

    Whether the job still computes cannot be seen, so no loss is given.
    """

    name = "telemetry_lost"
    version = "1"
    finding_classes = ("telemetry_lost",)
    needs = HEARD
    supported_after_s = 120.0
    established_after_s = 600.0
    subjects = "node"

    def __init__(self, most_silent_ratio: float = 0.5) -> None:
        self.most_silent_ratio = most_silent_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per node that is silent, or has silent GPUs, under a running job."""
        heard = [node for node in view.nodes.values() if node.has_telemetry]
        silent = [node for node in heard if node.is_stale]
        is_own = len(heard) > 1 and len(silent) > self.most_silent_ratio * len(heard)
        is_alone = len(heard) == 1
        partly = _partly_dark(view)
        for node in heard:
            if not (node.is_stale or node.name in partly):
                continue
            is_given_up = _is_given_up(view, node)
            if not is_given_up and (_is_planned(node) or not view.jobs_on(node.name)):
                continue
            if node.is_stale:
                found = _silent_node(view, node) if is_given_up or not is_own else None
            else:
                found = _silent_gpus(view, node)
            if found is not None:
                is_few = is_alone or found.window.samples < _LEAST_MISSED
                is_unsure = is_few and found.is_whole and not is_given_up
                yield self._finding(view, found, is_unsure=is_unsure)

    def _finding(self, view: View, silence: _Silence, *, is_unsure: bool) -> Finding:
        node, onset = silence.node, silence.onset
        who = node.name if silence.is_whole else f"{node.name}: {_places(silence.gpus)}"
        for_s = span(view.now - onset)
        return view.finding(
            self,
            subject=node.subject,
            severity=Severity.CRITICAL,
            summary=f"{who} silent since {clock_time(onset)} ({for_s}){_under(view, node)}",
            window=silence.window,
            onset=onset,
            evidence=tuple(_evidence(view, silence)),
            advice=(
                *((_STILL_THERE,) if view.jobs_on(node.name) else ()),
                *commands.ask_node(view, node.name),
                *commands.report_to_admins(view, node.name),
            ),
            machine_advice=(_AWAKE if silence.is_whole else _DRIVER,),
            at_most=Confidence.HYPOTHESIS if is_unsure else Confidence.ESTABLISHED,
            gpus=[gpu.uuid for gpu in silence.gpus],
        )


def _partly_dark(view: View) -> frozenset[str]:
    """Nodes of which some GPUs tell nothing now while others do; spares the rest the window."""
    reports = np.zeros(len(view.uuids), np.bool_)
    for key in VITAL:
        reports |= np.isfinite(view.fleet(key)[:-1])
    names, groups = view.layout.nodes
    is_partly = groups.some(reports) & groups.some(~reports)
    return frozenset(names[place] for place in np.flatnonzero(is_partly))


def _is_planned(node: NodeFacts) -> bool:
    """Whether Slurm says that the node is out of work; one that does not respond is no plan."""
    return _are_planned((node.slurm.state if node.slurm else "").lower())


def _are_planned(state: str) -> bool:
    return any(word in state for word in _PLANNED)


def _is_given_up(view: View, node: NodeFacts) -> bool:
    """Whether Slurm gave the node up after it fell silent under a job, which may have left."""
    if node.silent_since is None or node.slurm is None:
        return False
    words = set(node.slurm.state.lower().split("+"))
    if not words >= _GIVEN_UP or _are_planned("+".join(words - _GIVEN_UP)):
        return False
    left_at = view.left_at.get(node.name, float("-inf"))
    return bool(view.jobs_on(node.name)) or left_at >= node.silent_since


def _under(view: View, node: NodeFacts) -> str:
    """` under job 7`, or what became of the node's jobs; empty where that is not known."""
    labels = [job.job.label for job in view.jobs_on(node.name)]
    if labels:
        return f" under job {', '.join(labels[:_LISTED])}"
    since = node.silent_since or 0.0
    gone = [
        job.label
        for job in view.ended
        if node.name in job.nodes and job.end_at is not None and job.end_at >= since
    ]
    ended = f", with it ended job {', '.join(gone[:_LISTED])}" if gone else ""
    return f": Slurm gave it up{ended}"


def _silent_node(view: View, node: NodeFacts) -> _Silence | None:
    """A node without a word; the onset is the first sample that it missed."""
    since = node.silent_since
    if since is None:
        return None
    rows = view.history.rows(since, view.now)
    is_later = rows.times > since
    if not is_later.any():
        return None
    onset = float(rows.times[is_later][0])
    is_seen = rows.times >= observed_since(view, onset)
    times, samples = rows.times[is_seen], int(rows.samples[is_seen].sum())
    gpus = tuple(view.gpus[uuid] for uuid in node.gpu_uuids if uuid in view.gpus)
    window = Window(float(times[0]), float(times[-1]), samples)
    return _Silence(node=node, gpus=gpus, window=window, onset=onset, is_whole=True)


def _silent_gpus(view: View, node: NodeFacts) -> _Silence | None:
    """GPUs of a talking node that tell nothing, though they did and another one does."""
    uuids = [uuid for uuid in node.gpu_uuids if uuid in view.gpus]
    newest: NDArray[np.bool_] = np.any(np.isfinite(view.latest(uuids, VITAL)), axis=0)
    if newest.all() or not newest.any():
        return None
    quiet = [uuid for uuid, reports in zip(uuids, newest, strict=True) if not reports]
    quiet = [u for u in quiet if not (view.gpus[u].is_lost or view.gpus[u].is_stale)]
    past = view.past(quiet, VITAL, _SPAN_S) if quiet else None
    if past is None or not len(past.times):
        return None
    is_dark = ~np.any([np.isfinite(column) for column in past.columns.values()], axis=0)
    firsts = rows_since(is_dark)
    seen_before = [place for place, row in enumerate(firsts) if 0 < row < len(past.times)]
    held = [place for place in seen_before if view.jobs_of(quiet[place])]
    if not held:
        return None
    onset = float(past.times[min(firsts[place] for place in held)])
    times = past.times[past.times >= observed_since(view, onset)]
    window = Window(float(times[0]), float(times[-1]), len(times))
    return _Silence(
        node=node,
        gpus=tuple(view.gpus[quiet[place]] for place in held),
        window=window,
        onset=onset,
        is_whole=False,
    )


def _places(gpus: Sequence[GpuFacts]) -> str:
    named = ", ".join(str(gpu.nvml_index) for gpu in gpus[:_LISTED])
    if len(gpus) > _LISTED:
        named += f" and {len(gpus) - _LISTED} more"
    return f"GPU {named}" if len(gpus) == 1 else f"GPUs {named}"


def _evidence(view: View, silence: _Silence) -> Iterator[Evidence]:
    node, window = silence.node, silence.window
    reporting = sum(other.has_telemetry and not other.is_stale for other in view.nodes.values())
    what = "nothing was heard" if silence.is_whole else "temperature, power and memory are missing"
    yield Evidence(
        "temp_c",
        node.subject,
        f"{what} for {span(view.now - silence.onset)}, {window.samples} samples; nodes that "
        f"report: {reporting} of {len(view.nodes)}",
        float(window.samples),
    )
    for error in node.errors[:_LISTED]:
        yield Evidence("source_error", node.subject, f"its source: {error.message}")
    if node.slurm is not None:
        yield Evidence("slurm_state", node.subject, f"Slurm calls it {node.slurm.state}")
    for job in view.jobs_on(node.name)[:_LISTED]:
        count = sum(gpu.node == node.name for gpu in job.gpus)
        text = f"job {job.job.label} runs there on {counted(count, 'GPU')}"
        yield Evidence("job", job.subject, text, float(count))
