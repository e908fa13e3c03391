from __future__ import annotations

import pytest

from gpumon.fleet.history.chunk import Chunk, ChunkShape

KEYS = ("gpu_util_ratio", "power_w")


def chunk(*entities):
    return Chunk.create(ChunkShape(1, "gpu", 0, KEYS, 8, 4), entities)


@pytest.mark.parametrize("guess", [None, slice(0, 2), slice(1, 3), slice(6, 8), [1, 2]])
def test_a_guess_where_entities_are_is_only_a_guess(guess):
    held = chunk("a", "b", "c", "d")
    assert held.places(("b", "c"), guess) == slice(1, 3)
    assert held.places(["b", "d"], guess) == [1, 3]
    assert held.places(("b", "x"), guess) == [1, -1]
    assert held.places((), guess) == []


def test_kept_fields_side_by_side_are_told_as_a_slice():
    """To copy a list of places takes several times as long."""
    held = chunk("a")
    assert held.stored_fields(("temp_c", *KEYS)) == (False, slice(1, 3), slice(0, 2))
    assert held.stored_fields((KEYS[0], "temp_c", KEYS[1])) == (False, [0, 2], slice(0, 2))
    assert held.stored_fields(("temp_c",)) == (False, [], [])


def test_fields_are_told_by_position_and_what_is_not_kept_has_none():
    held = chunk("a")
    for _ in range(2):
        assert held.field_places(("power_w", "temp_c", "gpu_util_ratio")) == [1, -1, 0]
    assert held.field_places(["power_w"]) == [1]
