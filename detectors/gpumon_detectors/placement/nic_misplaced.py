"""Ranks that talk through a port far from their GPU, while the one beside it is silent."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Detector, Evidence, Severity
from gpumon_detectors.evidence.job_commands import srun_in
from gpumon_detectors.evidence.phrases import counted, listed, span
from gpumon_detectors.evidence.watched import (
    mean_of,
    seen_s,
    surest,
    unbroken,
    window_of,
)
from gpumon_detectors.placement.exchange import PORT_REACH, exposed
from gpumon_detectors.placement.seats import known_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, JobLook, NodeFacts, Past, View

_SPAN_S: Final = 1800.0
"""How far back the window reaches."""

_NEAR: Final = ("switch", "root")
"""How near a port must be to a GPU to be its own: below one PCIe switch, or one root complex. One
that shares the socket alone is near to half of the node."""

_CARRIES: Final = 0.9
"""Share of a node's traffic that the one port carries (our choice: control messages of others are
a few per mille)."""

_SILENT: Final = 0.02
"""Share of the carrying port's traffic below which another one is silent (our choice)."""

_BOTH_WAYS: Final = 0.5
"""An exchange sends about what it receives; files that are read over a port come one way (our
choice: the smaller way is at least half of the larger)."""

_LEAST_LOAD: Final = 0.03
"""Share of what the port carries from which on traffic is worth a word, as for `fragmented`: less
are control messages (our choice)."""

_FULL: Final = 0.2
"""From this load on, on average over steps that also compute, the one port is what ranks wait for
(our choice: exchanges take a quarter to two thirds of such a step, at the port's full rate)."""

_WORKS: Final = 0.2
"""Utilisation from which a GPU takes part in the work (our choice)."""

_RATES: Final = ("nic_tx_bytes_per_s", "nic_rx_bytes_per_s")

_LISTED: Final = 4
"""Most GPUs, jobs or processes that a finding names: more would fill its page (our choice)."""


class _Port(NamedTuple):
    """One active port that is near to some GPUs."""

    entity: str
    name: str
    near: frozenset[str]
    bytes_per_s: float
    """What it carries one way."""


class _Detour(NamedTuple):
    """One port of a node that carries what others should."""

    node: str
    port: _Port
    load: float
    bytes_per_s: float
    silent: tuple[_Port, ...]
    far: tuple[str, ...]
    """UUIDs of the job's GPUs that are near to the silent ones and not to it."""
    past: Past


