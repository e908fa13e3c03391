"""What the ranks of a job exchange over, and how much of their time that may take.

For whoever tells what an exchange costs that takes another way than it could.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Final

from gpumon.plugin import sheet_named
from gpumon_detectors.evidence.gpu_use import LEAST_KNOWN
from gpumon_detectors.evidence.watched import known_share, mean_of, unbroken

if TYPE_CHECKING:
    from gpumon.plugin import JobLook

NVLINK: Final = ("nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s")

NVLINK_REACH: Final = 0.6
"""Share of NVLink's peak that an exchange of the usual size reaches. Our choice: between the four
fifths that nccl-tests shows for gigabytes and less than half for the 25 MB in which PyTorch's
DistributedDataParallel exchanges gradients unless told otherwise."""

PORT_REACH: Final = 0.8
"""Share of a network port's speed that an exchange reaches: nccl-tests shows about nine tenths for
gigabytes, and gradients come in smaller pieces (our choice)."""

_USUALLY_FILLED: Final = 0.85
"""Share of the SMs that a job keeps active while kernels run that waits for nothing: dense training
shows .8 to .9, as the ends of kernels and small ones leave some free (our choice)."""


def nvlink_peak(job: JobLook) -> float | None:
    """What all NVLinks of each of a job's GPUs carry in one direction; None: not known, or none."""
    peaks = set()
    for gpu in job.gpus:
        sheet = sheet_named(gpu.name)
        if sheet is None or sheet.nvlink_bytes_per_s is None:
            return None
        peaks.add(sheet.nvlink_bytes_per_s.value)
    return min(peaks, default=None)


def exposed(job: JobLook, seconds: float) -> float:
    """Share of the time for which an exchange keeps a job's GPUs from computing, at most.

    It is what their SMs are short of the usual while kernels run: what is hidden behind the
    computation leaves them filled. NaN where too little is known of one of the GPUs.

    Args:
        job: The job.
        seconds: How far to look back.
    """
    keys = ("gpu_util_ratio", "sm_active_ratio")
    past = unbroken(job.past(keys, seconds))
    if len(past.times) < 2 or not all(
        (known_share(past, key) >= LEAST_KNOWN).all() for key in keys
    ):
        return nan
    util, sm = (float(mean_of(past, key).mean()) for key in keys)
    return max(0.0, _USUALLY_FILLED - sm / util) if util > 0.0 else nan
