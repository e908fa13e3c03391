"""What a server complains of is told, and of many complaints how many there are."""

from __future__ import annotations

import pytest

from gpumon.sources.slurm.rest.failures import MAX_REMARKS, described, remarks


@pytest.mark.parametrize("more", [0, 1, 400])
def test_of_many_remarks_the_first_are_told(more: int) -> None:
    errors = [{"description": f"node n{number} is odd"} for number in range(MAX_REMARKS + more)]
    rest = [f"and {more} more"] if more else []
    parts = described(errors).split("; ")
    assert len(parts) == MAX_REMARKS + len(rest)
    assert parts[MAX_REMARKS:] == rest
    beside = [error.message for error in remarks("nodes", {"warnings": errors})]
    assert len(beside) == MAX_REMARKS + len(rest)
    assert all(one.endswith(tuple(rest)) for one in beside[MAX_REMARKS:])


def test_without_words_there_is_no_reason() -> None:
    assert described([]) == "no reason given"
    assert remarks("nodes", {}) == ()
