"""A node whose driver is being opened has been heard, and its GPUs are still awaited."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.worlds.probe import HELLO, eventually, talker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.sources.pools import Run

    Open = Callable[..., Run]

REPORT = json.dumps(
    {
        "at": 1,
        "late_s": 0,
        "errors": [],
        "blocks": {
            "node": {
                "keys": ["n1"],
                "at": [1],
                "columns": {},
                "labels": {"awaited_call": ["nvmlInit for 1 s"]},
                "missing": {},
            }
        },
    }
)
OPENING = f"{HELLO} echo '{REPORT}';"


def test_a_node_is_awaited_until_its_driver_is_open(run: Open, tmp_path: Path) -> None:
    is_open = tmp_path / "open"
    opened = REPORT.replace("nvmlInit for 1 s", "").replace('[""]', "[null]")
    waits = f"until [ -e {is_open} ]; do sleep 0.02; done"
    one = run(talker(f"{OPENING} {waits}; echo '{opened}'; exec sleep 600"))
    eventually(one.frames, "it is heard")
    assert one.pool.pending()
    is_open.touch()
    one.settle()
    assert one.errors() == []


def test_a_node_that_is_left_before_its_driver_is_open_is_said_to_be_left(run: Open) -> None:
    one = run(talker(f"{OPENING} exec sleep 600"))
    eventually(one.frames, "it is heard")
    one.pool.replace([])
    eventually(lambda: one.frames()[-1].is_left, "it is said to be left")
