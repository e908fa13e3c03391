"""Features of a job's beat: its steps, its pauses, and what goes on meanwhile off the GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from gpumon.detect.features.feature import (
    LONG_S,
    NOT_REPORTED,
    TOO_SHORT,
    USUAL_S,
    Feature,
    correlation,
    mean,
    ratio,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumon.detect.features.feature import Floats
    from gpumon.detect.features.samples import Samples

PAUSE: Final = 0.5
"""A step is a pause below this share of what nine tenths of the steps stay below (our choice)."""

AS_HIGH: Final = 0.9
"""Share of the highest peak from which another is about as high (our choice)."""

_LEAST_LEVEL: Final = 0.02
"""Nobody who does less ever pauses."""

_WORK: Final = ("sm_active_ratio", "gpu_util_ratio")
_COUPLED: Final = {
    "cpu": ("CPUs busy", ("job_cpu_cores_used",)),
    "read": ("Bytes read", ("job_io_read_bytes_per_s", "disk_read_bytes_per_s",
                            "fs_read_bytes_per_s", "net_rx_bytes_per_s")),
    "write": ("Bytes written", ("job_io_write_bytes_per_s", "disk_write_bytes_per_s",
                                "fs_write_bytes_per_s", "net_tx_bytes_per_s")),
    "blocked": ("Tasks in uninterruptible sleep", ("d_state_process_count",)),
}  # fmt: skip
_NOT_MEANWHILE: Final = f"nothing pauses; or it is not alone on its nodes; or {TOO_SHORT}"

FEATURES: Final = (
    Feature("period", "log10 s", "Period of the job's rhythm, if it has one.", _WORK,
            absence=f"no rhythm between three steps and a quarter of an hour is seen; or "
            f"{TOO_SHORT}"),
    Feature("beat", "", "Autocorrelation of the job's activity at that period.", _WORK,
        absence=TOO_SHORT),
    Feature("pause_share_15m", "ratio", "Share of 15 minutes in which the job pauses.", _WORK,
            absence=TOO_SHORT),
    Feature("pause_share_60m", "ratio", "The same of an hour.", _WORK, absence=TOO_SHORT),
    Feature("pauses_60m", "1/h", "How often it pauses.", _WORK, absence=TOO_SHORT),
    Feature("pause_s_60m", "log10 s", "Mean length of a pause.", _WORK, absence="nothing pauses"),
    Feature("longest_pause_60m", "log10 s", "Longest pause.", _WORK, absence="nothing pauses"),
    Feature("drift_60m", "ratio",
            "Activity of the last 15 minutes over that of the first of the hour, less one.", _WORK,
            absence="an hour is not observed; or nothing was done then"),
    Feature("pause_copies", "ratio",
            "Traffic from host to GPU in pauses, as a share of pauses and the rest of the time "
            "together.",
            ("pcie_rx_bytes_per_s",), absence=f"{_NOT_MEANWHILE}; or {NOT_REPORTED}"),
    *(Feature(f"pause_{key}", "ratio",
              f"{title} in pauses, as a share of pauses and the rest of the time together.",
              fields, absence=_NOT_MEANWHILE)
      for key, (title, fields) in _COUPLED.items()),
    *(Feature(f"{key}_follows", "", f"{title}: correlation with the job's activity.", fields,
              absence=f"it is not alone on its nodes; or nothing moves; or {TOO_SHORT}")
      for key, (title, fields) in _COUPLED.items()),
)  # fmt: skip


def rhythm_of(
    samples: Samples, curves: Mapping[str, Floats], hosts: Mapping[str, Floats]
) -> Floats:
    """Feature by job, in the order of `FEATURES`.

    Args:
        samples: What was read.
        curves: Of GPUs, as `levels.curves_of` makes them.
        hosts: Of jobs, as `hosts.curves_of` makes them.
    """
    sm, util = (samples.job_mean(curves[name]) for name in ("sm", "util"))
    has_sm = np.isfinite(sm).mean(axis=0) >= np.isfinite(util).mean(axis=0)
    work = np.where(has_sm[None, :], sm, util)
    step_s = samples.step_s
    usual, long = samples.last(work, USUAL_S), samples.last(work, LONG_S)
    is_pause = _pauses(long)
    period, strength = _period(usual, step_s)
    rows = [period, strength, mean(samples.last(is_pause, USUAL_S)), mean(is_pause)]
    rows += _lengths(is_pause, step_s)
    first = mean(work[: max(1, round(USUAL_S / step_s))])
    rows.append(ratio(mean(usual), np.where(first > _LEAST_LEVEL, first, np.nan)) - 1.0)
    rx = samples.job_mean(curves["rx"])
    off, on = _in_and_out(rx, is_pause)
    rows.append(ratio(off, off + on))
    coupled = {key: hosts[key] for key in _COUPLED}
    for curve in coupled.values():
        off, on = _in_and_out(curve, is_pause)
        rows.append(ratio(off, off + on))
    rows += [correlation(samples.last(curve, LONG_S), long) for curve in coupled.values()]
    return np.stack(rows)


def _pauses(work: Floats) -> Floats:
    """1 in a pause, 0 outside, NaN where it is not known."""
    filled = np.sort(np.where(np.isfinite(work), work, -1.0), axis=0)
    known = np.isfinite(work).sum(axis=0)
    place = np.clip(len(work) - 1 - known // 10, 0, len(work) - 1)
    level = np.take_along_axis(filled, place[None, :], axis=0)[0]
    is_pause = (work < PAUSE * level) & (level > _LEAST_LEVEL)
    return np.where(np.isfinite(work), is_pause, np.nan)


def _lengths(is_pause: Floats, step_s: float) -> list[Floats]:
    """Pauses an hour, and the logarithms of their mean and of their longest length, seconds."""
    flags = is_pause == 1.0
    begins = flags & ~np.vstack([np.zeros((1, flags.shape[1]), np.bool_), flags[:-1]])
    count, total = begins.sum(axis=0), flags.sum(axis=0)
    known_s = np.isfinite(is_pause).sum(axis=0) * step_s
    run, longest = np.zeros(flags.shape[1]), np.zeros(flags.shape[1])
    for row in flags:
        run = (run + 1) * row
        longest = np.maximum(longest, run)
    has_some = count > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        return [
            np.where(known_s > 0, count * 3600.0 / known_s, np.nan),
            np.where(has_some, np.log10(step_s * total / np.maximum(count, 1)), np.nan),
            np.where(has_some, np.log10(np.maximum(longest, 1) * step_s), np.nan),
        ]


def _period(work: Floats, step_s: float) -> tuple[Floats, Floats]:
    """Period, log10 s, and autocorrelation at it: of peaks about as high, the first."""
    known = np.isfinite(work)
    centred = np.where(known, work - mean(work)[None, :], 0.0)
    size = 2 ** int(np.ceil(np.log2(2 * max(len(work), 2))))
    power = np.abs(np.fft.rfft(np.nan_to_num(centred), size, axis=0)) ** 2
    raw = np.fft.irfft(power, size, axis=0)[: max(4, len(work) // 2)]
    pairs = np.maximum(len(work) - np.arange(len(raw)), 1)[:, None]
    curve = ratio(raw / pairs, np.broadcast_to(raw[:1] / len(work), raw.shape))
    inner = curve[1:-1]
    # Two steps apart is no beat: it is how samples fall.
    is_peak = (inner > curve[:-2]) & (inner >= curve[2:]) & (np.arange(len(inner)) >= 1)[:, None]
    height = np.where(is_peak, inner, -1.0)
    best = height.max(axis=0, initial=-1.0)
    # Twice the period is a peak too, and may by chance be the higher one.
    lag = (height >= AS_HIGH * best).argmax(axis=0) + 1
    enough = known.mean(axis=0) >= 0.5
    has_period = enough & (best > 0.0)
    period = np.where(has_period, np.log10(lag * step_s), np.nan)
    return period, np.where(enough, np.maximum(best, 0.0), np.nan)


def _in_and_out(curve: Floats, is_pause: Floats) -> tuple[Floats, Floats]:
    """Means of a curve in pauses and outside, NaN without a pause."""
    curve = curve[-len(is_pause) :]
    found = []
    for state in (1.0, 0.0):
        is_in = (is_pause == state) & np.isfinite(curve)
        count = is_in.sum(axis=0)
        total = np.where(is_in, curve, 0.0).sum(axis=0)
        found.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
    return found[0], found[1]
