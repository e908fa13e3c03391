"""Signs that NVLinks of a GPU are down, slow or full of errors."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.plugin import FABRIC_HEALTH, Confidence, Severity, code_name
from gpumon_detectors.evidence.clock_rows import newest_known
from gpumon_detectors.evidence.episodes import (
    REST_S,
    SURE_S,
    episode_row,
    grown_by,
    is_dense,
    known_so_far,
    over_words,
)
from gpumon_detectors.evidence.gpu_use import PAST_S
from gpumon_detectors.evidence.phrases import clock_time, counted, noun
from gpumon_detectors.evidence.symptom import RECENT_ROWS, Symptom, since_when

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import GpuFacts, LinkFacts, NodeFacts, Past, View

_SPAN_S: Final = 3600.0
"""Errors, states and speeds of the last hour are compared: what is older is history (our
choice)."""

_INACTIVE: Final = 0
"""`NVML_FEATURE_DISABLED` of nvml.h, as `nvmlDeviceGetNvLinkState` returns it."""

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
    "nvlink_replay_count": ("", "packet", " sent again"),
    "nvlink_crc_flit_count": ("checksum ", "error", ""),
    "nvlink_crc_data_count": ("checksum ", "error", " of data"),
    "nvlink_ecc_data_count": ("ECC ", "error", " of data"),
    "nvlink_recovery_count": ("link ", "recovery", ""),
    "link_receive_error_count": ("", "error", " received"),
    "link_effective_error_count": ("", "error", " left after correction"),
    "link_recovery_failed_count": ("failed link ", "recovery", ""),
    "link_recovery_event_count": ("link ", "recovery", ""),
}
"""What a counter counts: the noun, with what is before and behind it."""

_STATE: Final = "link_state"
_SPEED: Final = "link_speed_bytes_per_s"
_BOTH_ENDS: Final = "Look at both ends of the link: nvidia-smi nvlink -s and -e, the switch's log."


def suspects(view: View) -> Iterator[tuple[NodeFacts, GpuFacts]]:
    """GPUs of which a link, a counter or the fabric is odd; spares the sound ones further looks."""
    uuids = view.uuids
    is_odd: NDArray[np.bool_] = view.fleet("fabric_health")[:-1] > 1
    for key in _OLDER if uuids else ():
        # Single samples are missing now and then: one of the last ones tells.
        counts = view.table(uuids, (key,), REST_S).columns[key][-RECENT_ROWS:]
        is_odd |= np.any(counts > 0, axis=0)
    for place in np.flatnonzero(view.per_node(_has_odd_links) > 0):
        node = view.nodes[view.node_layout.names[place]]
        if not node.is_stale:
            is_odd[view.layout.places(node.gpu_uuids)] = True
    is_odd &= ~(view.is_stale | view.is_lost | (np.nan_to_num(view.fleet("mig_mode")[:-1]) != 0))
    for place in np.flatnonzero(is_odd):
        gpu = view.gpus[uuids[place]]
        node = view.nodes[gpu.node]
        if not node.is_stale:
            yield node, gpu


def _has_odd_links(node: NodeFacts) -> bool:
    """Whether a link is inactive, unlike the others, told of unlike them, or ever had an error."""
    values = node.block("link").values
    states, speeds = {*values.get("link_state", ())}, {*values.get(_SPEED, ())}
    is_odd = _INACTIVE in states or len(speeds) > 1 or (None in states and len(states) > 1)
    return is_odd or any(any(values.get(key, ())) for key in _NEWER)


def symptoms(view: View, node: NodeFacts, gpu: GpuFacts) -> list[Symptom]:
    """What is wrong with a GPU's links, the gravest first."""
    links = node.links(gpu.uuid)
    if not any(link.value(_STATE) is not None for link in links):
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


def _lately(view: View, links: Sequence[LinkFacts], key: str) -> list[float | None]:
    """What each link reports of a field now, or reported in one of the last samples."""
    values = [link.value(key) for link in links]
    lacking = [place for place, value in enumerate(values) if value is None]
    if 0 < len(lacking) < len(values):
        keys = [links[place].key for place in lacking]
        recent = newest_known(view.table(keys, (key,), REST_S).columns[key][-RECENT_ROWS:])
        for place, value in zip(lacking, recent, strict=True):
            values[place] = None if np.isnan(value) else float(value)
    return values


def _down(
    view: View, node: NodeFacts, links: Sequence[LinkFacts], beside: Sequence[str]
) -> Iterator[Symptom]:
    """Inactive links that lead to a switch, were active, or are active on most neighbours."""
    states = _lately(view, links, _STATE)
    down = [link for link, state in zip(links, states, strict=True) if state == _INACTIVE]
    if not down:
        return
    active = len(links) - len(down)
    is_switched = active > 0 and any(link.label("remote_type") == "switch" for link in links)
    if not (is_switched or active < _usually_active(view, node, beside)):
        past = view.past([link.key for link in down], (_STATE,), _SPAN_S).columns[_STATE]
        was_active: NDArray[np.bool_] = np.any(past > _INACTIVE, axis=0)
        down = [link for link, was in zip(down, was_active, strict=True) if was]
    if not down:
        return
    places = [place for place, link in enumerate(links) if link in down]
    held = view.table([link.key for link in down], (_STATE,), PAST_S)
    of_link = held.columns[_STATE]
    is_down: NDArray[np.bool_] = np.any(of_link == _INACTIVE, axis=1)
    is_known: NDArray[np.bool_] = is_down | np.all(np.isfinite(of_link), axis=1)
    since, samples = since_when(view, held.times, is_down, is_known)
    text = f"{len(down)} of {counted(len(links), 'NVLink')} inactive since {clock_time(since)}"
    text += f" (link {', '.join(str(links[place].number) for place in places[:8])})"
    yield Symptom(
        field=_STATE,
        text=text,
        value=float(len(down)),
        severity=Severity.CRITICAL,
        machine_advice=_BOTH_ENDS,
        since=since,
        samples=samples,
    )


