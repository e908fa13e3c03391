"""Signs that NVLinks of a GPU are down, slow or full of errors."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.model.finding import Confidence, Severity
from gpumon.model.xid import FABRIC_HEALTH, name_of
from gpumon_detectors.evidence.episodes import (
    REST_S,
    SURE_S,
    episode_row,
    grown_by,
    is_dense,
    known_so_far,
    over_words,
)
from gpumon_detectors.evidence.phrases import clock_time, counted
from gpumon_detectors.evidence.symptom import Symptom, since_when

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.detect.facts.facts import GpuFacts, LinkFacts, NodeFacts
    from gpumon.detect.series import Table
    from gpumon.detect.view import View

_SPAN_S: Final = 3600.0
_INACTIVE: Final = 0
_RECENT_ROWS: Final = 3
_SLOW: Final = 0.9
"""Share of the usual speed; generations differ by more, and links of one board not at all."""

_NEIGHBOURS: Final = 3
_TIMES_NEIGHBOURS: Final = 10.0
"""So much oftener than its neighbours' its errors must come: what all have is no fault of one."""

_MANY_ERRORS: Final = 3
"""Samples within the hour that show new errors of a kind of which a sound link has none, from which
they are more than a *hypothesis*: fewer may be one training of the link (our choice)."""

_MOST_CHECKSUM_ERRORS: Final = 100.0
"""A second: "CRC errors only matter at rates of 100+ per second" (DCGM_LIMIT_MAX_NVLINK_CRC_ERROR
in DCGM's dcgm_gpu_hardware_limits.h); below it DCGM warns, from it on it fails."""

_CHECKSUMS: Final = frozenset({"nvlink_crc_flit_count", "nvlink_crc_data_count"})
_RECOVERIES: Final = frozenset({"nvlink_recovery_count", "link_recovery_event_count"})
"""Each stops the link."""

_FIRST_COUNTS: Final = frozenset(
    {"nvlink_replay_count", "link_recovery_failed_count", *_RECOVERIES}
)
"""Errors that count from the first on: DCGM fails at one in a minute (DCGM_LIMIT_MAX_NVLINK_ERROR,
DcgmHealthWatch.cpp)."""

_OLDER: Final = (
    "nvlink_replay_count",
    "nvlink_crc_flit_count",
    "nvlink_crc_data_count",
    "nvlink_ecc_data_count",
    "nvlink_recovery_count",
)
"""Errors of all links of a GPU, up to NVLink 4; the last are recoveries."""

_NEWER: Final = (
    "link_receive_error_count",
    "link_effective_error_count",
    "link_recovery_failed_count",
    "link_recovery_event_count",
)
"""Errors of one link, NVLink 5 and newer; the last are recoveries. Symbol errors are corrected and
ordinary there."""

_WORDS: Final = {
    "nvlink_replay_count": "packets sent again",
    "nvlink_crc_flit_count": "checksum errors",
    "nvlink_crc_data_count": "checksum errors of data",
    "nvlink_ecc_data_count": "ECC errors of data",
    "nvlink_recovery_count": "link recoveries",
    "link_receive_error_count": "errors received",
    "link_effective_error_count": "errors left after correction",
    "link_recovery_failed_count": "failed link recoveries",
    "link_recovery_event_count": "link recoveries",
}

_BOTH_ENDS: Final = "Look at both ends of the link: nvidia-smi nvlink -s and -e, the switch's log."


def suspects(view: View) -> Iterator[tuple[NodeFacts, GpuFacts]]:
    """GPUs of which a link, a counter or the fabric is odd; spares the sound ones further looks."""
    uuids = view.uuids
    is_odd: NDArray[np.bool_] = view.fleet("fabric_health")[:-1] > 1
    for key in _OLDER if uuids else ():
        # Single samples are missing now and then: one of the last ones tells.
        counts = view.table(uuids, (key,), REST_S).columns[key][-_RECENT_ROWS:]
        is_odd |= np.any(counts > 0, axis=0)
    for node in view.nodes.values():
        if not node.is_stale and node.block("link").keys and _has_odd_links(node):
            is_odd[view.layout.places(node.gpu_uuids)] = True
    is_odd &= ~(view.is_stale | view.is_lost | (np.nan_to_num(view.fleet("mig_mode")[:-1]) != 0))
    for place in np.flatnonzero(is_odd):
        gpu = view.gpus[uuids[place]]
        node = view.nodes[gpu.node]
        if not node.is_stale:
            yield node, gpu


