"""A GPU's PCIe link has fewer lanes or a lower generation than it could have, under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from gpumon.detect.contract import Detector
from gpumon.detect.series import rows_since
from gpumon.model.finding import Confidence, Evidence, Severity, Window
from gpumon_detectors.evidence import machine_commands as commands
from gpumon_detectors.evidence.episodes import REST_S, SURE_S, episode_row, grew, is_dense
from gpumon_detectors.evidence.phrases import clock_time, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.detect.facts.facts import GpuFacts
    from gpumon.detect.series import Table
    from gpumon.detect.view import View
    from gpumon.model.finding import Finding

_SPAN_S: Final = 3600.0
_LOADED: Final = 0.1
"""Utilisation from which the link is out of its rest."""

_SETTLE_S: Final = 15.0
"""A link that wakes up is read again after 5 s at most; three readings are on the safe side."""

_QUESTION: Final = (
    "--query-gpu=pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,"
    "pcie.link.width.max --format=csv"
)
_LINK: Final = ("pcie_gen", "pcie_width", "pcie_gen_max", "pcie_width_max")
_REPLAYS: Final = "pcie_replay_count"
_RATES: Final = ("pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")


class _Case(NamedTuple):
    """One GPU through one episode."""

    gpu: GpuFacts
    table: Table
    """From the first bad sample on."""
    gen: float
    """Generation that the link could have."""
    width: float
    """Lanes that the link could have."""
    replays: int | None
    """Packets sent again in the episode; None: the link is down to less, which says more."""


class PcieDegraded(Detector):
    """Claims that the PCIe link of a GPU under load is not what GPU and slot could do.

    A sample is bad where the GPU is loaded, for longer than 15 s, and its link has fewer lanes or
    a lower generation than NVML's maximum of GPU and slot, or fewer lanes or a lower maximum than
    most GPUs of the same product on the node. Samples without load say nothing. Where the link is
    whole, packets sent again (the replay counter) are claimed while they come in 6 of 10 minutes.

    *Supported* after 5 minutes of load, replays after 10; *established* after 30.

    What looks alike: an idle GPU lowers generation and lanes to save power; the first seconds of a
    load still show the resting link; a whole product line in slots of an older generation is how
    the node was bought, and all its GPUs are alike; a single burst of replays is a retraining.

    How much time is lost depends on how much is copied, which is not known: no loss is told.
    """

    name = "pcie_degraded"
    version = "1"
    finding_classes = ("pcie_degraded",)
    needs = (*_LINK, "gpu_util_ratio")
    supported_after_s = 300.0
    established_after_s = 1800.0
    subjects = "gpu"

    def __init__(self, loaded_ratio: float = _LOADED) -> None:
        self.loaded_ratio = loaded_ratio

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per GPU whose link is degraded."""
        uuids = view.uuids
        is_told = np.logical_and.reduce([np.isfinite(view.fleet(key)[:-1]) for key in self.needs])
        if not is_told.any():
            return
        gens, widths = (_usual(view, key) for key in _LINK[2:])
        for place in np.flatnonzero(is_told & self._may_apply(view, gens, widths)):
            gen, width = float(gens[place]), float(widths[place])
            case = self._case(view, view.gpus[uuids[place]], gen, width)
            if case is not None:
                yield self._finding(view, case)

    def _may_apply(
        self, view: View, gens: NDArray[np.float64], widths: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """GPUs whose last minutes alone allow a claim; spares most the whole window."""
        gen, width, util, replays = (
            # One field of all GPUs is mostly a view of history, several are a copy of it.
            view.table(view.uuids, (key,), REST_S)
            for key in (*_LINK[:2], "gpu_util_ratio", _REPLAYS)
        )
        with np.errstate(invalid="ignore"):
            is_low = gen.columns[_LINK[0]] < gens.astype(np.float32)
            is_low |= width.columns[_LINK[1]] < widths.astype(np.float32)
            is_low &= util.columns["gpu_util_ratio"] >= self.loaded_ratio
        is_grown = grew(replays.times, replays.columns[_REPLAYS])
        return np.asarray(is_low.any(axis=0) | is_grown.any(axis=0), np.bool_)

    def _case(self, view: View, gpu: GpuFacts, gen: float, width: float) -> _Case | None:
        table = view.table((gpu.uuid,), (*self.needs, _REPLAYS, *_RATES), _SPAN_S)
        newest = [table.columns[key][-1:, 0] for key in self.needs]
        if not len(table.times) or not all(np.isfinite(value).all() for value in newest):
            return None
        is_loaded = table.columns["gpu_util_ratio"][:, 0] >= self.loaded_ratio
        is_settled = _is_settled(table.times, is_loaded)
        with np.errstate(invalid="ignore"):
            is_low = table.columns["pcie_gen"][:, 0] < gen
            is_low |= table.columns["pcie_width"][:, 0] < width
        first = _unbroken(is_settled, is_low)
        if first is not None:
            # The settling before it was low as well, if it never came up in between.
            while first > 0 and is_loaded[first - 1] and is_low[first - 1]:
                first -= 1
            return _Case(gpu, table.since(first), gen, width, None)
        counter = table.columns[_REPLAYS][:, 0]
        is_grown = grew(table.times, counter) & is_loaded
        row = episode_row(table.times, is_grown)
        if row is None or not is_dense(table.times[row:], is_grown[row:]):
            return None
        count = int(np.nanmax(counter[row:]) - np.nanmin(counter[max(0, row - 1) :]))
        return _Case(gpu, table.since(row), gen, width, count)

    def _finding(self, view: View, case: _Case) -> Finding:
        gpu, times = case.gpu, case.table.times
        window = Window(float(times[0]), float(times[-1]), len(times))
        length_s = window.end - window.start
        is_sure = case.replays is None or length_s >= SURE_S
        since = f"since {clock_time(window.start)} ({span(length_s)} observed)"
        if case.replays is None:
            gen, width = (_last(case.table, key) for key in _LINK[:2])
            what = f"PCIe gen {gen:.0f} x{width:.0f} under load instead of "
            what += f"gen {case.gen:.0f} x{case.width:.0f}"
            reason, severity = "PCIe link below its width or generation", Severity.CRITICAL
        else:
            what = f"{case.replays} PCIe packets sent again"
            reason, severity = "PCIe replays", Severity.WARNING
        return view.finding(
            self,
            subject=gpu.subject,
            severity=severity,
            summary=f"{gpu.place}: {what} {since}",
            window=window,
            evidence=tuple(_evidence(case, length_s)),
            advice=(
                "Reseat the board or its riser and cable, then look again under load.",
                *commands.ask_gpu(view, gpu, _QUESTION),
                *commands.leave_out(gpu.node),
                *commands.drain(gpu.node, reason),
            ),
            at_most=Confidence.ESTABLISHED if is_sure else Confidence.HYPOTHESIS,
            gpus=[gpu.uuid],
        )


def _is_settled(times: NDArray[np.float64], is_loaded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows in which the GPU has been loaded for so long that its link is awake.

    A load that the first row shows is taken for an old one.
    """
    starts = np.flatnonzero(is_loaded[1:] & ~is_loaded[:-1]) + 1
    begun = np.searchsorted(starts, np.arange(len(times)), "right") - 1
    is_old = begun < 0
    if len(starts):
        is_old |= times - times[starts[np.maximum(begun, 0)]] >= _SETTLE_S
    return np.asarray(is_loaded & is_old, np.bool_)


def _usual(view: View, key: str) -> NDArray[np.float64]:
    """What each GPU's link could have: its own maximum, or most of its kind's on the node."""
    groups, own = view.layout.kinds, view.fleet(key)[:-1]
    least, most = groups.least(own), groups.most(own)
    usual = own.copy()
    # Where all are alike, which is nearly everywhere, the median is what each of them has.
    with np.errstate(invalid="ignore"):
        is_mixed = least < most
    for number in np.flatnonzero(is_mixed | (groups.some(np.isnan(own)) & ~np.isnan(most))):
        places = groups.places(number)
        known = own[places][np.isfinite(own[places])]
        if len(places) > 2 and len(known):
            usual[places] = np.fmax(own[places], np.median(known))
    return usual


def _unbroken(is_counted: NDArray[np.bool_], is_bad: NDArray[np.bool_]) -> int | None:
    """First row since which every row that counts is bad; None where fewer than two are."""
    rows = np.flatnonzero(is_counted)
    since = int(rows_since(is_bad[rows][:, None])[0]) if len(rows) else 0
    return int(rows[since]) if len(rows) - since >= 2 else None


def _last(table: Table, key: str) -> float:
    return float(table.columns[key][-1, 0])


def _evidence(case: _Case, length_s: float) -> Iterator[Evidence]:
    subject, table = case.gpu.subject, case.table
    gen, width, gen_max, width_max = (_last(table, key) for key in _LINK)
    text = f"link: gen {gen:.0f} x{width:.0f}; GPU and slot: gen {gen_max:.0f} x{width_max:.0f}"
    if case.gen > gen_max or case.width > width_max:
        text += f"; most of its kind on the node: gen {case.gen:.0f} x{case.width:.0f}"
    yield Evidence("pcie_width", subject, text, width)
    util = table.columns["gpu_util_ratio"][:, 0].astype(np.float64)
    mean = float(np.nanmean(util))
    text = f"mean utilisation {100 * mean:.0f} %, {len(util)} samples in {span(length_s)}"
    yield Evidence("gpu_util_ratio", subject, text, mean)
    if case.replays is not None:
        text = f"{case.replays} packets sent again in {span(length_s)}"
        yield Evidence(_REPLAYS, subject, text, float(case.replays))
    for key, way in zip(_RATES, ("to", "from"), strict=True):
        rates = table.columns[key][:, 0]
        if np.isfinite(rates).any():
            rate = float(np.nanmean(rates.astype(np.float64)))
            yield Evidence(key, subject, f"{rate / 1e9:.2f} GB/s {way} the GPU on average", rate)
