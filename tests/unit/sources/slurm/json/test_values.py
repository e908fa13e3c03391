"""Values of Slurm's JSON, as many of them as make sense."""

from __future__ import annotations

from gpumon.sources.slurm.json.values import MAX_FLAGS, flags


def test_of_many_flags_the_first_are_read() -> None:
    words = [f"FLAG{number}" for number in range(MAX_FLAGS + 9)]
    assert flags(words) == tuple(words[:MAX_FLAGS])
    assert flags("+".join(words)) == tuple(words[:MAX_FLAGS])
