"""Every view in its four states, as text with styles, and once as an image.

Where a change is wanted, write the snapshots again and read their differences:

    GPUMON_SNAPSHOTS=write .venv/bin/python -m pytest tests/tui/test_snapshots.py
"""

from __future__ import annotations

import time
from typing import get_args

import pytest

from gpumon.tui.actions.action import ROOTS, ViewName
from gpumon.tui.app import GpumonApp
from tests.tui.fleet_scene import FINETUNE, PRETRAIN, broken, empty, stale, whole
from tests.tui.snapshot import FOLDER, REGENERATE, compared, drawn, written

SMALL, LARGE, IMAGE = (80, 24), (120, 40), (100, 30)

STATES = {"stale": stale, "empty": empty, "failed": broken}
"""What comes after the data, one after another, as it may in one long look."""


def _command(text: str) -> tuple[str, ...]:
    names = {" ": "space", "_": "underscore"}
    return ("colon", *(names.get(char, char) for char in text), "enter")


_FINETUNE, _PRETRAIN = _command(f"job {FINETUNE}"), _command(f"job {PRETRAIN}")

WAYS: dict[str, tuple[str, ...]] = {
    **{view: _command(view) for view in ROOTS},
    "fleet-values": (*_command("fleet"), "c"),
    "job": _FINETUNE,
    "job-waiting": _command("job 4730"),
    "job-unseen": _command("job 4720_3"),
    "gpu": (*_FINETUNE, "enter"),
    "node": _command("node gpu01"),
    "node-silent": _command("node gpu05"),
    "page-help": ("question_mark",),
    "page-errors": ("e",),
    "page-findings": ("f", "f"),
    "columns": ("c",),
    "findings": ("f",),
    "finding": ("f", "enter"),
    "curves": (*_PRETRAIN, "v"),
    "curves-roofline": (*_PRETRAIN, "v", "tab"),
    "curves-node": (*_command("node gpu01"), "v"),
    "curves-gpu": (*_FINETUNE, "enter", "v"),
    "ranks": (*_PRETRAIN, "tab"),
    "ranks-map": (*_PRETRAIN, "tab", "tab"),
    "commands": (*_FINETUNE, "x"),
}
"""Keys that lead to each view from the jobs; behind the dash what is special about it."""

PLAIN = ("jobs", "fleet", "fleet-values", "ranks", "ranks-map", "curves")
"""Views that are drawn without colours and in ASCII as well: colours tell the most in them."""


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch):
    """No footprint of this process and no zone of this machine is in a snapshot."""
    monkeypatch.setattr(GpumonApp, "measure_footprint", lambda _app: None)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Wall:
    """The snapshots of one view, and where the screen differs from them."""

    def __init__(self, stage, name):
        self._stage, self._name = stage, name
        self.differences = []

    async def see(self, state, size):
        """Compare the text in a size."""
        await self._resize(size)
        path = FOLDER / self._name / f"{state}-{size[0]}x{size[1]}.txt"
        self.differences.append(compared(path, written(self._stage.app)))

    async def draw(self):
        """Compare the image."""
        await self._resize(IMAGE)
        self.differences.append(compared(FOLDER / self._name / "data.svg", drawn(self._stage.app)))

    async def _resize(self, size):
        if self._stage.app.size != size:
            await self._stage.resize(*size)

    def judge(self):
        """Fail with everything that differs, and how to accept it."""
        texts = [text for text in self.differences if text]
        if texts:
            pytest.fail("\n\n".join((*texts, f"If this is wanted: {REGENERATE}")), pytrace=False)


@pytest.mark.parametrize("name", WAYS)
async def test_every_view_in_its_four_states(stage, name):
    async with stage(whole(), SMALL) as s:
        await s.press(*WAYS[name])
        assert s.app.screen.view == name.partition("-")[0]
        wall = Wall(s, name)
        await wall.see("data", SMALL)
        await wall.see("data", LARGE)
        await wall.draw()
        for state, made in STATES.items():
            await s.give(made())
            await wall.see(state, SMALL)
        wall.judge()


@pytest.mark.parametrize("name", PLAIN)
async def test_views_without_colours(stage, name, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with stage(whole(), SMALL) as s:
        await s.press(*WAYS[name])
        wall = Wall(s, name)
        await wall.see("no-colour", SMALL)
        wall.judge()


@pytest.mark.parametrize("name", PLAIN)
async def test_views_in_ascii(stage, name):
    async with stage(whole(), SMALL) as s:
        await s.press(*WAYS[name])
        s.app.draw_ascii(True)
        await s.pilot.pause()
        wall = Wall(s, name)
        await wall.see("ascii", SMALL)
        wall.judge()


def _files(name):
    states = {f"{state}-80x24.txt" for state in ("data", *STATES)}
    special = {f"{what}-80x24.txt" for what in ("no-colour", "ascii")} if name in PLAIN else set()
    return states | special | {"data-120x40.txt", "data.svg"}


def test_every_view_has_its_snapshots_and_no_snapshot_is_left_over():
    assert {name.partition("-")[0] for name in WAYS} == set(get_args(ViewName))
    found = {folder.name: {file.name for file in folder.iterdir()}
             for folder in FOLDER.iterdir() if folder.is_dir()}  # fmt: skip
    assert found == {name: _files(name) for name in WAYS}


def test_the_snapshots_stay_small():
    assert sum(file.stat().st_size for file in FOLDER.rglob("*.*")) < 2_000_000
