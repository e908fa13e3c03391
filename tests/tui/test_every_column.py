"""A column that was never chosen is drawn, sorted and filtered like one that is shown."""

from __future__ import annotations

from functools import partial

import pytest

from gpumon.report.facts.columns import arranged
from gpumon.report.facts.tick_index import Digest
from gpumon.tui.actions.action import MAPS, ROOTS
from gpumon.tui.screens.open import AllViews
from tests.tui.fleet_scene import broken, empty, stale, whole


@pytest.mark.parametrize("root", [root for root in ROOTS if root not in MAPS])
@pytest.mark.parametrize("state", [whole, stale, empty, broken])
def test_every_column_of_a_view_tells_every_row(root, state):
    view = AllViews().root(root) or AllViews().jobs()
    digest = Digest(state())
    rows = view.rows(digest)
    assert rows or state is not whole
    for column in view.planned().columns:
        shown = [column.cell(digest, row).text for row in rows]
        assert all(text.isprintable() for text in shown), column.key
        if column.value is not None:
            types = {type(column.value(digest, row)) for row in rows}
            assert types <= {float, int, str, type(None)}, column.key
        if column.words is not None:
            assert all(isinstance(column.words(digest, row), tuple) for row in rows), column.key
        if column.order is not None:
            assert len(arranged(rows, partial(column.order, digest))) == len(rows), column.key
