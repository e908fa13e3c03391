"""The registry of actions: every view has methods, bindings and a footer for its own."""

from __future__ import annotations

from typing import get_args

import pytest

from gpumon.tui.actions.action import ROOTS, ViewName
from gpumon.tui.actions.registry import (
    ACTIONS,
    PURPOSES,
    actions_of,
    bindings_of,
    footer_of,
    keys_markdown,
)
from gpumon.tui.screens.base.page import Page, _key_entries
from gpumon.tui.screens.lists.column_choice import ColumnView
from gpumon.tui.screens.lists.commands import CommandsView
from gpumon.tui.screens.lists.findings import FindingScreen, FindingsView
from gpumon.tui.screens.lists.jobs import JobsView
from gpumon.tui.screens.open import AllViews
from gpumon.tui.screens.pages.curves import CurvesScreen
from gpumon.tui.screens.pages.gpu import GpuScreen
from gpumon.tui.screens.pages.job import JobScreen
from gpumon.tui.screens.pages.node import NodeScreen
from gpumon.tui.screens.pages.ranks import RanksScreen

VIEWS = {
    "jobs": JobsView,
    **{root: type(AllViews().root(root)) for root in ROOTS if root != "jobs"},
    "job": JobScreen,
    "gpu": GpuScreen,
    "node": NodeScreen,
    "page": Page,
    "columns": ColumnView,
    "findings": FindingsView,
    "finding": FindingScreen,
    "curves": CurvesScreen,
    "commands": CommandsView,
    "ranks": RanksScreen,
}


def test_every_view_has_a_class_that_knows_its_name():
    """A name of the whole fleet's is in `_ROOT_VIEWS` of screens/open.py, any other one above."""
    assert {name: made.view for name, made in VIEWS.items()} == {
        name: name for name in get_args(ViewName)
    }


def test_names_and_keys_are_unique_in_every_view():
    for view in VIEWS:
        names = [action.name for action in actions_of(view)]
        assert len(set(names)) == len(names)
        keys = [key for action in actions_of(view) for key in action.keys]
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("view", VIEWS)
def test_every_action_of_a_view_has_its_method_and_its_bindings(view):
    for action in actions_of(view):
        assert hasattr(VIEWS[view], f"action_{action.name}"), action.name
    bound = {(b.key, b.action) for b in bindings_of(view)}
    assert bound == {
        (key, f"{a.name}({key!r})" if a.takes_key else a.name)
        for a in actions_of(view)
        for key in a.keys
    }
    assert bindings_of(view) == VIEWS[view].BINDINGS


@pytest.mark.parametrize("view", VIEWS)
def test_the_footer_names_every_labelled_action_and_begins_with_the_way_out(view):
    named = footer_of(view)
    assert [action.name for action in named[:2]] == ["close", "help"]
    assert set(named) == {action for action in actions_of(view) if action.label}


def test_the_table_of_keys_has_every_action():
    text = keys_markdown()
    rows = [line for line in text.split("\n") if line.startswith("| `")]
    assert len(rows) == len(ACTIONS)
    for action in ACTIONS:
        assert action.doc in text


def test_the_tables_of_keys_stand_below_what_they_are_for():
    _, *parts = keys_markdown().split("## ")
    assert [part.split("\n")[0] for part in parts] == [purpose for purpose, _ in PURPOSES]
    for part, (_, actions) in zip(parts, PURPOSES, strict=True):
        assert all(action.doc in part for action in actions)
        assert part.count("| `") == len(actions)


@pytest.mark.parametrize("view", VIEWS)
def test_the_help_of_a_view_names_its_keys_below_what_they_are_for(view):
    lines = [
        "".join(cell.text for cell in line) for entry in _key_entries(view, 76) for line in entry
    ]
    headings = [line for line in lines if line in dict(PURPOSES)]
    keys = [line for line in lines if line and line[0] != " " and line not in headings]
    assert len(keys) == len(actions_of(view))
    at = [lines.index(heading) for heading in headings]
    assert at == sorted(at)
    for purpose, actions in PURPOSES:
        here = [action for action in actions if view in action.views]
        assert (purpose in headings) == bool(here)
        if here:
            below = lines[lines.index(purpose) + 1 :]
            assert below[0].startswith(here[0].shown)


@pytest.mark.parametrize("view", VIEWS)
def test_a_narrow_footer_names_the_key_of_what_to_type(view):
    """It is cut after some eight keys. The way back can wait: `q` closes a page, too."""
    names = [action.name for action in footer_of(view)]
    if "commands" in names:
        assert set(names[: names.index("commands")]) <= {"close", "help", "open", "open_cell"}
