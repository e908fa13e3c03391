"""The precedence that the page about the books states is the one that the books follow."""

from __future__ import annotations

import re
from pathlib import Path

from gpumon.model.finding_classes import CLASSES

PAGE = Path(__file__).parents[3] / "docs" / "ledger.md"
LOSSES = {"all": "whole", "a part": "part", "none": "none"}


def test_every_class_stands_at_its_place_with_its_loss() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Precedence")[2].partition("\n## ")[0]
    stated: list[tuple[str, str, str]] = []
    category = ""
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and "`" in cells[1]:
            category = cells[0] or category
            keys = re.findall(r"`(\w+)`", cells[1])
            stated += [(category, key, LOSSES[cells[2].partition(":")[0]]) for key in keys]
    assert stated == [(one.category.value, one.key, one.loss.value) for one in CLASSES.values()]
