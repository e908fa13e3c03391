"""Where a batch job writes, however long its name and its pattern are."""

from __future__ import annotations

import pytest

from gpumon.sources.slurm.text.job_output import output_path


def test_a_pattern_is_filled_in() -> None:
    values = {"j": "71", "x": "train", "u": "ada"}
    assert output_path("%u/%5j-%x.out", "/home/", values) == "/home/ada/00071-train.out"
    assert output_path("/logs/%%%x", "", values) == "/logs/%train"


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("/%x" * 1300, "n" * 900_000), ("/%x%x%x", "n" * 1500), ("/" + "p" * 5000, "n")],
)
def test_what_no_path_is_as_long_as_is_not_known(pattern: str, name: str) -> None:
    assert output_path(pattern, "", {"x": name}) is None
