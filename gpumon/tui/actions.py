"""Every key of the terminal, declared once: bindings, footer, help and docs are made from it."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding

from gpumon.tui.action import (
    BOOKED,
    CELLS,
    EVERYWHERE,
    FLEET,
    LISTED,
    MAIN,
    MAPS,
    ROOTS,
    SECTIONED,
    TABLES,
    Action,
    ViewName,
)
from gpumon.tui.hand_actions import HAND_ACTIONS
from gpumon.tui.view_actions import (
    CHART_ACTIONS,
    FINDING_ACTIONS,
    MAP_ACTIONS,
    RANK_ACTIONS,
    TIME_ACTIONS,
)

__all__ = [
    "ACTIONS",
    "LISTED",
    "ROOTS",
    "Action",
    "ViewName",
    "actions_of",
    "bindings_of",
    "footer_of",
    "keys_markdown",
]

ACTIONS: Final = (
    Action(
        "open",
        ("enter", "right", "l"),
        "Enter",
        "open",
        "Open what the cursor is on: a job, a GPU, a silent node, the jobs of a user, an account, "
        "a partition or a reservation; on a GPU, the job that holds it.",
        (MAIN - CELLS) | {"finding"},
    ),
    Action(
        "back",
        ("escape", "left", "h"),
        "Esc",
        "back",
        "Clear the row filter, else go back one level.",
        EVERYWHERE - CELLS,
    ),
    *MAP_ACTIONS,
    *RANK_ACTIONS,
    *CHART_ACTIONS,
    *FINDING_ACTIONS,
    *HAND_ACTIONS,
    Action(
        "filter",
        ("slash",),
        "/",
        "filter",
        "Show only what contains a text; in a table, what passes a filter: user==ada & sm<20.",
        EVERYWHERE,
    ),
    Action(
        "switch",
        ("tab", "n"),
        "Tab",
        "view",
        f"To the next view: {', '.join(ROOTS)}.",
        FLEET,
    ),
    Action("switch_back", ("shift+tab",), "Shift-Tab", "", "To the view before.", FLEET),
    Action(
        "view",
        tuple("123456789"),
        "1 … 9",
        "",
        "To the view with this number, in the order of Tab.",
        FLEET,
        is_told_key=True,
    ),
    Action(
        "command",
        ("colon",),
        ":",
        "go to",
        "Go to anything by name, Tab completes: :pending, :node gpu01, :job 123, :user ada.",
        EVERYWHERE,
    ),
    Action(
        "node",
        ("N",),
        "N",
        "node",
        "Open the node of what the cursor is on: host, GPUs, ports, file systems, jobs.",
        frozenset({"fleet", "gpus", "job", "gpu", "ranks"}),
    ),
    Action(
        "next_section",
        ("right_square_bracket",),
        "]",
        "section",
        "To the next section.",
        SECTIONED,
    ),
    Action(
        "previous_section", ("left_square_bracket",), "[", "", "To the section above.", SECTIONED
    ),
    Action(
        "section",
        tuple("123456789"),
        "1 … 9",
        "",
        "To the section with this number.",
        SECTIONED,
        is_told_key=True,
    ),
    Action("sort", ("s",), "s", "sort", "Sort by the next column.", TABLES),
    Action("reverse", ("S",), "S", "", "Sort the other way round.", TABLES),
    Action(
        "sort_left",
        ("less_than_sign",),
        "<",
        "",
        "Sort by the column to the left.",
        TABLES,
    ),
    Action(
        "sort_right",
        ("greater_than_sign",),
        ">",
        "",
        "Sort by the column to the right.",
        TABLES,
    ),
    Action(
        "sort_waste",
        ("W",),
        "W",
        "by waste",
        "Sort by the GPU time that was wasted, the most on top.",
        BOOKED,
    ),
    Action("columns", ("c",), "c", "", "Choose the columns of the table.", TABLES),
    Action(
        "toggle_column",
        ("enter", "x"),
        "Enter",
        "on/off",
        "Show the column, or do not.",
        frozenset({"columns"}),
    ),
    Action(
        "usual_columns",
        ("0",),
        "0",
        "as at first",
        "Show the columns of the beginning again.",
        frozenset({"columns"}),
    ),
    Action("default_sort", ("0",), "0", "", "Sort as at first: what needs a look on top.", TABLES),
    Action(
        "findings",
        ("f",),
        "f",
        "findings",
        "All findings in view; there, all in full, and what detectors could not see.",
        MAIN | {"finding", "curves"},
    ),
    Action(
        "errors",
        ("e",),
        "e",
        "errors",
        "Targets, and everything that could not be read, with the way out.",
        MAIN,
    ),
    *TIME_ACTIONS,
    Action("refresh", ("r", "ctrl+l"), "r", "", "Draw the newest picture afresh.", EVERYWHERE),
    Action(
        "theme",
        ("t",),
        "t",
        "",
        "The next theme: dark, light, high contrast, colour-blind, greys; :theme names one.",
        EVERYWHERE,
    ),
    Action("down", ("j", "down"), "j ↓", "", "Down one line.", EVERYWHERE),
    Action("up", ("k", "up"), "k ↑", "", "Up one line.", EVERYWHERE),
    Action("page_down", ("pagedown", "ctrl+f"), "PgDn", "", "Down one page.", EVERYWHERE),
    Action("page_up", ("pageup", "ctrl+b"), "PgUp", "", "Up one page.", EVERYWHERE),
    Action("top", ("g", "home"), "g", "", "To the first line.", EVERYWHERE),
    Action("bottom", ("G", "end"), "G", "", "To the last line.", EVERYWHERE),
    Action(
        "help",
        ("question_mark", "f1"),
        "?",
        "help",
        "Keys, signs and columns of this view; / searches them.",
        EVERYWHERE,
    ),
    Action(
        "suspend",
        ("ctrl+z",),
        "Ctrl-Z",
        "",
        "Stop gpumon until fg, and give the terminal to the shell meanwhile.",
        EVERYWHERE,
    ),
    Action("quit", ("q", "ctrl+c"), "q", "quit", "Quit at once.", EVERYWHERE),
)


def actions_of(view: ViewName) -> tuple[Action, ...]:
    """What a view lets the user do."""
    return tuple(action for action in ACTIONS if view in action.views)


def bindings_of(view: ViewName) -> list[Binding | tuple[str, str] | tuple[str, str, str]]:
    """Textual bindings of a view."""
    return [
        Binding(
            key,
            f"{action.name}({key!r})" if action.is_told_key else action.name,
            action.label or action.doc,
            id=f"{action.name}.{key}",
            show=False,
        )
        for action in actions_of(view)
        for key in action.keys
    ]


_FOOTER: Final = (
    "quit",
    "help",
    "open",
    "toggle_column",
    "copy_command",
    "usual_columns",
    "open_cell",
    "back",
    "leave",
    "ranks",
    "field",
    "grouping",
    "closer",
    "order",
    "every_rank",
    "rank",
    "acknowledge",
    "mute",
    "span",
    "switch",
    "filter",
    "command",
    "next_section",
    "curves",
    "node",
    "findings",
    "commands",
    "sort",
    "sort_waste",
    "pause",
    "time",
    "errors",
)
"""The footer's order: a narrow terminal cuts it at the right."""