class NicMisplaced(Detector):
    """Claims that a job of several nodes talks through one port of each, far from most of its GPUs.

    Signature, on every node of the job whose ports are known: one port carries at least 90 % of the
    traffic of all ports with its speed, as much out as in, and at least `busy_port_ratio` of what
    it can carry, on average; ports with the same speed that are active, and below one PCIe switch
    or root complex with other GPUs of the job that work, carry less than 2 % of that. Three per
    cent is where an exchange is no longer a matter of control messages.

    *Supported* after 10 minutes where the port is loaded by at least a fifth, on average: that is
    one that ranks wait for; *established* after 30. Below, it is a remark without weight and a
    *hypothesis*.

    What looks alike: GPUs that share one port by the node's design; ports that are down, slower, or
    for storage only; files that are read or written, which go one way; a job with one rank on each
    node; traffic of other jobs: where another job is on a node, nothing is claimed.

    The loss is what the other ports would save: the port is busy for what it carries over what an
    exchange reaches (.8 of its speed), and with all of the near ports the same bytes take that
    share over their number. What is hidden behind the computation costs nothing, so no more counts
    as busy than the SMs that are active while kernels run are short of .85, which dense training
    fills. That the way to a far port is slower too is not counted. Where SM activity is not known,
    or the port has room, no loss is given.
    """

    name = "nic_misplaced"
    version = "1"
    finding_classes = ("nic_misplaced",)
    needs = (_RATES[0], "gpu_util_ratio")
    supported_after_s = 600.0
    established_after_s = 1800.0
    every_s = 30.0

    def __init__(self, busy_port_ratio: float = _LEAST_LOAD) -> None:
        self.busy_port_ratio = busy_port_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per job whose nodes all talk through one port."""
        for job in view.jobs:
            if len(job.job.nodes) < 2 or len(job.gpus) <= len(job.job.nodes) or not job.is_alone:
                continue
            detours = self._detours(view, job)
            if detours:
                yield self._finding(view, job, detours)

    def _detours(self, view: View, job: JobLook) -> list[_Detour]:
        """One for each node of the job with ports; none where a single one does well."""
        ports = {node.name: _ports(node) for node in job.nodes}
        ports = {name: found for name, found in ports.items() if found}
        if not ports or not all(_is_lopsided(view, found) for found in ports.values()):
            return []
        works = _working(job)
        found = [self._detour(view, job, name, mine, works) for name, mine in ports.items()]
        return [one for one in found if one is not None] if None not in found else []

    def _detour(
        self, view: View, job: JobLook, name: str, ports: Sequence[_Port], works: frozenset[str]
    ) -> _Detour | None:
        past = unbroken(
            view.past([port.entity for port in ports], _RATES, _SPAN_S, job.all_held_since)
        )
        if len(past.times) < 2:
            return None
        sent, received = (known_mean(past, key) for key in _RATES)
        moved = np.fmax(sent, received)
        if not np.isfinite(moved).all():
            return None
        carrier = int(np.argmax(moved))
        port, most = ports[carrier], float(moved[carrier])
        ways = sorted((float(sent[carrier]), float(received[carrier])))
        load = most / port.bytes_per_s
        is_one = most >= _CARRIES * float(moved.sum()) and ways[0] >= _BOTH_WAYS * ways[1]
        if not is_one or load < self.busy_port_ratio:
            return None
        silent = tuple(
            other
            for other, bytes_per_s in zip(ports, moved, strict=True)
            if bytes_per_s <= _SILENT * most and (other.near & works) - port.near
        )
        near_silent = frozenset[str]().union(*(other.near for other in silent))
        far = tuple(uuid for uuid in job.uuids if uuid in (near_silent & works) - port.near)
        return (
            _Detour(
                node=name, port=port, load=load, bytes_per_s=most, silent=silent, far=far, past=past
            )
            if far
            else None
        )

    def _finding(self, view: View, job: JobLook, detours: Sequence[_Detour]) -> Finding:
        shortest = min((one.past for one in detours), key=seen_s)
        window, known_s = window_of(shortest), seen_s(shortest)
        is_full = min(one.load for one in detours) >= _FULL
        far = [uuid for one in detours for uuid in one.far]
        most = Confidence.ESTABLISHED if is_full else Confidence.HYPOTHESIS
        lost = _lost_share(job, detours) if is_full else 0.0
        names = list(dict.fromkeys(one.port.name for one in detours))
        ports = names[0] if len(names) == 1 else "one port a node"
        return view.finding(
            self,
            subject=job.subject,
            severity=Severity.WARNING if is_full else Severity.INFO,
            summary=(
                f"{counted(len(far), 'rank')} of {len(job.gpus)} talk through {ports}, far from "
                f"their GPUs; nearer ports are silent"
            ),
            window=window,
            evidence=[
                *(line for one in detours[:_LISTED] for line in _lines(job, one)),
                *_loss_line(job, detours, lost),
            ],
            advice=tuple(_advice(job)),
            gpu_seconds=lost * known_s * len(job.gpus) if lost else None,
            at_most=surest(self, known_s, window.samples, most),
        )


def _ports(node: NodeFacts) -> tuple[_Port, ...]:
    """The active ports of the fastest speed and commonest link that are near to GPUs."""
    rows = node.block("nic")
    found: dict[tuple[str | None, float], list[_Port]] = {}
    for row, name in enumerate(rows.keys):
        speed = rows.value("nic_speed_gbps", row)
        near = frozenset(filter(None, (rows.label("nearest_gpus", row) or "").split(",")))
        is_near = rows.label("nearest_by", row) in _NEAR and near
        if not speed or not is_near or rows.label("state", row) != "ACTIVE":
            continue
        port = _Port(f"{node.name}/{name}", name, near, float(speed) * 1e9 / 8)
        found.setdefault((rows.label("link_layer", row), float(speed)), []).append(port)
    best = max(found, key=lambda kind: (kind[1], len(found[kind])), default=None)
    return tuple(found[best]) if best is not None and len(found[best]) > 1 else ()


def _is_lopsided(view: View, ports: Sequence[_Port]) -> bool:
    """Whether one of the ports carries nearly all now; spares most jobs a look at their past."""
    newest = view.history.newest([port.entity for port in ports], _RATES, "nic")
    moved: NDArray[np.float32] = np.nan_to_num(np.fmax(newest[0], newest[1]))
    # Half of the share: a moment of control messages, or of a file, is no verdict.
    return float(moved.max()) >= 0.5 * _CARRIES * float(moved.sum()) > 0.0


def _working(job: JobLook) -> frozenset[str]:
    past = job.past(("gpu_util_ratio",), _SPAN_S)
    if not len(past.times):
        return frozenset()
    util = mean_of(past, "gpu_util_ratio")
    return frozenset(uuid for uuid, share in zip(job.uuids, util, strict=True) if share >= _WORKS)


def _lost_share(job: JobLook, detours: Sequence[_Detour]) -> float:
    """What all near ports would save of the time, on the node that gains least; 0: not known."""
    room = exposed(job, _SPAN_S)
    if not isfinite(room):
        return 0.0
    return min(
        min(room, one.load / PORT_REACH) * (1.0 - 1.0 / (1 + len(one.silent))) for one in detours
    )


def _loss_line(job: JobLook, detours: Sequence[_Detour], lost: float) -> Iterator[Evidence]:
    if lost:
        ports = 1 + min(len(one.silent) for one in detours)
        text = f"using all {ports} ports of a node would save {100 * lost:.0f} % of the time"
        yield Evidence("sm_active_ratio", job.subject, text, lost)


def _lines(job: JobLook, one: _Detour) -> Iterator[Evidence]:
    places = {gpu.uuid: gpu.place for gpu in job.gpus}
    over = span(seen_s(one.past))
    text = (
        f"{one.node}: port {one.port.name} carries {one.bytes_per_s / 1e9:.1f} GB/s each way, "
        f"{100 * one.load:.0f} % of what it can, over {over}"
    )
    yield Evidence("nic_tx_bytes_per_s", f"node:{one.node}", text, one.bytes_per_s)
    names = listed([port.name for port in one.silent[:_LISTED]])
    more = f" and {len(one.silent) - _LISTED} more" if len(one.silent) > _LISTED else ""
    gpus = listed([places[uuid] for uuid in one.far[:_LISTED]])
    text = f"{names}{more}, nearer to {gpus}, are active and carry next to nothing"
    yield Evidence("nearest_gpus", f"node:{one.node}", text)


def _advice(job: JobLook) -> Iterator[str]:
    yield (
        "Let NCCL choose: leave NCCL_IB_HCA, NCCL_NET_GDR_LEVEL and UCX_NET_DEVICES unset, or name "
        "all ports in them; NCCL_DEBUG=INFO shows which ones it takes."
    )
    within = srun_in(job.job)
    if within is not None:
        yield f"See which ports are near which GPU: {within} nvidia-smi topo -m"
