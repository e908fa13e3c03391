"""Reports of a probe that leave out what is as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumon.probe.rows import Changes
from gpumon.sources.probes.decode import Decoder, GarbageError
from tests.unit.sources.probes.test_decode import decoded, line

MESSAGE: dict[str, Any] = {"at": 100.0, "late_s": 0.0, "errors": []}


def body(
    keys: tuple[str, ...], columns: dict[str, Any], labels: dict[str, Any], missing: dict[str, Any]
) -> dict[str, Any]:
    """A block of a report."""
    return {
        "keys": list(keys),
        "at": [0.0] * len(keys),
        "columns": columns,
        "labels": labels,
        "missing": missing,
    }


VALUES = st.one_of(st.none(), st.integers(0, 3), st.just(-5.0))
NAMES = ("power_w", "temp_c", "pcie_tx_bytes", "gpu_util_ratio", "index")


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Blocks of GPUs with values that come again, that come and go, and that are garbage."""
    keys = draw(st.sampled_from([("a",), ("a", "b")]))
    columns = {name: [draw(VALUES) for _ in keys] for name in NAMES}
    if draw(st.integers(0, 3)) == 0:
        del columns[draw(st.sampled_from(NAMES))]
    missing = {
        name: {str(row): "lost" for row, value in enumerate(column) if value is None}
        for name, column in columns.items()
        if None in column
    }
    names = [draw(st.sampled_from(["one", "two"])) for _ in keys]
    return body(keys, columns, {"name": names}, missing)


@given(st.lists(bodies(), max_size=8))
def test_reports_with_changes_alone_give_the_frames_of_whole_ones(blocks: list[Any]) -> None:
    whole, lean, changes = Decoder("local"), Decoder("local"), Changes()
    for second, one in enumerate(blocks):
        one["at"] = [float(second)] * len(one["keys"])
        sent = json.dumps({**MESSAGE, "blocks": {"gpu": one}}).encode()
        short = json.dumps({**MESSAGE, "blocks": {"gpu": changes.of("gpu", one)}}).encode()
        assert repr(decoded(short, lean)) == repr(decoded(sent, whole))


def test_changes_of_a_block_that_was_never_whole_are_garbage() -> None:
    decoder = Decoder("local")
    change = {"at": [1.0], "columns": {}, "labels": {}, "missing": {}}
    for block in ("gpu", "link"):
        text = json.dumps({**MESSAGE, "blocks": {block: change}}).encode()
        with pytest.raises(GarbageError):
            decoded(text, decoder)


def test_changes_may_add_nothing_that_is_not_known() -> None:
    decoder = Decoder("local")
    decoded(line({"power_w": [5.0]}), decoder)
    for number in range(20):
        strange = {f"x{number}": [number]}
        change = {"at": [1.0], "columns": strange, "labels": strange, "missing": strange}
        text = json.dumps({**MESSAGE, "blocks": {"gpu": change}}).encode()
        assert decoded(text, decoder).block("gpu").value("power_w", 0) == 5.0
    whole = decoder._whole["gpu"]
    assert not any("x1" in whole[part] for part in ("columns", "labels", "missing"))


def test_a_block_without_rows_is_made_once() -> None:
    decoder = Decoder("local")
    first = decoded(line(block="nic", keys=()), decoder).block("nic")
    assert first.keys == ()
    assert decoded(line(block="nic", keys=()), decoder).block("nic") is first
    busy = decoded(line({"nic_tx_bytes": [7]}, block="nic", keys=("mlx5_0",)), decoder)
    assert busy.block("nic").value("nic_tx_bytes", 0) == 7
    assert decoded(line(block="nic", keys=()), decoder).block("nic") == first
