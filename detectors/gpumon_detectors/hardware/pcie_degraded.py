"""A GPU's PCIe link has fewer lanes or a lower generation than it could have, under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from gpumon.plugin import (
    Confidence,
    Detector,
    Evidence,
    Severity,
    Window,
    pcie_bytes_per_s,
    rows_since,
)
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.clock_rows import IDLE_BIT, newest_known
from gpumon_detectors.evidence.episodes import (
    REST_S,
    SURE_S,
    episode_row,
    grown_by,
    is_dense,
    is_oftener,
)
from gpumon_detectors.evidence.gpu_use import PAST_S
from gpumon_detectors.evidence.phrases import clock_time, counted, span
from gpumon_detectors.evidence.symptom import RECENT_ROWS
from gpumon_detectors.hardware.link_loss import behind_peers, loss_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, GpuFacts, Past, Table, View
    from gpumon_detectors.hardware.link_loss import LinkLoss

_SPAN_S: Final = 3600.0
"""Replays are counted within the last hour, and a link that was whole is looked for there (our
choice)."""

_REASON: Final = "PCIe link below its width or generation"
_LOADED: Final = 0.5
"""Utilisation from which the link is out of its rest: KempnerPulse's bound of busy classes. In the
pauses of a lesser load the link rests, which saves power."""

_COPYING_BYTES_PER_S: Final = 1e9
"""A GPU that moves so much keeps its link awake, however little it computes (KempnerPulse's class
of I/O): who waits for copies over a slow link is not loaded otherwise."""


_SETTLE_S: Final = 15.0
"""A link that wakes up is read again after 5 s at most; three readings are on the safe side."""

_QUESTION: Final = (
    "--query-gpu=pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,"
    "pcie.link.width.max --format=csv"
)
_LINK: Final = ("pcie_gen", "pcie_width", "pcie_gen_max", "pcie_width_max")
_RATES: Final = ("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")
_LOAD: Final = ("gpu_util_ratio", "clock_event_reasons", *_RATES)
_REPLAYS: Final = "pcie_replay_count"
MOST_REPLAYS: Final = 8.0
"""A minute: "8 replays per minute is the maximum recommended" (DCGM_LIMIT_MAX_PCIREPLAY_RATE in
DCGM's dcgm_gpu_hardware_limits.h)."""


class _Case(NamedTuple):
    """One GPU through one episode."""

    gpu: GpuFacts
    table: Table
    """From the first bad sample on."""
    was_whole: bool
    """Whether the link was seen whole under load before."""
    replays: int | None
    """Packets sent again in the episode; None: the link is down to less, which says more."""

    @property
    def link(self) -> tuple[float, float, float, float]:
        """Generation and lanes now, and the most of GPU and slot."""
        gen, width, gen_max, width_max = (newest_known(self.table.columns[key])[0] for key in _LINK)
        return gen, width, gen_max, width_max

    @property
    def has_lanes(self) -> bool:
        """Whether only the generation is lower."""
        return self.link[1] >= self.link[3]


class PcieDegraded(Detector):
    """Claims that the PCIe link of a GPU under load is not what GPU and slot could do.

    A sample is bad where the GPU is loaded to 50 % or more, or moves 1 GB/s or more over the link,
    for longer than 15 s, the driver does not call it idle, and its link has fewer lanes or a lower
    generation than NVML's maximum of GPU and slot. Samples without load say nothing. Where the link
    is whole, packets sent again (the replay counter) are claimed while they come more often than 8
    times a minute in 6 of 10 minutes, for 3 minutes at least: 8 a minute is the most that DCGM
    allows (dcgm_gpu_hardware_limits.h).

    *Supported* after 5 minutes of load, replays after 10; *established* after 30.

    What looks alike: an idle GPU lowers generation and lanes to save power, also in the pauses of a
    light load; the first seconds of a load still show the resting link; slots with fewer lanes or
    of an older generation are how the node was bought, and NVML's maximum says so. Where all loaded
    GPUs of one product on a node are down to the same, that is how the node is set: one remark
    about the node (*info*). A lower generation alone is a *hypothesis* where neither the GPU nor
    one beside it was seen whole. A single burst of replays is a retraining.

    How much time is lost depends on how much is copied, which is not known. The job's own work is
    measured instead: where its tensor activity, or without that its SM activity or utilisation,
    fell by a tenth or more when the link did, and stayed below all that it was in the hour before,
    that fall is lost, on each of its GPUs where this holds. Where the job has never been without
    it, the GPU is compared with its peers: where it copies as much as they do, and is without a
    kernel in 5 % more of the time, which is more than readings vary by, that is lost on all GPUs of
    the job, as they wait for it; but no more than what it copies takes at .15 of the slow link's
    rate. Otherwise no loss is given.
    """

    name = "pcie_degraded"
    version = "2"
    finding_classes = ("pcie_degraded",)
    needs = (*_LINK, "gpu_util_ratio")
    wants: ClassVar[Mapping[str, str]] = {"pcie_replay_count": "packets sent again"}
    supported_after_s = 300.0
    established_after_s = 1800.0
    subjects = "gpu"

    def __init__(self, loaded_ratio: float = _LOADED) -> None:
        self.loaded_ratio = loaded_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per GPU whose link is degraded, or per node whose links are alike."""
        found: dict[tuple[str, str | None], list[_Case]] = {}
        for place in np.flatnonzero(self._may_apply(view)):
            gpu = view.gpus[view.uuids[place]]
            case = self._case(view, gpu)
            if case is not None:
                found.setdefault((gpu.node, gpu.name), []).append(case)
        alike: dict[str, list[list[_Case]]] = {}
        for (node, name), cases in found.items():
            down = [case for case in cases if case.replays is None]
            beside = self._beside(view, node, name, down)
            if _are_alike(down) and beside == 0:
                alike.setdefault(node, []).append(down)
                down = []
            for case in (*down, *(case for case in cases if case.replays is not None)):
                yield self._finding(view, case, is_usual=bool(beside) or case.was_whole)
        for node, groups in alike.items():
            yield self._remark(view, node, groups)

    def _beside(self, view: View, node: str, name: str | None, down: Sequence[_Case]) -> int:
        """GPUs of one product on a node whose links are whole under load, now or of late."""
        own = {case.gpu.uuid for case in down}
        beside = [
            uuid
            for uuid in view.nodes[node].gpu_uuids
            if uuid in view.gpus and view.gpus[uuid].name == name and uuid not in own
        ]
        if not beside or not down:
            return 0
        return int(self._was_whole(view.past(beside, (*_LINK, *_LOAD), _SPAN_S)).sum())

    def _was_whole(self, past: Past) -> NDArray[np.bool_]:
        """Per GPU whether its link was seen whole under load, also beyond a gap in the sampling."""
        is_known = np.isfinite(past.columns["pcie_gen"]) & np.isfinite(past.columns["pcie_width"])
        is_whole = self._loaded(past) & is_known & ~_is_low(past)
        return np.asarray(is_whole.any(axis=0), np.bool_)

    def _may_apply(self, view: View) -> NDArray[np.bool_]:
        """GPUs whose last minutes alone allow a claim; spares most the whole window."""
        none = np.zeros(len(view.uuids), np.bool_)
        if not view.uuids:
            return none
        grown = _grown(view)
        if grown is None:
            return none
        low = self._low_of_late(view, np.flatnonzero(_may_be_low(view)))
        none[low] = True
        found: NDArray[np.bool_] = none | grown
        places = np.flatnonzero(found)
        for key in self.needs:
            uuids = [view.uuids[place] for place in places]
            recent = view.table(uuids, (key,), REST_S).columns[key][-RECENT_ROWS:]
            found[places] &= np.isfinite(recent).any(axis=0)
        return found

    def _low_of_late(self, view: View, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """Of the GPUs at some positions, those whose link was low under load of late."""
        if not len(places):
            return places
        uuids = [view.uuids[place] for place in places]
        columns = view.table(uuids, (*_LINK, "gpu_util_ratio", *_RATES), REST_S).columns
        if not len(columns["pcie_gen"]):
            return places[:0]
        with np.errstate(invalid="ignore"):
            is_low = columns["pcie_gen"] < np.fmax.reduce(columns["pcie_gen_max"])
            is_low |= columns["pcie_width"] < np.fmax.reduce(columns["pcie_width_max"])
            is_busy = columns["gpu_util_ratio"] >= self.loaded_ratio
            is_low &= is_busy | (_moved(columns) >= _COPYING_BYTES_PER_S)
        found: NDArray[np.intp] = places[is_low.any(axis=0)]
        return found

    def _loaded(self, table: Table | Past) -> NDArray[np.bool_]:
        """Where a GPU is loaded, and not called idle."""
        bits = np.nan_to_num(table.columns["clock_event_reasons"]).astype(np.int64)
        is_busy = table.columns["gpu_util_ratio"] >= self.loaded_ratio
        is_busy |= _moved(table.columns) >= _COPYING_BYTES_PER_S
        return np.asarray(is_busy & ((bits & IDLE_BIT) == 0), np.bool_)

    def _case(self, view: View, gpu: GpuFacts) -> _Case | None:
        keys = (*_LINK, *_LOAD, _REPLAYS)
        # As far back as there is anything: since when it is low says what was lost.
        table = view.table((gpu.uuid,), keys, PAST_S)
        if not len(table.times):
            return None
        is_loaded = self._loaded(table)[:, 0]
        link = [table.columns[key][:, 0] for key in _LINK[:2]]
        is_known = np.isfinite(link[0]) & np.isfinite(link[1])
        is_low = _is_low(table)[:, 0]
        is_settled = _is_settled(table.times, is_loaded, table.columns["gpu_util_ratio"][:, 0])
        first = _unbroken(is_settled & is_known, is_low)
        if first is not None:
            # The settling before it was low as well, if it never came up in between.
            first = _first_low(first, is_loaded & (is_low | ~is_known), is_low)
            past = view.past((gpu.uuid,), (*_LINK, *_LOAD), _SPAN_S)
            return _Case(gpu, table.since(first), bool(self._was_whole(past)[0]), None)
        table = table.since(int(table.times.searchsorted(view.now - _SPAN_S)))
        is_loaded = self._loaded(table)[:, 0]
        counter = table.columns[_REPLAYS][:, 0]
        is_often = is_oftener(table.times, counter, MOST_REPLAYS) & is_loaded
        row = episode_row(table.times, is_often)
        if row is None or not is_dense(table.times[row:], is_often[row:]):
            return None
        if table.times[-1] - table.times[row] < REST_S:
            return None
        count = int(grown_by(counter, row))
        return _Case(gpu, table.since(row), True, count)

    def _finding(self, view: View, case: _Case, *, is_usual: bool) -> Finding:
        gpu, times = case.gpu, case.table.times
        window = Window(float(times[0]), float(times[-1]), len(times))
        length_s = window.end - window.start
        since = f"since {clock_time(window.start)} ({span(length_s)} observed)"
        if case.replays is None:
            gen, width, gen_max, width_max = case.link
            is_sure = is_usual or not case.has_lanes
            what = f"PCIe gen {gen:.0f} x{width:.0f} under load instead of "
            what += f"gen {gen_max:.0f} x{width_max:.0f}"
            severity = Severity.CRITICAL if is_sure else Severity.WARNING
        else:
            is_sure = length_s >= SURE_S
            what = f"{counted(case.replays, 'PCIe packet')} sent again"
            severity = Severity.WARNING
        most = Confidence.ESTABLISHED if is_sure else Confidence.HYPOTHESIS
        # Packets sent again cost little, and DCGM's health check only warns of them.
        is_sure_enough = case.replays is None and commands.is_sure_enough(view, self, window, most)
        loss = None if case.replays is not None else _loss(view, case, window)
        return view.finding(
            self,
            subject=gpu.subject,
            severity=severity,
            summary=f"{gpu.place}: {what} {since}",
            window=window,
            evidence=(*_evidence(case, length_s), *((loss.evidence,) if loss else ())),
            advice=(
                *(commands.leave_out(view, gpu.node) if is_sure_enough else ()),
                *commands.ask_gpu(view, gpu, _QUESTION),
                *commands.report_to_admins(view, gpu.node),
            ),
            machine_advice=(
                "Reseat the board or its riser and cable, then look again under load.",
                *(commands.drain(view, gpu.node, _REASON) if is_sure_enough else ()),
            ),
            gpu_seconds=loss.gpu_seconds if loss else None,
            at_most=most,
            gpus=[gpu.uuid, *(uuid for uuid in loss.uuids if uuid != gpu.uuid)]
            if loss
            else [gpu.uuid],
        )

    def _remark(self, view: View, node: str, groups: Sequence[Sequence[_Case]]) -> Finding:
        """What all loaded GPUs of a product have in common, for each such product of a node."""
        cases = [case for group in groups for case in group]
        times = max((case.table.times for case in cases), key=len)
        texts = []
        for group in groups:
            gen, width, gen_max, width_max = group[0].link
            text = f"all {len(group)} loaded GPUs at PCIe gen {gen:.0f} x{width:.0f}"
            texts.append(f"{text}, which could do gen {gen_max:.0f} x{width_max:.0f}")
        return view.finding(
            self,
            subject=view.nodes[node].subject,
            severity=Severity.INFO,
            summary=f"{node}: {'; '.join(texts)}: a setting of the node",
            window=Window(float(times[0]), float(times[-1]), len(times)),
            evidence=[next(_evidence(case, 0.0)) for case in cases[:32]],
            machine_advice=(
                "Look at the PCIe settings of the node's firmware, if copies are slow.",
            ),
        )


def _loss(view: View, case: _Case, window: Window) -> LinkLoss | None:
    """What a link that is down to less costs, by its job before, else by the GPU's peers."""
    uuid, (gen, width, *_) = case.gpu.uuid, case.link
    before = loss_of(view, window, (uuid,))
    return before or behind_peers(view, window, uuid, pcie_bytes_per_s(gen, width))


def _may_be_low(view: View) -> NDArray[np.bool_]:
    """GPUs whose link is low now, or of whose link something known before is not told now.

    A link that is degraded is low whatever its GPU does: who is not spares the look back.
    """
    gen, width = (view.fleet(key)[:-1] for key in ("pcie_gen", "pcie_width"))
    gen_max, width_max = (view.fleet(key)[:-1] for key in ("pcie_gen_max", "pcie_width_max"))
    is_reported = (
        np.isfinite(gen) & np.isfinite(width) & np.isfinite(gen_max) & np.isfinite(width_max)
    )
    if not is_reported.all():
        # Where no generation was told of late at all, there is nothing to look back to.
        of_late = view.table(view.uuids, ("pcie_gen",), REST_S).columns["pcie_gen"]
        is_reported |= ~np.isfinite(of_late).any(axis=0)
    found: NDArray[np.bool_] = ~is_reported | (gen < gen_max) | (width < width_max)
    return found


def _grown(view: View) -> NDArray[np.bool_] | None:
    """GPUs whose replays were counted too fast of late; None where nothing was sampled."""
    # One field of all GPUs is mostly a view of history, several are a copy of it.
    replays = view.table(view.uuids, (_REPLAYS,), REST_S).columns[_REPLAYS]
    if not len(replays):
        return None
    with np.errstate(invalid="ignore"):
        found: NDArray[np.bool_] = np.fmax.reduce(replays) - np.fmin.reduce(replays) > MOST_REPLAYS
    return found


def _moved(columns: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """Bytes a second over PCIe, both ways; what is not told is none."""
    received, sent = (np.nan_to_num(columns[key]) for key in _RATES)
    moved: NDArray[np.float32] = received + sent
    return moved


def _are_alike(cases: Sequence[_Case]) -> bool:
    """Whether several GPUs are all down to the same."""
    return len(cases) > 1 and len({case.link for case in cases}) == 1


def _is_low(table: Table | Past) -> NDArray[np.bool_]:
    """Where a link has less than the most of GPU and slot; not where it is not told."""
    gen, width, gen_max, width_max = (table.columns[key] for key in _LINK)
    with np.errstate(invalid="ignore"):
        return np.asarray(
            (gen < newest_known(gen_max)) | (width < newest_known(width_max)), np.bool_
        )


def _is_settled(
    times: NDArray[np.float64], is_loaded: NDArray[np.bool_], util: NDArray[np.float32]
) -> NDArray[np.bool_]:
    """Rows in which the GPU has been loaded for so long that its link is awake.

    A load that the first row shows is taken for an old one; a sample without a value is no pause.
    """
    known = np.flatnonzero(np.isfinite(util))
    starts = known[1:][is_loaded[known[1:]] & ~is_loaded[known[:-1]]]
    begun = np.searchsorted(starts, np.arange(len(times)), "right") - 1
    is_old = begun < 0
    if len(starts):
        is_old |= times - times[starts[np.maximum(begun, 0)]] >= _SETTLE_S
    return np.asarray(is_loaded & is_old, np.bool_)


def _unbroken(is_counted: NDArray[np.bool_], is_bad: NDArray[np.bool_]) -> int | None:
    """First row since which every row that counts is bad; None where fewer than two are."""
    rows = np.flatnonzero(is_counted)
    since = int(rows_since(is_bad[rows][:, None])[0]) if len(rows) else 0
    return int(rows[since]) if len(rows) - since >= 2 else None


def _first_low(row: int, may_be_low: NDArray[np.bool_], is_low: NDArray[np.bool_]) -> int:
    """First low row of those right before a low one of which each may be low."""
    first = row
    while row > 0 and may_be_low[row - 1]:
        row -= 1
        first = row if is_low[row] else first
    return first


def _evidence(case: _Case, length_s: float) -> Iterator[Evidence]:
    subject, table = case.gpu.subject, case.table
    gen, width, gen_max, width_max = case.link
    text = f"link: gen {gen:.0f} x{width:.0f}; GPU and slot: gen {gen_max:.0f} x{width_max:.0f}"
    yield Evidence("pcie_width", subject, text, width)
    util = table.columns["gpu_util_ratio"][:, 0].astype(np.float64)
    if np.isfinite(util).any():
        mean = float(np.nanmean(util))
        text = f"mean utilisation {100 * mean:.0f} %, {len(util)} samples in {span(length_s)}"
        yield Evidence("gpu_util_ratio", subject, text, mean)
    if case.replays is not None:
        a_minute = 60.0 * case.replays / max(1.0, length_s)
        text = f"{counted(case.replays, 'packet')} sent again in {span(length_s)}, "
        text += f"{a_minute:.1f} a minute; DCGM allows {MOST_REPLAYS:.0f}"
        yield Evidence(_REPLAYS, subject, text, float(case.replays))
    for key, way in zip(_RATES, ("to", "from"), strict=True):
        rates = table.columns[key][:, 0]
        if np.isfinite(rates).any():
            rate = float(np.nanmean(rates.astype(np.float64)))
            yield Evidence(key, subject, f"{rate / 1e9:.2f} GB/s {way} the GPU on average", rate)