def _usually_active(view: View, node: NodeFacts, beside: Sequence[str]) -> int:
    """Active links of most GPUs whose links are all told of; 0 where these are too few."""
    counts: Counter[int] = Counter()
    for uuid in beside:
        states = _lately(view, node.links(uuid), _STATE)
        if None not in states:
            counts[sum(state != _INACTIVE for state in states)] += 1
    return counts.most_common(1)[0][0] if counts.total() >= _NEIGHBOURS else 0


def _slow(
    view: View, node: NodeFacts, links: Sequence[LinkFacts], beside: Sequence[str]
) -> Iterator[Symptom]:
    """Active links below the speed of most active links of the same product on the node."""
    speeds = [
        speed
        for uuid in beside
        for link in node.links(uuid)
        if link.value(_STATE) and (speed := link.value(_SPEED))
    ]
    usual = float(np.median(speeds)) if speeds else 0.0
    own = zip(links, _lately(view, links, _STATE), _lately(view, links, _SPEED), strict=True)
    slow = {link.key: s for link, state, s in own if state and s and s < _SLOW * usual}
    if slow:
        table = view.table(list(slow), (_SPEED,), PAST_S)
        of_link = table.columns[_SPEED]
        is_slow: NDArray[np.bool_] = np.any(of_link < _SLOW * usual, axis=1)
        is_known: NDArray[np.bool_] = is_slow | np.all(np.isfinite(of_link), axis=1)
        since, samples = since_when(view, table.times, is_slow, is_known)
        speed = float(next(iter(slow.values())))
        text = f"{counted(len(slow), 'NVLink')} at {speed / 1e9:.1f} GB/s, "
        text += f"most of the node's at {usual / 1e9:.1f} GB/s"
        yield Symptom(
            field=_SPEED,
            text=text,
            value=speed,
            severity=Severity.CRITICAL,
            machine_advice=_BOTH_ENDS,
            since=since,
            samples=samples,
        )


def _older_errors(view: View, gpu: GpuFacts, beside: Sequence[str]) -> Iterator[Symptom]:
    """Counters of the GPU that grow faster than a sound link's."""
    others = [uuid for uuid in beside if uuid != gpu.uuid]
    recent = view.table((gpu.uuid,), _OLDER, REST_S).columns
    for key in (key for key in _OLDER if np.any(recent[key][-RECENT_ROWS:] > 0)):
        # What a counter grew by while nobody looked is known behind the gap.
        past = view.past((gpu.uuid, *others), (key,), _SPAN_S)
        if len(past.times) and not _is_usual(past, key):
            yield from _growing(past, key, 0)


def _is_usual(past: Past, key: str) -> bool:
    """Whether the first column's counter grew no more than ten times as much as the others'.

    What all have is no fault of one; of errors that count from the first on no link has any.
    """
    if key in _FIRST_COUNTS or past.columns[key].shape[1] == 1:
        return False
    grown = [grown_by(column, 0) for column in past.columns[key].T]
    if grown[0] >= _MOST_CHECKSUM_ERRORS * float(past.times[-1] - past.times[0]) > 0:
        return False
    return grown[0] <= _TIMES_NEIGHBOURS * float(np.median(grown[1:]))


def _newer_errors(view: View, links: Sequence[LinkFacts]) -> Iterator[Symptom]:
    keys = [key for key in _NEWER if any(link.value(key) for link in links)]
    for key in keys:
        past = view.past([link.key for link in links], (key,), _SPAN_S)
        for place, link in enumerate(links):
            for symptom in _growing(past, key, place):
                yield symptom._replace(text=f"link {link.number}: {symptom.text}")


def _growing(past: Past, key: str, place: int) -> Iterator[Symptom]:
    """A counter that grows in most minutes, or at all where a sound link's never does."""
    times, counter = past.times, past.columns[key][:, place]
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
    before, what, behind = _WORDS[key]
    over = over_words(times, row, is_scattered=is_scattered)
    text = f"{count:.0f} {before}{noun(round(count), what)}{behind} {over}"
    if key in _CHECKSUMS:
        a_second = count / max(1.0, float(times[-1]) - float(times[max(0, row - 1)]))
        severity = _checksum_severity(a_second, is_sure=is_sure)
        rate = f"{a_second:.{0 if a_second >= 1 else 3}f} a second"
        text += f", {rate}; from {_MOST_CHECKSUM_ERRORS:.0f} on a link fails"
    at_most = Confidence.ESTABLISHED if is_sure else Confidence.HYPOTHESIS
    yield Symptom(
        field=key,
        text=text,
        value=count,
        severity=severity,
        machine_advice=_BOTH_ENDS,
        since=since,
        samples=len(times) - row,
        at_most=at_most,
    )


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
        since, samples = since_when(view, times, values == health, np.isfinite(values))
        text = f"the NVLink fabric calls this GPU {code_name(health, FABRIC_HEALTH)}"
        advice = "Look at the fabric manager's log: journalctl -u nvidia-fabricmanager."
        yield Symptom(
            field="fabric_health",
            text=text,
            value=float(health),
            severity=Severity.CRITICAL,
            machine_advice=advice,
            since=since,
            samples=samples,
        )
