"""A process with all that it has started, and alone where that is not known."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpumon.model.records.block import Block, column_for
from gpumon.report.facts.rows import BlockRow
from gpumon.report.tables.process import PROCESS_COLUMNS, ProcessRow
from gpumon.report.text.cells import NO_VALUE, Tone

GIB = 2.0**30
TREE = {"process_tree_cpu_cores_used": 9.26, "process_tree_rss_bytes": 40 * GIB}
OWN = {"process_cpu_cores_used": 1.04, "process_rss_bytes": 3 * GIB}


def cells(values):
    block = Block(
        ("7",), {key: column_for(False, [value]) for key, value in values.items()}, {}, {}
    )
    row = ProcessRow(
        SimpleNamespace(), "GPU-1", None, None, BlockRow("7", block, 0, is_stale=False)
    )
    return [c.cell(None, row) for c in PROCESS_COLUMNS if c.key in ("cores", "rss")]


@pytest.mark.parametrize("values", [{**TREE, **OWN}, TREE])
def test_the_sum_over_the_tree_is_shown_where_it_is_known(values):
    cores, rss = cells(values)
    assert (cores.text, rss.text) == ("9.3", "40")
    assert Tone.DIM not in (cores.tone, rss.tone)


def test_what_the_process_uses_alone_is_the_least_that_it_may_be():
    cores, rss = cells(OWN)
    assert (cores.text, rss.text) == ("≥1.0", "≥3.0")
    assert (cores.tone, rss.tone) == (Tone.DIM, Tone.DIM)


def test_many_cores_have_room_behind_the_sign():
    width = next(column.width for column in PROCESS_COLUMNS if column.key == "cores")
    for count, shown in ((99.94, "≥99.9"), (99.96, "≥100"), (1023.6, "≥1024")):
        text = cells({**OWN, "process_cpu_cores_used": count})[0].text
        assert text == shown
        assert len(text) <= width


def test_what_is_not_known_is_no_zero():
    assert cells({}) == [NO_VALUE, NO_VALUE]
