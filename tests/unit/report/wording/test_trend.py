"""Two hours of a job in twelve cells."""

from __future__ import annotations

from gpumon.fleet.history.history import History
from gpumon.report.facts.tick_index import Digest
from gpumon.report.wording.trend import CELLS, TREND_S, trend_lines, trend_text
from tests.worlds.tick import BUSY, gpu, job_with_gpus, tick

END = 1_760_000_400.0
"""A whole ten minutes."""


def trend(values, *, since_s=TREND_S, until=END, step_s=30.0, hole=None):
    """The trend of a job of two GPUs; `values` says what the counters show so long before END."""
    view, _ = job_with_gpus("7", {"n1": 2}, start_at=END - since_s)
    history = History()
    at = END - since_s
    while at <= until:
        if hole is None or not hole[0] <= END - at < hole[1]:
            shown = [gpu("n1", place, {**BUSY, **values(END - at)}) for place in range(2)]
            shown = [one._replace(taken_at=at) for one in shown]
            history.append(tick((view,), shown, at=at, number=int(at), history=None))
        at += step_s
    return Digest(tick((view,), shown, at=at - step_s, history=history.reader())), view


def test_a_hang_and_a_decay_are_seen_at_a_glance():
    fell = trend(lambda ago: {"sm_active_ratio": 0.95 if ago > 1800 else 0.03})
    assert trend_text(*fell)[-4:-1] == "▁▁▁"
    assert trend_text(*fell)[:4] == "████"
    faded = trend_text(*trend(lambda ago: {"sm_active_ratio": max(0.0, min(0.99, ago / TREND_S))}))
    assert list(faded[:-1]) == sorted(faded[:-1], reverse=True)


def test_what_was_before_the_job_is_blank_and_what_nobody_saw_a_dot():
    young = trend_text(*trend(lambda _: {"sm_active_ratio": 0.5}, since_s=3 * 600.0))
    assert young.startswith(" " * (CELLS - 4))
    assert "·" not in young
    seen = trend(lambda _: {"sm_active_ratio": 0.5}, hole=(3600.0, 4800.0 + 1))
    assert trend_text(*seen).count("·") == 2


def test_without_profiling_counters_the_duty_cycle_is_drawn():
    digest, view = trend(lambda _: {"sm_active_ratio": None, "gpu_util_ratio": 1.0})
    assert set(trend_text(digest, view)) == {"█"}


def test_cells_stand_still_for_ten_minutes():
    """What is on the screen at rest goes over no wire."""

    def shown(ago):
        return {"sm_active_ratio": 0.1 + 0.8 * ((ago // 600) % 2)}

    early, late = (trend(shown, until=END + until) for until in (31.0, 580.0))
    assert trend_text(*early)[:-1] == trend_text(*late)[:-1]


def test_a_past_that_is_looked_at_again_does_not_know_what_came_after_it():
    digest, view = trend(
        lambda ago: {"sm_active_ratio": 0.9 if ago >= 0 else 0.02}, until=END + 560
    )
    again = Digest(digest.tick._replace(at=END + 20.0))
    assert trend_text(again, view)[-1] == "█"
    assert trend_text(digest, view)[-1] == "▁"


def test_a_trend_is_read_once_a_minute_for_all_pictures_of_an_app():
    digest, view = trend(lambda _: {"sm_active_ratio": 0.5})
    shared: dict = {}
    first = Digest(digest.tick, shared)
    text = trend_text(first, view)
    assert text
    blind = digest.tick._replace(at=digest.tick.at + 20.0, history=None)
    assert trend_text(Digest(blind, shared), view) == text
    later = digest.tick._replace(at=digest.tick.at + 61.0, history=None)
    assert trend_text(Digest(later, shared), view) == ""


def test_a_job_is_told_in_one_line_by_shares_of_what_is_possible():
    """Tensor cores at 45 % are no full bar; power is a share of its limit, NVLink of its most."""
    shown = {
        "sm_active_ratio": 0.93, "tensor_active_ratio": 0.45, "power_w": 350.0,
        "power_limit_w": 700.0, "nvlink_rx_bytes_per_s": 2e9, "nvlink_tx_bytes_per_s": 1e9,
    }  # fmt: skip
    digest, view = trend(lambda _: shown, until=END - 1.0)
    (line,) = trend_lines(digest, view, 140)
    words = "".join(cell.text for cell in line)
    assert words == (
        "SM ████████████ 93 %  tensor ▄▄▄▄▄▄▄▄▄▄▄▄ 45 %  NVLink ████████████ 2.0 GB/s  "
        "power ▅▅▅▅▅▅▅▅▅▅▅▅ 350 W  "
    )
    assert trend_lines(Digest(digest.tick._replace(history=None)), view, 140) == []


def test_a_single_sample_has_no_trend():
    view, gpus = job_with_gpus("7", {"n1": 2})
    assert trend_text(Digest(tick((view,), gpus, history=None)), view) == ""
