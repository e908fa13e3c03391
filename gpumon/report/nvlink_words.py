"""Whether a job uses the NVLinks of its GPUs, in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpumon.report import units
from gpumon.report.gpu_cells import nvlink_rate
from gpumon.report.yardsticks import sheet_of

if TYPE_CHECKING:
    from gpumon.model.cluster import JobView
    from gpumon.report.digest import Digest

UNUSED_BYTES_PER_S: Final = 1e6
"""Below this a GPU exchanges nothing: an all-reduce of one small model moves more in a second."""


def nvlink_words(digest: Digest, view: JobView) -> str:
    """What the job's GPUs carry over NVLink now, beside what the data sheet promises.

    Returns:
        Mean of the busier direction over the GPUs that use theirs, and on how many these are;
        `unused` where none does, nothing where no GPU tells of NVLink.
    """
    rates: list[float] = []
    peaks: set[float | None] = set()
    for gpu in digest.gpus(view):
        if (rate := nvlink_rate(gpu)) is not None:
            rates.append(rate)
            sheet = sheet_of(gpu)
            peak = None if sheet is None else sheet.nvlink_bytes_per_s
            peaks.add(None if peak is None else peak.value)
    if not rates:
        return ""
    used = [rate for rate in rates if rate >= UNUSED_BYTES_PER_S]
    (peak_bytes_per_s,) = peaks if len(peaks) == 1 else (None,)
    if not used:
        return "unused"
    mean = sum(used) / len(used)
    who = "" if len(used) == len(rates) else f" on {len(used)} of {len(rates)} GPUs"
    text = f"used, {units.rate(mean)} each way{who}"
    if peak_bytes_per_s is not None:
        share = units.percent(mean / peak_bytes_per_s)
        text += f", {share} % of {units.rate(peak_bytes_per_s)}"
    return text
