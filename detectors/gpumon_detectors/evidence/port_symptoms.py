"""Signs that a network port of a node is down, slow or full of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.plugin import Confidence, Severity
from gpumon_detectors.evidence.clock_rows import newest_known
from gpumon_detectors.evidence.episodes import (
    SURE_S,
    episode_row,
    grown_by,
    is_dense,
    known_so_far,
    over_words,
)
from gpumon_detectors.evidence.gpu_use import PAST_S
from gpumon_detectors.evidence.phrases import counted
from gpumon_detectors.evidence.symptom import Symptom, since_when

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumon.plugin import NodeFacts, View

_SPAN_S: Final = 3600.0
"""Errors and speeds of the last hour are compared: what is older is history (our choice)."""

_ACTIVE: Final = "ACTIVE"
_DISABLED: Final = "Disabled"
_SLOW: Final = 0.9
"""Share of the usual speed below which a port is slow: the next lower rate of InfiniBand, or one
lane less, is at most three quarters of it."""

_PEERS: Final = 3
"""Nodes with the same ports and GPUs of which most tell what is usual."""

_FLAPS: Final = 2
"""Times that a link went down within the hour, though it is up now."""

_DOWNED: Final = "nic_link_downed"
_ERRORS: Final = {
    "nic_symbol_error": "symbol errors",
    "nic_link_error_recovery": "link recoveries",
    "nic_port_rcv_errors": "packets received broken",
    "nic_local_link_integrity_errors": "link integrity errors",
    "nic_excessive_buffer_overrun_errors": "buffer overruns",
}
"""Counters of a broken cable or transceiver. What congestion raises, packets out of sequence and
timeouts, is not among them."""

_CABLE: Final = "Look at cable, transceiver and the switch's port: ibstat, ibdiagnet or ethtool -m."


class Port(NamedTuple):
    """One port as its node tells it now."""

    name: str
    """As the kernel: `mlx5_0/1`."""
    state: str | None
    phys_state: str | None
    speed_gbps: float | None
    downs: float
    near: tuple[str, ...]
    """UUIDs of the GPUs behind the same PCIe switch."""

    @property
    def is_active(self) -> bool:
        """Whether it has a link."""
        return self.state == _ACTIVE


def ports_of(node: NodeFacts) -> tuple[Port, ...]:
    """The ports of a node, in its order."""
    rows = node.block("nic")
    found = []
    for row, name in enumerate(rows.keys):
        near = rows.label("nearest_gpus", row) if rows.label("nearest_by", row) == "switch" else ""
        found.append(
            Port(
                name=name,
                state=rows.label("state", row),
                phys_state=rows.label("phys_state", row),
                speed_gbps=rows.value("nic_speed_gbps", row),
                downs=rows.value(_DOWNED, row) or 0.0,
                near=tuple(uuid for uuid in (near or "").split(",") if uuid),
            )
        )
    return tuple(found)


class Usual(NamedTuple):
    """How a port is on most nodes with the same ports."""

    is_active: bool
    speed_gbps: float | None


def usual_ports(view: View, ports: Mapping[str, Sequence[Port]]) -> dict[tuple[str, str], Usual]:
    """By node and port what most nodes with the same ports and GPUs show; nothing for too few."""
    alike: dict[tuple[tuple[str, ...], frozenset[str | None]], list[str]] = {}
    for node, mine in ports.items():
        gpus = (view.gpus.get(uuid) for uuid in view.nodes[node].gpu_uuids)
        products = frozenset(gpu.name for gpu in gpus if gpu is not None)
        alike.setdefault((tuple(port.name for port in mine), products), []).append(node)
    found = {}
    for (names, _), nodes in alike.items():
        if len(nodes) < _PEERS:
            continue
        for place, name in enumerate(names):
            reporting = [ports[node][place] for node in nodes if ports[node][place].state]
            active = [port for port in reporting if port.is_active]
            speeds = [port.speed_gbps for port in active if port.speed_gbps]
            usual = Usual(
                2 * len(active) > len(reporting), float(np.median(speeds)) if speeds else None
            )
            found.update({(node, name): usual for node in nodes})
    return found


def with_errors(view: View) -> frozenset[str]:
    """Ports, as `NODE/PORT`, of which an error was counted since they were first seen."""
    ports = view.history.entities("nic")
    if not ports:
        return frozenset()
    counts = view.history.newest(ports, (*_ERRORS, _DOWNED), "nic")
    return frozenset(ports[place] for place in np.flatnonzero((counts > 0).any(axis=0)))


def symptoms(
    view: View, node: NodeFacts, port: Port, usual: Usual | None, *, has_errors: bool
) -> list[Symptom]:
    """What is wrong with one port; without an error counted its counters are not looked at."""
    if port.state is None:
        return []
    if not port.is_active:
        return list(_down(view, node, port, usual))
    errors = _errors(view, node, port) if has_errors else ()
    return [*_slow(view, node, port, usual), *errors]


def _down(view: View, node: NodeFacts, port: Port, usual: Usual | None) -> Iterator[Symptom]:
    """A port without a link that most nodes have, or that had one since the driver was loaded.

    Where its physical state is not told nobody knows whether it was disabled on purpose.
    """
    was_up = port.downs > 0 if usual is None else usual.is_active
    if not was_up or port.phys_state in (None, _DISABLED):
        return
    keys = ("nic_speed_gbps", "nic_rx_bytes_per_s", "nic_tx_bytes_per_s")
    table = view.table((f"{node.name}/{port.name}",), keys, PAST_S)
    speed, received, sent = (column[:, 0] for column in table.columns.values())
    is_down = (speed == newest_known(speed[:, None])[0]) & ~(received > 0) & ~(sent > 0)
    since, samples = since_when(view, table.times, is_down, np.isfinite(speed))
    times = counted(int(port.downs), "time")
    how = f", its link went down {times} since the driver was loaded" if port.downs else ""
    text = f"port {port.name} is {port.state} ({port.phys_state}){how}"
    yield Symptom(
        field="nic_link_downed",
        text=text,
        value=port.downs,
        severity=Severity.CRITICAL,
        machine_advice=_CABLE,
        since=since,
        samples=samples,
    )


def _slow(view: View, node: NodeFacts, port: Port, usual: Usual | None) -> Iterator[Symptom]:
    """A port slower than on most nodes, or than it was within the hour where nobody compares."""
    best, whose = usual.speed_gbps if usual else None, "most nodes have"
    if not port.speed_gbps or (best and port.speed_gbps >= _SLOW * best):
        return
    key = "nic_speed_gbps"
    entity = f"{node.name}/{port.name}"
    if not best:
        values = view.past((entity,), (key,), _SPAN_S).columns[key]
        known = values[np.isfinite(values)]
        best, whose = float(known.max()) if len(known) else port.speed_gbps, "it had"
    if port.speed_gbps < _SLOW * best:
        table = view.table((entity,), (key,), PAST_S)
        speeds = table.columns[key][:, 0]
        since, samples = since_when(view, table.times, speeds < _SLOW * best, np.isfinite(speeds))
        text = f"port {port.name} at {port.speed_gbps:.0f} Gb/s, {whose} {best:.0f} Gb/s"
        yield Symptom(
            field=key,
            text=text,
            value=port.speed_gbps,
            severity=Severity.WARNING,
            machine_advice=_CABLE,
            since=since,
            samples=samples,
        )


def _errors(view: View, node: NodeFacts, port: Port) -> Iterator[Symptom]:
    """Counters that grow in most minutes, and a link that goes down again and again."""
    # What a counter grew by while nobody looked is known behind the gap.
    past = view.past((f"{node.name}/{port.name}",), (*_ERRORS, _DOWNED), _SPAN_S)
    times = past.times
    for key, counter in ((key, column[:, 0]) for key, column in past.columns.items()):
        is_grown = np.diff(known_so_far(counter), prepend=0.0) > 0
        row = episode_row(times, is_grown) if len(times) else None
        if row is not None and not is_dense(times[row:], is_grown[row:]):
            row = None
        is_scattered = row is None
        if key == _DOWNED and is_scattered and int(is_grown.sum()) >= _FLAPS:
            row = int(np.flatnonzero(is_grown)[0])
        if row is None:
            continue
        count, since = grown_by(counter, row), float(times[row])
        what = "times without a link" if key == _DOWNED else _ERRORS[key]
        over = over_words(times, row, is_scattered=is_scattered)
        text = f"port {port.name}: {count:.0f} {what} {over}"
        is_sure = key == _DOWNED or float(times[-1]) - since >= SURE_S
        at_most = Confidence.ESTABLISHED if is_sure else Confidence.HYPOTHESIS
        samples = len(times) - row
        yield Symptom(
            field=key,
            text=text,
            value=count,
            severity=Severity.WARNING,
            machine_advice=_CABLE,
            since=since,
            samples=samples,
            at_most=at_most,
        )
