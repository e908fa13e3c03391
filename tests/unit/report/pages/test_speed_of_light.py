"""What bounds a job, in words, from its own past."""

from __future__ import annotations

import pytest

from gpumon.fleet.history.history import History
from gpumon.report.facts.tick_index import Digest
from gpumon.report.pages.speed_of_light import speed_of_light
from tests.worlds.tick import AT, GIB, TRAINS, gpu, job_with_gpus, tick


def page(values, *, count=2, steps=40, width=110, name="NVIDIA H100 80GB HBM3", whole_job=True):
    """The page of a job whose GPUs show these values; a function of step and GPU, or the same."""
    view, _ = job_with_gpus("7", {"n1": count})
    history = History()
    for step in range(steps):
        shown = [
            gpu("n1", place, values(step, place) if callable(values) else values, name=name)
            for place in range(count)
        ]
        made = tick((view,), shown, at=AT + step, number=step + 1, history=None)
        history.append(made)
    digest = Digest(made._replace(history=history.reader()))
    gpus = digest.gpus(view) if whole_job else [made.gpus[view.gpu_uuids[0]]]
    return speed_of_light(digest, gpus, view if whole_job else None, 300.0, width)


def text(found):
    return "\n".join("".join(cell.text for cell in line) for line in found.lines)


def words_of(found):
    return " ".join(text(found).split())


def test_what_it_does_is_beside_what_it_could():
    found = page(TRAINS)
    assert "mean of 2 GPUs over the last 5m" in text(found)
    assert "435 TFLOPS of 989 TFLOPS (data sheet 989 TFLOPS)" in text(found)
    assert "1.2 TB/s of 3.4 TB/s" in text(found)
    assert "FP32 pipes" in text(found)
    assert "FP64 pipes" not in text(found)
    assert [label for label, _ in found.roof.peaks] == [
        "tensor cores (as if 16 bit) 989 TFLOPS", "FP32 pipes 67 TFLOPS",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dram_active_ratio": 0.88}, "Bound by the memory bandwidth: 88 % of its ceiling."),
        ({"dram_active_ratio": 0.7}, "70 % of it, so at most 1.4 times as fast."),
        ({"nvlink_tx_bytes_per_s": 405e9}, "Bound by NVLink: 90 %"),
        ({}, "none of these: 44 % of the tensor cores (as if 16 bit) is the nearest. Kernels fill"),
        ({"sm_active_ratio": 0.3}, "Kernels run all the time, and have work on 30 % of the SMs."),
        ({"gpu_util_ratio": 0.55}, "Kernels run for 55 % of the time only, the rest is waiting."),
    ],
)
def test_what_bounds_it_is_shown(changes, words):
    assert words in words_of(page({**TRAINS, **changes}))


def test_a_clock_that_is_held_down_lowers_the_ceilings_and_is_named():
    found = page({**TRAINS, "sm_clock_mhz": 1281.0})
    assert "The SM clock is at 1281 of 1830 MHz, so the pipes' ceilings lie 30 % below" in words_of(
        found
    )
    assert "of 692 TFLOPS (data sheet 989 TFLOPS)" in text(found)
    assert "SM clock" not in words_of(page({**TRAINS, "sm_clock_mhz": 1980.0}))
    rests = {**TRAINS, "sm_clock_mhz": 345.0, "gpu_util_ratio": 0.02, "sm_active_ratio": 0.0}
    assert "SM clock" not in words_of(page(rests))


def test_dots_are_the_gpus_and_of_one_gpu_parts_of_the_time():
    def apart(_step, place):
        return {**TRAINS, "tensor_active_ratio": 0.2 + 0.1 * place}

    found = page(apart, count=4)
    speeds = sorted({round(one.per_s / 989e12, 2) for one in found.roof.spread})
    assert speeds == [0.2, 0.3, 0.4, 0.5]

    def swings(step, _place):
        return {**TRAINS, "tensor_active_ratio": 0.1 if step < 20 else 0.6}

    alone = page(swings, count=3, whole_job=False)
    assert "one GPU over" in text(alone)
    assert {round(one.per_s / 989e12, 1) for one in alone.roof.spread} == {0.1, 0.6}
    assert alone.roof.point.per_s / 989e12 == pytest.approx(0.35, abs=0.02)


@pytest.mark.parametrize("width", [40, 78, 116])
def test_no_line_is_wider_than_the_room(width):
    found = page(TRAINS, width=width)
    wide = [line for line in text(found).split("\n") if len(line) > max(width, 70)]
    assert wide == []


def test_what_else_counts_as_16_bit_is_shown():
    """Integers and doubles of tensor cores have counters, but history stores none of them."""
    found = page({**TRAINS, "tensor_imma_active_ratio": 0.3, "tensor_dmma_active_ratio": 0.1})
    assert (
        "All tensor work counts as 16 bit: no counter separates TF32 and FP8; those of INT8 and "
        "FP64 are not stored over time."
    ) in words_of(found)
    assert "435 TFLOPS of 989 TFLOPS" in text(found)


def test_without_profiling_counters_it_is_blind_and_shows_that():
    plain = {key: value for key, value in TRAINS.items() if not key.endswith("_active_ratio")}
    found = page(plain)
    assert "Without profiling counters it is unknown" in words_of(found)
    assert "NVLink" in text(found)
    assert "16 bit" not in text(found)
    assert found.roof is None


@pytest.mark.parametrize(
    ("values", "name", "words"),
    [
        ({**TRAINS, "mem_total_bytes": 40.0 * GIB}, "NVIDIA H100 80GB HBM3", "No data sheet"),
        (TRAINS, "NVIDIA X1 Fable", "No data sheet is known for NVIDIA X1 Fable"),
    ],
)
def test_of_an_unknown_board_nothing_is_claimed(values, name, words):
    found = page(values, name=name)
    assert words in words_of(found)
    assert found.roof is None


def test_several_products_have_no_roofline_in_common():
    view, gpus = job_with_gpus("7", {"n1": 2})
    other = gpu("n1", 1, TRAINS, name="NVIDIA H200")
    digest = Digest(tick((view,), [gpus[0], other]))
    found = speed_of_light(digest, [gpus[0], other], view, 300.0, 90)
    assert "several products" in words_of(found)


def test_of_a_job_without_gpus_in_sight_nothing_else_is_shown():
    view, _ = job_with_gpus("7", {"n1": 1})
    found = speed_of_light(Digest(tick((view,), [])), [], view, 300.0, 90)
    assert "No GPU of it has values now" in words_of(found)


def test_without_a_past_there_is_no_mean():
    view, gpus = job_with_gpus("7", {"n1": 2})
    found = speed_of_light(Digest(tick((view,), gpus)), gpus, view, 300.0, 90)
    assert "There is no past of it here" in words_of(found)
