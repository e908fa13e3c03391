"""Blocks of one entity that several report."""

from __future__ import annotations

from gpumon.model.missing import Reason
from gpumon.model.records.block import Block, column_for, with_rest


def test_each_of_two_blocks_tells_what_the_other_does_not_whichever_is_better() -> None:
    """The driver's name by one, the load by the other, and why there is no more of it."""
    driver = Block(("n",), {}, {"driver_version": ("570.1",)}, {})
    host = Block(
        ("n",), {"load_1m": column_for(False, [2.5])}, {}, {("load_5m", 0): Reason.NOT_SHARED}
    )
    for both in (with_rest(driver, host), with_rest(host, driver)):
        assert (both.label("driver_version", 0), both.value("load_1m", 0)) == ("570.1", 2.5)
        assert both.reason("load_5m", 0) is Reason.NOT_SHARED
        assert both.reason("swap_total_bytes", 0) is Reason.NOT_SAMPLED


def test_a_reason_of_one_stands_only_where_the_other_tells_no_value() -> None:
    silent = Block(("n",), {}, {}, {("load_1m", 0): Reason.NO_PERMISSION})
    loaded = Block(("n",), {"load_1m": column_for(False, [0.0])}, {}, {})
    for both in (with_rest(silent, loaded), with_rest(loaded, silent)):
        assert (both.value("load_1m", 0), both.missing) == (0.0, {})
