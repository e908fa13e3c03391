"""Records of a recording are checked like what a node says."""

from __future__ import annotations

import pytest

from gpumon.sources.recording.records import MAX_ITEMS, _listed


def test_a_list_without_end_is_refused() -> None:
    read = _listed(int)
    assert len(read([1] * MAX_ITEMS)) == MAX_ITEMS
    with pytest.raises(ValueError, match=f"at most {MAX_ITEMS}"):
        read([1] * (MAX_ITEMS + 1))
