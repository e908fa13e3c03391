"""Every picture of the docs is shown on a page, and every page is in the site's list."""

from __future__ import annotations

import re

import pytest

from tools import local_places, screencast, screenshots
from tools.screenshots import IMAGES, ROOT

PAGES = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}


def test_every_picture_is_shown_and_every_shown_picture_is_there():
    pages = [*PAGES.values(), (ROOT / "README.md").read_text(encoding="utf-8")]
    shown = {name for page in pages for name in re.findall(r"images/([\w-]+\.svg)", page)}
    assert shown == {path.name for path in IMAGES.glob("*.svg")}


def test_every_page_is_in_the_list_of_the_site():
    listed = set(re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == set(PAGES)


@pytest.mark.parametrize(
    ("tool", "kind"), [(screencast, "task"), (screenshots, "view"), (local_places, "place")]
)
def test_a_name_that_no_picture_has_is_an_error(tool, kind, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [tool.__name__, "--only", "nosuch,jobs,waste"])
    monkeypatch.setattr(tool.shutil, "which", lambda _name: "/usr/bin/tmux")
    assert tool.main() == 2
    said = capsys.readouterr().err
    assert f"no such {kind}: " in said
    assert "nosuch" in said
    assert len(said.splitlines()) == 1
