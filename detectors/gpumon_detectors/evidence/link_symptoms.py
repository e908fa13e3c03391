"""Signs that NVLinks of a GPU are down, slow or full of errors."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.model.finding import Confidence, Severity
from gpumon.model.xid import FABRIC_HEALTH, name_of
from gpumon_detectors.evidence.episodes import SURE_S, episode_row, grew, is_dense, over_words
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
_SLOW: Final = 0.9
"""Share of the usual speed; generations differ by more, and links of one board not at all."""

_NEIGHBOURS: Final = 3
_TIMES_NEIGHBOURS: Final = 10.0
"""So much oftener than its neighbours' its errors must come: what all have is no fault of one."""

_MANY_RECOVERIES: Final = 3
"""Recoveries within the hour; each stops the link, and a sound one has none."""

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
    if uuids and view.history.newest_at == view.now:
        is_odd |= np.any(view.history.newest(uuids, _OLDER) > 0, axis=0)
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
    """Counters of the GPU that grow again and again, much faster than its neighbours'."""
    others = [uuid for uuid in beside if uuid != gpu.uuid]
    for key in _OLDER:
        table = view.table((gpu.uuid, *others), (key,), _SPAN_S)
        if not len(table.times):
            continue
        total = np.nan_to_num(np.nanmax(np.nan_to_num(table.columns[key]), axis=0))
        if others and total[0] <= _TIMES_NEIGHBOURS * float(np.median(total[1:])):
            continue
        yield from _growing(table, key, 0, key == _OLDER[-1])


def _newer_errors(view: View, links: Sequence[LinkFacts]) -> Iterator[Symptom]:
    keys = [key for key in _NEWER if any(link.value(key) for link in links)]
    for key in keys:
        table = view.table([link.key for link in links], (key,), _SPAN_S)
        for place, link in enumerate(links):
            for symptom in _growing(table, key, place, key == _NEWER[-1]):
                yield symptom._replace(text=f"link {link.number}: {symptom.text}")


def _growing(table: Table, key: str, place: int, is_recovery: bool) -> Iterator[Symptom]:
    """A counter that grows in most minutes, or recoveries that come again within the hour."""
    counter = table.columns[key][:, place]
    is_grown = grew(table.times, counter)
    row = episode_row(table.times, is_grown)
    if row is not None and not is_dense(table.times[row:], is_grown[row:]):
        row = None
    is_scattered = row is None
    if is_scattered and is_recovery and int(is_grown.sum()) >= _MANY_RECOVERIES:
        row = int(np.flatnonzero(is_grown)[0])
    if row is None:
        return
    count = float(np.nanmax(counter) - np.nan_to_num(counter[max(0, row - 1)]))
    since = float(table.times[row])
    over = over_words(table.times, row, is_scattered=is_scattered)
    text = f"{count:.0f} {_WORDS[key]} {over}"
    severity = Severity.CRITICAL if is_recovery else Severity.WARNING
    is_sure = is_recovery or float(table.times[-1]) - since >= SURE_S
    at_most = Confidence.ESTABLISHED if is_sure else Confidence.HYPOTHESIS
    samples = len(table.times) - row
    yield Symptom(key, text, count, severity, _BOTH_ENDS, since, samples, at_most)


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
