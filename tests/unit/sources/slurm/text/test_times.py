from __future__ import annotations

import time

import pytest

from gpumon.sources.slurm.text.times import duration_s, instant


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_reads_seconds_since_1970() -> None:
    assert instant("1795246689") == 1795246689.0


@pytest.mark.usefixtures("berlin")
def test_reads_local_time_in_the_local_zone() -> None:
    assert instant("2026-01-01T01:00:00") == 1767225600.0
    assert instant("2026-07-01T02:00:00") == 1782864000.0


@pytest.mark.parametrize(
    "text",
    ["Unknown", "None", "N/A", "(null)", "", "0", "########", "12:34", "99999999999999999", "٣"],
)
def test_no_time_is_none(text: str) -> None:
    assert instant(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-02:03:04", 93784.0),
        ("01:00:00", 3600.0),
        ("00:30", 30.0),
        ("365-00:00:00", 31536000.0),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("N/A", None),
        ("", None),
        ("INVALID", None),
    ],
)
def test_reads_durations(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("digits", [14, 300, 4301, 9000])
def test_a_number_of_any_length_is_no_time(digits: int) -> None:
    assert instant("7" * digits) is None