def _has_odd_links(node: NodeFacts) -> bool:
    """Whether a link of the node is inactive, unlike the others, or ever had an error."""
    values = node.block("link").values
    states, speeds = values.get("link_state", ()), values.get("link_speed_bytes_per_s", ())
    is_odd = _INACTIVE in states or len({*speeds} - {None}) > 1
    return is_odd or any(any(values.get(key, ())) for key in _NEWER)


def symptoms(view: View, node: NodeFacts, gpu: GpuFacts) -> list[Symptom]:
    """What is wrong with a GPU's links, the gravest first."""
    links = node.links(gpu.uuid)
    if not any(link.value("link_state") is not None for link in links):
        return []
    beside = [u for u in node.gpu_uuids if u in view.gpus and view.gpus[u].name == gpu.name]
    found = [
        *_down(view, node, links, beside),
        *_slow(view, node, links, beside),
        *_older_errors(view, gpu, beside),
        *_newer_errors(view, links),
        *_fabric(view, gpu),
    ]
    return sorted(found, key=lambda symptom: -symptom.severity.rank)


def _is_active(link: LinkFacts) -> bool:
    return (link.value("link_state") or _INACTIVE) != _INACTIVE


def _down(
    view: View, node: NodeFacts, links: Sequence[LinkFacts], beside: Sequence[str]
) -> Iterator[Symptom]:
    """Inactive links that lead to a switch, were active, or are active on most neighbours."""
    down = [link for link in links if link.value("link_state") == _INACTIVE]
    if not down:
        return
    table = view.table([link.key for link in down], ("link_state",), _SPAN_S)
    states = table.columns["link_state"]
    was_active: NDArray[np.bool_] = np.any(states > _INACTIVE, axis=0)
    active = sum(_is_active(link) for link in links)
    is_switched = active > 0 and any(link.label("remote_type") == "switch" for link in links)
    others = Counter(sum(map(_is_active, node.links(uuid))) for uuid in beside)
    usual = others.most_common(1)[0][0] if len(beside) >= _NEIGHBOURS else 0
    if not (is_switched or active < usual):
        down = [link for link, was in zip(down, was_active, strict=True) if was]
    if not down:
        return
    places = [place for place, link in enumerate(links) if link in down]
    held = view.table([link.key for link in down], ("link_state",), _SPAN_S)
    is_down: NDArray[np.bool_] = np.any(held.columns["link_state"] == _INACTIVE, axis=1)
    since, samples = since_when(view, held.times, is_down)
    text = f"{len(down)} of {counted(len(links), 'NVLink')} inactive since {clock_time(since)}"
    text += f" (link {', '.join(str(links[place].number) for place in places[:8])})"
    yield Symptom(
        "link_state", text, float(len(down)), Severity.CRITICAL, _BOTH_ENDS, since, samples
    )


def _slow(
    view: View, node: NodeFacts, links: Sequence[LinkFacts], beside: Sequence[str]
) -> Iterator[Symptom]:
    """Active links below the speed of most active links of the same product on the node."""
    speeds = [
        speed
        for uuid in beside
        for link in node.links(uuid)
        if _is_active(link) and (speed := link.value("link_speed_bytes_per_s"))
    ]
    usual = float(np.median(speeds)) if speeds else 0.0
    slow = [
        link
        for link in links
        if _is_active(link) and 0 < (link.value("link_speed_bytes_per_s") or 0) < _SLOW * usual
    ]
    if slow:
        table = view.table([link.key for link in slow], ("link_speed_bytes_per_s",), _SPAN_S)
        told = table.columns["link_speed_bytes_per_s"]
        is_slow: NDArray[np.bool_] = np.any(told < _SLOW * usual, axis=1)
        since, samples = since_when(view, table.times, is_slow)
        speed = float(slow[0].value("link_speed_bytes_per_s") or 0)
        text = f"{counted(len(slow), 'NVLink')} at {speed / 1e9:.1f} GB/s, "
        text += f"most of the node's at {usual / 1e9:.1f} GB/s"
        field = "link_speed_bytes_per_s"
        yield Symptom(field, text, speed, Severity.CRITICAL, _BOTH_ENDS, since, samples)