def footer_of(view: ViewName) -> tuple[Action, ...]:
    """The actions named in the footer, the most wanted first."""
    named = {action.name: action for action in actions_of(view) if action.label}
    return tuple(named[name] for name in _FOOTER if name in named)


_NAMES: Final = {
    "jobs": "jobs",
    "gpus": "GPUs",
    "nodes": "nodes",
    "pending": "pending",
    "ended": "ended",
    "users": "users",
    "accounts": "accounts",
    "partitions": "partitions",
    "reservations": "reservations",
    "fleet": "fleet",
    "job": "one job",
    "gpu": "one GPU",
    "node": "one node",
    "page": "texts",
    "columns": "choice of columns",
    "findings": "findings",
    "finding": "one finding",
    "curves": "curves",
    "commands": "commands",
    "ranks": "ranks",
}


def _places(views: frozenset[ViewName]) -> list[str]:
    """Names of views; all of the fleet's as one."""
    is_whole = views >= FLEET - MAPS
    names = ["tables of the fleet"] if is_whole else []
    skip = FLEET - MAPS if is_whole else frozenset()
    return names + [name for view, name in _NAMES.items() if view in views - skip]


def keys_markdown() -> str:
    """The table of keys for the documentation, GitHub-flavoured Markdown."""
    lines = ["| key | does | where |", "|---|---|---|"]
    for action in ACTIONS:
        where = "everywhere" if action.views == EVERYWHERE else ", ".join(_places(action.views))
        keys = " ".join(f"`{key}`" for key in action.shown.split())
        lines.append(f"| {keys} | {action.doc} | {where} |")
    return "\n".join(lines) + "\n"
