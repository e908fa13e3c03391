"""GPUs that stay hotter than a site allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpumon.plugin import Detector, Evidence, Severity, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpumon.plugin import Finding, Table, View

_WINDOW_S = 3600.0


class HotGpu(Detector):
    """Claims that a GPU was at `limit_c` or above at every sample of the window.

    *Supported* after 5 minutes, longer than a burst of work takes to pass; *established* after 15,
    when the temperature of an air-cooled board has long settled.
    """

    name = "hot_gpu"
    version = "1"
    finding_classes = ("hot_gpu",)
    needs = ("temp_c",)
    supported_after_s = 300.0
    established_after_s = 900.0
    subjects = "gpu"

    def __init__(self, limit_c: float = 83.0) -> None:
        self.limit_c = limit_c

    def evaluate(self, view: View) -> Iterator[Finding]:
        """One finding per GPU that is hot now."""
        uuids = tuple(view.gpus)
        (temp_c,) = view.latest(uuids, self.needs)
        # A missing value is NaN, and no comparison with NaN is true.
        for position in np.flatnonzero(temp_c >= self.limit_c):
            uuid = uuids[position]
            yield self._finding(view, uuid, view.table((uuid,), self.needs, _WINDOW_S))

    def _finding(self, view: View, uuid: str, table: Table) -> Finding:
        """The claim about one GPU, over the time for which it holds without a break."""
        temp_c = table.columns["temp_c"][:, 0]
        cool = np.flatnonzero(~(temp_c >= self.limit_c))
        first = int(cool[-1]) + 1 if len(cool) else 0
        times, hot_c = table.times[first:], temp_c[first:]
        mean_c, most_c = float(hot_c.mean()), float(hot_c.max())
        gpu = view.gpus[uuid]
        return view.finding(
            self,
            subject=f"gpu:{uuid}",
            severity=Severity.WARNING,
            summary=f"GPU of {gpu.node} at {most_c:.0f} C, the site allows {self.limit_c:.0f} C",
            window=Window(float(times[0]), float(times[-1]), len(times)),
            evidence=(
                Evidence(
                    field="temp_c",
                    subject=f"gpu:{uuid}",
                    text=f"mean {mean_c:.1f} C over {len(times)} samples",
                    value=mean_c,
                ),
            ),
            machine_advice=("Check the fans, the air flow and the load of the node's neighbours.",),
        )