def _older_errors(view: View, gpu: GpuFacts, beside: Sequence[str]) -> Iterator[Symptom]:
    """Counters of the GPU that grow faster than a sound link's."""
    others = [uuid for uuid in beside if uuid != gpu.uuid]
    for key in _OLDER:
        table = view.table((gpu.uuid, *others), (key,), _SPAN_S)
        if len(table.times) and not _is_usual(table, key):
            yield from _growing(table, key, 0)


def _is_usual(table: Table, key: str) -> bool:
    """Whether the first column's counter grew no more than ten times as much as the others'.

    What all have is no fault of one; of errors that count from the first on no link has any.
    """
    if key in _FIRST_COUNTS or table.columns[key].shape[1] == 1:
        return False
    grown = [grown_by(column, 0) for column in table.columns[key].T]
    if grown[0] >= _MOST_CHECKSUM_ERRORS * table.length_s > 0:
        return False
    return grown[0] <= _TIMES_NEIGHBOURS * float(np.median(grown[1:]))


def _newer_errors(view: View, links: Sequence[LinkFacts]) -> Iterator[Symptom]:
    keys = [key for key in _NEWER if any(link.value(key) for link in links)]
    for key in keys:
        table = view.table([link.key for link in links], (key,), _SPAN_S)
        for place, link in enumerate(links):
            for symptom in _growing(table, key, place):
                yield symptom._replace(text=f"link {link.number}: {symptom.text}")


def _growing(table: Table, key: str, place: int) -> Iterator[Symptom]:
    """A counter that grows in most minutes, or at all where a sound link's never does."""
    times, counter = table.times, table.columns[key][:, place]
    is_grown = np.diff(known_so_far(counter), prepend=0.0) > 0
    row = _first_row(times, is_grown, counts_at_once=key in _FIRST_COUNTS)
    if row is None:
        return
    count, since = grown_by(counter, row), float(times[row])
    is_sure = float(times[-1]) - since >= SURE_S
    if key in _FIRST_COUNTS:
        is_sure = (is_sure or key in _RECOVERIES) and int(is_grown.sum()) >= _MANY_ERRORS
    severity = Severity.CRITICAL if key in _RECOVERIES and is_sure else Severity.WARNING
    is_scattered = not is_dense(times[row:], is_grown[row:])
    text = f"{count:.0f} {_WORDS[key]} {over_words(times, row, is_scattered=is_scattered)}"
    if key in _CHECKSUMS:
        a_second = count / max(1.0, float(times[-1]) - float(times[max(0, row - 1)]))
        severity = _checksum_severity(a_second, is_sure=is_sure)
        rate = f"{a_second:.{0 if a_second >= 1 else 3}f} a second"
        text += f", {rate}; from {_MOST_CHECKSUM_ERRORS:.0f} on a link fails"
    at_most = Confidence.ESTABLISHED if is_sure else Confidence.HYPOTHESIS
    yield Symptom(key, text, count, severity, _BOTH_ENDS, since, len(times) - row, at_most)


def _first_row(
    times: NDArray[np.float64], is_grown: NDArray[np.bool_], *, counts_at_once: bool
) -> int | None:
    """Row of the first error: of the hour where each counts, else of a dense episode."""
    if counts_at_once:
        return int(np.argmax(is_grown)) if is_grown.any() else None
    row = episode_row(times, is_grown)
    return row if row is not None and is_dense(times[row:], is_grown[row:]) else None


def _checksum_severity(a_second: float, *, is_sure: bool) -> Severity:
    if a_second < _MOST_CHECKSUM_ERRORS:
        return Severity.INFO
    return Severity.CRITICAL if is_sure else Severity.WARNING


def _fabric(view: View, gpu: GpuFacts) -> Iterator[Symptom]:
    health = gpu.value("fabric_health") or 0
    if health > 1:
        times, values = view.series(gpu.uuid, "fabric_health", _SPAN_S)
        since, samples = since_when(view, times, values == health)
        text = f"the NVLink fabric calls this GPU {name_of(health, FABRIC_HEALTH)}"
        advice = "Look at the fabric manager's log: journalctl -u nvidia-fabricmanager."
        yield Symptom(
            "fabric_health", text, float(health), Severity.CRITICAL, advice, since, samples
        )
