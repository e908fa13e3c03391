"""The generated parts of the documentation say what the code says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpumon.model.catalogue.fields import CATALOGUE
from tools import pages

if TYPE_CHECKING:
    from pathlib import Path


def test_no_page_is_stale() -> None:
    assert [page.name for page in pages.stale(pages.ROOT)] == [], "run: make docs"


def test_every_block_is_in_some_page() -> None:
    folder = pages.ROOT / "docs"
    used = {m["name"] for p in folder.glob("*.md") for m in pages.BLOCK.finditer(p.read_text())}
    assert set(pages.BLOCKS) - used == set()


def test_a_stale_block_is_found_and_the_rest_of_the_page_is_kept(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("nothing generated\n")
    page = tmp_path / "docs" / "fields.md"
    page.write_text("before\n<!-- generated: clock events -->\nold\n<!-- end -->\nafter\n")
    found = pages.stale(tmp_path)
    assert list(found) == [page]
    assert found[page].startswith("before\n<!-- generated: clock events -->\n\n| bit | name |")
    assert "| `0x004` | software power cap |" in found[page]
    assert found[page].endswith("\n\n<!-- end -->\nafter\n")
    page.write_text(found[page])
    assert pages.stale(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<!-- generated: keys -->\n| key |\n", "no end"),
        ("<!-- generated: nonsense -->\n<!-- end -->\n", "nobody writes"),
    ],
)
def test_a_broken_block_is_an_error(text: str, says: str) -> None:
    with pytest.raises(pages.PageError, match=says):
        pages.filled(text, "page.md")


def test_every_field_of_the_catalogue_has_a_row() -> None:
    blocks = {field.block for field in CATALOGUE.values()}
    rows = "".join(pages.fields(block) for block in sorted(blocks))
    assert {f"fields of {block}" for block in blocks} <= set(pages.BLOCKS)
    assert [key for key in CATALOGUE if f"| `{key}` |" not in rows] == []


def test_a_cell_cannot_break_its_table() -> None:
    assert pages.cell("a|b\n<script>") == "a\\|b &lt;script>"
