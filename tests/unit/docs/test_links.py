"""What the README refers to is there; mkdocs checks the pages, but not the README."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "THIRD-PARTY.md"])
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


def test_every_dependency_has_its_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "THIRD-PARTY.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| ([\w-]+) \| (.+?) \|$", page, re.MULTILINE))
    names = {re.split(r"[<>=\[ ]", entry)[0] for entry in project["dependencies"]}
    assert names == set(listed) - {"package"}
    for name in names:
        stated = metadata.metadata(name)
        told = stated.get("License-Expression") or stated.get("License") or ""
        assert listed[name].split()[0].rstrip(",") in told, name


@pytest.mark.parametrize("page", ["CONTRIBUTING.md"])
def test_what_it_names_is_there(page: str) -> None:
    """Files and modules of the repository, as far as they are written with their folder."""
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:gpumon|detectors|tests|tools|docs)/[\w./-]+\w)`", text)
    modules = re.findall(r"python -m (tools\.\w+)", text)
    files = [*paths, *(f"{module.replace('.', '/')}.py" for module in modules)]
    assert len(files) > 20
    assert [name for name in files if not (ROOT / name).exists()] == []
