"""GPUs that draw less power than their load explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.linear_model import HuberRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from gpumon.plugin import Detector, Evidence, Severity, Window, rows_since

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gpumon.plugin import Finding, Table, View

_WINDOW_S = 3600.0

_SPREADS = 6.0
"""How many robust standard deviations below its peers a GPU must be (our choice: of 10,000 GPUs
with normal noise none is)."""

_MAD_TO_SIGMA = 1.4826
"""Standard deviation of normal values, by their median absolute deviation."""

_AT_WORK = 0.1
"""SM activity from which a GPU works: at rest its power says nothing of it (our choice)."""


class _Load(NamedTuple):
    """GPUs of one product over the same time, a row per sample."""

    times: NDArray[np.float64]
    uuids: tuple[str, ...]
    power_w: NDArray[np.float32]
    sm: NDArray[np.float32]
    dram: NDArray[np.float32]


class LowPower(Detector):
    """Claims that a GPU draws less power than those of its product with the same load.

    A robust line (scikit-learn's `HuberRegressor`) tells power by the activity of SMs and memory,
    fitted to the means of all GPUs of one product that worked in the last hour. A GPU is claimed
    whose power is below that line by `least_ratio` or more, and by six robust standard deviations
    of its peers. The window begins where its power went below the line for good.

    What looks alike: other precisions draw other power at the same activity; so a job that is alone
    in what it does may stand out. That makes it a remark for whoever runs the site, and
    `least_peers` GPUs are needed to tell.
    """

    name = "low_power"
    version = "1"
    finding_classes = ("low_power",)
    categories = {"low_power": "degraded"}  # noqa: RUF012 - declared once, never changed
    needs = ("power_w", "sm_active_ratio", "dram_active_ratio")
    supported_after_s = 900.0
    established_after_s = 2700.0
    subjects = "gpu"
    every_s = 60.0

    def __init__(self, least_ratio: float = 0.25, least_peers: int = 16) -> None:
        self.least_ratio = least_ratio
        self.least_peers = least_peers

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per GPU that draws too little."""
        products: dict[str, list[str]] = {}
        for uuid, gpu in view.gpus.items():
            if gpu.name:
                products.setdefault(gpu.name, []).append(uuid)
        for product, uuids in products.items():
            load = _load(uuids, view.table(uuids, self.needs, _WINDOW_S))
            if load is not None and len(load.uuids) >= self.least_peers:
                yield from self._of_product(view, product, load)

    def _of_product(self, view: View, product: str, load: _Load) -> Iterator[Finding]:
        activity = np.column_stack((load.sm.mean(axis=0), load.dram.mean(axis=0)))
        mean_w = load.power_w.mean(axis=0)
        model = make_pipeline(RobustScaler(), HuberRegressor(max_iter=500)).fit(activity, mean_w)
        expected_w = model.predict(activity)
        short_w = expected_w - mean_w
        spread_w = _MAD_TO_SIGMA * float(np.median(np.abs(short_w - np.median(short_w))))
        least_w = np.maximum(self.least_ratio * expected_w, _SPREADS * spread_w)
        for place in np.flatnonzero((expected_w > 0) & (short_w >= least_w)):
            rows = np.column_stack((load.sm[:, place], load.dram[:, place]))
            is_low = load.power_w[:, place] < (1 - self.least_ratio / 2) * model.predict(rows)
            first = int(rows_since(is_low[:, None])[0])
            if first < len(is_low):
                since_w = float(model.predict(rows[first:]).mean())
                yield self._finding(view, product, load, place, first, since_w)

    def _finding(
        self,
        view: View,
        product: str,
        load: _Load,
        place: int,
        first: int,
        expected_w: float,
    ) -> Finding:
        uuid, times = load.uuids[place], load.times[first:]
        mean_w, sm, dram = (
            float(part[first:, place].mean()) for part in (load.power_w, load.sm, load.dram)
        )
        peers = len(load.uuids) - 1
        return view.finding(
            self,
            subject=f"gpu:{uuid}",
            severity=Severity.WARNING,
            summary=f"GPU of {view.gpus[uuid].node} draws {mean_w:.0f} W, "
            f"{100 * (1 - mean_w / expected_w):.0f} % less than {peers} of its kind would",
            window=Window(float(times[0]), float(times[-1]), len(times)),
            evidence=(
                Evidence(
                    field="power_w",
                    subject=f"gpu:{uuid}",
                    text=f"{100 * sm:.0f} % of SMs and {100 * dram:.0f} % of "
                    f"memory cycles busy: {peers} other {product} would draw {expected_w:.0f} W",
                    value=mean_w,
                ),
            ),
            machine_advice=("Compare its clocks and their limits: nvidia-smi -q -d CLOCK,POWER",),
        )


def _load(uuids: list[str], table: Table) -> _Load | None:
    """Those GPUs of which all is known and that work; None without any sample."""
    if not len(table.times):
        return None
    power_w, sm, dram = (table.columns[key] for key in LowPower.needs)
    is_known = np.isfinite(power_w + sm + dram).all(axis=0)
    is_at_work = is_known & (np.where(is_known, sm, 0.0).mean(axis=0) >= _AT_WORK)
    at_work = tuple(uuid for uuid, is_working in zip(uuids, is_at_work, strict=True) if is_working)
    return _Load(
        table.times, at_work, power_w[:, is_at_work], sm[:, is_at_work], dram[:, is_at_work]
    )
