"""One way to write each kind of number."""

from __future__ import annotations

import pytest

from gpumon.report.text import units


@pytest.mark.parametrize(
    ("ratio", "text"), [(None, "–"), (0.0, "0"), (0.001, "<1"), (0.87, "87"), (1.0, "100")]
)
def test_percent_shows_a_small_share_as_more_than_nothing(ratio, text):
    assert units.percent(ratio) == text


@pytest.mark.parametrize(
    ("rate", "short", "long"),
    [
        (None, "–", "–"),
        (0.0, "0", "0 B/s"),
        (999.0, "999", "999 B/s"),
        (4.5e6, "4.5M", "4.5 MB/s"),
        (9.96e6, "10M", "10 MB/s"),
        (999.9e6, "1.0G", "1.0 GB/s"),
        (312e9, "312G", "312 GB/s"),
        (2.5e12, "2.5T", "2.5 TB/s"),
    ],
)
def test_rates_have_decimal_prefixes(rate, short, long):
    assert units.short_rate(rate) == short
    assert units.rate(rate) == long


def test_memory_is_binary_and_shows_only_what_is_known():
    assert units.memory(61 * 2**30, 80 * 2**30) == "61/80"
    assert units.memory(7.5 * 2**30, None) == "7.5"
    assert units.memory(None, 80 * 2**30) == "–"


def test_power_shows_only_what_is_known():
    assert units.power(412.4, 700.0) == "412/700"
    assert units.power(412.4, None) == "412"
    assert units.power(None, 700.0) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (5, "0:05"), (845, "14:05"), (7384, "2:03:04"), (93784, "1-02:03:04")],
)
def test_durations_as_squeue_prints_them(seconds, text):
    assert units.slurm_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (-3, "0s"), (42.9, "42s"), (840, "14m"), (8040, "2h14m"), (273600, "3d04h")],
)
def test_short_durations(seconds, text):
    assert units.short_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0, "0.00 GPU-h"), (7, "<0.01 GPU-h"), (1620, "0.45 GPU-h"),
     (12240, "3.40 GPU-h"),
     (21555, "5.99 GPU-h"), (36_360, "10.1 GPU-h"), (7_200_000, "2,000 GPU-h")],
)  # fmt: skip
def test_gpu_time(seconds, text):
    assert units.gpu_time(seconds) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "W", "–"),
        (0.84, "ratio", "84 %"),
        (61 * 2**30, "bytes", "61 GiB"),
        (37 * 2**20, "bytes", "37 MiB"),
        (3e9, "bytes/s", "3.0 GB/s"),
        (612.0, "W", "612 W"),
        (1_234_567.0, "J", "1,235 kJ"),
        (464_066_000.0, "J", "128.9 kWh"),
        (64.0, "C", "64 °C"),
        (1980.0, "MHz", "1980 MHz"),
        (5.0, "", "5"),
        (1.25, "", "1.25"),
    ],
)
def test_catalogue_values_with_their_unit(value, unit, text):
    assert units.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("size", "beside", "text"),
    [
        (None, 0.0, "–"),
        (0.0, 0.0, "0.0 GiB"),
        (2**30, 0.0, "1.0 GiB"),
        (2**30 - 1, 0.0, "1.0 GiB"),
        (2**29, 0.0, "512 MiB"),
        (1.5 * 2**20, 0.0, "1.5 MiB"),
        (300 * 2**10, 0.0, "300 KiB"),
        (800, 0.0, "800 B"),
        (0.0, 2e7, "0 MiB"),
        (2e7, 80 * 2**30, "0.0 GiB"),
    ],
)
def test_sizes_have_the_unit_that_fits_them_or_what_they_are_read_with(size, beside, text):
    assert units.size(size, beside) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 GPUs"), (1, "1 GPU"), (1024, "1,024 GPUs")])
def test_gpus(count, text):
    assert units.gpus(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 ticks"), (1, "1 tick"), (2, "2 ticks"), (7310, "7,310 ticks")]
)
def test_a_number_of_things_agrees_with_its_noun(count, text):
    assert units.counted(count, "tick") == text


@pytest.mark.parametrize(("value", "text"), [(0.25, "0.25 s"), (30.0, "30 s"), (2e6, "2000000 s")])
def test_a_period_is_written_as_it_was_given(value, text):
    assert units.period(value) == text


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (units.fine_percent(0.1234), "12.3"),
        (units.fine_percent(None), units.MISSING),
        (units.percent_off(0.124), "+12 %"),
        (units.percent_off(-0.03), "-3 %"),
        (units.mib(180.4 * 2**20), "180"),
        (units.mib(1.25 * 2**20, 1), "1.2"),
        (units.decimal_size(1.24e9), "1.2 GB"),
        (units.decimal_size(340e6), "340 MB"),
        (units.tera(3.352e12), "3.35"),
        (units.seconds(12.4), "12 s"),
        (units.seconds(0.24, 1), "0.2 s"),
        (units.milliseconds(0.0124), "12 ms"),
        (units.milliseconds(0.0124, 1), "12.4 ms"),
        (units.hours(4444416.0), "1,234.56"),
        (units.hours(5400.0, 1), "1.5"),
        (units.tenths(3.44), "3.4"),
        (units.tenths(25.4), "25"),
        (units.tenths(1320.0), "1,320"),
        (units.money(1234.5), "1,234.50"),
        (units.money(None), units.MISSING),
        (units.kilowatt_hours(1234.56 * 3.6e6), "1,234.6"),
        (units.kilowatt_hours(None), units.MISSING),
        (units.span(5400.0), "90 min"),
        (units.span(7200.0), "2 h"),
        (units.span(86400.0), "24 h"),
        (units.span(31 * 86400.0), "31 days"),
    ],
)
def test_each_kind_of_number_has_one_form(made, text):
    assert made == text
