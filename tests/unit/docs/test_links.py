"""What the README refers to is there; mkdocs checks the pages, but not the README."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_links_lead_to_files(page: str) -> None:
    links = LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"].values()
    listed = [*project["project"]["dependencies"], *(x for g in groups for x in g)]
    names = {re.split(r"[<>=\[ ]", entry)[0] for entry in listed if isinstance(entry, str)}
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Dependencies")[2].partition("\n## ")[0]
    words = set(re.findall(r"[\w-]+", table))
    assert names - words == set()
